"""What dumps and logs do beside the files of graphs: code that is no Python's (L20), extras (L22)."""

import json
import logging
import opcode
import os
import subprocess
import sys

import pytest
import torch

import pellucid
from support import same

X = torch.ones(3)


def program(x, n):
    y = x * n
    pellucid.graph_break()
    return y.sin() + 1


def test_L20_a_region_with_code_that_is_no_python_is_reported_and_runs(tmp_path, caplog):
    # It leaves a value on the stack when it returns: no source is compiled to that.
    units = [("RESUME", 0), ("LOAD_CONST", 0), ("LOAD_CONST", 1), ("RETURN_VALUE", 0)]
    raw = bytes(byte for name, arg in units for byte in (opcode.opmap[name], arg))

    def hook(old, new):
        if old is not f.__code__:
            return None
        return new.replace(co_code=raw, co_consts=(None, "odd"), co_stacksize=4, co_exceptiontable=b"", co_names=())

    def f(x):
        return x.cos()

    handle = pellucid.register_bytecode_hook(hook)
    compiled = pellucid.compile(f, backend="eager")
    try:
        with caplog.at_level(logging.WARNING, "pellucid"), pellucid.debug(tmp_path) as dump:
            assert compiled(X) == "odd"
            assert compiled(X) == "odd"
    finally:
        handle.remove()
    (entry,) = pellucid.cache_entries(compiled)
    with pytest.raises(pellucid.CannotDecompile):
        pellucid.decompile(entry["function"])
    (told,) = [record.getMessage() for record in caplog.records if "runs as it was generated" in record.getMessage()]
    assert f"__compiled_fn_{entry['region']}" in told and f"region_{entry['region']}.py" in told
    assert (dump.directory / f"region_{entry['region']}.py").is_file()
    assert entry["function"].__code__.co_filename == f.__code__.co_filename


def test_L20_what_is_python_is_not_reported(tmp_path, caplog):
    with caplog.at_level(logging.WARNING, "pellucid"), pellucid.debug(tmp_path):
        assert same(pellucid.compile(program, backend="eager")(X, 2), program(X, 2))
    assert caplog.records == []


def test_L22_bytecode_is_dumped_when_it_is_asked_for(tmp_path):
    with pellucid.debug(tmp_path / "with", bytecode=True) as dump:
        assert same(pellucid.compile(program, backend="eager")(X, 2), program(X, 2))
    story = json.loads((dump.directory / "index.json").read_text())["story"]
    files = [step["bytecode"] for step in story if step["what"] == "region"]
    assert len(files) == 2 and all(file.endswith(".bytecode.txt") for file in files)
    for file in files:
        text = (dump.directory / file).read_text()
        assert text.count("---- ") == 2 and "---- program (" in text
        assert "RETURN_VALUE" in text and "0x" not in text.partition("0x1")[0]
    pellucid.reset()
    with pellucid.debug(tmp_path / "without") as dump:
        pellucid.compile(program, backend="eager")(X, 2)
    assert not list(dump.directory.glob("*.bytecode.txt"))


def test_L22_the_command_dumps_bytecode_too(tmp_path):
    (tmp_path / "run.py").write_text("import torch\ntorch.compile(lambda x: x + 1, backend='eager')(torch.ones(3))\n")
    command = [sys.executable, "-m", "pellucid", "dump", "run.py", "out", "--bytecode"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    (file,) = (tmp_path / "out").glob("*.bytecode.txt")
    assert "RETURN_VALUE" in file.read_text()


LOGGED = """
import torch, pellucid

@pellucid.compile(backend="eager")
def f(x, n):
    return x * n if n > 2 else x

f(torch.ones(3), 3)
"""


@pytest.mark.parametrize("source", ["0", "1"])
def test_L22_the_log_of_bytecode_has_source_when_it_is_asked_for(tmp_path, source):
    (tmp_path / "run.py").write_text(LOGGED)
    environment = os.environ | {"TORCH_LOGS": "bytecode", "PELLUCID_BYTECODE_LOG_SOURCE": source}
    done = subprocess.run(
        [sys.executable, "run.py"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    assert "ORIGINAL BYTECODE" in done.stderr and "MODIFIED BYTECODE" in done.stderr
    shown = "ORIGINAL SOURCE" in done.stderr and "MODIFIED SOURCE __compiled_fn_0" in done.stderr
    assert shown == (source == "1")
    assert ("if n > 2" in done.stderr.partition("ORIGINAL SOURCE")[2]) == (source == "1")


def test_L22_only_files_of_the_dump_are_there(tmp_path, monkeypatch):
    """Of torch.fx and Inductor no others are left among them, so nothing has to be cleaned up."""
    monkeypatch.chdir(tmp_path)
    torch._dynamo.reset()
    with torch._inductor.config.patch(force_disable_caches=True), pellucid.debug("dump") as dump:
        result = pellucid.compile(program, backend="inductor")(X, 2)
    torch.testing.assert_close(result, program(X, 2))
    index = json.loads((dump.directory / "index.json").read_text())
    assert sorted(index["files"]) == sorted(file.name for file in dump.directory.iterdir())
    assert [file.name for file in tmp_path.iterdir()] == ["dump"]


def test_L22_the_index_says_that_all_branches_have_to_run(tmp_path):
    def f(x, flag):
        return x + 1 if flag else x - 1

    with pellucid.debug(tmp_path) as dump:
        assert same(pellucid.compile(f, backend="eager")(X, True), X + 1)
    assert "Run all branches that are to be looked at" in (dump.directory / "index.html").read_text()


class Doubles(torch.nn.Module):
    def forward(self, x):
        return x * 2


@pytest.mark.parametrize("module_first", [True, False])
def test_a_module_and_its_forward_have_one_file(tmp_path, module_first):
    module = Doubles()
    programs = [(module, (X,)), (Doubles.forward, (module, torch.ones(4)))]
    with pellucid.debug(tmp_path) as dump:
        for program, arguments in programs if module_first else reversed(programs):
            assert same(pellucid.compile(program, backend="eager")(*arguments), arguments[-1] * 2)
    (file,) = dump.directory.glob("full_code_for_*.py")
    text = file.read_text()
    compile(text, str(file), "exec")
    (function,) = json.loads((dump.directory / "index.json").read_text())["functions"]
    assert len(function["regions"]) == 2 and text.count("---- entry") == 2
    assert "---- what a call of the module does" in text and "---- what a call does" in text
    names = [line.partition("(")[0] for line in text.splitlines() if line.startswith("def forward")]
    assert len(names) == len(set(names)) == 2


def test_two_functions_of_one_line_have_a_file_each(tmp_path):
    functions = [lambda x: x + 1, lambda x: x - 1]
    with pellucid.debug(tmp_path) as dump:
        for function in functions:
            assert same(pellucid.compile(function, backend="eager")(X), function(X))
    assert len(list(dump.directory.glob("full_code_for_*.py"))) == 2


@pytest.mark.parametrize("written_anew", [False, True])
@pytest.mark.parametrize("within", [False, True])
def test_a_graph_that_is_captured_again_has_the_lines_of_the_program(tmp_path, written_anew, within):
    kept = []

    def backend(gm, example_inputs):
        kept.append(gm)
        return gm.forward

    def f(x):
        y = x.sin()
        return y + 1

    pellucid.compile(f, backend=backend)(X)
    (gm,) = kept
    if written_anew:
        gm.recompile()

    def around(x):
        return gm(x)[0] * 2

    with pellucid.debug(tmp_path) as dump:
        if within:
            assert same(pellucid.compile(around, backend="eager")(X), f(X) * 2)
        else:
            assert same(pellucid.compile(gm, backend="eager")(X), (f(X),))
    (file,) = dump.directory.glob("*.captured.py")
    text = file.read_text()
    first = f.__code__.co_firstlineno
    assert f"{__file__}:{first + 1} in f, code: y = x.sin()" in text
    assert f"{__file__}:{first + 2} in f, code: return y + 1" in text
