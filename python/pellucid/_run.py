"""Running a program with pellucid in the place of torch.compile (`python -m pellucid run`)."""

from __future__ import annotations

import runpy
import sys
import traceback
import types
from collections.abc import Callable
from pathlib import Path

from pellucid.takeover import install


def run(target: str, arguments: list[str], *, is_module: bool) -> int:
    """Runs it as `python target arguments` (`python -m target arguments`) would. Returns the exit status.

    pellucid stays installed: what the program leaves behind (threads, functions for the end of the process) goes on with it.

    Raises:
        SystemExit: from the program.
        FileNotFoundError: there is no such file.
    """
    if is_module:
        sys.argv = [target, *arguments]
        sys.path[0:1] = [str(Path.cwd())]
        install()
        return _status(lambda: runpy.run_module(target, run_name="__main__", alter_sys=True))
    file = Path(target)
    source = file.read_bytes()
    module = types.ModuleType("__main__")
    module.__file__ = target
    module.__builtins__ = __builtins__  # type: ignore[attr-defined]
    sys.modules["__main__"] = module
    sys.argv = [target, *arguments]
    sys.path[0:1] = [str(file.resolve().parent)]
    install()
    return _status(lambda: exec(compile(source, target, "exec"), module.__dict__))


def _status(program: Callable[[], object]) -> int:
    """0; or 1 and the traceback from the program's first frame on, as Python prints it."""
    try:
        program()
    except Exception as error:
        of_program = error.__traceback__
        while of_program is not None and _is_ours(of_program):
            of_program = of_program.tb_next
        sys.stdout.flush()
        traceback.print_exception(error.with_traceback(of_program or error.__traceback__))
        return 1
    return 0


def _is_ours(entry: types.TracebackType) -> bool:
    file = entry.tb_frame.f_code.co_filename
    return file == __file__ or "runpy" in file
