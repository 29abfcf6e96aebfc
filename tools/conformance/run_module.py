"""One test module in a process of its own: a line of JSON when a test starts, another with its outcome.

python tools/conformance/run_module.py test_list out.jsonl --impl pellucid
"""

from __future__ import annotations

import argparse
import builtins
import doctest
import faulthandler
import json
import sys
import time
import traceback
import types
import unittest
import warnings
from collections import Counter
from pathlib import Path

import compilers


class Recorder(unittest.TestResult):
    """Writes each outcome as soon as it is known: a crash loses one test only."""

    def __init__(self, out: Path, compiler: compilers.Plain) -> None:
        super().__init__()
        self.file = out.open("a")
        self.compiler = compiler

    def write(self, **record) -> None:
        self.file.write(json.dumps(record) + "\n")
        self.file.flush()

    def startTest(self, test) -> None:
        super().startTest(test)
        self.outcome, self.detail, self.start = "pass", "", time.monotonic()
        self.write(start=test.name)
        self.compiler.start()

    def stopTest(self, test) -> None:
        super().stopTest(test)
        kind = "doctest" if isinstance(test, doctest.DocTestCase) else "method"
        self.write(
            test=test.name,
            kind=kind,
            outcome=self.outcome,
            detail=self.detail,
            seconds=round(time.monotonic() - self.start, 3),
            **self.compiler.facts(),
        )

    def _failed(self, outcome: str, test, error) -> None:
        detail = "".join(traceback.format_exception(*error))
        if hasattr(test, "name"):
            self.outcome, self.detail = outcome, detail
        elif getattr(test, "test_case", None) is None:  # setUpClass, setUpModule: no test was started
            self.write(fixture=str(test), outcome=outcome, detail=detail)
        else:
            self.outcome, self.detail = outcome, detail

    def addError(self, test, err) -> None:
        self._failed("error", test, err)

    def addFailure(self, test, err) -> None:
        self._failed("fail", test, err)

    def addSubTest(self, test, subtest, err) -> None:
        if err is not None:
            self._failed("fail" if issubclass(err[0], test.failureException) else "error", subtest, err)

    def addSkip(self, test, reason) -> None:
        self.outcome = "skip"

    def addExpectedFailure(self, test, err) -> None:
        self.outcome = "expected failure"

    def addUnexpectedSuccess(self, test) -> None:
        self.outcome = "unexpected success"


def flat(suite) -> list[unittest.TestCase]:
    return [test for part in suite for test in flat(part)] if isinstance(suite, unittest.TestSuite) else [suite]


def load(module: str) -> list[unittest.TestCase]:
    """The tests in the module's order, each with a name that is its own."""
    tests, names = flat(unittest.defaultTestLoader.loadTestsFromName(f"test.{module}")), Counter()
    for test in tests:
        name = test.id().removeprefix(f"test.{module}.")
        names[name] += 1
        test.name = name if names[name] == 1 else f"{name} #{names[name]}"
    return tests


def compile_bodies(call, torch_ops: bool) -> None:
    """From now on unittest and doctest run what they run through `call`."""

    def call_method(self, method):
        result = method() if isinstance(self, doctest.DocTestCase) else call(method)
        if result is not None:
            warnings.warn(f"{method} returned a value", DeprecationWarning, stacklevel=3)

    def call_example(code, globs):
        globs.setdefault("__builtins__", builtins)
        call(types.FunctionType(code, globs))

    unittest.TestCase._callTestMethod = call_method
    if not torch_ops:
        doctest.exec = call_example


def run(options: argparse.Namespace) -> None:
    from test import support

    support.use_resources = []  # no network, no gigabytes, no minutes
    compiler = compilers.make(options.impl)
    compile_bodies(compilers.caller(compiler, options.torch_ops), options.torch_ops)
    tests = [
        test
        for test in load(options.module)
        if test.name not in options.skip and (not options.match or options.match in test.name)
    ]
    recorder = Recorder(options.out, compiler)
    unittest.TestSuite(tests[: options.limit]).run(recorder)
    recorder.write(end=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("module")
    parser.add_argument("out", type=Path)
    parser.add_argument("--impl", choices=("plain", "pellucid", "dynamo"), default="pellucid")
    parser.add_argument("--torch-ops", action="store_true")
    parser.add_argument("--match", default="")
    parser.add_argument("--limit", type=int)
    parser.add_argument("--skip", nargs="*", default=[])
    faulthandler.enable()
    options = parser.parse_args()
    sys.argv[1:] = []  # modules look at it
    run(options)


if __name__ == "__main__":
    main()
