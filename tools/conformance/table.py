"""Compares plain and compiled outcomes, test by test, and prints what came of it."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

PASSED = ("pass", "expected failure")


@dataclass
class Row:
    """One test."""

    module: str
    test: str
    kind: str
    plain: str
    compiled: str
    captured: bool = False
    graphs: int = 0
    one_graph: bool = False
    seconds: float = 0
    stops: list[dict[str, str]] = field(default_factory=list)
    detail: str = ""

    @property
    def passes(self) -> bool:
        return self.plain in PASSED

    @property
    def differs(self) -> bool:
        return self.passes and self.compiled != self.plain

    @property
    def raised_in_capture(self) -> str:
        """What capture says the program raises although it does not: the call ran eagerly, but the rule that raised is wrong."""
        if self.differs or self.plain != "pass":
            return ""
        return next((stop["message"] for stop in self.stops if stop["reason"] == "ExceptionEscapes"), "")


def rows_of(module: str, plain: dict[str, dict[str, Any]], compiled: dict[str, dict[str, Any]]) -> list[Row]:
    facts = ("captured", "graphs", "one_graph", "seconds", "stops", "detail")
    rows = []
    for name in plain | compiled:
        before, after = plain.get(name), compiled.get(name, {})
        rows.append(
            Row(
                module,
                name,
                (before or after)["kind"],
                # A fixture that fails only when compiled has no record of its own in the plain run.
                before["outcome"] if before else "pass",
                after.get("outcome", "missing"),
                **{key: after[key] for key in facts if key in after},
            )
        )
    return rows


class Table:
    """Printed and written line by line as modules end, then the totals."""

    HEAD = ("module", "tests", "pass plain", "and compiled", "captured", "one graph")

    def __init__(self, torch_ops: bool, out: Path | None = None) -> None:
        self.torch_ops = torch_ops
        self.rows: list[Row] = []
        self.out = out
        if out is not None:
            out.parent.mkdir(parents=True, exist_ok=True)
            out.write_text("")
        self._line(*self.HEAD)

    def _line(self, name: str, *cells: object) -> None:
        cells = cells if self.torch_ops else cells[:-1]
        print(f"{name:28}" + "".join(f"{cell!s:>14}" for cell in cells), flush=True)

    def _counts(self, rows: list[Row]) -> tuple:
        rows = [row for row in rows if row.kind != "fixture"]
        passing = [row for row in rows if row.passes]
        equal = sum(not row.differs for row in passing)
        methods = [row for row in passing if row.kind == "method"]
        one = sum(row.one_graph for row in methods)
        share = f"{one} ({100 * one / len(methods):.0f} %)" if methods else "-"
        return len(rows), len(passing), equal, sum(row.captured for row in passing), share

    @property
    def differences(self) -> list[Row]:
        return [row for row in self.rows if row.differs]

    def add(self, rows: list[Row]) -> None:
        self.rows += rows
        if rows:
            self._line(rows[0].module, *self._counts(rows))
        for row in rows:
            if row.differs and row.compiled != "missing":  # missing: the process died before, which is told
                lines = row.detail.strip().splitlines() or [""]
                print(f"=== {row.test}: {row.plain} plain, {row.compiled} compiled: {lines[-1][:200]}", flush=True)
            if row.raised_in_capture:
                print(f"--- {row.test}: passes, but in capture {row.raised_in_capture[:160]}", flush=True)
        if self.out is not None:
            with self.out.open("a") as file:
                file.writelines(json.dumps(asdict(row)) + "\n" for row in rows)

    def finish(self, missing: list[str], reasons: int) -> None:
        self._line("all", *self._counts(self.rows))
        for name in missing:
            print(f"missing in this interpreter: {name}")
        if reasons:
            self._reasons(reasons)

    def _reasons(self, most: int) -> None:
        """What ends captures: each reason counted once per test."""
        tests, example = Counter(), defaultdict(str)
        for row in self.rows:
            if not row.passes:
                continue
            for stop in row.stops:
                text = f"{stop['reason']}: {re.sub(r'0x[0-9a-f]+', '0x', stop['message'])[:110]}"
                example[text] = f"{row.module} {row.test} at {stop['where']}"
                break  # the first one; the others are of functions it calls
            else:
                continue
            tests[text] += 1
        if tests:
            print(f"\ntests  why their capture stopped first ({sum(tests.values())} in all)")
        for text, count in tests.most_common(most):
            print(f"{count:5}  {text}\n         {example[text]}")
