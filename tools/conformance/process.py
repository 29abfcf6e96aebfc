"""Runs test modules in processes of their own; one that dies or hangs costs one test."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
MOST_STARTS = 40


@dataclass(frozen=True)
class Way:
    """How the tests of a module are run."""

    impl: str
    torch_ops: bool = False
    match: str = ""
    limit: int | None = None
    timeout: float = 120

    def plain(self) -> Way:
        return replace(self, impl="plain")

    def command(self, module: str, out: Path, done: list[str]) -> list[str]:
        command = [sys.executable, str(HERE / "run_module.py"), module, str(out), "--impl", self.impl]
        command += ["--torch-ops"] * self.torch_ops
        command += ["--match", self.match] if self.match else []
        command += ["--limit", str(self.limit - len(done))] if self.limit is not None else []
        return command + (["--skip", *done] if done else [])


def run_module(module: str, way: Way) -> dict[str, dict[str, Any]]:
    """The outcomes by test name."""
    with tempfile.TemporaryDirectory(prefix="conformance_") as folder:
        out, results = Path(folder, "out.jsonl"), {}
        for _ in range(MOST_STARTS):
            end = _run_once(way, way.command(module, out, list(results)), Path(folder))
            records = [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []
            results |= _outcomes(records, end)
            if end == "" or _unfinished(records) is None or len(results) == way.limit:
                break
        return results


def _run_once(way: Way, command: list[str], folder: Path) -> str:
    """Empty, or how the process died."""
    out, log = folder / "out.jsonl", folder / "log"
    work = folder / "work"  # tests leave files behind
    work.mkdir(exist_ok=True)
    with log.open("wb") as stream:
        child = subprocess.Popen(
            command, cwd=work, env=_environment(), stdin=subprocess.DEVNULL, stdout=stream, stderr=stream
        )
        late = not _wait(child, out, way.timeout)
        if late:
            child.send_signal(signal.SIGABRT)  # faulthandler prints where it stands
            try:
                child.wait(10)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
    if child.returncode == 0:
        return ""
    tail = log.read_bytes()[-3000:].decode(errors="replace")
    return f"{'timeout' if late else f'exit status {child.returncode}'}\n{tail}"


def _environment() -> dict[str, str]:
    """The child has another working directory."""
    path = os.environ.get("PYTHONPATH")
    if not path:
        return dict(os.environ)
    return os.environ | {"PYTHONPATH": os.pathsep.join(map(os.path.abspath, path.split(os.pathsep)))}


def _wait(child: subprocess.Popen, out: Path, timeout: float) -> bool:
    """False: no test has begun or ended for so long."""
    size, since = -1, time.monotonic()
    while True:
        try:
            child.wait(1)
            return True
        except subprocess.TimeoutExpired:
            now = out.stat().st_size if out.exists() else 0
            if now != size:
                size, since = now, time.monotonic()
            elif time.monotonic() - since > timeout + (60 if now == 0 else 0):
                return False


def _unfinished(records: list[dict[str, Any]]) -> str | None:
    started = [record["start"] for record in records if "start" in record]
    done = {record["test"] for record in records if "test" in record}
    return started[-1] if started and started[-1] not in done else None


def _outcomes(records: list[dict[str, Any]], end: str) -> dict[str, dict[str, Any]]:
    results = {record["test"]: record for record in records if "test" in record}
    for record in records:
        if "fixture" in record:
            results[record["fixture"]] = record | {"test": record["fixture"], "kind": "fixture"}
    name = _unfinished(records)
    if end and name is not None:
        outcome = "timeout" if end.startswith("timeout") else "crash"
        results[name] = {"test": name, "kind": "method", "outcome": outcome, "detail": end}
    elif end:
        results["(module)"] = {"test": "(module)", "kind": "fixture", "outcome": "crash", "detail": end}
    return results
