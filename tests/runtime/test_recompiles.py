"""Why a function was compiled again: old value, new value, the line of the program, the cost, and what would avoid it."""

from __future__ import annotations

import contextlib
import logging
import sys

import pytest
import torch

import pellucid
from support import Counting, Plain

X = torch.arange(1.0, 4.0)


def run_as_it_is(gm, inputs):
    return gm.forward


# A backend that compiles for fixed sizes.
FIXED = pellucid.backends.Backend("fixed", run_as_it_is)


def only(compiled):
    """The failures of the only recompile, of its only entry."""
    (record,) = pellucid.recompile_reasons(compiled)
    ((region, failures),) = record.failures.items()
    assert record.region is not None and record.region > region and record.milliseconds > 0
    return failures


def test_a_record(counting):
    def f(x, word):
        return x + len(word)

    compiled = pellucid.compile(f, backend=counting)
    compiled(X, "a")
    assert pellucid.recompile_reasons(compiled) == pellucid.recompile_reasons() == []
    compiled(X, "bb")
    (record,) = pellucid.recompile_reasons(compiled)
    line = f.__code__.co_firstlineno
    assert (record.file, record.line) == (__file__, line) and record.function.endswith("f")
    (failure,) = only(compiled)
    assert (failure.kind, failure.source, failure.expected, failure.found) == (
        "EQUALS_MATCH",
        "L['word']",
        "'a'",
        "'bb'",
    )
    assert (failure.file, failure.line) == (__file__, line + 1)  # where the program looks at the text
    text = str(record)
    for part in (
        "compiled as region",
        " ms",
        "EQUALS_MATCH word: ",
        "'a'",
        "'bb'",
        f"{__file__}:{line + 1}",
        failure.advice,
    ):
        assert part in text
    assert pellucid.recompile_reasons() == [record]
    pellucid.reset()
    assert pellucid.recompile_reasons(compiled) == []
    del record
    assert pellucid.recompile_reasons() == []


def test_all_guards_that_fail(counting):
    """Not only the first: and for what hangs on a value that is another one, only that."""

    class Config:
        def __init__(self, k):
            self.k, self.word = k, "a" * k

    def f(x, n, config, flag):
        return x * n + config.k + len(config.word) if flag else x

    compiled = pellucid.compile(f, backend=counting)
    compiled(X, 2, Config(3), True)
    compiled(X.double(), 3, Config(4), True)
    failures = {failure.source: failure for failure in only(compiled)}
    assert set(failures) == {"L['x']", "L['n']", "L['config'].k", "L['config'].word"}
    assert (failures["L['n']"].expected, failures["L['n']"].found) == ("2", "3")
    assert "dtype mismatch" in failures["L['x']"].found
    (text,) = pellucid.guard_failures(compiled)
    assert len(text.splitlines()) == 4
    compiled(X.double(), 3, None, False)
    newest = pellucid.recompile_reasons(compiled)[-1]
    sources = [failure.source for failures in newest.failures.values() for failure in failures]
    assert any(source == "L['config']" for source in sources)
    assert not any(source.startswith("L['config'].") for source in sources)


def test_every_version_is_explained(counting):
    compiled = pellucid.compile(lambda x, word: x + len(word), backend=counting)
    for word in ("", "a", "bb"):
        compiled(X, word)
    first, second = pellucid.recompile_reasons(compiled)
    assert len(first.failures) == 1 and len(second.failures) == 2
    assert [failures[0].expected for failures in second.failures.values()] == ["'a'", "''"]


@pytest.mark.parametrize(
    ("options", "advice"),
    [
        ({"backend": Counting()}, "pellucid.mark_dynamic(x, 1)"),
        ({"backend": Counting(), "dynamic": False}, "dynamic=False compiles each size anew"),
        ({"backend": run_as_it_is}, "pellucid.mark_dynamic(x, 1)"),
        ({"backend": FIXED}, "'fixed' compiles for fixed sizes"),
    ],
)
def test_sizes(options, advice):
    compiled = pellucid.compile(lambda x: x * 2, **options)
    compiled(torch.ones(3, 4)), compiled(torch.ones(3, 5))
    (failure,) = only(compiled)
    assert "expected 4, actual 5" in failure.found and advice in failure.advice


def test_everything_that_differs_of_a_tensor(counting):
    compiled = pellucid.compile(lambda x: x * 2, backend=counting)
    compiled(torch.ones(3, 4)), compiled(torch.ones(5, 6))
    (failure,) = only(compiled)
    assert failure.found == (
        "size mismatch at index 0, expected 3, actual 5; size mismatch at index 1, expected 4, actual 6"
    )
    assert "pellucid.mark_dynamic(x, [0, 1])" in failure.advice
    pellucid.reset()
    compiled(torch.ones(3, 4)), compiled(torch.ones(5, 6, dtype=torch.float64, requires_grad=True))
    (failure,) = only(compiled)
    assert failure.found == (
        "dtype mismatch, expected f32, actual f64; requires_grad mismatch, expected False, actual True; "
        "size mismatch at index 0, expected 3, actual 5; size mismatch at index 1, expected 4, actual 6"
    )
    assert "keep sizes, dtype" in failure.advice
    pellucid.reset()
    compiled(torch.ones(3, 4)), compiled(torch.ones(4, 3).t())
    (failure,) = only(compiled)
    assert failure.found == (
        "stride mismatch at index 0, expected 4, actual 1; stride mismatch at index 1, expected 1, actual 3"
    )


def test_a_condition_of_the_backend():
    """Of all that it decided only what fails is told, with the sizes that this is about."""

    def deciding(gm, inputs):
        for node in gm.graph.find_nodes(op="placeholder"):
            for number in getattr(node.meta["example_value"], "shape", ()):
                if isinstance(number, torch.SymInt):
                    assert number <= 128 and number % 2 == 0
        return gm.forward

    compiled = pellucid.compile(lambda x, y: (x * 2, y * 2), backend=deciding, dynamic=True)
    compiled(torch.ones(4), torch.ones(6))
    compiled(torch.ones(8), torch.ones(200))
    (failure,) = only(compiled)
    assert (failure.kind, failure.operation) == ("CONDITION", "is compiled by the backend")
    assert failure.expected == "y.size(0) <= 128" and failure.found == "y.size(0) = 200"
    assert "'deciding' compiled for numbers of which this is true" in failure.advice
    pellucid.reset()
    compiled(torch.ones(4), torch.ones(6))
    compiled(torch.ones(4, 4), torch.ones(6))
    (failure,) = only(compiled)  # not what it decided of a size that is not there any more
    assert failure.kind == "TENSOR_MATCH" and "rank mismatch" in failure.found


class Base:
    pass


class Derived(Base):
    pass


def plus_one(x):
    return x + 1


def plus_two(x):
    return x + 2


def numbers():
    yield 1
    yield 2


def started(generator):
    next(generator)
    return generator


def over_a_list(x, values):
    for value in values:
        x = x + value
    return x


def over_a_dict(x, values):
    for key in values:
        x = x + values[key]
    return x


def over_a_set(x, values):
    y = x * 1
    return y + sum(values)


def in_a_dict(x, values):
    y = x * 1
    return y + 1 if "k" in values else y - 1


def of_a_class(x, value):
    y = x * 1
    return y + 1 if isinstance(value, Derived) else y - 1


def calls(x, function):
    y = x * 1
    return function(y)


def has_name(x, value):
    y = x * 1
    return y + getattr(value, "n", 5)


def two_tensors(x, other):
    y = x * 1
    return y + other


def optional(x, other):
    y = x * 1
    return y if other is None else y + other


def advances(x, iterator):
    y = x * 1
    return y + next(iterator)


# The function, what it gets first and then, the guard, the old value and the new one, the line of the program (from its
# first on) and the advice.
CHANGES = [
    (over_a_list, [X], [X, X], "LENGTH", "length 1", "length 2", 1, "stack it into a tensor"),
    (over_a_dict, {"a": 1}, {"b": 1}, "DICT_KEYS", "keys ['a'] (1)", "keys ['b'] (1)", 1, "keep the keys"),
    (over_a_set, {1, 2}, {1, 3}, "SET_EQUALS", "a set of [1, 2] (2)", "a set of [1, 3] (2)", 2, "keep the elements"),
    (in_a_dict, {"k": 1}, {}, "DICT_CONTAINS", "key 'k'", "no key 'k'", 2, "keep the keys"),
    (of_a_class, Base(), Derived(), "TYPE_MATCH", "Base", "Derived", 0, "always the same type"),
    (
        calls,
        plus_one,
        plus_two,
        "FUNCTION",
        "the code of plus_one",
        "the code of plus_two",
        2,
        "define the function once",
    ),
    (has_name, Plain(n=3), Plain(), "EQUALS_MATCH", "3", "does not exist", 2, "keep it, or never have it"),
    (has_name, Plain(), Plain(n=4), "HAS_ATTR", "no instance attribute 'n'", "4", 2, "in __init__"),
    (two_tensors, torch.ones(3), X, "DISTINCT", "2 different objects", "x and other", 2, "such as a clone"),
    (optional, None, X, "ID_MATCH", "None", "torch.Tensor at", 0, "with None and with something else"),
    (optional, torch.ones(3), None, "TENSOR_MATCH", "f32[3]", "actual NoneType", 0, "with None and with"),
    (advances, iter([1, 2]), started(iter([1, 2])), "EQUALS_MATCH", "1", "2", 2, "dynamic=True opens"),
    (advances, numbers(), started(numbers()), "GENERATOR_AT", "at byte", "at byte", 2, "make it inside"),
]


@pytest.mark.parametrize("row", CHANGES, ids=lambda row: f"{row[0].__name__}-{row[3]}")
def test_each_change(row, counting):
    function, first, then, kind, old, new, line, advice = row
    compiled = pellucid.compile(function, backend=counting)
    compiled(X, first), compiled(X, then)
    (failure,) = only(compiled)
    assert (failure.kind, failure.line - function.__code__.co_firstlineno) == (kind, line), failure
    assert old in failure.expected and new in failure.found and failure.expected != failure.found, failure
    assert advice in failure.advice and failure.file == __file__
    assert str(failure) in pellucid.guard_failures(compiled)[0]


def test_sizes_of_one(counting):
    compiled = pellucid.compile(lambda x: x * 2, backend=counting)
    compiled(torch.ones(3)), compiled(torch.ones(1))
    (failure,) = only(compiled)
    assert "0 and 1" in failure.advice


@pytest.mark.parametrize(
    ("options", "values", "advice"),
    [
        ({"backend": Counting()}, (2, 3), "dynamic=True opens this number"),
        ({"backend": Counting(), "dynamic": False}, (2, 3), "dynamic=False compiles each number anew"),
        ({"backend": FIXED}, (2, 3), "'fixed' takes a number"),
        ({"backend": run_as_it_is}, (2, 3), "dynamic=True opens this number"),
        ({"backend": run_as_it_is}, (2.5, 3.5), "unless it is added, subtracted, multiplied"),
        ({"backend": Counting()}, (2, 2.5), "ints and floats are compiled apart"),
    ],
)
def test_numbers(options, values, advice):
    compiled = pellucid.compile(lambda x, n: x * n, **options)
    for value in values:
        compiled(X, value)
    (failure,) = only(compiled)
    assert (failure.expected, failure.found.split(" ")[0]) == tuple(map(str, values))
    assert advice in failure.advice


def test_a_number_whose_value_the_program_needs(counting):
    def f(x, n):
        return x + len("abcdefgh"[:n])

    compiled = pellucid.compile(f, backend=counting)
    for n in (1, 2, 3, 4):
        compiled(X, n)
    newest = next(iter(pellucid.recompile_reasons(compiled)[-1].failures.values()))
    (failure,) = newest
    assert (failure.expected, failure.found, failure.line) == ("3", "4", f.__code__.co_firstlineno + 1)
    assert "needs the value itself (reads an item)" in failure.advice


def all_failures(compiled):
    return [f for record in pellucid.recompile_reasons(compiled) for found in record.failures.values() for f in found]


def test_an_open_number_whose_value_the_program_needs(counting):
    compiled = pellucid.compile(lambda x, n: x + len([0] * n), backend=counting)
    for n in (1, 2, 3):
        compiled(X, n)
    (failure,) = [failure for failure in all_failures(compiled) if failure.kind == "CONDITION"]
    assert (failure.expected, failure.found) == ("n == 2", "n = 3")
    assert "needs the value itself" in failure.advice and "another way" not in failure.advice


def test_a_size_that_the_program_needs_although_sizes_are_open(counting):
    compiled = pellucid.compile(lambda x: x + {3: 1, 4: 2, 5: 3}[len(x)], backend=counting, dynamic=True)
    for n in (3, 4, 5):
        compiled(torch.ones(n))
    advices = {failure.advice for failure in all_failures(compiled)}
    assert advices and all("fill up to a few sizes" in advice for advice in advices), advices


def test_a_size_beyond_the_range_of_its_mark(counting):
    compiled = pellucid.compile(lambda x: x + 1, backend=counting)
    x = torch.ones(4)
    pellucid.mark_dynamic(x, 0, min=3, max=6)
    compiled(x), compiled(torch.ones(7))
    (failure,) = only(compiled)
    assert "at most 6" in failure.found and "wider" in failure.advice


def test_another_way_of_the_program(counting):
    def f(x, n):
        return x + n if n < 5 else x - n

    compiled = pellucid.compile(f, backend=counting)
    for n in (1, 2, 9):
        compiled(X, n)
    (failure,) = [
        failure for failures in pellucid.recompile_reasons(compiled)[-1].failures.values() for failure in failures
    ]
    assert failure.kind == "CONDITION" and failure.line == f.__code__.co_firstlineno + 1
    assert "n <= 4" in failure.expected and "9" in failure.found and "another way" in failure.advice


def test_state_of_the_thread(counting):
    compiled = pellucid.compile(lambda x: x * 2, backend=counting)
    compiled(X)
    with torch.no_grad():
        compiled(X)
    (failure,) = only(compiled)
    assert (failure.source, failure.expected, failure.found) == ("", "grad mode on", "grad mode off")
    assert (failure.file, failure.operation) == (__file__, "is called")  # it is about no line: that of the function


def test_objects_that_are_gone(counting):
    class Thing:
        pass

    def f(x, thing, known):
        return x + 1 if thing is known else x

    thing = Thing()
    compiled = pellucid.compile(f, backend=counting)
    compiled(X, thing, thing)
    del thing
    other = Thing()
    compiled(X, other, other)
    for record in pellucid.recompile_reasons(compiled):
        assert str(record)


def test_behind_a_break(counting):
    def f(x, words):
        y = x * 2
        sys.stdout.write("")
        return y + len(words[0])

    compiled = pellucid.compile(f, backend=counting)
    compiled(X, ["a"]), compiled(X, ["bb"])
    (failure,) = only(compiled)
    assert failure.line == f.__code__.co_firstlineno + 3 and failure.found == "'bb'"


def test_the_log(counting, caplog):
    compiled = pellucid.compile(lambda x, word: x + len(word), backend=counting)
    with caplog.at_level(logging.INFO, logger="pellucid"):
        compiled(X, "a"), compiled(X, "bb")
    told = [record.getMessage() for record in caplog.records]
    assert told == [f"recompiled {record}" for record in pellucid.recompile_reasons(compiled)] and len(told) >= 1
    assert {record.levelno for record in caplog.records} == {logging.INFO}


def test_a_first_compile_is_none(counting):
    compiled = pellucid.compile(lambda x: x, backend=counting)
    compiled(X), compiled(X)
    assert pellucid.recompile_reasons(compiled) == []
    with pytest.raises(TypeError, match="compiled by pellucid"):
        pellucid.recompile_reasons(3)


@pytest.mark.parametrize(
    ("block", "expected", "found", "advice"),
    [
        (
            lambda: torch.inference_mode(),
            "grad mode on, inference mode off",
            "grad mode off, inference mode on",
            "the block",
        ),
        (
            lambda: torch.autocast("cpu", dtype=torch.bfloat16),
            "autocast for cpu off",
            "autocast for cpu on with torch.bfloat16",
            "always inside of the block that sets autocast for cpu, or always outside",
        ),
        (
            lambda: setting(torch.set_default_dtype, torch.float64, torch.float32),
            "default dtype torch.float32",
            "default dtype torch.float64",
            "set default dtype once, before the first call",
        ),
        (
            lambda: setting(torch.use_deterministic_algorithms, True, False),
            "deterministic algorithms off",
            "deterministic algorithms on",
            "set deterministic algorithms once",
        ),
        (
            lambda: setting(torch.set_float32_matmul_precision, "high", "highest"),
            "float32 matmul precision highest",
            "float32 matmul precision high",
            "set float32 matmul precision once",
        ),
    ],
)
def test_state_of_torch_is_told_as_it_is_set(counting, block, expected, found, advice):
    compiled = pellucid.compile(lambda x: x * 2, backend=counting)
    compiled(X)
    with block():
        compiled(X)
    (failure,) = only(compiled)
    assert (failure.expected, failure.found) == (expected, found)
    assert advice in failure.advice and f"expected {expected}, found {found} (" in str(failure)


@contextlib.contextmanager
def setting(switch, value, before):
    switch(value)
    try:
        yield
    finally:
        switch(before)


def test_all_that_differs_of_the_state_has_its_advice(counting):
    compiled = pellucid.compile(lambda x: x * 2, backend=counting)
    compiled(X)
    with torch.no_grad(), setting(torch.set_default_dtype, torch.float64, torch.float32):
        compiled(X)
    (failure,) = only(compiled)
    assert failure.found == "grad mode off, default dtype torch.float64"
    assert "block that sets grad mode" in failure.advice and "set default dtype once" in failure.advice


class Hooked(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(3, 3))

    def forward(self, x, **more):
        return self.layers(x)


@pytest.mark.parametrize(
    ("register", "what", "advice"),
    [
        (
            lambda model: model.layers[0].register_forward_hook(lambda module, args, output: None),
            "self.layers[0]._forward_hooks",
            "a forward hook was added to self.layers[0]: ",
        ),
        (
            lambda model: model.register_forward_pre_hook(lambda module, args: None),
            "self._forward_pre_hooks",
            "a forward pre hook was added to self: ",
        ),
        (
            lambda model: torch.nn.modules.module.register_module_forward_hook(lambda module, args, output: None),
            "torch.nn.modules.module._global_forward_hooks",
            "a forward hook was added to all modules: ",
        ),
    ],
)
def test_hooks(register, what, advice):
    model = Hooked()
    compiled = pellucid.compile(model, backend="eager")
    compiled(torch.ones(2, 3))
    hook = register(model)
    try:
        compiled(torch.ones(2, 3))
    finally:
        hook.remove()
    (failure,) = only(compiled)
    assert failure.what == what and failure.advice.startswith(advice)


def test_a_hook_that_is_removed():
    model = Hooked()
    hook = model.layers.register_forward_hook(lambda module, args, output: None)
    compiled = pellucid.compile(model, backend="eager")
    compiled(torch.ones(2, 3))
    hook.remove()
    compiled(torch.ones(2, 3))
    (failure,) = only(compiled)
    assert failure.advice.startswith("a forward hook was removed from self.layers: ")


def test_the_marks_that_are_told_can_be_typed(counting):
    def by_name(**tensors):
        return tensors["mask"] * 2

    compiled = pellucid.compile(by_name, backend=counting)
    compiled(mask=torch.ones(3)), compiled(mask=torch.ones(4))
    (failure,) = only(compiled)
    assert failure.advice.startswith("pellucid.mark_dynamic(mask, 0) or dynamic=True")

    model = Hooked()
    compiled = pellucid.compile(model, backend=counting)
    compiled(torch.ones(2, 3)), compiled(torch.ones(4, 3))
    assert only(compiled)[0].advice.startswith("pellucid.mark_dynamic(x, 0) or dynamic=True")


def test_a_number_that_is_open_since(counting):
    class Counter:
        count = 0

    def counted(x, counter):
        return x * [1.0, 0.5, 0.25][counter.count % 3]

    compiled, counter = pellucid.compile(counted, backend=counting), Counter()
    for counter.count in (0, 1, 2):
        compiled(X, counter)
    first, second = pellucid.recompile_reasons(compiled)
    (of_first,) = first.failures.values()
    assert "dynamic=True" in of_first[0].advice
    (of_oldest,) = [one for one in second.failures[min(second.failures)] if one.what == "counter.count"]
    assert of_oldest.advice.endswith("leave this number open")


def test_texts_that_decide():
    compiled = pellucid.compile(lambda x, mode: x if mode == "a" else x + 1, backend="eager")
    compiled(X, "a"), compiled(X, "b")
    (failure,) = only(compiled)
    assert "a function for each" in failure.advice
