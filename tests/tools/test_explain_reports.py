"""What the reports of `explain` say: guards as Python, the source line by line, sizes and FLOPs, recompiles, the command."""

from __future__ import annotations

import ast
import dataclasses
import html
import json
import re
import subprocess
import sys

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

import pellucid
from pellucid.__main__ import main
from pellucid._explain.facts import facts_of
from pellucid._explain.guard_text import python_of
from support import Counting

SCALE = 2


def explained(function, *calls, **settings):
    """The report of several calls."""
    watched = pellucid.ExplainWithBackend("eager")
    compiled = pellucid.compile(function, backend=watched, **settings)
    for call in calls:
        compiled(*call)
    return watched.output()


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU())
        self.options = {"factor": 3}

    def forward(self, x, mode="train"):
        y = self.layers(x) * SCALE
        if mode == "train":
            y = y + self.options["factor"]
        return y


# ---- guards


@pytest.mark.parametrize(
    ("kind", "source", "text", "python"),
    [
        ("EQUALS_MATCH", "L['k']", "2", "k == 2"),
        ("EQUALS_MATCH", "L['k']", "True", "k is True"),
        ("EQUALS_MATCH", "G['G']", "1", "G == 1"),
        ("TYPE_MATCH", "G", "type dict", "type(globals()) is dict"),
        ("LENGTH", "L['xs']", "length 3", "len(xs) == 3"),
        ("TYPE_MATCH", "L['xs']", "type list", "type(xs) is list"),
        ("TENSOR_MATCH", "L['x']", "f32[*, 4] cpu requires_grad=False",
         "x.dtype == torch.float32 and x.ndim == 2 and x.shape[1] == 4 and not x.requires_grad"),
        ("TENSOR_MATCH", "L['x']", "i64[] cuda:0 requires_grad=False",
         "x.dtype == torch.int64 and x.shape == () and str(x.device) == 'cuda:0' and not x.requires_grad"),
        ("DICT_CONTAINS", "L['d']", "no key 'a'", "'a' not in d"),
        ("HAS_ATTR", "L['self']", "no instance attribute 'a'", "'a' not in vars(self)"),
        ("CONDITION", "", "L['x'].size(0) >= 3", "x.size(0) >= 3"),
        ("NO_FINALIZER", "L['x']", "an object that runs nothing when it goes", "x  # an object that runs nothing when it goes"),
    ],
)  # fmt: skip
def test_guards_as_python(kind, source, text, python):
    assert python_of(kind, source, text) == python


def test_all_guards_of_programs_are_python():
    def broken(x, xs):
        y = torch.relu(x) + len(xs) + xs[0]
        print("in between")
        return y.sum() * SCALE

    outputs = [
        explained(Model(), (torch.ones(2, 4),), (torch.ones(3, 4),), (torch.ones(3, 4), "eval")),
        explained(broken, (torch.ones(2), [1, 2]), (torch.ones(5), [1, 2])),
    ]
    for output in outputs:
        guards = facts_of(output).guards
        assert len({guard.python for guard in guards}) == len(guards) > 20  # each once
        for guard in guards:
            ast.parse(guard.python)
            assert not re.search(r"\b[LGFC]\[", guard.python), guard
    assert "mode == 'eval'" in [guard.python for guard in facts_of(outputs[0]).guards]


def test_guards_about_values_hold_for_the_call_that_made_them():
    def program(x, xs, options):
        return torch.relu(x) * SCALE + len(xs) + options["a"] + x.shape[0]

    x, xs, options = torch.ones(2, 3), [1, 2], {"a": 4}
    guards = [guard for guard in facts_of(explained(program, (x, xs, options))).guards if guard.of_values]
    assert {"SCALE == 2", "len(xs) == 2", "options['a'] == 4"} <= {guard.python for guard in guards}
    for guard in guards:
        assert eval(guard.python, {**globals(), "x": x, "xs": xs, "options": options}) is True, guard
    assert not eval(guards[0].python, {**globals(), "x": torch.ones(3, 3), "xs": xs, "options": options})


# ---- source


def test_each_line_says_what_became_of_it():
    def program(x, k):
        y = x.sin() * k
        print("between")
        if k > 100:
            y = y * 2
        return y + 1

    output = explained(program, (torch.ones(3), 1), (torch.ones(3), 2.5))
    (function,) = [one for one in output.details.sources if not one.library]
    assert function.name.endswith("program")
    states = {line.text.strip(): line.states for line in function.lines}
    assert states["y = x.sin() * k"] == ["captured", "recompiled"]
    assert states['print("between")'] == ["broken"]
    assert "captured" in states["return y + 1"]
    assert states["y = y * 2"] == []
    notes = {line.text.strip(): line.notes for line in function.lines}
    assert notes['print("between")'] == ["break: print() has an effect outside of the program"]
    assert any(note.startswith("compiled again: k") for note in notes["y = x.sin() * k"])


def test_lines_of_a_function_that_ran_eagerly_because_of_a_break_are_eager():
    def program(x):
        y = x * 2
        print("here")
        # no code

        return y + 1

    with pellucid.config.patch(continue_after_break=False):
        output = pellucid.explain(program)(torch.ones(3))
    assert (output.graph_count, len(output.break_reasons)) == (0, 1)
    (function,) = [one for one in output.details.sources if not one.library]
    assert [line.states for line in function.lines] == [["captured"], ["eager"], ["broken"], [], [], ["eager"]]


def test_lines_of_a_function_that_raised_because_of_a_break_did_not_run():
    def program(x):
        y = x * 2
        print("here")
        return y + 1

    watched = pellucid.ExplainWithBackend("eager")
    with pytest.raises(pellucid.errors.Unsupported):
        pellucid.compile(program, backend=watched, fullgraph=True)(torch.ones(3))
    (function,) = watched.output().details.sources
    assert [line.states for line in function.lines] == [[], [], ["broken"], []]


def test_lines_have_the_time_that_capture_took_there():
    def program(x):
        for _ in range(200):
            x = x + 1
        return x.relu()

    def times_of(output):
        (function,) = [one for one in output.details.sources if not one.library]
        return {line.text.strip(): line.milliseconds for line in function.lines}

    outputs = [pellucid.explain(program)(torch.ones(3)) for _ in range(3)]  # the machine may be busy in one of them
    least = {text: min(times_of(output)[text] for output in outputs) for text in times_of(outputs[0])}
    assert least["x = x + 1"] > least["return x.relu()"] > 0
    for facts in map(facts_of, outputs):
        assert facts.line_times[0].milliseconds == max(line.milliseconds for line in facts.line_times)
        assert sum(line.milliseconds for line in facts.line_times) <= facts.milliseconds


def test_explain_works_while_somebody_takes_the_time_of_lines():
    with pellucid.profile_compiles() as profile:
        output = pellucid.explain(lambda x: x + 1)(torch.ones(3))
    assert output.graph_count == 1 and profile.spans
    assert facts_of(output).line_times == []


# ---- graphs


def test_lines_of_a_graph_have_names_and_sizes_of_the_program():
    graph = facts_of(pellucid.explain(Model())(torch.ones(2, 4))).graphs[0]
    lines = {line.name: line for line in graph.report.lines}
    assert lines["x"].value == "float32[2, 4]" and lines["x"].kind == "input"
    assert lines["self.layers[0].weight"].value == "float32[8, 4]"
    product = next(line for line in graph.report.lines if "self.layers[0].weight" in line.code)
    assert product.code.startswith("torch.") and "(x, self.layers[0].weight, self.layers[0].bias)" in product.code
    assert (product.value, product.flops, product.function) == ("float32[2, 8]", 2 * 2 * 4 * 8, "forward")
    assert graph.place.file == __file__ and graph.place.function == "Model.forward"
    assert len({line.name for line in graph.report.lines}) == len(graph.report.lines)


@pytest.mark.parametrize("size", [2, 5])
def test_flops_are_those_of_a_real_run(size):
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = torch.nn.Conv2d(3, 4, 3)
            self.attention = torch.nn.MultiheadAttention(16, 2, batch_first=True)

        def forward(self, x):
            y = self.conv(x).flatten(2)
            y = y @ y.transpose(1, 2)
            z = torch.nn.functional.scaled_dot_product_attention(y, y, y)
            return z.relu() + torch.einsum("bij,bjk->bik", y, y)

    net = Net()
    x = torch.randn(size, 3, 8, 8)
    with FlopCounterMode(display=False) as counter:
        net(x)
    graphs = facts_of(explained(net, (torch.randn(3, 3, 8, 8),), (x,))).graphs
    assert len(graphs) == 2
    assert graphs[1].report.flops == counter.get_total_flops() > 0
    assert size in graphs[1].report.sizes.values()


def test_counting_flops_runs_no_code_of_the_program_and_leaves_no_trace():
    ran = []

    @pellucid.allow_in_graph
    def mine(x):
        ran.append(1)
        return x + 1

    torch.manual_seed(0)
    expected = torch.rand(1)
    output = pellucid.explain(lambda x: torch.nn.functional.dropout(mine(x) @ x, 0.5))(torch.ones(3, 3))
    before = len(ran)
    torch.manual_seed(0)
    assert facts_of(output).graphs[0].report.flops == 2 * 27
    assert len(ran) == before and torch.equal(torch.rand(1), expected)


def test_bytes_of_a_graph():
    report = facts_of(pellucid.explain(Model())(torch.ones(2, 4))).graphs[0].report
    assert report.input_bytes == 4 * (2 * 4 + 8 * 4 + 8)
    assert report.output_bytes == 4 * 2 * 8


# ---- recompiles


def test_a_size_that_changes_is_one_cause_for_all_parts():
    def program(x):
        y = x * 2
        print("one")
        y = y + 1
        print("two")
        return y.sum()

    told = facts_of(explained(program, (torch.ones(3),), (torch.ones(4),)))
    (cause,) = told.causes
    assert [change.text for change in cause.first.changes] == ["x.size(0): 3 → 4"]
    assert cause.first.changes[0].advice.startswith("pellucid.mark_dynamic(x, 0)")
    assert len(cause.along) == 2 and len(told.recompiles) == 3


def test_a_recompile_behind_a_break_alone_is_a_cause_of_its_own():
    def program(x, mode):
        y = x * 2
        print("one")
        return y + 1 if mode == "a" else y

    told = facts_of(explained(program, (torch.ones(3), "a"), (torch.ones(3), "b")))
    (cause,) = told.causes
    assert cause.first.goes_on and cause.first.changes[0].text == "mode: 'a' → 'b'"
    assert cause.first.place.source == 'print("one")'  # where that part begins
    assert cause.first.changes[0].place.source.startswith("return y + 1")


def test_arguments_of_a_module_have_the_names_of_its_forward():
    calls = [(torch.ones(2, 4), "train"), (torch.ones(2, 4), "eval"), (torch.ones(2, 4),)]
    texts = [
        [change.text for change in cause.first.changes] + [change.advice for change in cause.first.changes]
        for cause in facts_of(explained(Model(), *calls)).causes
    ]
    assert texts[0][0] == "mode: 'train' → 'eval'"
    assert texts[1][0] == "positional arguments: length 2 → length 1" and "by position" in texts[1][-1]


# ---- layouts


def test_all_layouts_say_the_same(tmp_path):
    def program(x):
        y = x.sin()
        print("here")
        return y + 1

    output = explained(program, (torch.ones(3),), (torch.ones(4),))
    data = json.loads(json.dumps(output.to_dict()))
    text = output.text()
    page = output.to_html(tmp_path / "page.html").read_text()
    assert (data["version"], data["graph_count"], data["break_count"], data["recompile_count"]) == (1, 4, 1, 2)
    assert [one["along_with"] for one in data["recompiles"]] == [None, 0]
    assert text.startswith("4 graphs, 1 graph break, 1 recompile (and 1 along with them), ")
    (one,) = data["breaks"]
    for shown in (text, page):
        assert one["fix"] in shown and one["message"] in shown and "x.size(0): 3 → 4" in shown
        assert all(guard["python"] in html.unescape(shown) for guard in data["guards"])
    assert {line["text"].strip(): line["states"] for line in data["source"][0]["lines"]}['print("here")'] == ["broken"]


def test_every_link_of_a_page_leads_somewhere(tmp_path):
    """More breaks than the first screen has room for, a lambda, a dataclass whose code has no file, a module."""

    @dataclasses.dataclass
    class Pair:
        one: torch.Tensor

    def many(x):
        for word in ("a", "b"):
            print(word)
        print(1), print(2), print(3), print(4)
        x = x + x.sum().item()
        print(5)
        return Pair(x).one * 2

    for output in (
        explained(many, (torch.ones(3),), (torch.ones(4),)),
        pellucid.explain(lambda x: x + 1)(torch.ones(3)),
        pellucid.explain(Model())(torch.ones(2, 4)),
        pellucid.explain(many)(torch.ones(3)),
        pellucid.explain(lambda: 3)(),
    ):
        page = output.to_html(tmp_path / "page.html").read_text()
        ids = re.findall(r' id="([^"]*)"', page)
        assert len(ids) == len(set(ids))
        assert set(re.findall(r'href="#([^"]*)"', page)) <= set(ids)
        breaks = len(output.break_reasons)
        assert (f"{breaks - 5} more below" in page) == (breaks > 5)
    assert len(pellucid.explain(many)(torch.ones(3)).break_reasons) > 5


def test_parts_of_the_text():
    output = pellucid.explain(lambda x: x + 1)(torch.ones(3))
    assert output.text(["graphs"]).startswith("graph 1: ")
    with pytest.raises(ValueError, match="there is no part 'graph'; the parts are summary, source, graphs, guards"):
        output.text(["graph"])


def test_nothing_captured():
    output = pellucid.explain(lambda: 3)()
    assert output.text(["summary"]).startswith("no graphs, no graph breaks, no recompiles")
    assert output.to_dict()["graph_count"] == 0


def test_nothing_is_captured_twice_for_a_report():
    counting = Counting()
    watched = pellucid.ExplainWithBackend(counting)
    pellucid.compile(Model(), backend=watched)(torch.ones(2, 4))
    captures = pellucid.counters()["captures"]
    watched.output().text()
    watched.output().to_dict()
    assert pellucid.counters()["captures"] == captures and len(counting.graphs) == 1


# ---- the command

PROGRAM = """\
import torch


def f(x, k=1):
    y = x * k
    print("in between")
    return y.sum()


def never(x):
    return x


if __name__ == "__main__":
    f(torch.ones(3))
    f(torch.ones(4))
"""


@pytest.fixture
def command(tmp_path, monkeypatch, capsys):
    """Runs `pellucid explain` here, in a folder with the program: exit status, standard output, standard error."""
    (tmp_path / "program.py").write_text(PROGRAM)
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> tuple[int, str, str]:
        try:
            status = main(["explain", *arguments])
        except SystemExit as end:
            status = end.code
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return run


def test_command_runs_the_file(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    line = [sys.executable, "-m", "pellucid", "explain", "program.py:f"]
    done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0
    assert done.stdout.startswith("4 graphs, 1 graph break, 1 recompile")
    assert done.stderr.count("in between") == 2 and "in between" not in done.stdout.replace('print("in between")', "")
    for part in ("x.size(0): 3 → 4", "where the time went", "  X ", "graph 4: f, program.py:7", "y.sum()"):
        assert part in done.stdout, part


def test_command_with_calls(command):
    _, out, _ = command("program.py:f", "--args", "torch.ones(3)", "--args", "torch.ones(3), k=2", "--json")
    report = json.loads(out)
    assert (report["graph_count"], report["recompile_count"]) == (3, 1)
    assert report["recompiles"][0]["changes"][0]["text"].startswith("k: 1 → 2")


def test_command_writes_a_page(command, tmp_path):
    status, out, error = command("program.py:f", "--html", "page.html")
    assert status == 0 and (tmp_path / "page.html").read_text().startswith("<!doctype html>")
    assert f"The page is {(tmp_path / 'page.html').as_uri()}" in error
    assert "graph 1:" not in out and out.startswith("4 graphs")


@pytest.mark.parametrize(
    ("arguments", "status", "error"),
    [
        (["program.py"], 2, "is not of the form file.py:function"),
        (["program.py:g"], 2, "defines no function 'g'; it defines f, never"),
        (["program.py:f", "--only", "graph"], 2, "there is no part 'graph'"),
        (["program.py:f", "--backend", "no such"], 2, "no such"),
        (["program.py:f", "--html", "no/such/folder.html"], 2, "cannot write 'no/such/folder.html'"),
        (["program.py:never"], 1, "nothing was compiled"),
        (["program.py:f", "--args", "3"], 1, "has no attribute 'sum'"),
        (["program.py:f", "--args", ""], 1, "missing 1 required positional argument"),
    ],
)
def test_command_says_what_is_wrong(command, arguments, status, error):
    found, _, told = command(*arguments)
    assert found == status and error in told


def test_command_has_help_with_examples(command):
    status, out, _ = command("--help")
    assert status == 0
    for part in ("--args", "--html", "--json", "--backend", "examples:", "exit status"):
        assert part in out
