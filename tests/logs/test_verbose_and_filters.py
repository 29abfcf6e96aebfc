"""Rows of section G beside the log switches: verbose errors, one function alone, telemetry, Inductor's files."""

import logging
import os
import re
import subprocess
import sys

import pytest
import torch
from test_log_rows import call, logs, run  # noqa: F401 (a fixture)

import pellucid


def stops(x):
    y = x + 1
    pellucid.graph_break("planted")
    return y


def fails(gm, inputs):
    raise ValueError("planted")


def message_of(kind, *arguments, **options):
    with pytest.raises(kind) as raised:
        call(*arguments, **options)
    return str(raised.value)


def test_G05_an_error_has_the_internal_stack_when_asked():
    brief = message_of(pellucid.errors.Unsupported, stops, torch.ones(3), fullgraph=True)
    assert "from user code:" in brief and "internal stack" not in brief and "src/" not in brief
    with pellucid.config.patch(verbose=True):
        full = message_of(pellucid.errors.Unsupported, stops, torch.ones(3), fullgraph=True)
    user, internal = full.split("internal stack:\n")
    assert 'pellucid.graph_break("planted")' in user
    assert re.search(r"^  stops at offset \d+: CALL", internal, re.M)
    assert re.search(r"^  src/rows/\w+\.cpp:\d+ in .*explicit_break", internal, re.M)


def test_G05_the_stack_of_a_backend():
    brief = message_of(pellucid.errors.BackendCompilerFailed, lambda x: x + 1, torch.ones(3), backend=fails)
    assert "Traceback" not in brief
    with pellucid.config.patch(verbose=True):
        full = message_of(pellucid.errors.BackendCompilerFailed, lambda x: x + 1, torch.ones(3), backend=fails)
    assert "from user code:" in full and re.search(r"internal stack:\nTraceback.*in fails\n", full, re.S)
    assert "pellucid/backends/call.py" in full


VERBOSE = """
import torch, pellucid

def f(x):
    pellucid.graph_break()
    return x + 1

INSTALL
try:
    COMPILE(f, backend="eager", fullgraph=True)(torch.ones(3))
except Exception as error:
    print("internal stack:\\n" in str(error))
"""


def test_G05_torchs_own_switches(tmp_path):
    program = VERBOSE.replace("COMPILE", "pellucid.compile").replace("INSTALL", "")
    assert run(tmp_path, program=program)[0] == "False\n"
    assert run(tmp_path, program=program, TORCHDYNAMO_VERBOSE="1")[0] == "True\n"
    installed = VERBOSE.replace("COMPILE", "torch.compile")
    install = "pellucid.install()\nimport torch._dynamo\ntorch._dynamo.config.verbose = True"
    assert run(tmp_path, program=installed.replace("INSTALL", install))[0] == "True\n"


ONE_FUNCTION = """
import torch, pellucid
names = []

def backend(gm, inputs):
    names.append(gm.compile_subgraph_reason.user_stack[0].name)
    return gm.forward

def inner(x):
    return x.sin() + 1

def outer(x):
    return inner(x.cos()) * 2

x = torch.ones(3)
assert torch.equal(pellucid.compile(outer, backend=backend)(x), outer(x))
print(names)
"""


def test_G14_only_the_function_of_that_name(tmp_path):
    assert run(tmp_path, program=ONE_FUNCTION)[0] == "['outer']\n"
    assert run(tmp_path, program=ONE_FUNCTION, TORCHDYNAMO_DEBUG_FUNCTION="inner")[0] == "['inner']\n"
    assert run(tmp_path, program=ONE_FUNCTION, TORCHDYNAMO_DEBUG_FUNCTION="other")[0] == "[]\n"


def test_G14_it_is_read_at_each_compile(monkeypatch):
    graphs = []

    def backend(gm, inputs):
        graphs.append(gm)
        return gm.forward

    compiled = pellucid.compile(lambda x: x + 1, backend=backend)
    monkeypatch.setenv("TORCHDYNAMO_DEBUG_FUNCTION", "other")
    compiled(torch.ones(3))
    assert graphs == []
    monkeypatch.setenv("TORCHDYNAMO_DEBUG_FUNCTION", "<lambda>")
    compiled(torch.ones(3))
    assert len(graphs) == 1


class Module(torch.nn.Module):
    def forward(self, x, unused):
        return x.sin() * 2 + 0 * unused.size(0)


def test_G10_the_telemetry_hook_is_told_of_each_graph(monkeypatch):
    told = []
    monkeypatch.setattr(torch._utils_internal, "signpost_event", lambda *arguments: told.append(arguments))
    call(Module(), torch.ones(3), torch.ones(2), backend="aot_eager")
    ((category, name, facts),) = told
    assert (category, name) == ("dynamo", "OutputGraph.call_user_compiler")
    code = Module.forward.__code__
    assert facts == {
        "co_name": "forward",
        "co_filename": code.co_filename,
        "co_firstlineno": code.co_firstlineno,
        "op_count": 3,
        "node_count": 5,
        "input_count": 1,
    }
    with pytest.raises(pellucid.errors.BackendCompilerFailed):
        call(lambda x: x + 1, torch.ones(3), backend=fails)
    assert len(told) == 1


def test_G10_torchs_own_hook_logs(caplog):
    with caplog.at_level(logging.INFO, logger="torch._utils_internal"):
        call(Module(), torch.ones(3), torch.ones(2), backend="aot_eager")
    assert ["OutputGraph.call_user_compiler" in text for text in caplog.messages].count(True) == 1


def details(logs, function, *arguments, **options):  # noqa: F811
    kept = logs(dynamo=logging.DEBUG)
    call(function, *arguments, **options)
    return kept.texts()


def test_G11_symbols_and_inputs_that_nothing_needs(logs):  # noqa: F811
    tensors = torch.ones(3), torch.ones(5)
    lines = details(logs, lambda x, y: x * (y.size(0) + 1), *tensors, dynamic=True, backend="aot_eager")
    assert any(re.match(r"symbol s\d+ of __compiled_fn_\d+: L\['y'\]\.size\(0\), 5 in this call", t) for t in lines)
    lines = details(logs, lambda x, y: x * (y.size(0) + 1), *tensors, dynamic=True)  # that takes numbers
    assert any(re.match(r"input \w+ of __compiled_fn_\d+: L\['y'\]\.size\(0\), 5 in this call", t) for t in lines)
    lines = details(logs, Module(), torch.ones(3), torch.ones(2))
    assert any(re.match(r"unused input of __compiled_fn_\d+, .*: L\['args'\]\[1\]", text) for text in lines)


def test_G11_assertions(logs):  # noqa: F811
    def f(x, y):
        n = x.item()
        torch._check(n >= 2)
        return y + n

    lines = details(logs, f, torch.tensor(3), torch.ones(5), fullgraph=True)
    assert any(re.match(r"assertion \w+ of __compiled_fn_\d+: Runtime assertion failed", text) for text in lines)


def test_G11_a_capture_that_is_dropped(logs):  # noqa: F811
    lines = details(logs, lambda x: torch.zeros(x.item() - 5), torch.tensor(7), fullgraph=True)
    assert any(text.startswith("Step 1: what was captured is dropped, torch's state is put back") for text in lines)


def test_G15_debug_dir_root_of_torch(tmp_path):
    program = """
    import torch, pellucid
    import torch._dynamo
    torch._dynamo.config.debug_dir_root = ROOT
    pellucid.compile(lambda x: x + 1, backend="eager")(torch.ones(3))
    """
    run(tmp_path, program=program.replace("ROOT", repr(str(tmp_path / "chosen"))), TORCH_COMPILE_DEBUG="1")
    (folder,) = (tmp_path / "chosen").glob("run_*")
    assert "Step 1" in (folder / "torchdynamo" / "debug.log").read_text()


INDUCTOR = """
import torch, pellucid
SETTINGS

def f(x):
    return (x.sin() + 1).sum()

pellucid.compile(f, backend="inductor")(torch.ones(3, requires_grad=True)).backward()
"""


def inductor_files(tmp_path, settings="", **environment):
    cache = {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache"), "TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1"}
    run(tmp_path, program=INDUCTOR.replace("SETTINGS", settings), **cache, **environment)
    (folder,) = (tmp_path / "torch_compile_debug").glob("run_*")
    files = {path.name: path for path in (folder / "torchinductor").rglob("*") if path.is_file()}
    folders = {path.name for path in (folder / "torchinductor").iterdir() if path.is_dir()}
    return files, folders


@pytest.mark.slow
def test_G17_inductor_writes_its_files(tmp_path):
    files, folders = inductor_files(tmp_path, TORCH_COMPILE_DEBUG="1")
    assert any(re.fullmatch(r"aot_model___\d+_debug\.log", name) for name in files)
    for direction in ("forward", "backward"):
        assert any(re.fullmatch(rf"model__\d+_{direction}_\d+\.\d+", name) for name in folders)
    wanted = {"fx_graph_readable.py", "fx_graph_runnable.py", "fx_graph_transformed.py", "output_code.py"}
    assert wanted | {"ir_pre_fusion.txt", "ir_post_fusion.txt"} <= set(files)


@pytest.mark.slow
def test_G18_inductors_own_switches(tmp_path):
    settings = """
import torch._inductor.config
torch._inductor.config.trace.enabled = True
torch._inductor.config.trace.output_code = False
"""
    files, _ = inductor_files(tmp_path, settings)
    assert "output_code.py" not in files and "fx_graph_readable.py" in files


PRINTS_LATE = """
import sys, threading
import torch, pellucid

known = set(sys.modules)
compiled = pellucid.compile(lambda x: x.sin() + 1, backend="eager")
thread = threading.Thread(target=compiled, args=(torch.ones(3),))
thread.start(), thread.join()
print(sorted(name for name in set(sys.modules) - known if name.startswith("torch.")))
"""


@pytest.mark.parametrize("switch", ["+dynamo", "graph_code"])
def test_a_compile_imports_nothing_to_print_graphs(switch):
    """A fork in the middle of an import, by another thread, would leave its lock taken in the child for good."""
    done = subprocess.run(
        [sys.executable, "-c", PRINTS_LATE], capture_output=True, text=True, env={**os.environ, "TORCH_LOGS": switch}
    )
    assert done.stdout == "[]\n" and "TRACED GRAPH" in done.stderr
