"""Rows I01-I05: captures are recorded in one process and replayed in another, which has not their program."""

from __future__ import annotations

import json
import os
import pickle
import random
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import torch

import pellucid
from pellucid.errors import ConstraintViolation, PellucidError, Unsupported

HERE = Path(__file__).parent
TESTS = HERE.parent
PACKAGE = TESTS.parent / "python"


def run(*arguments, cwd, paths=(), expect=0, **environment):
    """Python in a process of its own, with only these folders and pellucid's on its path."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(("TORCH", "PELLUCID_"))}
    path = os.pathsep.join(map(str, [*paths, PACKAGE]))
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=cwd,
        env={**own, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == expect, f"status {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout + ("" if expect == 0 else done.stderr)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """(folder, what the recording process said, what the replaying process said)."""
    folder, elsewhere = tmp_path_factory.mktemp("records"), tmp_path_factory.mktemp("elsewhere")
    said = json.loads(run(HERE / "recorded_programs.py", folder, cwd=folder, paths=[HERE]))
    script = shutil.copy(HERE / "replaying_process.py", elsewhere)
    return folder, said, json.loads(run(script, folder, cwd=elsewhere))


PROGRAMS = [
    line.removeprefix("def ").partition("(")[0]
    for before, line in zip(
        *[(HERE / "recorded_programs.py").read_text().splitlines()[i:] for i in (0, 1)], strict=False
    )
    if before.startswith("@program(")
]
READS_MISSING = {"asks_a_handle": "HANDLE", "asks_a_lock": "LOCK"}
OPERATORS = "operators_of_the_program"
RUNS_CODE = "gradient_functions_of_leaves"


@pytest.mark.parametrize("name", sorted({*PROGRAMS, "made_by_exec"} - {*READS_MISSING, RUNS_CODE, OPERATORS}))
def test_I02_I03_another_process_gets_the_same_graphs_or_the_same_break(recorded, name):
    _, said, replayed = recorded
    assert replayed[name]["status"] == "same", replayed[name]["text"]
    assert replayed[name]["graphs"] == said[name]["graphs"]
    assert said[name]["graphs"] or said[name]["summary"].startswith("PEL")


def test_most_of_the_programs_are_captured(recorded):
    _, said, _ = recorded
    assert sum(len(told["graphs"]) for told in said.values()) >= 12


def test_I02_the_lines_of_the_program_are_shown(recorded):
    _, _, replayed = recorded
    text = replayed["prints_two_levels_down"]["text"]
    assert 'recorded_programs.py", line ' in text and "return below(a.sin()) + 1" in text and "print(b)" in text


@pytest.mark.parametrize("name", sorted(READS_MISSING))
def test_I03_what_has_no_form_is_named_when_it_is_recorded_and_where_it_is_read(recorded, name):
    _, said, replayed = recorded
    assert any(READS_MISSING[name] in path for path, _ in said[name]["missing"])
    assert replayed[name]["status"] == "not recorded"
    assert READS_MISSING[name] in replayed[name]["read"][0]
    text = replayed[name]["text"]
    assert READS_MISSING[name] in text and f"return a + {'(1 if ' if name == 'asks_a_lock' else ''}" in text
    assert "PEL0301" in text  # how the recorded capture ended


def test_I03_operators_of_the_program_are_named(recorded):
    _, said, replayed = recorded
    assert len(said[OPERATORS]["graphs"]) == 1 and replayed[OPERATORS]["status"] == "not recorded"
    assert "torch.ops.recorded.doubled" in replayed[OPERATORS]["text"]


def test_I03_what_is_passed_on_without_being_read_does_not_matter(recorded):
    _, said, replayed = recorded
    assert any("HANDLE" in path for path, _ in said["passes_a_handle_on"]["missing"])
    assert replayed["passes_a_handle_on"]["status"] == "same"


def test_I02_what_captures_call_for_real_runs_only_if_it_is_trusted(recorded):
    folder, _, replayed = recorded
    assert replayed[RUNS_CODE]["status"] == "not recorded"
    assert "Switched.forward: captures run it for real" in replayed[RUNS_CODE]["text"]
    assert pellucid.replay(folder / f"{RUNS_CODE}.rec", trust=True).status == "same"


def test_libraries_are_as_before_behind_a_replay(recorded):
    folder, _, _ = recorded
    step, flag = torch.optim.Adam.step, torch.distributions.Distribution._validate_args
    for name in ("trains", "flags_of_libraries"):
        assert (
            pellucid.replay(folder / f"{name}.rec").status != "not recorded"
        )  # the processes above see that it is the same
    assert torch.optim.Adam.step is step and torch.distributions.Distribution._validate_args is flag


def test_I02_the_command(recorded, tmp_path):
    folder, _, _ = recorded
    said = run("-m", "pellucid", "replay", folder / "draws.rec", cwd=tmp_path)
    assert "the capture ends as recorded" in said and "return a * random.gauss(0.0, 1.0)" in said
    told = json.loads(run("-m", "pellucid", "replay", folder / "draws.rec", "--json", cwd=tmp_path))
    assert told["status"] == "same" and told["outcome"]["code"] == "PEL0304"
    assert "HANDLE" in run("-m", "pellucid", "replay", folder / "asks_a_handle.rec", cwd=tmp_path, expect=1)
    assert "HANDLE" in run("-m", "pellucid", "replay", folder / "asks_a_handle.rec", "--missing", cwd=tmp_path)
    assert "is no record" in run("-m", "pellucid", "replay", HERE / "test_records.py", cwd=tmp_path, expect=2)
    assert "No such file" in run("-m", "pellucid", "replay", "none.rec", cwd=tmp_path, expect=2)
    assert "exit status" in run("-m", "pellucid", "replay", "--help", cwd=tmp_path)


# ---- failures


def two_levels(x):
    return one_level(x) + 1


def one_level(x):
    print("here")
    return x


@pytest.fixture
def recording(tmp_path):
    with pellucid.config.patch(replay_record_enabled=True, base_dir=str(tmp_path / "out")):
        yield tmp_path / "out" / "recordings"


def test_I01_I05_a_failed_capture_is_written_and_the_error_names_file_and_command(recording, tmp_path):
    with pytest.raises(Unsupported) as raised:
        pellucid.compile(two_levels, backend="eager", fullgraph=True)(torch.ones(3))
    (file,) = recording.iterdir()
    line = one_level.__code__.co_firstlineno + 1
    assert file.name == f"two_levels_PEL0304_{line}.rec"
    assert f"python -m pellucid replay {file}" in str(raised.value)
    assert raised.value.record.recording == str(file)
    said = run("-m", "pellucid", "replay", file, cwd=tmp_path)
    assert 'print("here")' in said and "return one_level(x) + 1" in said
    assert str(raised.value.record).splitlines()[0] in said


def test_I01_a_recorded_failure_is_one_break_among_the_reasons(recording):
    before = len(pellucid.break_reasons()), sum(pellucid.errors._stop_counts.values())
    compiled = pellucid.compile(two_levels, backend="eager", fullgraph=True)
    with pytest.raises(Unsupported):
        compiled(torch.ones(3))
    pellucid.replay(next(recording.iterdir()))
    assert (len(pellucid.break_reasons()), sum(pellucid.errors._stop_counts.values())) == (before[0] + 1, before[1] + 1)


def test_I01_a_block_of_error_on_graph_break(recording, tmp_path):
    @pellucid.compile(backend="eager")
    def f(x):
        with pellucid.error_on_graph_break(True):
            return one_level(x)

    with pytest.raises(Unsupported):
        f(torch.ones(3))
    (file,) = recording.iterdir()
    assert pellucid.replay(file).status == "same"


def test_I01_errors_that_are_no_graph_breaks(recording):
    x = torch.ones(4, 3)
    pellucid.mark_dynamic(x, 0)

    @pellucid.compile(backend="eager", fullgraph=True)
    def f(x):
        return x * 2 if x.size(0) == 4 else x

    with pytest.raises(ConstraintViolation) as raised:
        f(x)
    (file,) = recording.iterdir()
    assert f"python -m pellucid replay {file}" in raised.value.__notes__[0]
    replayed = pellucid.replay(file)
    assert replayed.status == "same" and "ConstraintViolation" in replayed.outcome.error


def test_I04_nothing_is_written_by_default_and_a_file_is_never_overwritten(recording, tmp_path):
    with pellucid.config.patch(replay_record_enabled=False), pytest.raises(Unsupported) as raised:
        pellucid.compile(two_levels, backend="eager", fullgraph=True)(torch.ones(3))
    assert not recording.exists() and raised.value.record.recording is None
    for _ in range(2):
        with pytest.raises(Unsupported):
            pellucid.compile(two_levels, backend="eager", fullgraph=True)(torch.ones(3))
    assert sorted(file.name.rpartition("PEL0304_")[2].count("_") for file in recording.iterdir()) == [0, 1]


def test_I04_a_file_that_cannot_be_written_is_a_warning(tmp_path):
    (tmp_path / "out").write_text("a file")
    with pellucid.config.patch(replay_record_enabled=True, base_dir=str(tmp_path / "out")):
        with pytest.warns(UserWarning, match="could not be recorded"), pytest.raises(Unsupported, match="PEL0304"):
            pellucid.compile(two_levels, backend="eager", fullgraph=True)(torch.ones(3))


def test_I01_the_environment_switches_it_on(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import torch, pellucid\n"
        "def f(x):\n    print(x)\n    return x\n"
        "try:\n    pellucid.compile(f, backend='eager', fullgraph=True)(torch.ones(3))\n"
        "except pellucid.errors.Unsupported as error:\n    print(error)\n"
    )
    said = run(program, cwd=tmp_path, TORCH_COMPILE_REPLAY_RECORD="1")
    file = said.strip().splitlines()[-1].rpartition(" ")[2]
    program.unlink()
    assert "print(x)" in run("-m", "pellucid", "replay", file, cwd=tmp_path)


def test_breaks_that_are_no_errors_are_not_recorded(recording):
    assert torch.equal(pellucid.compile(two_levels, backend="eager")(torch.ones(3)), torch.full((3,), 2.0))
    assert not recording.exists()


def test_state_of_torch_and_options_are_part_of_it(tmp_path):
    def f(x):
        return x @ x, torch.is_grad_enabled(), torch.ones(2)

    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        made = pellucid.record(f, tmp_path / "f.rec")(torch.ones(3, 3))
    before = torch.is_grad_enabled(), torch.is_autocast_enabled("cpu")
    assert pellucid.replay(made.file).status == "same"
    assert "bfloat16" in made.outcome.graphs[0]
    assert (torch.is_grad_enabled(), torch.is_autocast_enabled("cpu")) == before


def test_methods_modules_and_compiled_functions_are_recorded(tmp_path):
    layer = torch.nn.Linear(2, 2)
    for function in (layer, layer.forward, pellucid.compile(layer), pellucid.compile(layer.forward, backend="eager")):
        made = pellucid.record(function, tmp_path / "f.rec")(torch.ones(1, 2))
        replayed = pellucid.replay(made.file)
        assert replayed.status == "same" and len(replayed.outcome.graphs) == 1
    with pytest.raises(TypeError, match="needs a callable"):
        pellucid.record(3)


# ---- other hardware


def edited(file, target, change):
    """A record with other JSON."""
    with zipfile.ZipFile(file) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    record = json.loads(contents["record.json"])
    change(record)
    contents["record.json"] = json.dumps(record).encode()
    with zipfile.ZipFile(target, "w") as archive:
        for name, content in contents.items():
            archive.writestr(name, content)
    return target


def tensors_of(record):
    return [row for row in record["rows"] if row[0] == "tensor"]


@pytest.mark.parametrize("device", ["cuda:0", "xpu:0", "meta"])
def test_a_record_of_another_machine(tmp_path, device):
    def f(x, w):
        made = torch.zeros(2, device=x.device)
        return (x @ w).relu() + made, x.device.type

    made = pellucid.record(f, tmp_path / "f.rec")(torch.ones(3, 4), torch.nn.Parameter(torch.ones(4, 2)))

    def move(record):
        for row in tensors_of(record):
            row[2]["device"] = device

    replayed = pellucid.replay(edited(made.file, tmp_path / "g.rec", move))
    (graph,) = replayed.outcome.graphs
    assert graph.replace(device, "cpu").count("cpu") == made.outcome.graphs[0].count("cpu") and device in graph


def test_tensors_take_no_memory(tmp_path):
    made = pellucid.record(lambda x: x.sin(), tmp_path / "f.rec")(torch.ones(2, 2))

    def grow(record):
        (row,) = tensors_of(record)
        row[2].update(sizes=[1 << 20, 1 << 20], strides=[1 << 20, 1], bytes=1 << 42)

    replayed = pellucid.replay(edited(made.file, tmp_path / "g.rec", grow))
    assert "float32[1048576, 1048576]" in replayed.outcome.graphs[0]


# ---- hostile files


def test_no_code_of_a_record_runs(tmp_path):
    mark, records, elsewhere = tmp_path / "mark", tmp_path / "records", tmp_path / "elsewhere"
    records.mkdir()
    elsewhere.mkdir()
    leaving = "from pathlib import Path\nimport os\nPath(os.environ['MARK']).touch()\nONE = 1\n"
    (elsewhere / "leaves_a_file.py").write_text(leaving)
    (tmp_path / "program").mkdir()
    (tmp_path / "program" / "leaves_a_file.py").write_text("ONE = 1\n")
    paths = [tmp_path / "program"]
    json.loads(run(HERE / "hostile_programs.py", records, cwd=records, paths=paths, MARK=str(mark)))
    mark.unlink()
    script = shutil.copy(HERE / "replaying_hostile.py", elsewhere)
    told = json.loads(run(script, records, cwd=elsewhere, MARK=str(mark)))
    assert told["holds_everything"] == told["calls_the_system"] == told["writes"] == told["imports"] == "same"
    assert not mark.exists()


@pytest.fixture(scope="module")
def one_record(tmp_path_factory):
    folder = tmp_path_factory.mktemp("one")
    return pellucid.record(two_levels, folder / "f.rec")(torch.ones(3)).file


def refused(file):
    with pytest.raises(PellucidError) as raised:
        pellucid.replay(file)
    assert len(str(raised.value)) > 20
    return str(raised.value)


class Runs:
    def __reduce__(self):
        return (os.mkdir, ("unpickled",))


def test_other_files_are_refused(one_record, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "f.rec"
    for content in (b"", b"{}", pickle.dumps(Runs()), os.urandom(1000), b"PK\x03\x04" + bytes(100)):
        file.write_bytes(content)
        assert "no record" in refused(file)
    whole = one_record.read_bytes()
    for length in range(0, len(whole), 97):
        file.write_bytes(whole[:length])
        refused(file)
    torch.save({"a": Runs()}, file)
    assert "no record" in refused(file)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["f.rec"]


def test_paths_sizes_and_texts_of_members(one_record, tmp_path):
    def with_members(members, compression=zipfile.ZIP_STORED):
        file = tmp_path / "f.rec"
        with zipfile.ZipFile(one_record) as archive, zipfile.ZipFile(file, "w", compression) as target:
            for name in archive.namelist():
                if name not in members:
                    target.writestr(name, archive.read(name))
            for name, content in members.items():
                target.writestr(name, content)
        return file

    for name in ("../outside.py", "/tmp/outside.py", "code/../../outside.py", "x.pkl", "code/-1.py"):
        assert "member" in refused(with_members({name: "x"}))
    assert "larger" in refused(with_members({"code/1.py": bytes(300 << 20)}, zipfile.ZIP_DEFLATED))
    assert "damaged" in refused(with_members({"code/9.py": ""}))
    for text in ("def f(:", "(" * 5000, "x = " + "-" * 200_000 + "1", "\0", "def two_levels(x): pass"):
        refused(with_members({"code/0.py": text}))
    for record in ("", "[]", "NaN", "[" * 100_000, '{"format": "pellucid record", "version": 99}', "1" * 10_000):
        refused(with_members({"record.json": record}))
    assert not (tmp_path.parent / "outside.py").exists()


def test_damaged_tensors_and_rows(one_record, tmp_path):
    def with_tensor(**changes):
        def change(record):
            tensors_of(record)[0][2].update(changes)

        return edited(one_record, tmp_path / "f.rec", change)

    for changes in (
        {"sizes": [10**30]},
        {"sizes": [-1]},
        {"sizes": [1 << 60]},
        {"strides": [1 << 40]},
        {"offset": 1},
        {"bytes": 1 << 70},
        {"sizes": "abc"},
        {"sizes": [3, 3]},
        {"dtype": "save"},
        {"device": "fpga"},
        {"device": 7},
    ):
        refused(with_tensor(**changes))
    for row in (
        ["library", "antigravity", ""],
        ["library", "this", "c"],
        ["library", "a_module_of_the_program", "f"],
        ["library", "torch.utils.bottleneck.__main__", ""],
        ["instance", {"r": 0}, "object", None, [], []],
        ["tuple", [{"r": 0}]],
        ["tuple", [{"r": 10**9}]],
        ["unknown"],
        ["bound", "abc", "__class__"],
        ["range", 0, 0, 0],
        ["int"],
    ):
        refused(edited(one_record, tmp_path / "f.rec", lambda record, row=row: record["rows"].__setitem__(0, row)))
    finalized = [
        ["library", "tempfile", "_TemporaryFileCloser"],
        ["instance", {"r": 0}, "object", None, [["name", "x"]], []],
    ]
    assert "finalizer" in refused(
        edited(one_record, tmp_path / "f.rec", lambda record: record.__setitem__("rows", finalized + record["rows"]))
    )


def test_records_with_random_changes_are_refused_or_replayed(one_record, tmp_path):
    """Whatever stands where: an error of pellucid's, or some outcome."""
    chance = random.Random(0)
    strange = [None, -1, 1 << 62, "x", [], {}, {"r": 0}, {"r": 3}, True, [[]], 1.5, {"int": "zz"}, "__del__"]

    def change(record):
        for _ in range(chance.randint(1, 3)):
            at = record[chance.choice(["rows", "call", "settings", "rows", "rows", "outcome"])]
            while True:
                keys = list(at) if isinstance(at, dict) else range(len(at))
                key = chance.choice(list(keys))
                if isinstance(at[key], (dict, list)) and at[key] and chance.random() < 0.8:
                    at = at[key]
                    continue
                at[key] = chance.choice(strange)
                break

    outcomes = []
    for _ in range(150):
        file = edited(one_record, tmp_path / "f.rec", change)
        try:
            outcomes.append(pellucid.replay(file).status)
        except PellucidError:
            outcomes.append("refused")
    assert outcomes.count("refused") > 25 and torch.is_grad_enabled()
