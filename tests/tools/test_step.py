"""`pellucid step`: captures forward and back, instruction by instruction, at a prompt, from a script, as JSON and as a page."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import torch
from playwright.sync_api import sync_playwright

import pellucid
from pellucid._step.record import Recorder
from support import browser as browsers

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = textwrap.dedent(
    """\
    import torch


    def inner(x, n):
        z = x.sin()
        return z * n


    def f(x, n):
        y = inner(x, n)
        print("in between")
        return inner(y, n) + 1


    if __name__ == "__main__":
        compiled = torch.compile(f, backend="eager")
        compiled(torch.ones(3), 2)
    """
)


@pytest.fixture
def program(tmp_path):
    file = tmp_path / "walked.py"
    file.write_text(PROGRAM)
    return file


def run(program, *arguments, **options):
    command = [sys.executable, "-m", "pellucid", "step", *arguments]
    return subprocess.run(command, cwd=program.parent, capture_output=True, text=True, **options)


def scaled(x, n):
    total = x
    for i in range(n):
        total = total + half(x, i)
    return total


def half(x, i):
    doubled = x * i
    return doubled / 2


def broken(x):
    y = half(x, 3)
    pellucid.graph_break("here")
    return half(y, 5).sum()


def opnames(steps):
    return [steps.instruction(number).split()[0] for number in range(len(steps))]


def test_a_call_gives_what_eager_gives_and_every_instruction_once():
    x = torch.ones(3)
    steps = pellucid.step(scaled, x, 2)
    assert torch.equal(steps.result, scaled(x, 2))
    (capture,) = steps.captures
    assert (capture.first, capture.last, capture.end) == (0, len(steps) - 1, "region")
    names = opnames(steps)
    assert names.count("RESUME") == 3  # of the function, and of each call of the inner one
    assert names.count("BINARY_OP") == 2 * 3
    finished = steps.graph(len(steps) - 1)
    assert finished[-1].startswith("    return (") and sum("operator." in line for line in finished) == 2 * 3


def test_the_stack_and_the_variables_are_those_before_the_instruction():
    steps = pellucid.step(half, torch.ones(3), 3)
    at = opnames(steps).index("BINARY_OP")
    frame = steps[at].frame
    assert frame.stack == ("Tensor(float32[3], cpu)", "3")  # nothing has used it, so no node gives it yet
    assert dict(frame.locals) == {"x": "Tensor(float32[3], cpu)", "i": "3"}
    stored = opnames(steps).index("STORE_FAST")
    assert stored == at + 1 and steps[stored].frame.stack == ("%mul: Tensor(float32[3], cpu)",)
    assert "doubled" not in dict(steps[stored].frame.locals)
    assert dict(steps[stored + 1].frame.locals)["doubled"] == "%doubled: Tensor(float32[3], cpu)"


def test_graph_and_guards_grow_where_they_are_made():
    steps = pellucid.step(half, torch.ones(3), 3)
    at = opnames(steps).index("BINARY_OP")
    before, behind = steps.graph(at), steps.graph(at + 1)
    assert not any("mul" in line for line in before) and "operator.mul" in behind[-1]
    named = steps.graph(at + 2)[-1]  # the variable names the node, where it is stored
    assert named.lstrip().startswith("%doubled ") and not behind[-1].lstrip().startswith("%doubled ")
    counts = [len(steps.guards(number)) for number in range(len(steps) - 1)]
    assert counts == sorted(counts) and counts[0] < counts[-1]
    assert any("L['i']" in line for line in steps.guards(len(steps) - 1))


def test_frames_of_inlined_calls():
    steps = pellucid.step(scaled, torch.ones(3), 2)
    inside = next(n for n in range(len(steps)) if steps.codes[steps[n].frame.code].name == "half")
    names = [steps.codes[frame.code].name for frame in steps.frames(inside)]
    assert names == ["half", "scaled"]
    assert steps.source(steps.frames(inside)[1]) == "total = total + half(x, i)"
    last = steps.frames(len(steps) - 1)
    assert [steps.codes[frame.code].name for frame in last] == ["scaled"]


def test_a_graph_break_ends_one_capture_and_the_next_goes_on_behind_it():
    x = torch.ones(3)
    steps = pellucid.step(broken, x)
    assert torch.equal(steps.result, broken(x))
    first, second = steps.captures
    assert (first.end, second.end) == ("break", "region")
    assert first.why[0].startswith("PEL0303 ExplicitBreak") and "here" in first.why[0]
    assert first.name.startswith("__compiled_fn_") and second.name.startswith("__resume_at_")
    assert not first.begins_at and second.begins_at
    assert steps.source(steps[first.last].frame) == 'pellucid.graph_break("here")'
    assert steps[second.first].frame.offset > steps[first.last].frame.offset
    assert "y" in dict(steps[second.first].frame.locals)


def test_a_break_inside_of_a_call_goes_on_with_both_frames_open():
    def inner(x):
        y = x * 2
        pellucid.graph_break()
        return y + 1

    def outer(x):
        held = x.cos()
        return inner(held) * held

    x = torch.ones(3)
    steps = pellucid.step(outer, x)
    assert torch.equal(steps.result, outer(x))
    second = steps.captures[-1]
    frames = steps.frames(second.first)
    assert [steps.codes[frame.code].name.rpartition(".")[2] for frame in frames] == ["inner", "outer"]
    assert "held" in dict(frames[1].locals)
    assert len(steps.frames(second.last)) == 1


def test_what_is_captured_once_more_is_told_as_such():
    def backend(gm, example_inputs):
        if any(not isinstance(one, torch.Tensor) for one in example_inputs):
            raise RuntimeError("tensors only")
        return gm.forward

    def f(x, n):
        return x * n

    x = torch.ones(3)
    compiled = pellucid.compile(f, backend=backend)
    recorder = Recorder(lambda started: started.function is f)
    with recorder.listening() as steps:
        results = [compiled(x, 2), compiled(x, 3)]
    assert all(torch.equal(result, f(x, n)) for result, n in zip(results, (2, 3), strict=True))
    assert [capture.end for capture in steps.captures] == ["region", "restart", "region"]
    again = steps.captures[1]
    assert again.why == ("the backend does not compile for numbers that stay open",) and again.name == ""
    assert any("L['n']" in line for line in steps.graph(again.last))  # the number was open, and is not in the next one
    assert not any("L['n']" in line for line in steps.graph(steps.captures[2].last))


def test_code_of_other_compiled_functions_is_not_recorded():
    other = pellucid.compile(lambda x: x + 1, backend="eager")

    def f(x):
        return x * 2

    x = torch.ones(3)
    steps = pellucid.step(lambda x: (f(x), pellucid.graph_break(), other(x))[0], x)
    assert torch.equal(steps.result, f(x))
    assert all(capture.function.endswith("<lambda>") for capture in steps.captures)


def test_what_cannot_be_called_is_refused():
    with pytest.raises(TypeError, match=r"pellucid\.step needs a callable, not int"):
        pellucid.step(3)


def test_a_recording_disturbs_no_capture():
    def f(x, items):
        items.append(x.sin())
        return sum(items) + len(items)

    x, eager, stepped = torch.ones(3), [torch.ones(3)], [torch.ones(3)]
    steps = pellucid.step(f, x, stepped)
    assert torch.equal(steps.result, f(x, eager)) and len(stepped) == len(eager) == 2
    assert [capture.end for capture in steps.captures] == ["region"]


def test_the_page_of_the_documentation_tells_what_is_printed(tmp_path):
    text = (ROOT / "docs/step.md").read_text()
    (program,) = re.findall(r"<!-- program walked.py -->\n```python\n(.*?)```", text, re.S)
    (tmp_path / "walked.py").write_text(program)
    (shown,) = re.findall(r"```text\n\$ python -m pellucid step (.*?)```", text, re.S)
    command, _, told = shown.partition("\n")
    done = run(tmp_path / "walked.py", *shlex.split(command))
    printed = done.stdout.splitlines()
    for line, wanted in zip(printed, told.splitlines(), strict=True):
        assert line.startswith(wanted.removesuffix("…"))


# ---- the commands


def said(capsys, steps, commands):
    steps.prompt(commands)
    return capsys.readouterr().out


def test_forward_and_back(capsys):
    steps = pellucid.step(half, torch.ones(3), 3)
    out = said(capsys, steps, "n; n 2; p; back 2; p; goto 4; goto 1000; goto end; n")
    places = [line.split("]")[0][1:] for line in out.splitlines() if line.startswith("[")]
    assert places == ["0", "1", "3", "2", "0", "4", str(len(steps) - 1)]
    assert "this is the first step" in out and "this is the last step" in out
    assert f"there is no step 1000; the last one is {len(steps) - 1}" in out


def test_lines_calls_and_captures(capsys):
    steps = pellucid.step(broken, torch.ones(3))
    out = said(capsys, steps, "line; line; over; line back; c; c back; capture; capture 1; out; goto 8; out")
    assert "y = half(x, 3)" in out and "doubled = x * i" in out
    assert "[0] capture 0 of 2" in out and f"[{steps.captures[1].first}] capture 1 of 2" in out
    assert "nothing is around this function" in out


def test_breakpoints(capsys):
    steps = pellucid.step(scaled, torch.ones(3), 2)
    line = half.__code__.co_firstlineno + 2
    out = said(capsys, steps, f"break {line}; break half; break nowhere; break; c; c; c; c; c")
    assert f"breakpoint at {line}" in out and "no step is at nowhere" in out
    stops = [text for text in out.splitlines() if text.startswith("[")][1:]
    assert [text.partition(": ")[2] for text in stops] == [
        "def half(x, i):",
        "return doubled / 2",
        "def half(x, i):",
        "return doubled / 2",
        "return total",
    ]


def test_what_made_a_node_and_a_guard(capsys):
    steps = pellucid.step(half, torch.ones(3), 3)
    out = said(capsys, steps, "node doubled; node nothing; guard L['i']; guard")
    assert "STORE_FAST" in out and "there is no node nothing" in out and "guard needs a text" in out


def test_parts_and_help(capsys):
    steps = pellucid.step(broken, torch.ones(3))
    out = said(capsys, steps, "goto 6; stack; locals; graph; guards; frames; why; h; dance; n x; over 2; q; n")
    for words in ("stack:", "locals:", "graph():", "guards:", "frames:", "PEL0303", "to remove it:", "goto N"):
        assert words in out
    assert "there is no command 'dance'; h tells which there are" in out
    assert "it needs a number, not 'x'" in out
    assert out.rstrip().endswith("not '2'")  # nothing is done behind q


def test_nothing_captured(capsys):
    with pellucid.set_stance("force_eager"):
        steps = pellucid.step(half, torch.ones(3), 1)
    assert torch.equal(steps.result, half(torch.ones(3), 1)) and len(steps) == 0
    assert said(capsys, steps, "n") == "nothing was captured\n"


# ---- the command line


def test_a_script_with_commands(program):
    done = run(program, "walked.py", "--commands", "n; n; node z; stack; c; c; why; q")
    assert done.returncode == 0, done.stderr
    assert "== capture 0 of 2" in done.stdout and "in between" in done.stderr
    assert "PEL" in done.stdout and "walked.py:11" in done.stdout


def test_commands_come_from_the_standard_input_and_its_end_is_the_end(program):
    done = run(program, "walked.py:f", "--args", "torch.ones(3), 2", input="n\nn; locals\n")
    assert done.returncode == 0, done.stderr
    assert "[2] " in done.stdout and "x = " in done.stdout
    assert run(program, "walked.py", stdin=subprocess.DEVNULL).returncode == 0


def test_json_of_all_and_of_one_step(program):
    arguments = ("walked.py:f", "--args", "torch.ones(3), 2", "--json")
    whole = json.loads(run(program, *arguments).stdout)
    assert whole["version"] == 1 and len(whole["captures"]) == 2
    at = whole["captures"][0]["last"]
    one = json.loads(run(program, *arguments, "--at", str(at)).stdout)
    assert one["steps"] == len(whole["steps"]) and one["end"] == "break"
    assert one["frames"][0]["line"] == 11 and one["frames"][0]["source"] == 'print("in between")'
    assert any("operator.mul" in line for line in one["graph"]) and one["guards"]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("nothing.py",), "is not of the form file.py:function"),
        (("walked.py:g",), "defines no function 'g'; it defines inner, f"),
        (("walked.py", "--args", "1"), "--args needs a function"),
        (("walked.py:f", "--args", "torch.ones(3), 2", "--at", "9999"), "there is no step 9999"),
        (("walked.py:f", "--args", "torch.ones(3), 2", "--page", "no/where.html"), "cannot write 'no/where.html'"),
    ],
)
def test_what_is_wrong_with_the_command_line(program, arguments, why):
    done = run(program, *arguments)
    assert done.returncode == 2 and why in done.stderr


def test_exit_status_of_a_program_that_fails_or_captures_nothing(program):
    done = run(program, "walked.py:f", "--args", "torch.ones(3), 'no'", "--commands", "q")
    assert done.returncode == 1 and "TypeError" in done.stderr
    program.write_text("print('nothing')\n")
    done = run(program, "walked.py")
    assert done.returncode == 1 and "nothing was captured" in done.stderr


def test_a_limit_is_told(program):
    done = run(program, "walked.py", "--limit", "10", "--commands", "goto end")
    assert "only the first 10 steps were kept" in done.stderr and "[10] " in done.stdout


# ---- the page


@pytest.mark.slow
def test_the_page_goes_forward_and_back_by_keys(tmp_path):
    steps = pellucid.step(broken, torch.ones(3))
    file = tmp_path / "steps.html"
    steps.to_html(file, "broken </script> & more")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browsers.find())
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        problems, requests = [], []
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
        page.on("request", lambda made: requests.append(made.url))
        page.goto(file.as_uri())

        def shown(name):
            return page.locator(f"#{name}").inner_text()

        assert "broken </script> & more" in page.locator("h1").inner_text()
        assert shown("number") == f"step 0 of {len(steps) - 1}"
        for at in range(1, len(steps)):
            page.keyboard.press("ArrowRight")
            assert shown("number").startswith(f"step {at} ")
            assert shown("graph").split() == " ".join(steps.graph(at)).split()
            assert shown("guards").split() == " ".join(steps.guards(at)).split()
            assert steps.source(steps[at].frame) in shown("place")
            stack = [f"{index}: {value}" for index, value in enumerate(steps[at].frame.stack)]
            assert shown("stack").split() == " ".join(reversed(stack)).split()
            (here,) = page.locator("#bytecode .here").all_inner_texts()
            assert steps[at].is_end or steps.instruction(at).split()[0] in here
        page.keyboard.press("ArrowRight")
        assert shown("number") == f"step {len(steps) - 1} of {len(steps) - 1}"
        for at in reversed(range(len(steps) - 4, len(steps) - 1)):
            page.keyboard.press("ArrowLeft")
            assert shown("number").startswith(f"step {at} ")
        page.keyboard.press("Home")
        page.keyboard.press("ArrowDown")
        assert "y = half(x, 3)" in shown("place")
        page.keyboard.press("ArrowUp")
        assert shown("number").startswith("step 0 ")
        page.keyboard.press("PageDown")
        assert shown("number").startswith(f"step {steps.captures[1].first} ")
        page.goto(file.as_uri() + f"#{steps.captures[0].last}")
        page.reload()
        assert "PEL0303" in shown("end") and page.locator("#end").is_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= 1280
        assert problems == [] and set(request.partition("#")[0] for request in requests) == {file.as_uri()}
        browser.close()
