"""`pellucid.debug`: the block in which everything that is captured is written to files."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pellucid import _core, _graph_readers, events
from pellucid._dump.artifacts import Handler
from pellucid._dump.directory import Directory
from pellucid._dump.recording import Recording, entries_before
from pellucid._dump.stepping import kernels_from

_active: list[debug] = []


def _harmless(note: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """What it raises (the disk is full) is reported, and changes nothing for the program."""

    def noted(value: Any) -> Any:
        try:
            return note(value)
        except Exception as error:
            _core.report_unraisable(error, note)
            return None

    return noted


@contextlib.contextmanager
def _told_of(readers: list[Callable[[Any], None]], reader: Callable[[Any], None]) -> Iterator[None]:
    readers.append(reader)
    try:
        yield
    finally:
        readers.remove(reader)


class debug:
    """Writes what is captured inside of the block into a directory, as Python that people read.

    For each function that is compiled `full_code_for_<function>_<n>.py`: its source, each compiled version with its guards and
    what runs in its place, and the parts behind graph breaks; for each graph `__compiled_fn_<n>.captured.py`, and what
    AOTAutograd and Inductor make of it; `index.html` leads to all of them. See docs/debugging.md.

    Args:
        directory: made when it is not there; what an earlier dump wrote there is removed.
        bytecode: also the bytecode of each region, and of the function that it begins in, as `dis` prints it.

    Raises:
        OSError: the directory cannot be written.
        RuntimeError: it is entered inside of another one.

    Example:
        >>> with pellucid.debug("dump/"):
        ...     compiled(x)
    """

    def __init__(self, directory: str | Path, *, bytecode: bool = False) -> None:
        self._directory = directory
        self._bytecode = bytecode
        self._undo = contextlib.ExitStack()

    def __enter__(self) -> debug:
        if _active:
            raise RuntimeError("pellucid.debug is active already, and does not nest")
        directory = Directory(self._directory)
        self._recording = Recording(directory, entries_before(), bytecode=self._bytecode)
        with contextlib.ExitStack() as undo:
            _active.append(self)
            undo.callback(_active.remove, self)
            undo.callback(self._recording.finish)
            handler = Handler(self._recording.note_artifact)
            handler.start()
            undo.callback(handler.stop)
            undo.enter_context(events.subscribe(self._recording))
            self._start_stepping(undo)
            self._recording.finish()
            self._undo = undo.pop_all()
        return self

    def _start_stepping(self, undo: contextlib.ExitStack) -> None:
        from pellucid import api

        stepping = self._recording.stepping
        undo.callback(stepping.swaps.undo)
        undo.callback(_core.step_through_regions, None)
        _core.step_through_regions(stepping.graph_files)
        undo.callback(_core.set_skipped_directories, api._SKIPPED)
        _core.set_skipped_directories([*api._SKIPPED, f"{self.directory}{os.sep}"])
        undo.enter_context(_told_of(_graph_readers.captured, _harmless(self._recording.note_captured)))
        undo.enter_context(_told_of(_graph_readers.made, _harmless(self._recording.note_made)))
        undo.enter_context(kernels_from(_harmless(self._recording.place_of_kernel)))

    def __exit__(self, *error: object) -> None:
        self._undo.close()

    def run_untraced(self, function: Callable, *args: Any, **kwargs: Any) -> Any:
        """Calls a function out of a debugger's sight, so that what it calls is compiled; gives its result.

        Under a debugger that traces the program from its start (an editor's) nothing would be compiled.

        Args:
            function: such as a compiled one.
            args: of the call.
            kwargs: of the call.

        Example:
            >>> with pellucid.debug("dump/") as dump:
            ...     dump.run_untraced(compiled, x)
            ...     compiled(x)  # stops at breakpoints in the files
        """
        return _core.call_untraced(function, *args, **kwargs)

    @property
    def directory(self) -> Path:
        """Where the files are."""
        return self._recording.directory.path

    @property
    def files(self) -> list[Path]:
        """All that are written so far."""
        return [self.directory / name for name in self._recording.directory.names]

    @property
    def has_regions(self) -> bool:
        """Whether anything was compiled."""
        return any(function.regions for function in self._recording.functions.values())
