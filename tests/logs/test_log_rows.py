"""Section G, row by row: what torch's log switches show of pellucid."""

import logging
import os
import re
import subprocess
import sys
import textwrap

import pytest
import torch

import pellucid

PROGRAM = """
import sys
import torch, pellucid

def inner(x):
    return x.sin() * 2

def f(x, seen):
    y = inner(x)
    seen.append(1)
    print("broken")
    return y + 1

compiled = pellucid.compile(f, backend=BACKEND)
compiled(torch.ones(3), [])
compiled(torch.ones(3, 4), [])
print("imported", "torch._dynamo" in sys.modules)
"""


def run(tmp_path, backend='"eager"', program=PROGRAM, **environment):
    """Standard output and error of the program in a process of its own."""
    file = tmp_path / "program.py"
    file.write_text(textwrap.dedent(program).replace("BACKEND", backend))
    clean = {name: value for name, value in os.environ.items() if not name.startswith("TORCH")}
    done = subprocess.run(
        [sys.executable, str(file)], env={**clean, **environment}, cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


class Kept(logging.Handler):
    def __init__(self):
        super().__init__(logging.DEBUG)
        self.records = []

    def emit(self, record):
        self.records.append(record)

    def texts(self, artifact=None):
        ending = f".__{artifact}" if artifact else ".pellucid"
        return [record.getMessage() for record in self.records if record.name.endswith(ending)]


@pytest.fixture
def logs():
    """set_logs, and what the loggers get."""
    kept = Kept()
    logger = logging.getLogger("torch._dynamo.pellucid")
    logger.addHandler(kept)

    def turn_on(**switches):
        torch._logging.set_logs(**switches)
        kept.records.clear()
        return kept

    yield turn_on
    torch._logging.set_logs()
    logger.removeHandler(kept)


def breaks(x):
    y = x.sin() * 2
    pellucid.graph_break("planted")
    return y + 1


def call(function, *arguments, backend="eager", **options):
    return pellucid.compile(function, backend=backend, **options)(*arguments)


def test_G01_info_shows_the_steps(logs, tmp_path):
    kept = logs(dynamo=logging.INFO)
    call(breaks, torch.ones(3))
    assert any("Step 1" in text for text in kept.texts()) and any("Step 2" in text for text in kept.texts())
    out, err = run(tmp_path, TORCH_LOGS="dynamo")
    assert "Step 1" in err and "Step 2" in err
    assert "imported False" in out


def test_G01_nothing_is_shown_when_it_is_off(logs):
    kept = logs()
    call(breaks, torch.ones(3))
    assert kept.records == [] and not pellucid.events.wanted()


def test_G02_the_step_that_began_last_names_what_failed(logs):
    def planted_backend(gm, inputs):
        raise ValueError("planted")

    kept = logs(dynamo=logging.INFO)
    call(lambda x: x + 1, torch.ones(3))
    steps = [text for text in kept.texts() if text.startswith("Step")]
    assert [re.sub(r"(starts|done|called).*", r"\1", step) for step in steps] == [
        "Step 1: pellucid starts",
        "Step 1: pellucid is done",
        "Step 2: the backend eager is called",
        "Step 2: the backend eager is done",
    ]
    kept.records.clear()
    with pytest.raises(pellucid.errors.BackendCompilerFailed):
        call(lambda x: x + 1, torch.ones(3), backend=planted_backend)
    assert "Step 2: the backend planted_backend is called" in kept.texts()[-1]


def helper(x):
    return x * 3


def calls_helper(x):
    return helper(x) + 1


def test_G03_every_instruction_with_the_stack(logs):
    kept = logs(dynamo=logging.DEBUG)
    call(calls_helper, torch.ones(3))
    lines = kept.texts("trace_bytecode")
    assert any(line.startswith("TRACE BINARY_OP *") and line.endswith("'3']") for line in lines)  # of the inlined one
    assert sum("RETURN_VALUE" in line for line in lines) == 2


def test_G04_four_levels_show_more_and_more(logs):
    counts = []
    for level in (logging.ERROR, logging.WARNING, logging.INFO, logging.DEBUG):
        kept = logs(dynamo=level)
        call(breaks, torch.ones(3))
        counts.append(len(kept.records))
    assert counts[0] == counts[1] == 0 < counts[2] < counts[3]
    assert kept.texts("graph_breaks") and kept.texts("graph_code") and kept.texts("trace_bytecode")
    assert not kept.texts("bytecode")


def test_G06_graph_code_is_made_only_when_it_is_on(logs, monkeypatch):
    kept = logs(graph_code=True)
    call(breaks, torch.ones(3))
    first, second = kept.texts("graph_code")
    assert "__compiled_fn_" in first and ".sin()" in first and "__resume_at_" in second
    made = []
    monkeypatch.setattr(torch.fx.GraphModule, "print_readable", lambda *args, **kwargs: made.append(1) or "")
    logs(guards=True)
    call(breaks, torch.ones(3))
    assert made == []


def test_G07_a_row_for_each_node(logs):
    kept = logs(graph=True)
    call(lambda x: x.sin() + x, torch.ones(3))
    (text,) = kept.texts("graph")
    rows = text.splitlines()[4:]
    assert [row.split()[0] for row in rows] == ["placeholder", "call_method", "call_function", "output"]


def test_G08_sizes(logs):
    kept = logs(graph_sizes=True)
    call(lambda x: x.sin(), torch.ones(3, 2))
    (text,) = kept.texts("graph_sizes")
    assert text.splitlines()[1:] == ["l_x_: (3, 2)", "sin: (3, 2)"]


def test_G08_open_sizes_have_a_second_line(logs):
    kept = logs(graph_sizes=True)
    call(lambda x: x.sin(), torch.ones(3, 2), dynamic=True)
    (text,) = kept.texts("graph_sizes")
    assert "sin (concrete): (3, 2)" in text and not re.search(r"sin: \(3, 2\)", text)


def product(x, w):
    return x.sin() * w


def test_G09_the_expression_is_underlined(logs):
    kept = logs(trace_call=True)
    call(product, torch.ones(3), torch.ones(3))
    called, multiplied = kept.texts("trace_call")

    def marked(text):
        line, marks = text.splitlines()[-2:]
        return line[marks.index("^") : len(marks)]

    assert marked(called) == "x.sin()" and marked(multiplied) == "x.sin() * w"


def test_G10_a_record_for_each_graph(tmp_path):
    run(tmp_path, TORCH_TRACE=str(tmp_path / "trace"))
    (file,) = (tmp_path / "trace").iterdir()
    records = [line for line in file.read_text().splitlines() if '"dynamo_output_graph"' in line]
    assert len(records) == 4 and '"l_x_": [3]' in records[0]


def test_G11_sources_of_inputs(logs):
    kept = logs(dynamo=logging.DEBUG)
    call(breaks, torch.ones(3))
    assert any(re.match(r"input l_x_ of __compiled_fn_\d+: L\['x'\]", text) for text in kept.texts())
    assert any(re.match(r"__compiled_fn_\d+ ends with a graph break", text) for text in kept.texts())


def test_G12_what_could_not_be_converted_is_reported(caplog):
    def fails(gm, inputs):
        raise ValueError("planted")

    with pellucid.config.patch(suppress_errors=True), caplog.at_level(logging.WARNING, "pellucid"):
        result = call(calls_helper, torch.ones(3), backend=fails)
    assert torch.equal(result, calls_helper(torch.ones(3)))
    assert "planted" in caplog.text and "calls_helper" in caplog.text and f"{__file__}:" in caplog.text


def test_G13_each_artifact_gives_its_part(tmp_path):
    _, err = run(tmp_path, TORCH_LOGS="graph_breaks,guards,recompiles,bytecode,side_effects")
    for artifact in ("graph_breaks", "guards", "recompiles", "bytecode", "side_effects"):
        assert f"[__{artifact}]" in err
    assert "[__graph_code]" not in err and "Step 1" not in err


def test_G15_G16_the_debug_directory(tmp_path):
    run(tmp_path, TORCH_COMPILE_DEBUG="1")
    (folder,) = (tmp_path / "torch_compile_debug").glob("run_*")
    assert re.fullmatch(r"run_\d{4}_\d\d_\d\d_\d\d_\d\d_\d\d_\d{6}-pid_\d+", folder.name)
    text = (folder / "torchdynamo" / "debug.log").read_text()
    assert "Step 1" in text and "Graph break in f" in text and "\x1b" not in text


def test_G15_the_place_can_be_chosen(tmp_path):
    run(tmp_path, TORCH_COMPILE_DEBUG="1", TORCH_COMPILE_DEBUG_DIR=str(tmp_path / "elsewhere"))
    (folder,) = (tmp_path / "elsewhere").rglob("run_*")
    assert (folder / "torchdynamo" / "debug.log").stat().st_size


def test_tlparse_makes_its_report(tmp_path):
    run(tmp_path, TORCH_TRACE=str(tmp_path / "trace"))
    (file,) = (tmp_path / "trace").iterdir()
    tlparse = os.path.join(os.path.dirname(sys.executable), "tlparse")
    done = subprocess.run(
        [tlparse, str(file), "-o", str(tmp_path / "report"), "--no-browser", "--strict"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    found = {str(path.relative_to(tmp_path / "report")) for path in (tmp_path / "report").rglob("*.*")}
    first = {re.sub(r"_\d+\.\w+$", "", name) for name in found if name.startswith("-_0_0_-")}
    for name in ("dynamo_output_graph", "dynamo_guards", "dynamo_graph_break_reason", "compilation_metrics"):
        assert f"-_0_0_-/{name}" in first
    again = {re.sub(r"_\d+\.\w+$", "", name) for name in found if name.startswith("-_0_1_-")}
    assert "-_0_1_-/recompile_reasons" in again and "-_0_1_-/dynamo_output_graph" in again
    index = (tmp_path / "report" / "index.html").read_text()
    assert "[0/0]" in index and "[0/1]" in index and "program.py" in index
