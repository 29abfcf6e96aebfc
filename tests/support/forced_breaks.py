"""A way to run the tests: `--force-break-every 2,5` ends every region after so many instructions, which must change no result.

Each test runs once per number, and before that once eagerly (no call is compiled). What holds eagerly must hold with forced breaks: else the
test fails. What does not hold eagerly either is about graphs, not about results: how many, why it stopped, which guards. Such a line may fail
with forced breaks too, and the test goes on behind it. For that, asserts of tests are made to go on (`_GoesOn`), and fullgraph=True is
ignored. The summary tells how many tests were split, what was relaxed and where a test could not go on.
"""

from __future__ import annotations

import ast
import builtins
import collections
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import re
import sys
import traceback
from pathlib import Path

import pytest
from _pytest.assertion.rewrite import rewrite_asserts

import pellucid
from pellucid import _core
from support.forced_switch import EAGERLY, ignore_fullgraph, switch_on

TESTS = Path(__file__).resolve().parent.parent
# A bound on the number of graphs may hold when there is none.
COUNTS = re.compile(r"\bcount(ing)?\b|graphs|len\(ops\)|\bops\[|cache_entries|break_reasons|counters|stages")
# Behind the place where the eager run of a test had to stop, only what compares results is about them.
COMPARES = re.compile(r"\b(same|equal|alike|picture|outcome|orders|compiled|allclose)\b")
NO_MODULES = {"support", "forced", "fuzz_regressions"}
PROGRAMS_OWN = {"exception_programs", "forced_breaks", "forced_switch", "conftest"}  # their asserts are not a test's


class Run:
    """One test in one mode."""

    def __init__(self) -> None:
        self.failed: dict[tuple[str, int], str] = {}  # asserts that did not hold
        self.ended: tuple[str, int] | None = None  # where an exception ended it
        self.ends: int = 0
        self.refused: list[str] = []


now = Run()
eager: dict[str, Run] = {}
# Tests that ask of one graph, or of one region's guards, what many of them cannot answer.
OF_ONE_GRAPH = {
    "test_code_keeps_no_object_alive_for_its_method": "a method that two slots hold is a guard's",
    "test_F02_graphs_run_as_plain_torch": "the first graph gives the result of the function",
    "test_A10_like_names_stay_distinct": "the first graph gives the result of the function",
    "test_A13_a_guarded_static_tensor_is_an_attribute": "the first graph gives the result of the function",
    "test_C17_code_of_a_region": "the first region gives the result of the function",
    "test_D01_what_a_backend_may_give": "the backend is called",
    "test_B11_guards_of_an_entry_are_python_expressions": "guards of the first region refuse what others read",
    "test_guards_as_python_say_the_same": "guards of the first region refuse what others read",
    "test_each_line_says_what_became_of_it": "which line is compiled again depends on what is open",
    "test_guards_about_values_hold_for_the_call_that_made_them": "guards of later regions are about values in between",
    "test_the_end_of_a_compile_tells_what_its_phases_took": "each region has a graph",
    "test_recompiles_of_other_functions_that_a_profiler_holds": "a function is compiled again once, not in parts",
    "test_recompiles_and_limits_are_told": "a function is compiled again once, not in parts",
    "test_regions_name_their_function_and_graph": "each region has a graph",
    "test_example_with_fullgraph": "what runs in parts ends as in eager",
    "test_messages_name_things_as_the_program_does": "what runs in parts ends as in eager",
    "test_an_interrupt_leaves_no_half_written_state": "the first graph holds the write that is taken back",
    "test_error_on_graph_break_leaves_the_programs_exceptions_alone": "a forced end is a break that the block forbids",
    "test_suppress_errors": "the backend is called, and fails",
    "test_graphs_of_functions": "compares graphs, not results",
    "test_graphs_of_modules": "compares graphs with those for constant sizes",
    "test_calls_that_give_the_same_tensor": "compares graphs with those for constant sizes",
    "test_A07_every_node_has_an_example_value": "all inputs are tensors",
    "test_E05_a_callable_that_can_be_stored": "all inputs are tensors",
    "test_A07_example_values_are_what_the_real_operators_give": "its backend runs the graph on the example inputs",
    "test_how_objects_are_stored_and_held_is_asked_of_the_programs_own": "the call stays whole",
    "test_as_trying_one_by_one": "the entries of the function itself are many",
    "test_entries_that_serve_the_same_calls": "the entries of the function itself are many",
    "test_entries_whose_objects_are_gone": "the entries of the function itself are many",
    "test_state_is_compared_too": "the entries of the function itself are many",
    "test_B14_recompile_limit": "the limit is of one region, and many reach it",
    "test_B14_the_limit_names_the_code_of_the_user": "the limit is of one region, and many reach it",
    "test_at_the_limit_calls_run_eagerly_for_a_while": "the limit is of one region, and many reach it",
    "test_without_patience_nothing_gives_way": "the limit is of one region, and many reach it",
    "test_entries_that_give_way_let_their_objects_go": "the limit is of one region, and many reach it",
    "test_C05_bound_slots_cross": "a super object that is alive at an end is held by its guard",
    "test_recompiles_up_to_the_limit_grow_nothing": "a forced end is a break, and the last 1,000 breaks are kept",
    "test_given_up_with_one_warning": "each graph that fails is given up with its own warning",
    "test_sixty_four_cost_what_four_cost": "compares times",
    "test_from_a_warm_cache": "how often it is compiled, and whether a pass of the backend is asked",
    "test_K04_results_are_those_of_eager": "how many graphs and operations there are",
    "test_K05_report": "how many graphs and breaks there are",
    "test_K05_when_nothing_happened": "a forced end is a break",
    "test_K06_no_limit_ends_it": "how many recompiles there are, and where",
    "test_the_profiler_sees_what_eager_sees": "how many graphs there are",
    "test_D18_deferred_assertions_fire_with_their_expression": "the first graph gives the result of the function",
    "test_what_is_told_of_values": "a number that is open is not known when it is compiled",
    "test_of_torch": "a number that is open is not known when it is compiled",
    "test_options_and_install": "the mode is an option, which is listed",
    "test_it_does_not_write_over_a_line_that_is_edited": "what compiles behind the edited line may take its time",
    "test_of_a_c_function": "torch takes one substitute of a function in a process",
}
totals: collections.Counter[str] = collections.Counter()
lines: list[dict] = []


# ---- tests that go on


def went_wrong(error: BaseException, file: str, line: int, expression: str) -> None:
    now.failed.setdefault((file, line), f"{expression}\n{type(error).__name__}: {error}")


class _GoesOn(ast.NodeTransformer):
    """`assert a and b` in a function of the module: two, and what fails is noted."""

    def __init__(self, file: str) -> None:
        self.file, self.depth = file, 0

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        is_program = any("pytest" not in ast.unparse(mark) for mark in node.decorator_list)
        if self.depth == 0 and not is_program:
            self.depth += 1
            self.generic_visit(node)
            self.depth -= 1
        return node

    def visit_Try(self, node: ast.Try) -> ast.AST:
        return node  # an assert there may be meant to fail

    def visit_Assert(self, node: ast.Assert) -> list[ast.stmt]:
        parts = node.test.values if isinstance(node.test, ast.BoolOp) and isinstance(node.test.op, ast.And) else None
        return [self.guarded(ast.copy_location(ast.Assert(part, node.msg), node)) for part in parts or [node.test]]

    def guarded(self, node: ast.Assert) -> ast.Try:
        note = ast.parse(f"_went_wrong(_error, {self.file!r}, {node.lineno}, {ast.unparse(node.test)!r})").body
        handler = ast.ExceptHandler(ast.Name("Exception", ast.Load()), "_error", note)
        guarded = ast.Try([node], [handler], [], [])
        for part in (guarded, handler, *ast.walk(note[0])):
            ast.copy_location(part, node)
        return ast.fix_missing_locations(guarded)


class _Loader(importlib.machinery.SourceFileLoader):
    def get_code(self, fullname):
        source = self.get_data(self.path)
        tree = _GoesOn(Path(self.path).name).visit(ast.parse(source, self.path))
        rewrite_asserts(tree, source, self.path)
        return compile(tree, self.path, "exec", dont_inherit=True)

    def exec_module(self, module):
        builtins._went_wrong = pellucid.disable(went_wrong)
        super().exec_module(module)


def is_polyfill(file: str) -> bool:
    return TESTS in Path(file).parents


def file_of(module: str) -> Path | None:
    """Of a test, of programs beside one, of a helper. Pytest puts the folders of tests on the path."""
    if module.startswith("support."):
        return TESTS / f"{module.replace('.', '/')}.py"
    return next((path for path in TESTS.glob(f"*/{module}.py") if path.parent.name not in NO_MODULES), None)


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, fullname, path=None, target=None):
        file = file_of(fullname)
        if file is None or file.stem in PROGRAMS_OWN or not file.exists():
            return None
        return importlib.util.spec_from_file_location(fullname, file, loader=_Loader(fullname, str(file)))


# ---- modes


def begin(config: pytest.Config) -> None:
    sys.meta_path.insert(0, _Finder())
    ignore_fullgraph(pellucid)
    # Programs that tests start find sitecustomize.py there.
    os.environ["PYTHONPATH"] = os.pathsep.join([str(TESTS / "forced"), os.environ["PYTHONPATH"]])
    config.pluginmanager.register(sys.modules[__name__])


def id_of(mode: str) -> str:
    return mode if mode == EAGERLY else f"every_{mode}"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    numbers = metafunc.config.getoption("force_break_every").split(",")
    metafunc.parametrize("forced", [EAGERLY, *numbers], indirect=True, ids=id_of)


@pytest.fixture(autouse=True)
def forced(request, monkeypatch):
    switch_on(pellucid, request.param)
    monkeypatch.setenv("PELLUCID_FORCED_BREAKS", request.param)
    yield request.param
    del pellucid.config.force_break_every, pellucid.config.recompile_limit


# ---- what a failure means


def place(error: BaseException) -> tuple[str, int] | None:
    mine = [f for f in traceback.extract_tb(error.__traceback__) if is_polyfill(f.filename)]
    mine = [f for f in mine if Path(f.filename).name != "forced_breaks.py"]
    return (Path(mine[0].filename).name, mine[0].lineno or 0) if mine else None


def note(item: pytest.Function, mode: str, what: str, where: tuple[str, int] | None, text: str = "") -> None:
    totals[what] += 1
    lines.append({"test": item.nodeid, "mode": mode, "what": what, "where": where, "text": text[:2000]})


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function):
    global now
    mode = pyfuncitem.callspec.params["forced"]
    name = pyfuncitem.nodeid.replace(id_of(mode), "")
    now = run = Run()
    first = _core.next_event()
    error = None
    try:
        yield
    except (Exception, pytest.fail.Exception) as raised:
        error, run.ended = raised, place(raised)
    if mode == EAGERLY:
        eager[name] = run
        return True
    for event in _core.events(first):
        run.ends += event["kind"] == "forced_end"
        if event["kind"] == "forced_end_refused":
            run.refused.append(event["text"])
    judge(pyfuncitem, mode, run, eager.get(name, Run()), error)
    return True


def is_about_graphs(name: str, where: tuple[str, int], text: str, plain: Run) -> bool:
    if name in OF_ONE_GRAPH or where in plain.failed or COUNTS.search(text.split("\n")[0]):
        return True
    behind = plain.ended is not None and where[0] == plain.ended[0] and where[1] > plain.ended[1]
    return behind and not COMPARES.search(text.split("\n")[0])


def is_test_stopping(error: BaseException, plain: Run) -> bool:
    """Whether the test itself cannot go on for want of a graph or of pellucid's error."""
    if isinstance(error, pytest.fail.Exception):
        return re.search(r"DID NOT RAISE.*(Unsupported|RecompileLimit|BackendCompilerFailed)", str(error)) is not None
    if isinstance(error, AssertionError):  # in a function inside of the test
        return COUNTS.search(str(error)) is not None
    innermost = traceback.extract_tb(error.__traceback__)[-1].filename
    return plain.ended is not None and is_polyfill(innermost)


def judge(item: pytest.Function, mode: str, run: Run, plain: Run, error: BaseException | None) -> None:
    totals["tests"] += 1
    totals["split"] += run.ends > 0
    totals["forced ends"] += run.ends
    for why in run.refused:
        note(item, mode, "refused", None, why)
    if run.ends:
        note(item, mode, "ends", None, str(run.ends))
    wrong = {}
    for where, text in run.failed.items():
        if is_about_graphs(item.originalname, where, text, plain):
            note(item, mode, "about graphs", where, text)
        else:
            wrong[where] = text
            note(item, mode, "difference", where, text)
    if error is not None and (
        run.ended == plain.ended or item.originalname in OF_ONE_GRAPH or is_test_stopping(error, plain)
    ):
        note(item, mode, "cut short", run.ended, f"{type(error).__name__}: {error}")
        error = None
    if error is not None:
        note(item, mode, "difference", run.ended, f"{type(error).__name__}: {error}")
        raise error
    if wrong:
        pytest.fail("\n".join(f"{file}:{line}: {text}" for (file, line), text in wrong.items()), pytrace=False)


def pytest_terminal_summary(terminalreporter, config) -> None:
    terminalreporter.section("forced breaks")
    for what in ("tests", "split", "forced ends", "refused", "about graphs", "cut short", "difference"):
        terminalreporter.line(f"{what}: {totals[what]}")
    report = config.getoption("force_break_report")
    if report:
        Path(report).write_text("".join(json.dumps(line) + "\n" for line in lines))
