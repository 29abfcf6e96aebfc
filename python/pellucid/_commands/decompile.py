"""python -m pellucid decompile module:function: a function as Python text, from its bytecode."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import sys
import types
from pathlib import Path
from typing import Any

from pellucid._commands import add_command
from pellucid._decompile import CannotDecompile, Decompiled

_DESCRIPTION = """\
Writes a function as Python text, read from its bytecode: also where its source is lost, or never was. The text is compiled
again and compared with the function; what it shows is the last line, on the standard error stream.

The module is imported, as a name (json.decoder) or as a file (model.py; its part under `if __name__ == "__main__"` does not
run). Methods are Class.method, functions within functions outer.inner, and <lambda> is the first lambda there."""

_EPILOG = """\
examples:
  python -m pellucid decompile json.decoder:JSONDecoder.decode
  python -m pellucid decompile model.py:Block.forward --module > forward.py
  python -m pellucid decompile textwrap:dedent --json

exit status: 0 written; 1 written but unverified, or it cannot be written as Python; 2 the command line is wrong"""


class _UsageError(Exception):
    pass


def add_to(commands: Any) -> None:
    """The parser of this command."""
    parser = add_command(
        commands,
        "decompile",
        run,
        help="a function as Python text, from its bytecode",
        description=_DESCRIPTION,
        epilog=_EPILOG,
    )
    parser.add_argument("target", metavar="module:function", help='the function; "Class.method" for a method')
    parser.add_argument("--module", action="store_true", help="a whole module: with what its names need around it")
    parser.add_argument("--json", action="store_true", help="text, module, verified and difference as JSON")


def run(options: argparse.Namespace, program: list[str]) -> int:
    """Gives the exit status."""
    try:
        found = Decompiled.of(_target(options.target))
    except _UsageError as error:
        print(f"python -m pellucid decompile: {error}", file=sys.stderr)
        return 2
    except (CannotDecompile, ValueError) as error:
        print(f"python -m pellucid decompile: {error}", file=sys.stderr)
        return 1
    if options.json:
        print(json.dumps(vars(found), indent=1))
    else:
        print(found.module if options.module else found.text, end="")
    words = {
        "equal": "verified: it compiles to the same bytes",
        "normalised": "verified: it compiles to the same instructions",
        "equivalent": "verified: it compiles to the same steps on every way, laid out in another order",
        "unverified": f"unverified: it compiles to other instructions ({found.difference})",
    }
    if not options.json:
        print(words[found.verified], file=sys.stderr)
    return 1 if found.verified == "unverified" else 0


def _target(text: str) -> Any:
    place, colon, name = text.rpartition(":")
    if not colon or not place or not name:
        raise _UsageError(f"{text!r} is not of the form module:function")
    found: Any = _module(place)
    parts = name.split(".")
    for at, part in enumerate(parts):
        inner = _part(found, part)
        if inner is None:
            where = ".".join(parts[:at]) or place
            raise _UsageError(f"there is no {part!r} in {where}{_others(found)}")
        found = inner
    try:
        from pellucid._decompile import code_of

        return code_of(found)
    except TypeError:
        raise _UsageError(f"{name} in {place} is no function of Python but a {type(found).__name__}") from None


def _module(place: str) -> types.ModuleType:
    path = Path(place)
    try:
        if path.suffix != ".py":
            return importlib.import_module(place)
        if not path.is_file():
            raise _UsageError(f"there is no file {place!r}")
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.path.insert(0, str(path.parent))
        spec.loader.exec_module(module)
        return module
    except _UsageError:
        raise
    except BaseException as error:
        raise _UsageError(f"{place} cannot be imported: {type(error).__name__}: {error}") from error


def _part(of: Any, name: str) -> Any:
    """An attribute, or a function within a function."""
    if isinstance(of, type) and name in of.__dict__:
        return of.__dict__[name]
    if not isinstance(of, types.CodeType):
        inner = getattr(of, name, None)
        if inner is not None:
            return inner
        of = getattr(of, "__code__", None)
    for constant in getattr(of, "co_consts", ()):
        if isinstance(constant, types.CodeType) and constant.co_name == name:
            return constant
    return None


def _others(of: Any) -> str:
    """What there is instead, for a message."""
    names = sorted(name for name, value in getattr(of, "__dict__", {}).items() if hasattr(value, "__code__"))
    return f" (functions there: {', '.join(names[:10])}{', …' if len(names) > 10 else ''})" if names else ""
