"""pellucid.explain: rows F01 to F12."""

from __future__ import annotations

import gc
import operator
import re
import traceback
from pathlib import Path

import pytest
import torch

import pellucid
from pellucid import ExplainOutput, ExplainWithBackend


def normalize(a):
    return a / (torch.abs(a) + 1)


def scale(x, b):
    return x * b + b.sum()


def toy(a, b):
    """A break between two graphs."""
    x = normalize(a)
    print("woo")
    return scale(x, b)


def whole(a, b):
    return scale(normalize(a), b)


def inputs():
    return torch.ones(3), torch.arange(3.0)


def test_F01_type_and_fields():
    output = pellucid.explain(whole)(*inputs())
    assert isinstance(output, ExplainOutput)
    assert (output.op_count, len(output.ops_per_graph), bool(output.out_guards)) == (5, 1, True)
    assert (output.graph_count, output.graph_break_count, output.break_reasons) == (1, 0, [])
    assert all(isinstance(graph, torch.fx.GraphModule) for graph in output.graphs)
    assert re.search(r"^capture +\d+\.\d+ +\d", output.compile_times, re.M)
    assert re.search(r"^backend +\d+\.\d+ +\d", output.compile_times, re.M)


def test_F01_arguments_by_keyword_and_a_module():
    a, b = inputs()
    assert pellucid.explain(whole)(a, b=b).graph_count == 1
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU())
    assert pellucid.explain(model)(a).graph_count == 1
    assert pellucid.explain(model.forward)(a).graph_count == 1


def test_F01_a_class_stays_as_it_is():
    class Doubled:
        def __init__(self, a):
            self.value = a * 2

        def __call__(self, b):
            return self.value + b

    before = Doubled.__call__
    pellucid.explain(Doubled)(torch.ones(2))
    assert Doubled.__call__ is before
    assert pellucid.explain(Doubled(torch.ones(2)))(torch.ones(2)).graph_count == 1


def test_F01_not_callable():
    with pytest.raises(TypeError, match="needs a callable, not int"):
        pellucid.explain(3)


def test_F02_runs_once(capsys):
    calls = []

    def mutates(a):
        a.add_(1)
        calls.append(a)
        return a * 2

    a = torch.zeros(2)
    pellucid.explain(mutates)(a)
    assert a.tolist() == [1, 1]
    assert len(calls) == 1 and calls[0] is a
    pellucid.explain(toy)(*inputs())
    assert capsys.readouterr().out == "woo\n"


def test_F02_graphs_run_as_plain_torch():
    output = pellucid.explain(whole)(*inputs())
    (result,) = output.graphs[0](*inputs())
    assert torch.equal(result, whole(*inputs()))


def test_F02_an_exception_of_the_function_is_the_callers():
    def fails(a):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        pellucid.explain(fails)(torch.ones(1))


def documented(a, b):
    """The example that torch's documentation explains: a break at print, and one at the branch."""
    x = a / (torch.abs(a) + 1)
    print("woo")
    if b.sum() < 0:
        b = b * -1
    return x * b


@pytest.fixture(params=[1, -1], ids=["positive", "negative"])
def of_documented(request):
    a, b = inputs()
    return pellucid.explain(documented)(a, request.param * b), request.param


def test_F02_the_documented_example_prints_once(of_documented, capsys):
    assert capsys.readouterr().out == ""  # the fixture's call has printed before
    a, b = inputs()
    pellucid.explain(documented)(a, b)
    assert capsys.readouterr().out == "woo\n"


def test_F03_graphs_in_order_of_compilation(of_documented):
    output, _ = of_documented
    assert output.graph_count == len(output.graphs) == 3
    assert all(isinstance(graph, torch.fx.GraphModule) for graph in output.graphs)
    firsts = [next(node for node in graph.graph.nodes if node.op.startswith("call_")) for graph in output.graphs]
    assert [node.target for node in firsts] == [torch.abs, "sum", operator.mul]


def test_F04_two_breaks_between_three_graphs(of_documented):
    assert of_documented[0].graph_break_count == 2


def test_F05_op_count_of_the_documented_example(of_documented):
    output, sign = of_documented
    assert output.op_count == (5 if sign > 0 else 6)  # the method sum is none


def test_F06_ops_per_graph_of_the_documented_example(of_documented):
    output, sign = of_documented
    last = [operator.mul] if sign > 0 else [operator.mul, operator.mul]
    assert output.ops_per_graph == [[torch.abs, operator.add, operator.truediv], [operator.lt], last]


def test_F07_the_reasons_of_the_documented_example(of_documented):
    output, _ = of_documented
    first = documented.__code__.co_firstlineno
    printed, branched = output.break_reasons
    assert "print" in printed.reason and printed.user_stack[-1].lineno == first + 3
    assert branched.name == "DataDependent" and branched.user_stack[-1].lineno == first + 4
    assert [frame.name for frame in branched.user_stack] == ["documented"]  # there is no resume function to name


def test_F08_guards_of_the_documented_example(of_documented):
    tensors = [guard for guard in of_documented[0].out_guards if guard.kind == "TENSOR_MATCH"]
    assert tensors[0].source == "L['a']" and tensors[0].python.startswith(
        "a.dtype == torch.float32 and a.shape == (3,)"
    )


def test_F04_graph_break_count():
    assert pellucid.explain(toy)(*inputs()).graph_break_count == 1
    assert pellucid.explain(lambda: 3)().graph_break_count == -1

    def nothing_before(a, b):
        print("once")
        return normalize(a), normalize(b)

    output = pellucid.explain(nothing_before)(torch.ones(3), torch.ones(4))
    assert (output.graph_count, output.graph_break_count, len(output.break_reasons)) == (1, 0, 1)


def test_recompiles_of_other_functions_that_a_profiler_holds():
    with pellucid.CompileProfiler() as profiler:
        other = pellucid.compile(lambda x: x + 1, backend=profiler)
        other(torch.ones(2)), other(torch.ones(3))
        assert pellucid.explain(lambda x: x * 2)(torch.ones(2)).recompiles == []
        assert "1 recompile" in profiler.report()


def test_F04_recompiles_count_as_breaks_without_a_reason():
    watched = ExplainWithBackend("eager")
    compiled = pellucid.compile(normalize, backend=watched)
    for size in (3, 4, 3):
        assert torch.equal(compiled(torch.ones(size)), normalize(torch.ones(size)))
    output = watched.output()
    assert (output.graph_count, output.graph_break_count, output.break_reasons) == (2, 1, [])


def test_F05_op_count_is_of_functions_only():
    output = pellucid.explain(whole)(*inputs())
    assert output.op_count == 5  # abs, add, truediv, mul, add; not the method sum
    assert [node.target for node in output.graphs[0].graph.nodes if node.op == "call_method"] == ["sum"]


def test_F06_ops_per_graph():
    output = pellucid.explain(toy)(*inputs())
    assert output.ops_per_graph == [[torch.abs, operator.add, operator.truediv], [operator.mul, operator.add]]


def test_F07_break_reasons():
    output = pellucid.explain(toy)(*inputs())
    (record,) = output.break_reasons
    assert "print" in record.reason
    frame = record.user_stack[-1]
    assert isinstance(frame, traceback.FrameSummary)
    first = toy.__code__.co_firstlineno
    assert (frame.filename, frame.lineno, frame.name) == (__file__, first + 3, "toy")


def test_F07_one_break_seen_from_two_functions_is_one():
    def inner(a):
        print("inner")
        return a + 1

    def outer(a):
        return inner(a) * 2

    (record,) = pellucid.explain(outer)(torch.ones(1)).break_reasons
    assert [frame.name for frame in record.user_stack] == ["outer", "inner"]


def test_F08_out_guards():
    output = pellucid.explain(toy)(*inputs())
    tensors = [guard for guard in output.out_guards if guard.kind == "TENSOR_MATCH"]
    assert {guard.source for guard in tensors} == {"L['a']", "L['x']", "L['b']"}
    a = next(guard for guard in tensors if guard.source == "L['a']")
    assert a.file == __file__
    assert toy.__code__.co_firstlineno <= a.line <= toy.__code__.co_firstlineno + 2


MASKED = """\
Graph Count: 2
Graph Break Count: 1
Op Count: 5
Break Reasons:
  Break Reason 1:
    Reason: print() has an effect outside of the program
    User Stack:
      <FrameSummary file FILE, line N in toy>
Ops per Graph:
  Ops 1:
    <built-in method abs of type object at ADDRESS>
    <built-in function add>
    <built-in function truediv>
  Ops 2:
    <built-in function mul>
    <built-in function add>
Out Guards:
GUARDS
Compile Times: TIMES
"""


SCALE = 2


def test_F08_namespaces_have_names_of_their_own():
    """G is the namespace of the program, of a module's call that of its forward; others are named."""

    class Scaled(torch.nn.Module):
        def forward(self, x):
            return torch.relu(x) * SCALE + len(x.shape)

    for program in (Scaled(), Scaled().forward):
        sources = {guard.source for guard in pellucid.explain(program)(torch.ones(2)).out_guards}
        assert {"G['SCALE']", "vars(builtins)['len']", "vars(torch)['relu']"} <= sources


def test_F09_layout():
    text = str(pellucid.explain(toy)(*inputs()))
    guards = re.search(r"^Out Guards:\n(.*)^Compile Times: ", text, re.M | re.S)[1]
    blocks = r"(?:  Guard \d+:\n    Name: .*\n    Source: .*\n    Create Function: [A-Z_]+\n    Expected: .*\n    Python: .*\n    User Line: .*\n)+"
    assert re.fullmatch(blocks, guards)
    assert "Name: \"L['a']\"" in guards
    masked = text.replace(guards, "GUARDS\n").replace(__file__, "FILE")
    masked = re.sub(r"0x[0-9a-f]+", "ADDRESS", re.sub(r"line \d+ in", "line N in", masked))
    assert re.sub(r"Compile Times: .*\Z", "Compile Times: TIMES\n", masked, flags=re.S) == MASKED


def test_F09_optional_parts_only_when_present():
    text = str(ExplainOutput([], 0, -1, [], 0))
    assert text == "Graph Count: 0\nGraph Break Count: -1\nOp Count: 0\nBreak Reasons:\n"


def test_F10_no_code_used_and_none_left():
    class Counter:
        count = 0

        def __call__(self, gm, example_inputs):
            self.count += 1
            return gm.forward

    counter = Counter()
    compiled = pellucid.compile(whole, backend=counter)
    first = compiled(*inputs())
    assert counter.count == 1
    assert pellucid.explain(compiled)(*inputs()).graph_count == 1  # captured anew
    assert counter.count == 1
    assert pellucid.cache_entries(compiled) == []
    assert torch.equal(compiled(*inputs()), first) and torch.equal(first, whole(*inputs()))
    assert counter.count == 2


def test_F10_no_code_left_after_an_exception():
    def fails(a):
        normalize(a)
        raise KeyError("mine")

    with pytest.raises(KeyError):
        pellucid.explain(fails)(torch.ones(1))
    assert pellucid.break_reasons() == []


def test_F10_as_often_as_wanted():
    texts = {re.sub(r"Compile Times: .*\Z", "", str(pellucid.explain(whole)(*inputs())), flags=re.S) for _ in range(3)}
    assert len(texts) == 1


def test_F11_with_another_backend():
    ran = []

    def counting(gm, example_inputs):
        def run(*args):
            ran.append(len(args))
            return gm.forward(*args)

        return run

    for backend in ("eager", counting):
        watched = ExplainWithBackend(backend)
        compiled = pellucid.compile(toy, backend=watched)
        for _ in range(2):
            assert torch.equal(compiled(*inputs()), whole(*inputs()))
        output = watched.output()
        assert (output.graph_count, output.graph_break_count, output.op_count) == (2, 1, 5)
        assert ["print" in record.reason for record in output.break_reasons] == [True]
        assert (output.ops_per_graph, output.out_guards, output.compile_times) == (None, None, None)
        assert "Ops per Graph" not in str(output) and "Compile Times" not in str(output)
    assert ran == [1, 2] * 2


def test_F11_inside_of_another_backend_and_around_one():
    """Whoever calls it with a graph, the graph's compile is its own, with the breaks before it."""
    inner = ExplainWithBackend("eager")
    outer = ExplainWithBackend(inner)
    for backend in (lambda gm, example_inputs: inner(gm, example_inputs), outer):
        compiled = pellucid.compile(toy, backend=backend)
        assert torch.equal(compiled(*inputs()), whole(*inputs()))
    for watched, times in ((inner, 2), (outer, 1)):
        output = watched.output()
        assert (output.graph_count, output.op_count, len(output.break_reasons)) == (2 * times, 5 * times, 1)


def test_F11_with_a_backend_that_compiles():
    watched = ExplainWithBackend("aot_eager")
    assert torch.equal(pellucid.compile(toy, backend=watched)(*inputs()), whole(*inputs()))
    report = watched.output().to_dict()
    assert (report["graph_count"], report["break_count"], len(report["guards"]) > 2) == (2, 1, True)
    assert {phase["name"] for phase in report["phases"]} >= {"capture", "backend", "guards"}


def test_F11_it_is_gone_with_its_last_user():
    watched = ExplainWithBackend("eager")
    assert pellucid.events.wanted()
    pellucid.compile(whole, backend=watched)(*inputs())
    del watched
    pellucid.reset()
    gc.collect()
    assert not pellucid.events.wanted()


def test_F11_over_frames():
    watched = ExplainWithBackend("eager")
    pellucid.compile(whole, backend=watched)(*inputs())
    pellucid.compile(normalize, backend=watched)(torch.ones(2))
    assert (watched.output().graph_count, watched.output().op_count) == (2, 8)


def test_F11_unknown_backend():
    with pytest.raises(pellucid.errors.InvalidBackend):
        ExplainWithBackend("no such backend")


def test_F12_old_call_style():
    with pytest.warns(FutureWarning, match=r"explain\(f\)\(\*args, \*\*kwargs\)") as caught:
        output = pellucid.explain(whole, *inputs())
    assert output.graph_count == 1
    assert caught[0].filename == __file__


def test_html_is_complete_and_needs_nothing_else(tmp_path):
    output = pellucid.explain(toy)(*inputs())
    page = output.to_html(tmp_path / "report.html", title="toy <1>").read_text()
    assert "<h1>toy &lt;1&gt;</h1>" in page
    assert not re.search(r"https?://|src=|@import|url\(", page)
    assert "default-src 'none'" in page  # a browser would refuse to load anything
    for text in (
        "PEL0304",
        "a / add",
        "a.dtype == torch.float32 and a.shape == (3,) and not a.requires_grad",
        "float32[3]",
        "emit",
        f"{Path(__file__).name}:{toy.__code__.co_firstlineno + 3}",
    ):
        assert text in page


def test_regions_name_their_function_and_graph():
    regions = pellucid.explain(toy)(*inputs()).regions
    assert [(region.function.split(" ")[0], region.graph) for region in regions] == [("toy", 0), ("toy", 1)]
    assert all(
        set(region.milliseconds) == {"capture", "finish_graph", "guards", "graph_module", "backend", "emit"}
        for region in regions
    )
