"""Programs around models, eager against compiled: values, gradients, exceptions, the order of hooks, random numbers; and graphs beside the peer.

PYTHONPATH=python python bench/corpus.py [--area hooks] [--only NAME ...] [--out bench/out/corpus] [--page docs/corpus.md]

The programs are those of bench/programs. Each is called at least twice with other values: eagerly (twice, so that a program
that differs from itself is seen), with backends "eager" and "aot_eager", those that are marked with "inductor" too. After
each call all that it gave, its arguments, its state with gradients, and the states of the random generators are
compared: with backend "eager" bit by bit, with the others within what they may round. "rounded": with backend "eager" not
the same bits, but the same within 1e-5. In another process torch.compile does the same with backends "eager" and
"aot_eager". A program that takes longer than --seconds, dies or raises what eager does not is told as failed.

Graphs are those of all calls with a backend, in brackets those of the first call where that is another number.
"""

from __future__ import annotations

import argparse
import collections
import json
import logging
import re
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch._dynamo
from in_child import ChildFailed, in_child
from observed import Reader, Row, difference, random_states, seed
from programs import Case, Program, load

import pellucid

TOLERANCE = {"eager": 0.0, "aot_eager": 1e-5, "inductor": 1e-3}
ROUNDING = 1e-5
COUNTED = ("eager", "aot_eager")
"""The backends whose graphs are counted beside the peer's."""


@dataclass
class Run:
    """What is known of one program with one backend. A verdict is "right", "-" (not run), "rounded: ..." or what is wrong."""

    verdict: str = "-"
    graphs: int | None = None
    first_graphs: int | None = None
    ops: int | None = None
    breaks: list[str] = field(default_factory=list)

    @property
    def was_run(self) -> bool:
        return self.verdict != "-"

    @property
    def is_right(self) -> bool:
        return self.verdict in ("right", "-") or self.verdict.startswith("rounded")

    @property
    def is_whole(self) -> bool:
        return self.first_graphs == 1 and not self.breaks

    def has_more_graphs(self, peer: Run) -> bool:
        """More than the peer, or nothing where the peer has something. A peer that captured nothing or is wrong is no measure."""
        if self.graphs is None or not peer.graphs or not peer.is_right:
            return False
        return self.graphs > peer.graphs or self.graphs == 0


@dataclass
class Result:
    """What is known of one program, by backend."""

    name: str
    area: str
    runs: dict[str, Run] = field(default_factory=dict)
    peer_runs: dict[str, Run] = field(default_factory=dict)
    """Of the backends in COUNTED, and of others where pellucid is not right with them: whether it is the backend itself."""
    seconds: float = 0.0

    def run(self, backend: str) -> Run:
        return self.runs.get(backend, Run())

    def peer(self, backend: str) -> Run:
        return self.peer_runs.get(backend, Run())

    @property
    def is_right(self) -> bool:
        return bool(self.runs) and all(run.is_right for run in self.runs.values())

    @property
    def more_graphs(self) -> list[str]:
        """The backends with which there are more graphs than the peer's, where both are right with them."""
        return [
            backend
            for backend in COUNTED
            if self.run(backend).is_right and self.run(backend).has_more_graphs(self.peer(backend))
        ]

    @property
    def is_whole_where_peer_breaks(self) -> bool:
        peer = self.peer("eager")
        return self.is_right and self.run("eager").is_whole and peer.was_run and not (peer.is_right and peer.is_whole)


# ---- one run of a program


def observe(
    make: Callable[[], Case], compile: Callable, after_call: Callable[[int], None] = lambda number: None
) -> list[list[Row]]:
    """What can be seen after each call."""
    seed(0)
    case = make()
    compiled = compile(case.f)
    found = []
    for number, arguments in enumerate(case.calls):
        if case.between is not None:
            case.between(number)
        gave = _call(compiled, arguments)
        after_call(number)
        if case.before_backward is not None:
            case.before_backward(number)
        if case.backward:
            gave = [gave, _taken_backward(gave)]
        reader = Reader()
        everything = {"gave": gave, "arguments": arguments, "state": case.state, "random": random_states()}
        found.append([row for name, value in everything.items() for row in reader.rows(value, name)])
    return found


def _call(f: Callable, arguments: tuple) -> Any:
    try:
        return f(*arguments)
    except Exception as error:
        return error


def _taken_backward(gave: Any) -> Exception | None:
    tensors = [value for value in _tensors(gave) if value.requires_grad and value.is_floating_point()]
    if not tensors:
        return None
    try:
        sum(_sum(value) for value in tensors).backward()
    except Exception as error:
        return error
    return None


def _sum(value: torch.Tensor) -> torch.Tensor:
    """A weighted sum, so that no two gradients are equal by chance."""
    if value.is_nested:
        return value.values().sum()
    if value.layout is not torch.strided or type(value) is not torch.Tensor:
        return value.sum()
    return (value * torch.linspace(0.5, 1.5, value.numel()).reshape(value.shape)).sum()


def _tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return [tensor for item in value for tensor in _tensors(item)]
    return []


def _first_difference(want: list[list[Row]], got: list[list[Row]], tolerance: float) -> str:
    for number, (one, other) in enumerate(zip(want, got), 1):
        different = difference(one, other, tolerance)
        if different:
            return f"call {number}: {different}"
    return ""


def _verdict(want: list[list[Row]], got: list[list[Row]], tolerance: float) -> str:
    """Code of torch that asks whether it is compiled rounds otherwise then (Adam): that is told, and is not wrong."""
    different = _first_difference(want, got, tolerance)
    if not different:
        return "right"
    if not tolerance and not _first_difference(want, got, ROUNDING):
        return f"rounded: {different}"
    return f"wrong: {different}"


# ---- one program, in its children


def quietly(function: Callable, *arguments: Any) -> Any:
    """In a child: what all of them set first."""
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    torch.set_num_threads(1)
    return function(*arguments)


def check_backend(program: Program, backend: str) -> Run:
    """In a child: the verdict on one backend, and what pellucid captured."""
    if backend == "inductor":
        import torch._inductor.config

        torch._inductor.config.fallback_random = True  # the same random numbers as eager
        torch._inductor.config.compile_threads = 1
    want, again = observe(program.make, lambda f: f), observe(program.make, lambda f: f)
    unsteady = _first_difference(want, again, 0.0)
    if unsteady:
        return Run(f"eager differs from itself: {unsteady}")
    graphs: list[int] = []
    got = observe(
        program.make,
        lambda f: pellucid.compile(f, backend=backend),
        lambda number: graphs.append(pellucid.counters()["graphs"]),
    )
    breaks = list(dict.fromkeys(f"{record.code} {record.message}" for record in pellucid.break_reasons()))
    return Run(_verdict(want, got, TOLERANCE[backend]), graphs[-1], graphs[0], pellucid.counters()["ops"], breaks)


def check_peer(program: Program, backend: str) -> Run:
    """In a child: the same for torch.compile."""
    want = observe(program.make, lambda f: f)
    torch._dynamo.reset()  # some operators call torch.compile in eager mode too
    torch._dynamo.utils.counters.clear()
    stats = torch._dynamo.utils.counters["stats"]
    graphs: list[int] = []
    got = observe(
        program.make,
        lambda f: torch.compile(f, backend=backend),
        lambda number: graphs.append(stats["unique_graphs"]),
    )
    breaks = [str(reason).strip().split("\n")[0] for reason in torch._dynamo.utils.counters["graph_break"]]
    return Run(_verdict(want, got, TOLERANCE[backend]), graphs[-1], graphs[0], stats["calls_captured"], breaks)


def check_program(
    program: Program, backends: list[str], seconds: float, with_peer: bool, in_process: bool = False
) -> Result:
    """All backends and the peer, each in a child of its own unless `in_process`."""
    result = Result(program.name, program.area)
    start = time.perf_counter()

    def ask(function: Callable[[Program, str], Run], backend: str) -> Run:
        if in_process:
            return function(program, backend)
        try:
            return in_child(quietly, function, program, backend, seconds=seconds)
        except ChildFailed as failure:
            return Run(f"failed: {failure}")

    for backend in backends:
        if backend == "inductor" and not program.inductor:
            result.runs[backend] = Run()
            continue
        result.runs[backend] = ask(check_backend, backend)
        if with_peer and (backend in COUNTED or not result.runs[backend].is_right):
            result.peer_runs[backend] = ask(check_peer, backend)
    result.seconds = time.perf_counter() - start
    return result


# ---- what is told of them


def summary(results: list[Result]) -> dict[str, Any]:
    backends = list(dict.fromkeys(backend for result in results for backend in result.runs))

    def right(of: Callable[[Result, str], Run], backend: str) -> str:
        runs = [run for run in (of(result, backend) for result in results) if run.was_run]
        return f"{sum(run.is_right for run in runs)} of {len(runs)}"

    return {
        "programs": len(results),
        "right": sum(result.is_right for result in results),
        "right by backend": {backend: right(Result.run, backend) for backend in backends},
        "of these rounded otherwise": sum(
            run.verdict.startswith("rounded") for result in results for run in result.runs.values()
        ),
        "peer right": {backend: right(Result.peer, backend) for backend in COUNTED},
        "one graph, pellucid": sum(result.run("eager").is_whole for result in results),
        "one graph, peer": sum(result.peer("eager").is_whole for result in results),
        "more graphs than the peer": {
            backend: sum(backend in result.more_graphs for result in results) for backend in COUNTED
        },
        "whole where the peer is not": sum(result.is_whole_where_peer_breaks for result in results),
    }


def table(results: list[Result]) -> str:
    counted = [f"{backend}: graphs of {whose}" for backend in COUNTED for whose in ("pellucid", "peer")]
    head = ["program", "area", "eager ok", "aot ok", "inductor ok", *counted, "note"]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for result in results:
        verdicts = [_word(result.run(backend).verdict) for backend in TOLERANCE]
        graphs = [_graphs(run) for backend in COUNTED for run in (result.run(backend), result.peer(backend))]
        lines.append(f"| {' | '.join([result.name, result.area, *verdicts, *graphs, _note(result)])} |")
    return "\n".join(lines)


def _word(verdict: str) -> str:
    return {"right": "yes", "-": "-"}.get(verdict, "rounded" if verdict.startswith("rounded") else "**no**")


def _graphs(run: Run) -> str:
    if run.graphs is None:
        return "?" if run.was_run else "-"
    text = str(run.graphs) if run.first_graphs == run.graphs else f"{run.graphs} ({run.first_graphs})"
    return f"{text}, breaks" if run.breaks else text


def _note(result: Result) -> str:
    notes = []
    wrong: dict[str, list[str]] = collections.defaultdict(list)
    for backend, run in result.runs.items():
        if not run.is_right:
            wrong[run.verdict].append(backend)
    notes += [f"{', '.join(backends)} {verdict}" for verdict, backends in wrong.items()]
    for backend, peer in result.peer_runs.items():
        if not result.run(backend).is_right:
            notes.append(f"torch.compile with {backend} is {'right' if peer.is_right else 'not right either'}")
        elif not peer.is_right:
            notes.append(f"peer with {backend} {peer.verdict}")
    for backend in result.more_graphs:
        # The peer leaves out whole functions, and hands on graphs of no operator.
        ours, theirs = result.run(backend).ops, result.peer(backend).ops
        notes.append(f"with {backend} more graphs than the peer, of {ours} operators in all; the peer's have {theirs}")
    notes += result.run("eager").breaks[:1]
    return "; ".join(_cell(note) for note in notes)


def _cell(text: str) -> str:
    text = re.sub(r"(/[\w.+@-]+)+/", "", text)  # no absolute paths
    text = re.sub(r" at 0x[0-9a-f]+", "", text)
    text = " ".join(text.split()).replace("|", "\\|")
    return text if len(text) <= 160 else text[:157] + "..."


PAGE = """# The corpus

Programs around models (`bench/programs`), eager against compiled, as `python bench/corpus.py --page docs/corpus.md`
writes them: its `--help` says what is compared. A program that differs, fails or takes too long is told as such.

"graphs" are those of all calls with a backend, in brackets those of the first call where that is another number. The
peer is torch.compile with the same backend; "one graph" and "whole" are told of backend "eager". "yes" under a
backend: everything that can be seen of all calls is eager's; "rounded": but for rounding; "-": it was not run with this
one. Where one of the two is not right, its graphs are no measure.

"""


def page(results: list[Result]) -> str:
    lines = [
        f"| {name} | {value if not isinstance(value, dict) else ', '.join(f'{k}: {v}' for k, v in value.items())} |"
        for name, value in summary(results).items()
    ]
    return PAGE + "| | |\n|---|---|\n" + "\n".join(lines) + "\n\n" + table(results) + "\n"


def _write(out: Path, results: list[Result]) -> None:
    found = {"summary": summary(results), "programs": [asdict(result) for result in results]}
    out.with_suffix(".json").write_text(json.dumps(found, indent=1))
    out.with_suffix(".md").write_text(table(results) + "\n")


def _kept(out: Path) -> dict[str, Result]:
    file = out.with_suffix(".json")
    rows = json.loads(file.read_text())["programs"] if file.exists() else []
    for row in rows:
        for runs in ("runs", "peer_runs"):
            row[runs] = {backend: Run(**run) for backend, run in row[runs].items()}
    return {row["name"]: Result(**row) for row in rows}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=[], metavar="NAME", help="programs of these names")
    parser.add_argument("--area", nargs="*", default=[], help="programs of these areas")
    parser.add_argument("--list", action="store_true", help="print names and areas, and run nothing")
    parser.add_argument("--backends", nargs="*", default=list(TOLERANCE), choices=list(TOLERANCE))
    parser.add_argument("--no-peer", action="store_true", help="without torch.compile")
    parser.add_argument("--seconds", type=float, default=120, help="for a program with one backend (default: 120)")
    parser.add_argument("--out", type=Path, default=Path("bench/out/corpus"), help="writes .json and .md there")
    parser.add_argument("--go-on", action="store_true", help="keep the results that are in --out, run the others")
    parser.add_argument("--page", type=Path, help="writes the page with the table there")
    options = parser.parse_args()
    programs = load()
    unknown = sorted(set(options.only) - set(programs))
    areas = {program.area for program in programs.values()}
    unknown += sorted(set(options.area) - areas)
    if unknown:
        parser.error(f"there is no {', '.join(unknown)}; --list shows all")
    chosen = [
        program
        for program in programs.values()
        if (not options.only or program.name in options.only) and (not options.area or program.area in options.area)
    ]
    if options.list:
        print(
            "\n".join(
                f"{program.name:40} {program.area}{', inductor' if program.inductor else ''}" for program in chosen
            )
        )
        return 0
    found = _kept(options.out) if options.go_on else {}
    options.out.parent.mkdir(parents=True, exist_ok=True)
    for number, program in enumerate(chosen, 1):
        if program.name in found:
            continue
        result = check_program(program, options.backends, options.seconds, not options.no_peer)
        found[program.name] = result
        _write(options.out, list(found.values()))
        said = "  ".join(
            f"{backend}: {run.verdict[:150]}, graphs {run.graphs} / {result.peer(backend).graphs}"
            for backend, run in result.runs.items()
            if run.was_run
        )
        more = "  MORE GRAPHS" if result.more_graphs else ""
        print(f"{number}/{len(chosen)} {program.name}: {said}{more}  ({result.seconds:.0f} s)", flush=True)
    results = [found[name] for name in programs if name in found]
    _write(options.out, results)
    if options.page:
        options.page.write_text(page(results))
    print(table(results))
    print(json.dumps(summary(results), indent=1))
    return 0 if all(result.is_right for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
