"""Functions, code objects, modules, classes and messages as the program looks at them."""

from __future__ import annotations

import builtins
import codecs
import collections
import collections.abc
import contextlib
import functools
import inspect
import io
import math
import re
import sys
import types
import warnings

import pytest
import torch

import pellucid
from support import Counting, same
from support.programs import Programs, check_tensor_program, error_of

PROGRAMS = program = Programs()


X = torch.ones(2)


class CallsItself:
    pass


CallsItself.__call__ = CallsItself()


@program
def calls_itself(x):
    x = x + 1
    try:
        CallsItself()()
    except RecursionError:
        return x * 2
    return x


@program
def module_without_a_name(x):
    module = types.ModuleType.__new__(types.ModuleType)
    print(end="")
    module.value = x + 1
    return module.value, sorted(vars(module))


@program
def compiled_text(x):
    x = x + 1
    told = []
    for text in ("a b", "1 + 1", "x ="):
        try:
            told.append(compile(text, "<text>", "eval").co_consts)
        except SyntaxError as error:
            told.append((error.msg, error.lineno, error.offset, error.filename, error.__context__))
    return x, told


@program
def compiled_text_with_a_warning(x):
    x = x + 1
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        compile("x is 1", "<text>", "eval")
        return x, [str(warning.message) for warning in caught]


@program
def nothing_handled(x):
    x = x + 1
    told = [sys.exc_info(), sys.exception(), sys.gettrace()]
    try:
        raise KeyError(1)
    except KeyError as error:
        told += [error.__context__, sys.exc_info()[0], str(sys.exception())]
    return x, told


def test_context_of_an_exception_is_what_the_caller_handles():
    def f(x):
        x = x + 1
        try:
            raise KeyError(1)
        except KeyError as error:
            return x, repr(error.__context__), repr(sys.exception())

    compiled = pellucid.compile(f, backend="eager", fullgraph=True)
    calm = same(compiled(torch.ones(2)), f(torch.ones(2)))
    compiled = pellucid.compile(f, backend="eager")
    compiled(torch.ones(2))
    try:
        raise ValueError(2)
    except ValueError:
        assert calm and same(compiled(torch.ones(2)), f(torch.ones(2)))
    assert same(compiled(torch.ones(2)), f(torch.ones(2)))


def traced_lines(f):
    lines = []

    def trace(frame, event, arg):
        if event == "line" and frame.f_code is f.__code__:
            lines.append(frame.f_lineno - f.__code__.co_firstlineno)
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        f()
    finally:
        sys.settrace(before)
    return lines


def three_lines():
    a = 1
    b = a + 1
    return b


@program
def tracing_begins_in_the_region(x):
    x = x + 1
    return x, traced_lines(three_lines)


@program
def patterns_that_are_warned_about(x):
    x = x + 1
    told = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        re.purge()
        re.compile("[[a]")
        told += [(warning.filename == __file__, str(warning.message)) for warning in caught]
    try:
        re.compile("(")
    except re.error as error:
        told.append((error.msg, error.pos))
    return x, told


@program
def signatures_of_functions_that_are_written_to(x):
    x = x + 1

    def f(a):
        return a

    before = inspect.signature(f)
    f.__signature__ = inspect.Signature(parameters=(inspect.Parameter("other", inspect.Parameter.POSITIONAL_ONLY),))
    print(end="")
    after = inspect.signature(f)
    f.__signature__ = None
    f.__annotations__["a"] = int
    return x, str(before), str(after), str(inspect.signature(f)), inspect.getfullargspec(f)


@program
def code_that_is_equal(x):
    x = x + 1
    a, b = compile("1 + z", "name", "eval"), compile("1 + z", "name", "eval")
    return x, a == b, a != b, a is b, a == compile("2 + z", "name", "eval")


@program
def arguments_that_object_does_not_take(x):
    x, told = x + 1, []

    class Plain:
        pass

    class Both:
        def __new__(cls, *args, **kwargs):
            return super().__new__(cls, *args, **kwargs)

        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)

    class Init:
        def __init__(self, *args):
            self.args = args

    calls = [lambda kind=kind: kind(42) for kind in (Plain, Both, Init)]
    calls += [lambda kind=kind: object.__new__(kind, 42) for kind in (Plain, Both, Init)]
    calls += [lambda kind=kind: kind.__new__(kind, a=42) for kind in (Plain, Both, Init)]
    calls += [lambda kind=kind: object.__init__(kind(), 42) for kind in (Plain, Both, Init)]
    for call in calls:
        try:
            told.append(type(call()).__name__)
        except TypeError as error:
            told.append(str(error))
    return x, told


@program
def patterns_that_print(x):
    x = x + 1
    with contextlib.redirect_stdout(io.StringIO()) as out:
        re.compile("ab", re.DEBUG)
    return x, out.getvalue()


class Bound:
    def __init__(self, *args):
        self.args = args


class ClassMethods:
    __class_getitem__ = classmethod(Bound)
    made = classmethod(Bound)
    sized = classmethod(len)
    called = classmethod(functools.partial(max, 1))
    known = classmethod(property(lambda cls: cls.__name__))


@program
def class_methods_of_what_is_no_function(x):
    x = x + 1
    told = [ClassMethods[3].args, ClassMethods.made(4).args, ClassMethods().made(5).args, ClassMethods.known]
    for name in ("sized", "called"):
        try:
            told.append(getattr(ClassMethods, name)())
        except TypeError as error:
            told.append(str(error))
    return x, told, str(collections.abc.Callable[[int], str])


def test_codecs_of_the_program_are_asked_each_time():
    table = {"shout": str.upper}

    def find(name):
        if name != "pellucid_test":
            return None
        return codecs.CodecInfo(
            lambda text, errors="strict": (table["shout"](text).encode(), len(text)),
            lambda data, errors="strict": (table["shout"](bytes(data).decode()), len(data)),
        )

    def f(x, text):
        return (
            x + 1,
            text.encode("pellucid_test"),
            bytes(text, "pellucid_test"),
            text.encode("utf_8"),
            str(b"ab", "pellucid_test"),
        )

    codecs.register(find)
    try:
        compiled = pellucid.compile(f, backend="eager")
        for _ in range(2):
            assert same(compiled(X, "ab"), f(X, "ab"))
        table["shout"] = str.title
        assert same(compiled(X, "ab"), f(X, "ab")) and f(X, "ab")[1] == b"Ab"
        assert pellucid.cache_entries(compiled)
    finally:
        codecs.unregister(find)


def test_messages_are_cut_between_characters():
    """A guard that tells of a long text, in the report of the recompile limit."""

    def f(x, text):
        return x + len(text)

    compiled = pellucid.compile(f, backend="eager")
    for n in range(20):
        text = "a" * (n % 3) + "\u3042" * (200 + n)
        assert same(compiled(X, text), f(X, text))
    assert len(pellucid.cache_entries(compiled)) == 8  # the report of the limit has cut such a text


def test_the_programs_import_function_is_not_asked(monkeypatch):
    names = []
    original = builtins.__import__

    def asked(name, *args, **kwargs):
        names.append(name)
        return original(name, *args, **kwargs)

    pellucid.compile(lambda x, n: x + n, backend="eager")(X, 1)  # what is imported once
    monkeypatch.setattr(builtins, "__import__", asked)
    names.clear()
    pellucid.compile(lambda x, n: x * n + math.sqrt(n), backend="eager")(X, 3)
    assert not [
        name for name in names if name.startswith("pellucid") or name in ("operator", "warnings", "types", "io")
    ]


@pytest.mark.parametrize(
    "x", [torch.ones(2), torch.ones(2).double(), torch.arange(2), torch.nn.Parameter(torch.ones(2))]
)
def test_isinstance_of_legacy_tensor_types(x):
    """torch.FloatTensor and its like look at the tensor, not at its class."""

    def f(x):
        types = (torch.FloatTensor, torch.LongTensor, torch.sparse.FloatTensor, (int, torch.FloatTensor), torch.Tensor)
        answers = [isinstance(value, kind) for value in (x, x * 2, 3, torch.Tensor) for kind in types]
        return x + 1, answers, issubclass(torch.Tensor, torch.FloatTensor)

    backend = Counting()
    compiled = pellucid.compile(f, backend=backend, fullgraph=True)
    assert same(compiled(x), f(x)) and same(compiled(x.clone()), f(x.clone())) and backend.count >= 1


@program
def keyword_given_twice(x):
    def named(**names):
        return names

    def while_handling():
        try:
            raise IndexError(0)
        except IndexError:
            return named(k=1, **{"k": 2})

    # CPython words the error only where no exception is handled: that one would be its context.
    return x + 1, error_of(lambda: named(k=1, **{"k": 2})), error_of(while_handling)


class OnlySlots:
    __slots__ = ("a",)
    shared = 3


@program
def attributes_that_slots_do_not_take(x):
    made = OnlySlots()
    return (
        x + 1,
        error_of(setattr, made, "shared", 1),
        error_of(setattr, made, "b", 1),
        error_of(delattr, made, "shared"),
    )


@program
def nested_tensors(x):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pair = torch.nested.nested_tensor([x, x[:2]])
        return x + 1, pair.size(0), (pair * 2).to_padded_tensor(0.0)


def test_attributes_that_slots_of_outside_do_not_take():
    def f(x, made):
        return (
            x + 1,
            error_of(setattr, made, "shared", 1),
            error_of(setattr, made, "b", 1),
            error_of(delattr, made, "shared"),
        )

    compiled = pellucid.compile(f, backend="eager")
    for _ in range(2):
        assert same(compiled(torch.ones(1), OnlySlots()), f(torch.ones(1), OnlySlots()))
    assert pellucid.cache_entries(compiled)


@pytest.mark.parametrize("f", PROGRAMS, ids=PROGRAMS.names)
def test_as_eager(f):
    check_tensor_program(f)
