"""What values of the program are called in reports: names where it has names, else the expression and the line that made them."""

import dis
import inspect
import linecache
import re

import pytest
import torch

import pellucid
from pellucid import _core
from pellucid._in_words import Words, attribute_of


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("L['x']", "x"),
        ("G['SCALE']", "SCALE"),
        ("G", "globals()"),
        ("F['k'].cell_contents", "k"),
        ("vars(torch.nn.functional)['relu']", "torch.nn.functional.relu"),
        ("vars(builtins)['len']", "len"),
        ("C[torch.Tensor]", "torch.Tensor"),
        ("L['self']._modules['layers']._modules['0']._parameters['weight']", "self.layers[0].weight"),
        ("L['d']['a'][0].size(1)", "d['a'][0].size(1)"),
        ("AHEAD(L['it'], 0)", "the next element of `it`"),
        ("AHEAD(L['it'], 2).size(0)", "size(0) of the element 2 behind the next one of `it`"),
        ("VALUE_AHEAD(L['d']['a)'], 0)", "the value that belongs to the next element of `d['a)']`"),
        ("PART(AHEAD(L['it'], 0), 1)[0]", "[0] of part 1 of the next element of `it`"),
        ("AHEAD(L['it'], 0) % 4 == 1 and L['n'] > 2", "the next element of `it` % 4 == 1 and n > 2"),
    ],
)
def test_sources_have_the_names_of_the_program(source, name):
    assert Words().of(source) == name


def outer(xs, y):
    with torch.no_grad():
        return y.sin() + inner([x for x in xs], y)


def inner(f1_y, y):
    for x in f1_y:
        y = y + x
    return y if len(f1_y) else f1_y


def offset_at(function, line, name, number=0):
    """Behind the instruction of this name in a line, counted from the function's first one."""
    found = [
        at
        for at in dis.get_instructions(function)
        if at.opname == name and at.positions.lineno - function.__code__.co_firstlineno == line
    ]
    every = list(dis.get_instructions(function))
    return every[every.index(found[number]) + 1].offset


def test_values_of_open_frames():
    first = outer.__code__.co_firstlineno
    words = Words(
        [
            (outer.__code__, offset_at(outer, 2, "CALL", 2)),
            (inner.__code__, offset_at(inner, 2, "STORE_FAST")),
        ]
    )
    of = words.of
    assert of("L['y'].size(0)") == "y.size(0)"
    assert of("L['f1_y'].size(0)") == "`y.size(0)` of inner"
    assert words.as_python("L['f1_y'].size(0)") == "y.size(0)"
    assert of("L['f1_f1_y'][0]") == "`f1_y[0]` of inner"
    assert of("L['stack_0']") == f"the with block of line {first + 1}"
    assert of("L['stack_1'].size(0)") == f"size(0) of the value of `y.sin()` (line {first + 2})"
    line = inner.__code__.co_firstlineno + 1
    assert of("AHEAD(L['f1_stack_0'], 0)") == f"the next element of the iterator over `f1_y` (line {line})"
    assert of("L['f1_<function>'].__defaults__") == "__defaults__ of the function `inner`"
    assert of("L['<handled>']") == "the exception that is being handled"
    assert of("L['f7_y']") == "f7_y"


def test_a_variable_may_be_called_like_one_of_another_frame():
    words = Words([(inner.__code__, offset_at(inner, 1, "GET_ITER")), (inner.__code__, 0)])
    assert words.of("L['f1_y']") == "f1_y"


def test_what_two_ways_make_is_of_neither():
    def chosen(a, b, flag):
        return print(a if flag else b)

    code = chosen.__code__
    offset = offset_at(chosen, 1, "LOAD_FAST", 2)  # the call, where both ways meet
    assert _core.stack_makers(code, offset)[-1] == -1
    top = len(_core.stack_makers(code, offset)) - 1
    assert Words([(code, offset)]).of(f"L['stack_{top}']") == f"a value that line {code.co_firstlineno + 1} needs"


def test_without_a_source_file_the_line_is_told():
    namespace = {}
    exec(compile("def f(xs):\n    for x in xs:\n        print(x)", "gone.py", "exec"), namespace)
    code = namespace["f"].__code__
    words = Words([(code, offset_at(namespace["f"], 2, "CALL"))])
    assert words.of("L['stack_0']") == "the iterator of line 2" and not linecache.getline("gone.py", 2)


@pytest.mark.parametrize(
    "function", [inspect.signature, linecache.updatecache, pytest.raises, torch.nn.Module._call_impl]
)
def test_makers_are_as_many_as_there_are_values(function):
    """Of each instruction that control comes to: what made a value stands before it, or the value is an exception's."""
    code = inspect.unwrap(function).__code__
    offsets = [at.offset for at in dis.get_instructions(code)]
    deepest = 0
    for offset in offsets:
        makers = _core.stack_makers(code, offset)
        deepest = max(deepest, len(makers))
        assert all(maker == -1 or maker in offsets for maker in makers)
    assert 0 < deepest <= code.co_stacksize


def test_attributes_of_words():
    assert attribute_of("x", ".size(0)") == "x.size(0)"
    assert attribute_of("the next element of `xs`", ".size(0)") == "size(0) of the next element of `xs`"
    assert attribute_of("the next element", "") == "the next element"


def test_what_a_user_can_type():
    assert Words().typed("L['self']._modules['lin']._parameters['weight']") == "self.lin.weight"
    assert Words(parameters=["x", "y"]).typed("L['kwargs']['mask']") == "mask"
    assert Words(parameters=["x", "y"]).typed("L['args'][1]") == "y"
    assert Words().typed("AHEAD(L['it'], 0)") is None
    assert Words().typed("C[dict].k") is None
    assert Words([(inner.__code__, 0)]).typed("L['y']") is None


# ---- programs


def test_a_loop_with_a_break():
    @pellucid.compile(backend="eager")
    def total(xs, y):
        for x in xs:
            y = y + x
            print("step")
            y = y * 2
        return y

    total([1.0, 2.0, 3.0], torch.ones(3))
    opened, ended = pellucid.recompile_reasons(total)
    first = total.__code__.co_firstlineno
    for record in (opened, ended):
        assert record.goes_on and record.line == first + 4 and record.function.endswith("total")
        assert f"total ({__file__}:{first + 4}, behind a graph break): compiled as region" in str(record)
        assert "stack_0" not in str(record) and "AHEAD" not in str(record)
    ((failure,),) = opened.failures.values()
    assert failure.what == f"the next element of the iterator over `xs` (line {first + 2})"
    assert (failure.expected, failure.found, failure.line) == ("2.0", "3.0", first + 3)
    (failure,) = next(iter(ended.failures.values()))
    assert failure.found == "none: the iterator is at its end" and "take the break out of the loop" in failure.advice


def test_the_number_behind_a_break_is_told_by_its_expression():
    @pellucid.disable
    def size(x):
        return int(x.norm())

    @pellucid.compile(backend="aot_eager")
    def clipped(x, most):
        return x * 2 if size(x.abs()) > most else x

    clipped(torch.ones(4), 5), clipped(10 * torch.ones(4), 5)
    (record,) = pellucid.recompile_reasons(clipped)
    line = clipped.__code__.co_firstlineno + 2
    ((failure,),) = record.failures.values()
    said = f"EQUALS_MATCH the value of `size(x.abs())` (line {line}): expected 2, found 20"
    assert str(failure).startswith(said) and record.line == line


def test_explain_tells_the_loop_too():
    def total(xs, y):
        for x in xs:
            y = y + x
            print("step")
        return y

    output = pellucid.explain(total)([1.0, 2.0, 3.0], torch.ones(3))
    first = total.__code__.co_firstlineno
    element = f"the next element of the iterator over `xs` (line {first + 1})"
    text = output.text()
    assert re.search(rf"recompile 1: \S*test_in_words.py:{first + 3} in ", text)
    assert f"  {element}: 2.0 → 3.0" in text
    assert f"  {element}: a finite float → none: the iterator is at its end" in text
    assert f"  input_0  # {element}" in text and "= y + input_0" in text
    assert f"...  # {element}: 2.0; " in text
    assert "AHEAD" not in text and "stack_0" not in text
