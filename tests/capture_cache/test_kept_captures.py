"""Captures that outlive a process (config.capture_cache_dir): two processes run the same cases, with other hash seeds, and in the
second one something has changed in most of them. What it computes is compared with eager in every case."""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import kept_cases
import own_process_cases
import pytest
import torch

import pellucid

HERE = Path(__file__).parent


def process(which: str, folder: Path, seed: str) -> dict:
    environment = {**os.environ, "PELLUCID_CAPTURE_CACHE_DIR": str(folder), "PYTHONHASHSEED": seed}
    done = subprocess.run(
        [sys.executable, str(HERE / "running_cases.py"), which],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kept") / "captures"
    return process("first", folder, "1"), process("second", folder, "2")


@pytest.mark.parametrize("case", [*kept_cases.CASES, *own_process_cases.CASES], ids=lambda case: case.name)
def test_second_process(both, case):
    first, second = both[0][case.name], both[1][case.name]
    assert first["is_as_eager"]
    assert second["is_as_eager"]
    assert first["captures"] == 1
    assert (first["outcomes"][-1] == "kept") == case.kept, first
    if case.is_loaded and case.kept:
        assert second["outcomes"][-1] == "loaded", second
        assert second["captures"] == 0
    else:
        assert "loaded" not in second["outcomes"], second
        assert second["captures"] >= 1


@pytest.mark.parametrize("name", ["other_helper", "other_global", "training", "hook", "registered", "tanh_is_another"])
def test_a_miss_says_why(both, name):
    record = both[1][name]
    assert record["outcomes"][0] == "missed"
    assert record["reasons"][0]


def double(x):
    return x * 2 + 1


@pytest.fixture
def folder(tmp_path):
    where = tmp_path / "captures"
    with pellucid.config.patch(capture_cache_dir=str(where)):
        yield where


def outcomes_of(call) -> list[str]:
    seen = len(pellucid.capture_cache_report())
    call()
    return [record.outcome for record in pellucid.capture_cache_report()[seen:]]


def call_double(backend="eager"):
    pellucid.reset()
    x = torch.arange(4.0)
    assert torch.equal(pellucid.compile(double, backend=backend)(x), x * 2 + 1)


def files_in(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.capture"))


def test_off_by_default():
    assert pellucid.config.options()["capture_cache_dir"].default is None
    assert outcomes_of(call_double) == []


def test_folder_is_private(folder):
    assert outcomes_of(call_double) == ["kept"]
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert [stat.S_IMODE(path.stat().st_mode) for path in files_in(folder)] == [0o600]
    assert outcomes_of(call_double) == ["loaded"]


def test_folder_that_others_may_enter_is_refused(folder):
    folder.mkdir(mode=0o700)
    folder.chmod(0o755)
    assert outcomes_of(call_double) == ["not kept"]
    assert "open to others" in pellucid.capture_cache_report()[-1].reason
    assert files_in(folder) == []


def test_folder_that_is_a_link_is_refused(folder, tmp_path):
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    folder.symlink_to(tmp_path / "elsewhere")
    assert outcomes_of(call_double) == ["not kept"]
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_folder_of_another_user_is_refused(folder, monkeypatch):
    folder.mkdir(mode=0o700)
    monkeypatch.setattr(os, "getuid", lambda: folder.stat().st_uid + 1)
    assert outcomes_of(call_double) == ["not kept"]
    assert "another user" in pellucid.capture_cache_report()[-1].reason


def test_folder_that_cannot_be_written(folder, monkeypatch):
    def refuse(*args, **kwargs):
        raise PermissionError(13, "Permission denied")

    folder.mkdir(mode=0o700)
    monkeypatch.setattr(os, "replace", refuse)
    assert outcomes_of(call_double) == ["not kept"]
    assert "Permission denied" in pellucid.capture_cache_report()[-1].reason
    assert [path for path in folder.rglob("*") if path.is_file()] == []


def test_other_backends_are_captured(folder):
    seen = []

    def looks(gm, inputs):
        seen.append(gm)
        return gm.forward

    assert outcomes_of(lambda: call_double(looks)) == ["not kept"]
    assert len(seen) == 1


def test_recompiles_are_kept_too(folder):
    def calls():
        pellucid.reset()
        compiled = pellucid.compile(double, backend="eager", dynamic=False)
        for size in (3, 4):
            x = torch.ones(size)
            assert torch.equal(compiled(x), x * 2 + 1)

    assert outcomes_of(calls) == ["kept", "kept"]
    assert outcomes_of(calls) == ["loaded", "loaded"]


def test_number_that_changes_is_opened_after_loading(folder):
    def scaled(x, n):
        return x * n

    def calls(*numbers):
        pellucid.reset()
        compiled = pellucid.compile(scaled, backend="eager")
        for n in numbers:
            assert torch.equal(compiled(torch.ones(3), n), torch.ones(3) * n)

    calls(2)
    before = pellucid.counters().get("captures", 0)
    calls(2, 3, 4, 5)
    assert pellucid.counters()["captures"] - before == 1


def test_size_that_changes_is_opened_after_loading(folder):
    call_double()
    pellucid.reset()
    compiled = pellucid.compile(double, backend="eager")
    before = pellucid.counters()["captures"]
    for size in (4, 5, 6, 7):
        assert torch.equal(compiled(torch.ones(size)), torch.full((size,), 3.0))
    assert pellucid.counters()["captures"] - before == 1


def damaged(content: bytes, how: str) -> bytes:
    if how == "shorter":
        return content[: len(content) // 2]
    if how == "empty":
        return b""
    if how == "one bit":
        return content[:-20] + bytes([content[-20] ^ 1]) + content[-19:]
    return content + b"x"


@pytest.mark.parametrize("how", ["shorter", "empty", "one bit", "longer"])
def test_damaged_file_is_a_miss(folder, how):
    call_double()
    (path,) = files_in(folder)
    path.write_bytes(damaged(path.read_bytes(), how))
    assert outcomes_of(call_double) == ["kept"]


def test_file_that_is_a_link_is_no_file(folder, tmp_path):
    call_double()
    (path,) = files_in(folder)
    (tmp_path / "moved").write_bytes(path.read_bytes())
    path.unlink()
    path.symlink_to(tmp_path / "moved")
    assert outcomes_of(call_double) == ["kept"]


def test_oldest_files_go(folder):
    call_double()
    (old,) = files_in(folder)
    os.utime(old, (1, 1))
    with pellucid.config.patch(capture_cache_size=0):
        pellucid.reset()
        assert pellucid.compile(lambda x: x - 1, backend="eager")(torch.ones(1)).item() == 0
    assert old not in files_in(folder)
    assert len(files_in(folder)) == 1


def with_checksum(body: bytes) -> bytes:
    from pellucid import _capture_cache

    return _capture_cache._MAGIC + _capture_cache._checksum(body) + body


def test_hostile_bytes_do_nothing(folder):
    """Bytes that somebody has changed, with a checksum that is right: each is a miss, or loads what is checked all the same."""
    from pellucid import _capture_cache

    call_double()
    (path,) = files_in(folder)
    start = len(_capture_cache._MAGIC) + 16
    body = path.read_bytes()[start:]
    tried = 0
    for at in range(0, len(body), max(1, len(body) // 150)):
        for value in (0, 0x7F, 0xFF):
            for other in files_in(folder):
                other.unlink()
            changed = body[:at] + bytes([value]) + body[at + 1 :]
            path.write_bytes(with_checksum(changed))
            pellucid.reset()
            x = torch.arange(4.0)
            try:
                result = pellucid.compile(double, backend="eager")(x)
            except (TypeError, RuntimeError):
                continue  # a graph of torch's operators that does not fit
            assert isinstance(result, object)
            tried += 1
    assert tried > 50


@pytest.mark.parametrize("target", [b"posix.system", b"builtins.eval", b"builtins.exec", b"torch.load"])
def test_hostile_names_are_not_called(folder, target):
    """The name of the operator is another one in the file."""
    call_double()
    (path,) = files_in(folder)
    from pellucid import _capture_cache

    body = path.read_bytes()[len(_capture_cache._MAGIC) + 16 :]
    module, name = target.split(b".")
    old = bytes([len(b"_operator")]) + b"_operator" + bytes([3]) + b"mul"
    assert body.count(old) == 1
    path.write_bytes(with_checksum(body.replace(old, bytes([len(module)]) + module + bytes([len(name)]) + name)))
    assert outcomes_of(call_double) == ["missed", "kept"]


def test_huge_sizes_are_a_miss(folder):
    call_double()
    (path,) = files_in(folder)
    path.write_bytes(with_checksum(b"\xff" * 9 + b"\x01" + b"\x00" * 64))
    assert outcomes_of(call_double) == ["missed", "kept"]


def test_pickle_is_a_miss(folder, tmp_path):
    import pickle

    class Bomb:
        def __reduce__(self):
            return (os.mkdir, (str(tmp_path / "bang"),))

    call_double()
    (path,) = files_in(folder)
    for content in (pickle.dumps(Bomb()), with_checksum(pickle.dumps(Bomb()))):
        path.write_bytes(content)
        assert "kept" in outcomes_of(call_double)
    assert not (tmp_path / "bang").exists()


def test_listeners_see_a_capture(folder):
    call_double()
    pellucid.reset()
    explained = pellucid.explain(double)(torch.arange(4.0))
    assert explained.graph_count == 1


def broken(x):
    y = x + 1
    open(os.devnull).close()
    return y * 2


def test_a_graph_break_is_told_with_its_reason(folder):
    with pellucid.config.patch(continue_after_break=True):
        x = torch.ones(2)
        assert torch.equal(pellucid.compile(broken, backend="eager")(x), (x + 1) * 2)
    record = pellucid.capture_cache_report()[-1]
    assert record.outcome == "not kept"
    assert record.reason.startswith("there is a graph break in it: ")
    assert "open" in record.reason
    assert files_in(folder) == []
