"""Running a file so that the calls of one of its functions are shown (`python -m pellucid show` and `explain`).

The function gets one more decorator before its file is compiled, the outermost one: so nested functions and methods can be
named, and the program sees every call with the arguments, the order and the effects that it has anyway.
"""

from __future__ import annotations

import ast
import contextlib
import sys
import types
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from pellucid import api

_DECORATOR = "__pellucid_show__"


class UsageError(Exception):
    """The command line asks for what is not there; the text says what."""


def target_of(text: str) -> tuple[Path, str]:
    """The parts of "file.py:Class.method".

    Raises:
        UsageError: it has another form, or there is no such file.
    """
    file, colon, name = text.rpartition(":")
    if not colon or not file or not all(part.isidentifier() for part in name.split(".")):
        raise UsageError(f"{text!r} is not of the form file.py:function")
    if not Path(file).is_file():
        raise UsageError(f"there is no file {file!r}")
    return Path(file), name


def run(file: Path, name: str, calls: Sequence[str], argv: list[str], backend: Callable) -> BaseException | None:
    """Runs the program with the function compiled, and gives what it raised.

    Args:
        calls: the arguments of each call, as Python text; none: the calls that the file makes when it runs as a script.
        argv: what the program gets as `sys.argv[1:]`.
        backend: what the function is compiled with; it sees what becomes of it.

    Raises:
        UsageError: there is no such function, or the file or the arguments are no Python.
    """
    if not calls:
        program = _with_decorator(file, name)
        module = types.ModuleType("__main__")
        module.__dict__[_DECORATOR] = lambda target: _compiled(target, name, file, backend)
        with _as_main(module, file, argv):
            failure = _failure_of(lambda: exec(program, module.__dict__))
    else:
        parsed = [_parsed_call(args) for args in calls]
        module = types.ModuleType(file.stem if file.stem not in sys.modules else "__shown__")
        with _as_main(module, file, argv):
            failure = _failure_of(lambda: exec(compile(_parsed(file), str(file), "exec"), module.__dict__))
            if failure is None:
                failure = _failure_of(lambda: _call(_function(module, name, file), parsed, module, backend))
    if isinstance(failure, UsageError):
        raise failure
    return failure


def why_nothing(file: Path, name: str) -> str:
    """For a message: why no call of the function was seen."""
    return (
        f"{file} made no call of {name} that reached it (give the arguments with --args), or calls it only inside of what the"
        " file compiles itself (name the compiled function, or take its pellucid.compile away)"
    )


def of_program(failure: BaseException, file: Path) -> BaseException:
    """The exception with the frames of the program alone; none where the call did not get there."""
    at = failure.__traceback__
    while at is not None and at.tb_frame.f_code.co_filename != str(file):
        at = at.tb_next
    return failure.with_traceback(at)


def _failure_of(run: Callable[[], object]) -> BaseException | None:
    try:
        run()
    except SystemExit as end:
        return end if end.code not in (None, 0) else None
    except Exception as error:
        return error
    return None


def _parsed(file: Path) -> ast.Module:
    try:
        return ast.parse(file.read_bytes(), str(file))
    except SyntaxError as error:
        raise UsageError(f"{file}:{error.lineno}: {error.msg}") from error


def _with_decorator(file: Path, name: str) -> types.CodeType:
    tree = _parsed(file)
    found = list(_definitions(tree, name.split(".")))
    if not found:
        raise UsageError(f"{file} defines no function {name!r}{_names_of(tree)}")
    for function in found:
        decorator = ast.Name(_DECORATOR, ast.Load())
        function.decorator_list.insert(0, ast.copy_location(decorator, function))
        ast.fix_missing_locations(decorator)
    return compile(tree, str(file), "exec")


_Function = ast.FunctionDef | ast.AsyncFunctionDef


def _definitions(tree: ast.AST, path: list[str]) -> Iterator[_Function]:
    """The functions that `path` names, from the outside to the inside: `f`, `Class.method`, `outer.inner`."""
    for node in ast.iter_child_nodes(tree):
        if not isinstance(node, (_Function, ast.ClassDef)):
            yield from _definitions(node, path)  # below an `if` or a `try`
        elif node.name == path[0]:
            if len(path) > 1:
                yield from _definitions(node, path[1:])
            elif isinstance(node, _Function):
                yield node


def _names_of(tree: ast.Module) -> str:
    names = [node.name for node in tree.body if isinstance(node, _Function)]
    names += [
        f"{c.name}.{f.name}"
        for c in tree.body
        if isinstance(c, ast.ClassDef)
        for f in c.body
        if isinstance(f, _Function)
    ]
    return f"; it defines {', '.join(names)}" if names else ""


def _compiled(target: Any, name: str, file: Path, backend: Callable) -> Any:
    """What the decorator makes of the function, and of what the decorators below it have made of that.

    Raises:
        UsageError: that is nothing that can be compiled.
    """
    if isinstance(target, property):
        fget, fset, fdel = (
            one if one is None or isinstance(one, api.CompiledFunction) else api.compile(one, backend=backend)
            for one in (target.fget, target.fset, target.fdel)
        )
        return property(fget, fset, fdel, target.__doc__)
    try:
        return api.compile(target, backend=backend)
    except TypeError as error:
        raise UsageError(f"{name} of {file} cannot be compiled: it is a {type(target).__name__}") from error


def _parsed_call(args: str) -> types.CodeType:
    """`args` as the arguments of a call that gives them back."""
    try:
        return compile(f"__pellucid_arguments__({args})", "<--args>", "eval")
    except SyntaxError as error:
        raise UsageError(f"--args {args!r}: {error.msg}") from error


def _function(module: types.ModuleType, name: str, file: Path) -> Callable:
    target: Any = module
    for part in name.split("."):
        if not hasattr(target, part):
            raise UsageError(f"{file} has no {name!r}" + _names_of(_parsed(file)))
        target = getattr(target, part)
    if isinstance(target, property) and target.fget is not None:
        return target.fget
    if not callable(target):
        raise UsageError(f"{name} of {file} cannot be called: it is a {type(target).__name__}")
    return target


def _call(function: Callable, calls: list[types.CodeType], module: types.ModuleType, backend: Callable) -> None:
    namespace = {**module.__dict__, "__pellucid_arguments__": lambda *args, **kwargs: (args, kwargs)}
    settings = api.Settings(backend=backend)
    compiled = settings(function) if isinstance(function, type) else api.compile(function, backend=backend)
    for call in calls:
        try:
            args, kwargs = eval(call, namespace)
        except Exception as error:
            raise UsageError(f"--args: {type(error).__name__}: {error}") from error
        compiled(*args, **kwargs)


@contextlib.contextmanager
def _as_main(module: types.ModuleType, file: Path, argv: list[str]) -> Iterator[None]:
    """`module` is the one that runs, as for `python file.py`; all is put back behind it."""
    module.__file__ = str(file)
    old_module, old_argv, old_path = sys.modules.get(module.__name__), sys.argv, list(sys.path)
    sys.modules[module.__name__] = module
    sys.argv = [str(file), *argv]
    sys.path.insert(0, str(file.resolve().parent))
    try:
        yield
    finally:
        sys.argv, sys.path[:] = old_argv, old_path
        if old_module is None:
            del sys.modules[module.__name__]
        else:
            sys.modules[module.__name__] = old_module
