"""Runs a test module of CPython with every function replaced by what its decompiled text compiles to.

python from_text.py test_patma        prints a line for each test: its outcome and its name
python from_text.py --plain test_patma
python from_text.py --count test_patma   … and what became of its functions
"""

from __future__ import annotations

import importlib.util
import sys
import types
import unittest
import warnings
from collections import Counter

from pellucid import CannotDecompile, Decompiled


def path_to(code: types.CodeType, name: str) -> types.CodeType | None:
    """The last code object of that name in a module of decompiled text: others stand before or around it."""
    found = None
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            if constant.co_name == name:
                found = constant
            found = path_to(constant, name) or found if constant.co_name != name else found
    return found


def again(code: types.CodeType, count: Counter[str]) -> types.CodeType:
    try:
        made = Decompiled.of(code)
    except CannotDecompile as error:
        count["none"] += 1
        print(code.co_qualname, error, file=sys.stderr)
        return code
    count[made.verified] += 1
    if made.verified == "unverified":
        print(code.co_qualname, made.difference, file=sys.stderr)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = compile(made.module, code.co_filename, "exec", dont_inherit=True)
    found = path_to(module, code.co_name)
    if found is None or found.co_freevars != code.co_freevars:
        count["not found"] += 1
        return code
    # Defaults and the class cell are made by code around, which stays: it needs the same parameters and cells only.
    return named(found, found.co_qualname, code.co_qualname).replace(co_firstlineno=code.co_firstlineno)


def named(code: types.CodeType, old: str, new: str) -> types.CodeType:
    """The code, and what is inside of it, with the qualified name that it has where it came from."""
    inside = (named(one, old, new) if isinstance(one, types.CodeType) else one for one in code.co_consts)
    name = new + code.co_qualname.removeprefix(old)
    return code.replace(co_qualname=name, co_consts=tuple(inside))


def replaced(code: types.CodeType, count: Counter[str]) -> types.CodeType:
    """The module or class with its functions from their text."""
    constants = []
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            if constant.co_flags & 3 == 3 and constant.co_name.isidentifier():
                constant = again(constant, count)
            elif constant.co_flags & 3 == 0:
                constant = replaced(constant, count)
        constants.append(constant)
    return code.replace(co_consts=tuple(constants))


def outcomes(name: str, plain: bool, count: Counter[str]) -> dict[str, str]:
    spec = importlib.util.find_spec(f"test.{name}")
    assert spec is not None and spec.origin is not None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        code = compile(open(spec.origin, "rb").read(), spec.origin, "exec", dont_inherit=True)
    module = types.ModuleType(f"test.{name}")
    module.__file__ = spec.origin
    module.__package__ = "test"
    sys.modules[module.__name__] = module
    exec(code if plain else replaced(code, count), module.__dict__)
    result = unittest.TestResult()
    suite = unittest.defaultTestLoader.loadTestsFromModule(module)
    tests: list[str] = []

    def collect(of):
        for test in of:
            if isinstance(test, unittest.TestSuite):
                collect(test)
            else:
                tests.append(test.id())

    collect(suite)
    suite.run(result)
    found = dict.fromkeys(tests, "passed")
    for kind in ("failures", "errors", "skipped"):
        for test, _ in getattr(result, kind):
            found[test.id()] = kind
    for test in result.expectedFailures:
        found[test[0].id()] = "expected"
    return found


if __name__ == "__main__":
    arguments = [one for one in sys.argv[1:] if not one.startswith("--")]
    counted: Counter[str] = Counter()
    for test_name in arguments:
        for test, outcome in outcomes(test_name, "--plain" in sys.argv, counted).items():
            print(outcome, test)
    if "--count" in sys.argv:
        print("#", dict(counted))
