"""The backend of a run: it chooses by graph number, and notes which graphs there are."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pellucid import errors
from pellucid._fx import name_of_graph, user_stack_of
from pellucid._triage.outcome import Graph
from pellucid.backends import by_number
from pellucid.backends.registry import lookup_backend

if TYPE_CHECKING:
    from torch.fx import GraphModule


@dataclass(frozen=True)
class WrittenGraph:
    """A graph that a run of a program writes as a script."""

    number: int
    file: str
    backend: str
    """The one that the script tries."""

    def write(self, gm: GraphModule, example_inputs: Sequence[Any]) -> None:
        """Writes it.

        Raises:
            ReproRefused: the graph has no form as text.
        """
        from pellucid.repro import write_repro

        title = f"{name_of_graph(gm)}, which {_place_of(gm)}"
        write_repro(gm, example_inputs, self.file, backend=self.backend, accuracy=True, title=title, command="minify")


class Recorder:
    """Hands each graph on as a choice by graph number says.

    Args:
        text: the choice, or the name of one backend for all.
        first: the number of the graph that counts as graph 0.
        writes: a graph that is written as a script before a backend gets it.
    """

    def __init__(self, text: str, first: int = 0, writes: WrittenGraph | None = None) -> None:
        self.__name__ = text
        self._choice = by_number.choice(text if by_number.is_choice(text) else f"else:{text}", lookup_backend)
        self._first = first
        self._writes = writes
        self.graphs: list[Graph] = []
        self.takes_numbers = self._choice.takes_numbers
        self.takes_symbols = self._choice.takes_symbols
        self.uses_aot = self._choice.uses_aot

    def __call__(self, gm: GraphModule, example_inputs: Sequence[Any], **options: Any) -> Callable:
        number = by_number.graph_number(gm) - self._first
        if all(graph.number != number for graph in self.graphs):  # a backend may be asked once more
            self.graphs.append(Graph(number, name_of_graph(gm), _place_of(gm), gm.print_readable(print_output=False)))
        if self._writes is not None and self._writes.number == number:
            self._writes.write(gm, example_inputs)
            self._writes = None
        return self._choice.backend_for(number)(gm, example_inputs, **options)


def _place_of(gm: GraphModule) -> str:
    frames = user_stack_of(gm)
    if not frames:
        return "nowhere"
    return f"ends at {frames[-1].filename}:{frames[-1].lineno} in {frames[-1].name}"


@contextmanager
def complaints() -> Iterator[list[str]]:
    """What pellucid says in the block of errors that changed no result: they are faults all the same."""
    found: list[str] = []

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.funcName == "_report_graph_failure":
                found.append(record.getMessage().split("\n")[0])

    handler = Handler()
    logger = logging.getLogger("pellucid")
    logger.addHandler(handler)
    before = len(errors._stops)
    try:
        yield found
    finally:
        logger.removeHandler(handler)
        found += [f"{stop.code} {stop.message}" for stop in list(errors._stops)[before:] if stop.code == "PEL0901"]
