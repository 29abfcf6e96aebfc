"""Builtins at their edges: refusals in CPython's words, what they ask their arguments for, conversions, comparisons."""

from __future__ import annotations

import cmath
import collections
import functools
import inspect
import re
import warnings

import builtin_programs_containers
import builtin_programs_numbers_and_text
import builtin_programs_objects
import pytest
import torch

import pellucid
from support import Counting
from support.programs import err

MODULES = (builtin_programs_containers, builtin_programs_numbers_and_text, builtin_programs_objects)
PROGRAMS = [
    value
    for module in MODULES
    for name, value in vars(module).items()
    if inspect.isfunction(value) and name.startswith("on_")
]


def as_text(values) -> str:
    """As text; addresses and the order of sets, which depends on how they grew, aside."""
    if isinstance(values, (set, frozenset)):
        return f"{type(values).__name__} {sorted(map(as_text, values))}"
    if type(values) in (tuple, list):
        return f"{type(values).__name__} [{', '.join(map(as_text, values))}]"
    return re.sub(r"0x[0-9a-f]+", "0x", repr(values))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_as_eager(program):
    def f(x):
        x = x + 1
        try:
            values = program()
        except Exception as error:
            values = type(error), str(error)
        return x * 2, values

    compiled = pellucid.compile(f, backend=Counting())
    for _ in range(2):
        x, values = compiled(torch.ones(2))
        assert torch.equal(x, torch.full((2,), 4.0))
        assert as_text(values) == as_text(f(torch.ones(2))[1])


def test_most_of_them_are_captured():
    one_graph = 0
    for program in PROGRAMS:
        backend = Counting()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compiled = pellucid.compile(lambda x, program=program: (x + 1, err(program))[0] * 2, backend=backend)
            compiled(torch.ones(2))
        one_graph += backend.count == 1
    assert one_graph > len(PROGRAMS) / 2


def test_functions_of_cmath_are_captured():
    def f(x, z):
        return x * abs(cmath.exp(z)) + cmath.phase(z)

    compiled = pellucid.compile(f, backend="eager", fullgraph=True)
    for z in (1j, -1 + 0.5j, complex(-1.0, 0.0), complex(-1.0, -0.0)):
        assert torch.equal(compiled(torch.ones(2), z), f(torch.ones(2), z))


# ---- every method of the builtin types, with arguments that it does not take

OBJECTS = {
    "list": "[1, 2]",
    "dict": "{'a': 1}",
    "set": "{1, 2}",
    "frozenset": "frozenset([1])",
    "tuple": "(1, 2)",
    "str": "'ab'",
    "bytes": "b'ab'",
    "bytearray": "bytearray(b'a')",
    "int": "3",
    "float": "2.5",
    "complex": "1j",
    "range": "range(3)",
    "slice": "slice(1)",
    "deque": "collections.deque([1, 2])",
    "OrderedDict": "collections.OrderedDict(a=1)",
    "defaultdict": "collections.defaultdict(int, a=1)",
    "Counter": "collections.Counter('ab')",
    "generator": "(i for i in [1])",
    "list_iterator": "iter([1])",
    "enumerate": "enumerate([1])",
    "zip": "zip([1])",
    "map": "map(str, [1])",
    "ValueError": "ValueError(1)",
    "partial": "functools.partial(len)",
}
CALLS = ["zz=1", "'a', zz=1", "'a', default=9", "1, 2, 3, 4", "", "'a'", "1", "[1]", "None"]
ASIDE = {
    "__init_subclass__",
    "__subclasshook__",
    "__class__",
    "__dir__",
    "__reduce_ex__",
    "__reduce__",
    "__sizeof__",
    "__new__",
}
BY_ADDRESS = {"__hash__", "__getstate__"}
# The words of these are CPython's of another version of the function: OrderedDict has an update and a pop of its own.
OTHER_WORDS = {("OrderedDict", "update"), ("OrderedDict", "pop")}


@pytest.mark.parametrize("kind", OBJECTS)
def test_arguments_that_methods_do_not_take(kind):
    scope = {"collections": collections, "functools": functools, "err": err}
    example = eval(OBJECTS[kind], scope)
    for method in dir(example):
        if method in ASIDE | BY_ADDRESS or (kind, method) in OTHER_WORDS or not callable(getattr(example, method)):
            continue
        attempts = "".join(
            f"    value = {OBJECTS[kind]}\n    told.append(err(value.{method}, {call}))\n" for call in CALLS
        )
        exec(f"def f(x):\n    x = x + 1\n    told = []\n{attempts}    return x * 2, told\n", scope)
        compiled = pellucid.compile(scope["f"], backend=Counting(), fullgraph=False)
        assert as_text(compiled(torch.ones(2))) == as_text(scope["f"](torch.ones(2))), method


@pytest.mark.parametrize("key", [[], {}, ([],), set()], ids=repr)
@pytest.mark.parametrize("use", [lambda d, k: d[k], lambda d, k: k in d, lambda d, k: d.get(k), lambda d, k: d.pop(k)])
def test_a_key_that_cannot_be_hashed_of_an_empty_dict(use, key):
    def program(x, d):
        try:
            use(d, key)
        except (TypeError, KeyError) as error:
            return x + 1, type(error), str(error)
        return x, None, None

    expected = program(torch.ones(2), {})
    assert expected[1] is not None  # pop() of an empty dict does not hash: KeyError
    for backend in ("eager", "aot_eager"):
        got = pellucid.compile(program, backend=backend)(torch.ones(2), {})
        assert torch.equal(got[0], expected[0]) and got[1:] == expected[1:]
