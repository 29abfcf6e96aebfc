"""What crosses a graph break in the middle of a function: graphs, names, live values, closures, blocks (docs/feature_rows.md, C01 to C21).

More of blocks and of random numbers is in test_global_state.py, of logging in test_logging_calls.py."""

from __future__ import annotations

import copy
import random
import re
import sys
import weakref

import pytest
import torch

import pellucid
from support import Counting, same

pytestmark = pytest.mark.usefixtures("continued")

X = torch.tensor([1.0, 2.0, 3.0])


def run(f, *args, calls=3):
    """Calls f compiled and eagerly; the backend, after comparing."""
    backend = Counting()
    compiled = pellucid.compile(f, backend=backend)
    for _ in range(calls):
        assert same(compiled(*args), f(*args))
    return backend


def operators(gm):
    return [getattr(node.target, "__name__", node.target) for node in gm.graph.nodes if node.op.startswith("call")]


def outputs(gm):
    return [node.name for node in gm.graph.output_node().args[0]]


def unsupported(value):
    print(value)
    return value


# ---- C01, C02: where graphs end


def test_C01_ops_before_and_behind_are_compiled(capsys):
    def f(x):
        y = x.sin()
        print("middle")
        return y.cos()

    backend = Counting()
    compiled = pellucid.compile(f, backend=backend)
    for n in range(1, 4):
        assert same(compiled(X), X.sin().cos())
        assert capsys.readouterr().out == "middle\n", n
    assert [operators(gm) for gm in backend.graphs] == [["sin"], ["cos"]]


def test_C01_the_rest_breaks_and_is_cached_like_any_region(capsys):
    def f(x, n):
        y = x + 1
        print("one")
        y = y * n
        print("two")
        return y - 1

    backend = Counting()
    compiled = pellucid.compile(f, backend=backend)
    counts = []
    for n in (2.0, 2.0, 3.0, 2.0, 3.0):
        assert same(compiled(X, n), (X + 1) * n - 1)
        counts.append(backend.count)
    assert capsys.readouterr().out == "one\ntwo\n" * 5
    assert counts[0] == counts[1] == 3 and counts[2] == counts[3] == counts[4] <= 6  # the value of n is guarded
    assert len(pellucid.break_reasons(compiled)) >= 2


def toy(a, b):
    x = a / (torch.abs(a) + 1)
    if b.sum() < 0:
        b = b * -1
    return x * b


def test_C02_each_side_is_compiled_when_it_is_first_taken():
    backend = Counting()
    compiled = pellucid.compile(toy, backend=backend)
    counts = []
    for b in (X + 1, X + 2, -X, -X, X + 1):
        assert same(compiled(X, b), toy(X, b))
        counts.append(backend.count)
    assert counts == [2, 2, 3, 3, 3]
    (record,) = pellucid.break_reasons(compiled)
    assert record.name == "DataDependent" and "branch on a tensor" in record.message
    assert record.user_stack[-1].line == "if b.sum() < 0:"


# ---- C03, D04: names


def test_C03_D04_names_of_regions_share_one_counter():
    def f(x):
        y = x + 1
        unsupported(y)
        z = y * 2
        unsupported(z)
        return z - 1

    backend = Counting()
    compiled = pellucid.compile(f, backend=backend)
    compiled(X)
    names = regions_called(compiled, X)
    begin, *behind = names
    assert re.fullmatch(r"__compiled_fn_\d+", begin) and len(behind) == 2
    assert all(re.fullmatch(r"__resume_at_\d+_\d+", name) for name in behind)
    numbers = [int(name.rpartition("_")[2]) for name in names]
    assert numbers == list(range(numbers[0], numbers[0] + 3))
    # The offset is where the program goes on, behind the call that broke.
    import dis

    calls = [i.offset for i in dis.get_instructions(f) if i.opname == "POP_TOP"]
    assert [int(name.split("_")[4]) for name in behind] == calls


def regions_called(compiled, *args):
    """The names under which the code of each region of one call knows its graph, in order; its frames tell whose code it is."""
    seen = []

    def profile(frame, event, arg):
        if event == "call" and frame.f_code.co_filename == __file__:
            graphs = [n for n in frame.f_globals if n.startswith(("__compiled_fn_", "__resume_at_"))]
            if graphs:
                assert frame.f_code.co_qualname == compiled.__code__.co_qualname
                seen.extend(graphs)

    sys.setprofile(profile)
    try:
        compiled(*args)
    finally:
        sys.setprofile(None)
    return seen


# ---- C04, C05, C06: live values


def looks(value):
    print(sorted(sys._getframe(1).f_locals))
    return value


def test_C04_live_locals_cross_and_frames_show_the_dead_ones():
    def f(x, unused):
        used = x + 1
        dead = x * 100
        changed = x - 1
        other = dead.sum()
        looks(other)
        dead = None
        changed = changed * 2
        return used, changed, unused

    marker = object()
    backend = Counting()
    compiled = pellucid.compile(f, backend=backend)
    for _ in range(3):
        used, changed, unused = compiled(X, marker)
        assert same(used, X + 1) and same(changed, (X - 1) * 2) and unused is marker
    # The step runs in real frames, which hold what eager's hold; what the program has dropped goes.
    assert sorted(outputs(backend.graphs[0])) == ["changed", "dead", "other", "used"]

    def g(x):
        gone = x.sin()
        kept = gone + 1
        del gone
        unsupported(0)
        return kept

    assert len(outputs(run(g, X).graphs[0])) == 1


def test_C04_what_frames_show_is_the_same(capsys):
    def f(x):
        used = x + 1
        dead = x * 100
        looks(dead)
        dead = 0
        return used + dead

    run(f, X, calls=1)
    first, second = capsys.readouterr().out.splitlines()
    assert first == second == "['dead', 'used', 'x']"


def test_C05_values_on_the_stack_cross():
    def f(x, y):
        return (x + 1) * unsupported(y) + (x - 1)

    assert run(f, X, 3).count == 2

    def g(x, y):
        return [x + 1, {"k": (x * 2, unsupported(y))}, f"{unsupported(y)}{x.dim()}", x - 1]

    assert run(g, X, 3).count >= 2


def test_C06_one_value_of_several_names():
    def f(x):
        a = b = x + 1
        c = [a]
        unsupported(0)
        return a is b, c[0] is a, a, b

    backend = run(f, X)
    assert len(outputs(backend.graphs[0])) == 1


# ---- C07, C08, C09: fast and general path


def opcodes(entry):
    import dis

    return [i.opname for i in dis.get_instructions(entry["code"])]


def test_C07_only_tensors_are_returned_without_detours():
    def f(x):
        return x + 1

    compiled = pellucid.compile(f, backend="eager", fullgraph=True)
    assert same(compiled(X), X + 1)
    (entry,) = pellucid.cache_entries(compiled)
    names = opcodes(entry)
    assert names.count("CALL") == 1 and names.count("UNPACK_SEQUENCE") == 1
    assert not {"BUILD_LIST", "BUILD_MAP", "STORE_ATTR", "STORE_SUBSCR"} & set(names) and len(names) <= 12


class Box:
    pass


class Sub(torch.Tensor):
    pass


LOG = []


@pytest.mark.parametrize(
    "f",
    [
        lambda x: (x + 1).sum().dim() + 1.5,  # a number
        lambda x: (x + 1, float(3), x.shape),
        lambda x: (x + 1, LOG.append(1), len(LOG)),  # a side effect
        lambda x: [x + 1, x + 1],
        lambda x: (lambda y: (y, y, [y], {"y": y}))(x + 1),  # duplicates
        lambda x: (x, x + 1, LOG),
        lambda x: (x + 1).as_subclass(Sub).sum(),
        lambda x: x + torch.as_tensor(x.numpy()),
        lambda x: (x + 1, print(end="")),  # a debug call
    ],
)
def test_C08_what_forces_the_general_path_is_right(f):
    compiled = pellucid.compile(f, backend="eager")
    for _ in range(3):
        LOG.clear()
        want = f(X)
        LOG.clear()
        got = compiled(X)
        if isinstance(want, Sub):
            assert type(got) is Sub and torch.equal(got.as_subclass(torch.Tensor), want.as_subclass(torch.Tensor))
        else:
            assert same(got, want)
    if isinstance(want, tuple) and len(want) == 4:
        assert got[0] is got[1] is got[2][0] is got[3]["y"]


def test_C09_values_used_more_than_once_are_made_once():
    def f(x, box):
        y = x + 1
        box.kept = z = [y]
        return [y, y, (y,), z, z]

    backend = Counting()
    compiled, box = pellucid.compile(f, backend=backend, fullgraph=True), Box()
    for _ in range(2):
        a, b, (c,), z, w = compiled(X, box)
        assert a is b is c is z[0] and z is w is box.kept and same(a, X + 1)
    assert len(backend.graphs) == len(outputs(backend.graphs[0])) == 1


# ---- C15: closures


def test_C15_cells_are_shared_across_a_break():
    outer = 10

    def f(x):
        n = 0

        def add(y):
            nonlocal n
            n += 1
            return y + n * outer

        a = add(x)
        unsupported(n)
        n += 5
        b = add(a)
        return a, b, n, add

    backend = Counting()
    compiled = pellucid.compile(f, backend=backend)
    for _ in range(2):
        got, want = compiled(X), f(X)
        assert same(got[:3], want[:3]) and same(got[3](X), want[3](X)) and same(got[3](X), want[3](X))
    assert backend.count == 2


def test_C15_a_cell_that_others_write():
    total = 0

    def f(x):
        nonlocal total
        total += 1
        y = x + total
        unsupported(total)
        total += 10
        return y * total

    compiled = pellucid.compile(f, backend="eager")
    results = []
    for g in (f, compiled):
        total = 0
        results.append([g(X) for _ in range(4)] + [total])
    assert same(results[0], results[1])


# ---- C16: with blocks


class Swallow:
    def __init__(self, log):
        self.log = log

    def __enter__(self):
        self.log.append("enter")
        return self

    def __exit__(self, kind, value, trace):
        self.log.append(kind.__name__ if kind else "exit")
        return kind is KeyError


@pytest.mark.parametrize("raises", [False, True])
def test_C16_with_blocks_of_the_user(raises):
    def f(x):
        log = []
        y = x
        with Swallow(log):
            y = x + 1
            unsupported(y.shape)
            y = y * 2
            if raises:
                raise KeyError("inside")
            y = y - 1
        return y, log

    assert run(f, X).count >= 2


def test_C16_no_grad_on_both_sides(capsys):
    def f(x):
        with torch.no_grad():
            y = x * 2
            unsupported(torch.is_grad_enabled())
            z = x * 3
        return y.requires_grad, z.requires_grad, (x * 4).requires_grad, torch.is_grad_enabled()

    backend = run(f, X.clone().requires_grad_())
    assert backend.count == 2 and capsys.readouterr().out == "False\n" * 6


# ---- C18, C19, C20, C21


def test_C18_names_of_the_user_across_a_break():
    def f(tmp_0, __compiled_fn_0):
        graph_out_0 = tmp_0 + 1
        function_0 = [graph_out_0]
        unsupported(__compiled_fn_0)
        __resume_at_0_0 = graph_out_0 * __compiled_fn_0
        stack_0 = __resume_at_0_0 + function_0[0]
        return stack_0, function_0, tmp_0

    assert run(f, X, 2).count == 2


def test_C19_a_draw_is_not_repeated_behind_the_break():
    def f(x):
        a = random.random()
        y = x * a
        unsupported(0)
        return y + a, a

    compiled, streams = pellucid.compile(f, backend="eager"), []
    for g in (f, compiled):
        random.seed(0)
        streams.append([g(X) for _ in range(3)] + [random.random()])
    assert same(streams[0], streams[1])


def test_C20_compiled_graphs_and_helpers_are_never_captured():
    captured = []

    def helper(args):
        return [a + 0 for a in args]

    def backend(gm, example_inputs):
        captured.append(gm)

        def call(*args):
            return gm.forward(*helper(args))

        return call

    def f(x):
        y = x + 1
        unsupported(y.dim())
        return y * 2

    compiled = pellucid.compile(f, backend=backend)
    for _ in range(3):
        assert same(compiled(X), (X + 1) * 2)
    assert [operators(gm) for gm in captured] == [["add"], ["mul"]]
    assert pellucid.counters()["graphs"] == 2


def test_C21_why_each_graph_ends():
    def f(x):
        y = x + 1
        unsupported(y.dim())
        return y * 2

    backend = Counting()
    pellucid.compile(f, backend=backend)(X)
    first, last = (gm.compile_subgraph_reason for gm in backend.graphs)
    assert first.graph_break and "print()" in first.reason
    assert [frame.name for frame in first.user_stack] == ["f", "unsupported"]
    assert not last.graph_break and last.reason == "return_value"
    assert last.user_stack[-1].line == "return y * 2"


def test_C05_bound_slots_cross(counting):
    """They are others at each call: what is behind the break is compiled for the object that they are bound to."""

    class Scale(torch.nn.Module):
        def __init__(self, factor):
            super().__init__()
            self.factor = factor

        def forward(self, x):
            get, put = super().__getattribute__, super().__setattr__
            pellucid.graph_break()
            put("seen", get("factor"))
            return x * get("factor") + self.seen

    def of_items(x, items):
        get, length = items.__getitem__, items.__len__
        pellucid.graph_break()
        return x * get(0) + length()

    module = Scale(3)
    watch = weakref.ref(module)
    compiled, of_compiled = pellucid.compile(module, backend=counting), pellucid.compile(of_items, backend=counting)
    for n in (1, 2, 3, 4):
        x = torch.ones(2) * n
        assert same(compiled(x), x * 3 + 3)
        for items in ([2, 3], (2, 3), [2, 3, 4]):
            assert same(of_compiled(x, items), of_items(x, items))
    assert counting.count <= 6
    del module, compiled
    assert watch() is None


def test_C05_methods_of_what_stays_open_cross():
    """Sizes, tuples and numbers are read as what may change, their bound methods too."""

    def of_a_size(x):
        method = x.shape.count
        pellucid.graph_break()
        return x + method(3)

    def of_a_tuple(x):
        methods = (1, 2, x.shape[0]).index, (2.5, 3).__getitem__
        pellucid.graph_break()
        return x + methods[0](x.shape[0]), methods[1](0)

    def of_two_in_variables(x, n):
        index, count = (1, 2, x.shape[0]).index, (n, 3).count
        pellucid.graph_break()
        return x + index(x.shape[0]) + count(n)

    def of_numbers(x, n):
        bits, whole, joined = n.bit_length, (n / 2).is_integer, str(n).join
        pellucid.graph_break()
        return x + bits(), whole(), joined("ab"), n

    def copied(x):
        pellucid.graph_break()
        return x * 2, copy.copy(x.shape), copy.deepcopy([x.shape[0], x.shape])

    for f in of_a_size, of_a_tuple, of_two_in_variables, of_numbers, copied:
        compiled = pellucid.compile(f, backend="eager")
        for n in (3, 3, 4, 5, 5):
            arguments = [torch.ones(n, 3), n][: f.__code__.co_argcount]
            got, want = compiled(*arguments), f(*arguments)
            assert same(got, want) and type(got) is type(want), f.__name__
