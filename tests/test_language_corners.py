"""Programs that CPython's own tests found: containers that hold themselves, dict subclasses, slots that are None, proxies, weak references."""

from __future__ import annotations

import array
import builtins
import codecs
import collections
import collections.abc
import contextlib
import copy
import functools
import inspect
import io
import math
import operator
import re
import sys
import types
import warnings
import weakref

import pytest
import torch
from runtime_common import Counting, outcome, same

import pellucid

X = torch.ones(2)
PROXY = types.MappingProxyType({"b": 1, "a": 2})


class Counted(dict):
    """`dict(c)` asks it for its keys and items, because it has an __iter__ of its own."""

    def __init__(self, *args):
        super().__init__(*args)
        self.reads = 0

    def __iter__(self):
        return super().__iter__()

    def __getitem__(self, key):
        self.reads += 1
        return super().__getitem__(key)


class ReadsAside(dict):
    """`dict(r)` takes what lies in its storage."""

    def __getitem__(self, key):
        return "never asked"

    def keys(self):
        return ["never asked"]


class NoTruth:
    __bool__ = None


class NoLength:
    __len__ = None


class NoContains:
    __contains__ = None

    def __iter__(self):
        return iter([1])


class NoItem:
    __getitem__ = None
    __setitem__ = None


class CallsItself:
    pass


CallsItself.__call__ = CallsItself()


class Number(int):
    pass


class Deque(collections.deque):
    def __iter__(self):
        raise RuntimeError("not to be asked")


class Named:
    log: list = []

    def __init__(self, name):
        self.name = name

    def __eq__(self, other):
        self.log.append("eq")
        return self.name == other.name

    def __hash__(self):
        self.log.append("hash")
        return hash(self.name)


NAMED = [Named("a"), Named("b"), Named("a")]
WEAK = {weakref.ref(NAMED[0])}
PROGRAMS = []


def program(f):
    PROGRAMS.append(f)
    return f


@program
def lists_that_hold_themselves(x):
    a, d = [1], {}
    a.append(a)
    d["me"] = [d, a]
    twice = [a, a]
    twice.append(twice)
    return x + 1, repr(a), str(d), f"{twice!r}", repr((a, d))


@program
def outside_lists_that_hold_themselves(x, held=[1]):
    if len(held) == 1:
        held.append(held)
    held.append(2)
    text = repr(held)
    held.pop()
    return x + 1, text, str(held)


@program
def sorted_proxy(x):
    return x + 1, sorted(PROXY), [key for key in PROXY], list(reversed(PROXY)), sorted(PROXY, reverse=True)


@program
def sorted_list_of_before_a_break(x):
    items = []
    print(end="")
    items += ["b", "a"]
    return x + 1, sorted(items), sorted(items, key=str.lower, reverse=True)


@program
def subclass_that_iterates_itself(x):
    c = Counted(a=1)
    c["b"] = 2
    reads = [c.reads]
    print(end="")
    c["c"] = 3
    reads.append(c.reads)
    plain = dict(c)
    reads.append(c.reads)
    more = {**c}
    reads.append(c.reads)
    plain.update(c)
    return x + 1, reads, c.reads, plain, more


@program
def subclass_with_another_getitem(x):
    r = ReadsAside(a=1)
    d = {}
    d.update(r)
    return x + 1, dict(r), {**r}, d


@program
def damaged_order(x):
    ordered = collections.OrderedDict(a=1, b=2)
    dict.__delitem__(ordered, "a")
    try:
        return x + 1, repr(ordered)
    except KeyError as error:
        return x + 2, str(error)


@pytest.mark.parametrize("what", [NoTruth, NoLength, NoContains, NoItem])
def test_slots_that_are_none(what):
    def f(x, value):
        x = x + 1
        try:
            if what is NoItem:
                value[0]
            return x, 1 in value if what is NoContains else bool(value)
        except TypeError as error:
            return x, str(error)

    backend = Counting()
    compiled = pellucid.compile(f, backend=backend)
    assert same(compiled(torch.ones(2), what()), f(torch.ones(2), what()))
    assert backend.count == 1


@program
def calls_itself(x):
    x = x + 1
    try:
        CallsItself()()
    except RecursionError:
        return x * 2
    return x


@program
def long_range(x):
    x = x + 1
    try:
        return x, len(range(-(2**63), 2**63))
    except OverflowError as error:
        return x, str(error)


@program
def index_of_a_subclass(x):
    items = [1, 2, 3]
    return x + 1, items[Number(1)], (4, 5)[Number(0)], items[operator.index(Number(2))]


@program
def deque_iterator_goes_on(x):
    queue = collections.deque([1, 2, 3])
    print(end="")
    iterator = iter(queue)
    print(end="")
    queue[1] = queue[1] + 1
    print(end="")
    x = x + 1
    return x, list(iterator)


@program
def deque_iterator_ends(x):
    queue = collections.deque([1, 2, 3])
    print(end="")
    iterator = iter(queue)
    print(end="")
    queue.rotate(1)
    print(end="")
    try:
        return x + 1, list(iterator)
    except RuntimeError as error:
        return x + 1, str(error)


@program
def deque_subclass(x):
    queue = Deque([1, 2])
    print(end="")
    queue.append(3)
    queue.popleft()
    return x + 1, queue.pop(), len(queue)


@program
def hash_of_weak_references(x):
    Named.log.clear()
    found = [weakref.ref(value) in WEAK for value in NAMED]
    return x + 1, found, weakref.ref(NAMED[0]) == weakref.ref(NAMED[2]), list(Named.log)


@program
def module_without_a_name(x):
    module = types.ModuleType.__new__(types.ModuleType)
    print(end="")
    module.value = x + 1
    return module.value, sorted(vars(module))


@program
def ids_in_tuples_stay(x):
    x = x + 1
    print(end="")
    held, seen = [], set()
    held.append(held)
    key = id(held), 1
    seen.add(key)
    print(end="")
    return x, (id(held), 1) in seen, key in seen


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
def sort_notices_what_comes_and_goes(x):
    x = x + 1
    told = []

    def key(value):
        items.append(value)
        items.pop()
        return -value

    for items in ([3, 1, 2], []):
        try:
            items.sort(key=key)
        except ValueError as error:
            told.append(str(error))
        told.append(list(items))
        items.append(4)
    return x, told


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
def defaults_by_name(x):
    x = x + 1
    table = collections.OrderedDict(a=1)
    told = [
        table.pop("b", default=2),
        table.setdefault("c", default=3),
        table.setdefault("d"),
        table.pop("a", default=4),
    ]
    for call in (lambda: {}.pop("a", default=1), lambda: {}.setdefault("a", default=1)):
        try:
            told.append(call())
        except TypeError as error:
            told.append(str(error))
    return x, told, table


class Noted:
    """Tells when it is hashed and compared."""

    def __init__(self, n, told):
        self.n, self.told = n, told

    def __hash__(self):
        self.told.append(("hash", self.n))
        return 7

    def __eq__(self, other):
        self.told.append((self.n, other.n))
        return self.n[0] == other.n[0]


@program
def sets_of_what_hashes_in_python(x):
    x, told = x + 1, []

    def each(items):
        for item in items:
            told.append(("next", item.n))
            yield item

    items = [Noted("a", told), Noted("b", told), Noted("a2", told)]
    sets = [
        frozenset(each(items)),
        frozenset(items),
        frozenset(set(items)),
        set(each(items)),
        frozenset(dict.fromkeys(items)),
    ]
    sets += [frozenset(map(lambda item: item, items)), frozenset(sets[0]), frozenset(each([]))]
    kinds = [(type(made), sorted(item.n for item in made)) for made in sets]
    return x, kinds, told, sets[6] is sets[0], frozenset(sets[7]) is sets[7], hash(sets[0]) == hash(sets[1])


@program
def comparing_dicts_asks_the_left_value(x):
    x, told = x + 1, []
    left, right = {"k": Noted("left", told)}, {"k": Noted("lright", told)}
    return x, left == right, left != right, [*left.values()] == [*right.values()], told


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


def delegating(items):
    if isinstance(items, list):
        for item in items:
            yield from delegating(item) if isinstance(item, list) else iter([item])
    yield "end"


@program
def delegation_deeper_than_the_interpreter_recurses(x):
    x = x + 1
    nested = [1]
    for _ in range(2000):
        nested = [nested]
    try:
        return x, list(delegating(nested))
    except RecursionError as error:
        return x, str(error)[:32]


async def coroutine():
    return 1


@program
def yield_from_a_coroutine(x):
    x = x + 1
    waiting = coroutine()

    def generator():
        yield from waiting

    try:
        return x, list(generator())
    except TypeError as error:
        return x, str(error)
    finally:
        waiting.close()


@program
def code_that_is_equal(x):
    x = x + 1
    a, b = compile("1 + z", "name", "eval"), compile("1 + z", "name", "eval")
    return x, a == b, a != b, a is b, a == compile("2 + z", "name", "eval")


@program
def iterating_what_has_only_subscripts(x):
    x = x + 1
    told = []
    for odd in (re.match("a", "a"), torch.float32):
        try:
            told.append(list(odd))
        except TypeError as error:
            told.append(str(error))
    return x, told


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


class Index:
    def __init__(self, n, told):
        self.n, self.told = n, told

    def __index__(self):
        self.told.append(self.n)
        return self.n


@program
def slices_by_objects(x):
    x, told = x + 1, []
    part = slice(Index(1, told), Index(3, told), Index(2, told))
    found = [sequence[part] for sequence in ("abcdef", b"abcdef", range(9), [0, 1, 2, 3], (4, 5, 6, 7))]
    print(end="")
    part.start.n = 0
    found += [sequence[part] for sequence in ("abcdef", b"abcdef", range(9), [0, 1, 2, 3], (4, 5, 6, 7))]
    return x, found, told


@program
def patterns_that_print(x):
    x = x + 1
    with contextlib.redirect_stdout(io.StringIO()) as out:
        re.compile("ab", re.DEBUG)
    return x, out.getvalue()


def generator_that_ends(items=()):
    print(end="")
    yield from items


@program
def exhausted_generators_side_by_side(x):
    x = x + 1
    pairs = list(zip(generator_that_ends(), generator_that_ends()))
    more = list(zip(generator_that_ends([1, 2]), generator_that_ends([3])))
    return x, pairs, more, list(map(operator.add, generator_that_ends(), generator_that_ends()))


class Keyed:
    pass


class KeyedTuple(tuple):
    pass


def test_a_class_gets_a_hash_later():
    key, pair = Keyed(), KeyedTuple((1,))
    table, seen, weak = {key: 1, pair: 2}, {key, pair}, {weakref.ref(key)}

    def f(x):
        x = x + 1
        return x, key in table, table.get(pair), key in seen, pair in seen, weakref.ref(key) in weak

    compiled = pellucid.compile(f, backend="eager")
    try:
        for _ in range(2):
            for _ in range(2):
                assert same(compiled(torch.ones(2)), f(torch.ones(2)))
            Keyed.__hash__ = KeyedTuple.__hash__ = lambda self: 5
    finally:
        del Keyed.__hash__, KeyedTuple.__hash__
    assert pellucid.cache_entries(compiled)


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


@program
def reversed_of_what_is_advanced_natively(x, values=array.array("i", [1, 2, 3])):
    x = x + 1
    backwards = reversed(values)
    print(end="")
    first = next(backwards)
    print(end="")
    again = copy.copy(backwards)
    return x, first, list(backwards), type(again).__name__, list(again), hasattr(backwards, "__setstate__")


@program
def methods_of_generators_across_a_break(x):
    x = x + 1
    print(end="")
    generator = (i for i in (1, 2))
    advance, itself, send = generator.__next__, generator.__iter__, generator.send
    print(end="")
    return x, advance(), itself() is generator, send(None)


@program
def thrown_exceptions_keep_their_context(x):
    @contextlib.contextmanager
    def raising(error):
        try:
            yield
        finally:
            raise error

    x = x + 1
    first, *others = [Exception(number) for number in range(4)]
    chain = []
    try:
        with contextlib.ExitStack() as stack:
            for other in reversed(others):
                stack.enter_context(raising(other))
            raise first
    except Exception as error:
        while error is not None:
            chain.append(error.args)
            error = error.__context__
    return x, chain


class StoresPairs(dict):
    def __setitem__(self, key, value):
        super().__setitem__(key, (value, "stored"))


class OrderedStoresPairs(collections.OrderedDict):
    def __setitem__(self, key, value):
        super().__setitem__(key, (value, "stored"))


OUTSIDE = [Counted({"a": 1}), ReadsAside(a=1, b=2), collections.Counter("aab"), StoresPairs(a=1)]


@program
def subclasses_of_dict_made_from_others(x):
    kinds = (Counted, StoresPairs, ReadsAside, collections.OrderedDict)
    return x + 1, [[dict(kind(other)) for other in OUTSIDE] for kind in kinds]


@program
def update_of_dicts_with_a_setitem_in_python(x):
    found = []
    for make in (StoresPairs, OrderedStoresPairs, collections.OrderedDict):
        for other in (*OUTSIDE, [("a", 1)], {"a": 1}.items(), types.MappingProxyType({"a": 1}), {"a": 2}):
            made = make()
            made.update(other, named=1)
            found.append(list(made.items()))
    return x + 1, found


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_as_eager(f):
    compiled = pellucid.compile(f, backend=Counting())
    for _ in range(3):
        assert same(outcome(compiled, torch.ones(2)), outcome(f, torch.ones(2)))
    assert pellucid.cache_entries(compiled)


def test_an_item_that_is_set_and_deleted_may_have_been_there_before():
    table = {}

    def f(x):
        table["a"] = 1
        table.pop("a", None)
        return x + 1

    compiled = pellucid.compile(f, backend="eager")
    for before in ({}, {"a": 5}, {}, {"a": 6, "b": 7}):
        table.clear()
        table.update(before)
        compiled(torch.ones(2))
        assert "a" not in table and table == {key: before[key] for key in before if key != "a"}
    assert pellucid.cache_entries(compiled)


def made_elsewhere():
    class Point:
        pass

    point = Point()
    point.x, point.y = 1, 2
    return point.__dict__


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


def test_how_objects_are_stored_and_held_is_asked_of_the_programs_own():
    def f(x, data):
        x = x + 1
        table, items, told, held = made_elsewhere(), [], [], sys.getrefcount(data)
        for i in range(9):
            items.append(i)
            told += [sys.getsizeof(items), sys.getrefcount(data) - held]
        table.popitem()
        return x, told, sys.getsizeof(table), table

    def ends(x, data):
        x, held = x + 1, sys.getrefcount(data)
        again = data
        return x, sys.getrefcount(again) - held

    data = bytearray(b"abc")
    for program in (f, ends):
        compiled = pellucid.compile(program, backend="eager")
        for _ in range(2):
            assert same(compiled(X, data), program(X, data))
        assert {reason.name for reason in pellucid.break_reasons()} == {"SideEffect"}
        pellucid.reset()


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
