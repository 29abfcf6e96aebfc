"""The reader of events that writes a dump: graphs, guards and regions at once, functions and the index behind each compile."""

from __future__ import annotations

import dis
import gc
import logging
import re
import textwrap
import threading
import types
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch._guards import CompileContext

from pellucid import _core, events
from pellucid._addresses import Addresses
from pellucid._dump import artifacts, graphs, page, texts
from pellucid._dump.directory import Directory
from pellucid._dump.stepping import Stepping
from pellucid._explain.arguments import forward_of
from pellucid._explain.guard_text import python_of
from pellucid._explain.places import short
from pellucid._explain.record import RecordedCompile, RecordedRegion
from pellucid._fx import name_of_graph
from pellucid._in_words import Words, line_at
from pellucid.errors import BreakRecord

_LOG = logging.getLogger("pellucid")


@dataclass
class DumpedRegion:
    """One part of the program that was compiled."""

    number: int
    name: str
    place: str
    begins_at: tuple[tuple[types.CodeType, int], ...]
    arguments: list[str]
    guards: str
    """As a function."""
    body: list[str]
    lines: dict[int, int]
    """Where in the body the lines of `numbered` are."""
    numbered: types.CodeType
    named: dict[str, Any]
    """The objects that the body names."""
    behind: list[str]
    """What happens behind it, before the next region."""
    effects: list[str]
    free: list[str]
    graph: str
    """The file of its graph; empty: it has none."""
    called: types.CodeType
    """Of the function that was called: the function's own, or torch's of a module whose `forward` it is."""

    @property
    def dumped(self) -> str:
        """Its own file."""
        return f"{self.name}.py" if self.goes_on else f"region_{self.number}.py"

    @property
    def goes_on(self) -> bool:
        """Whether it begins behind a graph break."""
        return bool(self.begins_at)

    @property
    def guards_name(self) -> str:
        """Of the function that says whether it may run."""
        return f"guards_{self.number}"

    @property
    def function_name(self) -> str:
        """Of the function that stands for it."""
        return self.name if self.goes_on else f"region_{self.number}"


@dataclass
class DumpedFunction:
    """A function of the program, and the regions that begin with it or behind its breaks."""

    name: str
    part: str
    """Of the names of files."""
    same: int
    """How many functions of that name came before."""
    file: str
    line: int
    codes: list[types.CodeType]
    """Of what is called: the function's own, and that of torch's that calls it as the `forward` of a module."""
    source: list[str]
    regions: list[DumpedRegion] = field(default_factory=list)
    breaks: list[str] = field(default_factory=list)
    before: list[str] = field(default_factory=list)
    """Of the entries that it had before the dump began."""

    @property
    def dumped(self) -> str:
        """Its file in the dump."""
        return f"full_code_for_{self.part}_{self.same}.py"


@dataclass
class _Graph:
    name: str
    number: int
    text: graphs.GraphText
    file: Path
    counts: dict[str, int] = field(default_factory=dict)
    latest: dict[str, str] = field(default_factory=dict)
    """The file of each kind that was written last."""
    kernels: dict[str, str] = field(default_factory=dict)
    """Files by those that Inductor wrote."""


class Recording:
    """Hears of what is compiled and writes it.

    Args:
        directory: where to.
        before: the entries that functions had when the dump began, as texts, by the code of the function.
        bytecode: also a file with the bytecode of each region.
    """

    def __init__(
        self, directory: Directory, before: dict[types.CodeType, list[str]], *, bytecode: bool = False
    ) -> None:
        self.directory = directory
        self.addresses = Addresses()
        self.stepping = Stepping()
        self.functions: dict[Any, DumpedFunction] = {}
        self.story: list[dict[str, Any]] = []
        self._before = before
        self._bytecode = bytecode
        self._lock = threading.RLock()
        self._open = threading.local()  # .stack: the compiles of this thread, outermost first
        self._graphs: dict[tuple[int, int], _Graph] = {}

    def __call__(self, event: events.Event) -> None:
        read = _READS.get(type(event))
        if read is not None:
            with self._lock:
                read(self, event)

    def note_artifact(self, compile_id: tuple[int, int], kind: str, text: str, file: str) -> None:
        """What AOTAutograd or Inductor made of the graph of a compile."""
        with self._lock:
            graph = self._graphs.get(compile_id)
            if graph is None:  # of a graph that was captured before the dump began
                return
            if kind != "kernel":
                head = texts.comment(f"{kind} graph of {graph.name}")
                text = f"{head}import torch\nfrom torch import device, inf, nan\n\n\n{graphs.as_python(text, kind)}"
                self._write_artifact(graph, kind, self.addresses.without(text))
            elif file not in graph.kernels:
                self._write_artifact(graph, kind, text)
                graph.kernels[file] = graph.latest[kind]

    def _write_artifact(self, graph: _Graph, kind: str, text: str) -> None:
        count = graph.counts[kind] = graph.counts.get(kind, -1) + 1
        suffix = f"_{count}" if count or kind in artifacts.NUMBERED else ""
        name = graph.latest[kind] = f"__compiled_fn_{graph.number}.{kind}{suffix}.py"
        self.directory.write(name, text)
        self.story.append({"what": kind, "of": graph.name, "file": name})

    def note_captured(self, module: torch.fx.GraphModule) -> None:
        """A captured graph is given to its backend: it is to run as in its file."""
        with self._lock:
            graph = next((one for one in self._graphs.values() if one.name == name_of_graph(module)), None)
            if graph is None:
                return
            native = module.__dict__.get("_native_forward")
            if native is not None:
                self.stepping.run_assembled(native, graph.file, graph.text.first, graph.text.line_of)
            else:
                module.forward  # noqa: B018  torch.fx writes it when it is first asked for
                self.stepping.run_text(module, graph.text.text, graph.file, graph.text.globals)

    def note_made(self, module: torch.fx.GraphModule) -> None:
        """AOTAutograd has made a graph that runs as it is: as in its file."""
        with self._lock:
            graph = self._graph_now()
            if graph is None:
                return
            inputs = [str(node.target) for node in module.graph.find_nodes(op="placeholder")]
            kind = "backward" if any(name.startswith("tangents") for name in inputs) else "forward"
            if kind not in graph.latest:
                self._write_artifact(graph, kind, "")
            text = graphs.text_of(module, texts.comment(f"{kind} graph of {graph.name}, as it runs"), kind)
            file = self.directory.write(graph.latest[kind], text.text)
            self.stepping.run_text(module, text.text, file, text.globals)

    def place_of_kernel(self, path: str) -> Path | None:
        """The file of the dump that is loaded for one of Inductor's; None: it is no graph's code."""
        with self._lock:
            graph = self._graph_now()
            try:
                text = Path(path).read_text(encoding="utf-8")
            except OSError:
                return None
            if graph is None or "def call(" not in text:
                return None
            if path not in graph.kernels:
                self._write_artifact(graph, "kernel", text)
                graph.kernels[path] = graph.latest["kernel"]
            return self.directory.path / graph.kernels[path]

    def _graph_now(self) -> _Graph | None:
        """Of which something is compiled now."""
        now = CompileContext.current_compile_id()
        if now is None or now.frame_id is None or now.frame_compile_id is None:
            return None
        return self._graphs.get((now.frame_id, now.frame_compile_id))

    def finish(self) -> None:
        """Writes what is known in the end."""
        with self._lock:
            for function in self.functions.values():
                self.directory.write(function.dumped, _full_code(function))
            self.directory.write("index.html", page.page(self))
            self.directory.write_index(page.facts(self))

    # ----

    def _stack(self) -> list[RecordedCompile]:
        if not hasattr(self._open, "stack"):
            self._open.stack = []
        return self._open.stack

    def _compile_started(self, event: events.CompileStarted) -> None:
        self._stack().append(RecordedCompile(event))

    def _compile_finished(self, event: events.CompileFinished) -> None:
        if not self._stack():  # it began before the dump
            return
        now = self._stack().pop()
        if now.region is None and now.breaks:
            self._note_breaks(self._function_of(now), now)
        if event.failed:
            self.story.append({"what": "failed", "of": now.started.code.co_qualname})
        if not self._stack():
            self.finish()

    def _backend_started(self, event: events.BackendStarted) -> None:
        if event.compile_id is None:
            return
        number = int(event.name.rpartition("_")[2])
        head = texts.comment(
            f"The graph that {event.name} runs, as it was captured and given to the backend {event.backend!r}."
        )
        text = graphs.text_of(event.graph_module, head)
        name = captured_file(event.name)
        file = self.directory.write(name, self.addresses.without(text.text))
        self._graphs[event.compile_id] = _Graph(event.name, number, text, file)
        self.story.append({"what": "graph", "of": event.name, "file": name})

    def _graph_break(self, event: events.GraphBreak) -> None:
        if self._stack():
            self._stack()[-1].breaks.append(event.record)

    def _recompiled(self, event: events.Recompiled) -> None:
        why = [str(failure) for failures in event.record.failures.values() for failure in failures]
        self.story.append(
            {"what": "recompiled", "of": event.record.function, "why": self.addresses.without("; ".join(why))}
        )

    def _region_finished(self, event: events.RegionFinished) -> None:
        if not self._stack():
            return
        now = self._stack()[-1]
        now.region = RecordedRegion(event.number, event.name, event.guards, event.effects, event.begin >= 0)
        function = self._function_of(now)
        region = self._region(event, now)
        function.regions.append(region)
        self.directory.write(f"guards_{region.number}.py", _guards_file(region))
        bytecode = f"{region.dumped.removesuffix('.py')}.bytecode.txt" if self._bytecode else ""
        if bytecode:  # as it is emitted, before it gets the lines of the file
            self.directory.write(bytecode, self.addresses.without(bytecode_text(event)))
        self.story.append(
            {
                "what": "region",
                "name": region.name,
                "of": function.name,
                "place": region.place,
                "guards": f"guards_{region.number}.py",
                "file": region.dumped,
                **({"bytecode": bytecode} if bytecode else {}),
            }
        )
        self._step_through(event, region, self.directory.write(region.dumped, _region_file(region)))
        self._note_breaks(function, now)

    def _step_through(self, event: events.RegionFinished, region: DumpedRegion, file: Path) -> None:
        """What runs for the region has the lines of its file."""
        written = file.read_text(encoding="utf-8").splitlines()
        first = next(at for at, line in enumerate(written, 1) if line.startswith(f"def {region.function_name}("))
        begin = first + 1 + len(_notes(region))
        lines = {1: first} | {number: begin + at for number, at in region.lines.items()}
        function = event.emitted_function
        if not self.stepping.run_listing(function, file, first, lines, region.numbered, region.named):
            # A hook has given it other code, or its text is no Python.
            _LOG.warning("%s runs as it was generated, and not as %s shows: its code is another one", event.name, file)
        region.named = {}  # the function has them
        graph = next((one for one in self._graphs.values() if one.name == event.name), None)
        if graph is not None:
            compiled = getattr(function.__globals__.get(event.name), "__wrapped__", None)
            self.stepping.run_assembled(compiled, graph.file, graph.text.first, graph.text.line_of)

    def _region(self, event: events.RegionFinished, now: RecordedCompile) -> DumpedRegion:
        code = event.emitted_function.__code__
        notes, listed, numbered, named = event.read("listing")
        arguments = texts.parameters(code, named)
        begins_at = tuple(now.started.begins_at)
        guards_name = f"guards_{event.number}"
        clean = self.addresses.without
        shown = [text for text in listed if text]
        above = notes.splitlines()
        at = {
            number: len(above) + sum(bool(text) for text in listed[: number - 2])
            for number in range(2, len(listed) + 2)
        }
        at = {number: min(index, len(above) + len(shown) - 1) for number, index in at.items()}
        has_graph = event.compile_id in self._graphs and self._graphs[event.compile_id].name == event.name
        return DumpedRegion(
            number=event.number,
            name=event.name,
            place=_place(begins_at or ((event.code, 0),)),
            begins_at=begins_at,
            arguments=arguments,
            guards=clean(texts.guards_text(guards_name, event.name, arguments, event.guards)),
            body=clean("\n".join(texts.body_of(code, "\n".join([*above, *shown]), named))).splitlines(),
            lines=at,
            numbered=numbered,
            named=named,
            behind=[clean(line) for line in _behind(event, now.breaks)] if event.ends_early else [],
            effects=[clean(effect) for effect in event.effects],
            free=list(code.co_freevars),
            graph=captured_file(event.name) if has_graph else "",
            called=now.started.function.__code__,
        )

    def _note_breaks(self, function: DumpedFunction, now: RecordedCompile) -> None:
        for record in now.breaks:
            text = self.addresses.without(_break_text(record))
            function.breaks.append(text)
            self.story.append({"what": "break", "of": function.name, "why": text})
        now.breaks = []

    def _function_of(self, now: RecordedCompile) -> DumpedFunction:
        code = now.started.function.__code__
        place = _forward_of(now) if code is _CALL else None
        key = self._key_of(code, place)
        if key not in self.functions:
            file, line = place or (code.co_filename, code.co_firstlineno)
            name, source = texts.definition_of(file, line, None if place else code)
            part = re.sub(r"\W+", "_", name.replace("<locals>.", "")).strip("_") or "code"
            same = sum(one.part == part for one in self.functions.values())
            self.functions[key] = DumpedFunction(name, part, same, file, line, [], source)
        function = self.functions[key]
        if code not in function.codes:
            function.codes.append(code)
            function.before += self._before.get(code, [])
        return function

    def _key_of(self, code: types.CodeType, place: tuple[str, int] | None) -> Any:
        """A `forward` is one function, whether a module is called or it is compiled itself. Other functions may begin at one line."""
        if place is None:
            own = (code.co_filename, code.co_firstlineno)
            return own if own in self.functions and code.co_name == "forward" else code
        forwards = (one for one in self.functions if isinstance(one, types.CodeType) and one.co_name == "forward")
        return next((one for one in forwards if (one.co_filename, one.co_firstlineno) == place), place)


_READS: dict[type[events.Event], Callable[[Any, Any], None]] = {
    events.CompileStarted: Recording._compile_started,
    events.CompileFinished: Recording._compile_finished,
    events.BackendStarted: Recording._backend_started,
    events.RegionFinished: Recording._region_finished,
    events.GraphBreak: Recording._graph_break,
    events.Recompiled: Recording._recompiled,
}


def captured_file(graph: str) -> str:
    """The file of a graph.

    Example:
        >>> captured_file("__resume_at_26_1")
        '__compiled_fn_1.captured.py'
    """
    return f"__compiled_fn_{graph.rpartition('_')[2]}.captured.py"


_CALLS_MODULES = torch.nn.Module._call_impl.__code__.co_filename
_CALL = torch.nn.Module._wrapped_call_impl.__code__


def _forward_of(now: RecordedCompile) -> tuple[str, int] | None:
    """File and first line of the `forward` that a module's call runs. Behind a break it is an open frame."""
    for code, _ in now.started.begins_at:
        if code.co_filename != _CALLS_MODULES:
            return code.co_filename, code.co_firstlineno
    return None if now.started.begins_at else forward_of(now)


def _place(frames: tuple[tuple[types.CodeType, int], ...]) -> str:
    """Innermost first."""
    return ", in ".join(
        f"{code.co_qualname} ({short(code.co_filename)}:{line_at(code, at)})" for code, at in reversed(frames)
    )


def _break_text(record: BreakRecord) -> str:
    file, line, *_ = record.place
    return f"{record.code} {record.name}: {record.message} (in {record.function}, {short(file)}:{line})"


def _behind(event: events.RegionFinished, breaks: list[BreakRecord]) -> list[str]:
    """The step that runs for real."""
    code, at = event.read("end")[-1]
    operation = dis.opname[code.co_code[at]] if 0 <= at < len(code.co_code) else "?"
    line = line_at(code, at)
    source = texts.source_line(code.co_filename, line)
    lines = [f"Then the interpreter runs {operation} of {code.co_qualname}, {short(code.co_filename)}:{line}: {source}"]
    lines += [f"because of {_break_text(record)}" for record in breaks[-1:]]
    return lines


def bytecode_text(event: events.RegionFinished) -> str:
    """The bytecode of the function that a region begins in, and of what runs in its place, as `dis` prints it."""
    old, new = event.code, event.emitted_function.__code__
    parts = [(f"{old.co_qualname} ({short(old.co_filename)}:{old.co_firstlineno})", old), (event.name, new)]
    return "\n".join(f"---- {name}\n{dis.Bytecode(code).dis()}" for name, code in parts)


def _notes(region: DumpedRegion) -> list[str]:
    graph = f"# its graph: {region.graph}" if region.graph else "# it has no graph"
    return [graph, *(f"# it changes: {effect}" for effect in region.effects)]


def _region_text(region: DumpedRegion) -> str:
    body = [*_notes(region), *region.body, *(f"# {line}" for line in region.behind)]
    return texts.function_text(region.function_name, region.arguments, body, region.free)


def _guards_file(region: DumpedRegion) -> str:
    return f'"""The guards of {region.name}, which begins in {region.place}."""\n\nimport torch\n\n\n{region.guards}'


_RESUME = (
    "A region behind a graph break. It is no function of the program: the frames that were open are its arguments, and the "
    "step that ended the region before it ran for real, in the lines of the program. Stepping out of the region before leads to "
    "that line, and from there to here."
)


def _region_file(region: DumpedRegion) -> str:
    head = f"{textwrap.fill(_RESUME, 110)}\n\nIt begins" if region.goes_on else f"{region.name}, which begins"
    return f'"""{head} in {region.place}.\n"""\n\nimport torch\n\n\n{region.guards}\n\n{_region_text(region)}'


def _full_code(function: DumpedFunction) -> str:
    short = function.name.rpartition(".")[2]
    name = short if short.isidentifier() else "function"
    parts = [f'"""{function.name} ({function.file}:{function.line}), and what was compiled of it."""\n\nimport torch\n']
    original = _renamed("\n".join(function.source), name) + "\n"
    if not texts.is_python(original):  # a part of another function: `nonlocal`, a lambda in a call
        original = texts.comment(original)
    head = texts.comment("---- the function, as it was written" if function.source else "---- its source is not there")
    parts.append(head + original)
    own = [one for one in function.regions if not one.goes_on]
    further = [one for one in function.regions if one.goes_on]
    for number, line in enumerate(function.before):
        parts.append(texts.comment(f"---- compiled before the dump began, entry {number}: {line}"))
    for number, region in enumerate(own):
        head = texts.comment(f"---- entry {number}: {region.name}, from {region.place}")
        parts.append(f"{head}{region.guards}\n\n{_region_text(region)}")
    for region in further:
        head = texts.comment(f"---- behind a graph break: {region.name}, from {region.place}")
        parts.append(f"{head}{region.guards}\n\n{_region_text(region)}")
    if function.breaks:
        parts.append(texts.comment("---- graph breaks\n" + "\n".join(dict.fromkeys(function.breaks))))
    for code in function.codes:
        called = name if code is function.codes[0] else f"{name}_{'of_a_module' if code is _CALL else 'itself'}"
        parts.append(_dispatcher(called, name, code, [region for region in own if region.called is code]))
    return "\n\n".join(parts)


def _renamed(source: str, name: str) -> str:
    return re.sub(rf"(\bdef\s+){re.escape(name)}\b", rf"\1original_{name}", source, count=1)


def _dispatcher(name: str, original: str, code: types.CodeType, own: list[DumpedRegion]) -> str:
    """What a call does, as a function of this name that takes what functions with this code take."""
    head = texts.comment("---- what a call of the module does" if code is _CALL else "---- what a call does")
    if not own:
        return head + texts.comment("It runs as it was written: no call of it was compiled.")
    body = []
    for region in own:
        arguments = ", ".join(region.arguments)
        behind = "  # and goes on behind the break" if region.behind else ""
        body += [f"if {region.guards_name}({arguments}) is None:"]
        body += [f"    return {region.function_name}({arguments}){behind}"]
    taken, handed_on = texts.signature(code)
    body += [
        "# A call that fits none is compiled, or runs as it was written.",
        f"return original_{original}({handed_on})",
    ]
    return head + texts.function_text(name, taken, body)


def entries_before() -> dict[types.CodeType, list[str]]:
    """The entries of all functions that are compiled now, as texts, by the code of the function."""
    found: dict[types.CodeType, dict[int, str]] = {}
    for function in [one for one in gc.get_objects() if type(one) is _core.CompiledFunction]:
        entries = found.setdefault(function.__code__, {})
        for number, guards in _core.guards_of(function).items():
            lines = [python_of(guard["kind"], guard["source"], guard["text"], Words()) for guard in guards]
            entries[number] = f"region {number}, for which holds:\n" + "\n".join(f"    {line}" for line in lines)
    return {code: [entries[number] for number in sorted(entries)] for code, entries in found.items()}
