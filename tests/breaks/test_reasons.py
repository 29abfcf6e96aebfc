"""Every reason of the registry, provoked by its own example; what a message shows; the page made from the registry."""

from __future__ import annotations

import functools
import itertools
import linecache
import pickle
import re
import subprocess
import sys
import traceback
from pathlib import Path

import pytest
import torch

import pellucid
from pellucid.errors import Unsupported
from support import outcome, same

ROOT = Path(__file__).resolve().parents[2]
REASONS = pellucid.errors.reasons()
X = torch.ones(3)

# With fullgraph=True these raise what eager raises (or the backend): no Unsupported.
OWN_ERRORS = {"PEL0401": ValueError, "PEL0902": pellucid.errors.BackendCompilerFailed}

numbers = itertools.count()


def example(source):
    """The namespace of an example whose lines tracebacks can show."""
    number = next(numbers)
    name = f"<example {number}>"
    # An operator is defined once in a process.
    source = re.sub(r"reasons_(example::|untagged|overloads)", rf"reasons_{number}_\1", source)
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    space = {"__name__": "example"}
    exec(compile(source, name, "exec"), space)
    return space


@pytest.fixture(autouse=True)
def options():
    """Examples may set options."""
    with pellucid.config.patch(suppress_errors=False, continue_after_break=False):
        yield
    del pellucid.config.suppress_errors
    del pellucid.config.region_limit
    del pellucid.config.only_allow_pt2_compliant_ops


WITH_EXAMPLE = [row for row in REASONS.values() if row.example]


@pytest.mark.parametrize("row", WITH_EXAMPLE, ids=lambda row: f"{row.code}_{row.name}")
def test_example_with_fullgraph(row):
    space = example(row.example)
    compiled = pellucid.compile(space["f"], backend=space.get("backend", "eager"), fullgraph=True)
    if row.code in OWN_ERRORS:
        with pytest.raises(OWN_ERRORS[row.code]):
            compiled(X)
        return
    for _ in range(3):
        with pytest.raises(Unsupported) as caught:
            compiled(X)
        record = caught.value.record
        assert (record.code, record.name) == (row.code, row.name)
    text = str(caught.value)
    assert text.startswith(f"{row.code} {row.name}: ") and f"Why: {row.why}" in text and text.endswith(row.fix)
    assert record.message and "{" not in record.message
    assert same(text, str(pickle.loads(pickle.dumps(caught.value))))
    if row.code != "PEL0402":  # nothing of a generator function ran
        assert record.user_stack and "in f\n" in text


@pytest.mark.parametrize("continued", [False, True])
@pytest.mark.parametrize("row", WITH_EXAMPLE, ids=lambda row: f"{row.code}_{row.name}")
def test_example_without_fullgraph(row, capsys, continued):
    space, plain = example(row.example), example(row.example)
    with pellucid.config.patch(continue_after_break=continued, suppress_errors=row.code == "PEL0902"):
        compiled = pellucid.compile(space["f"], backend=space.get("backend", "eager"))
        for _ in range(2):
            got, printed = outcome(compiled, X), capsys.readouterr().out
            want = outcome(plain["f"], X)
            assert printed == capsys.readouterr().out
            if row.code == "PEL0402":
                got, want = (got[0], list(got[1])), (want[0], list(want[1]))
            if row.code == "PEL0315":  # an error without fullgraph too: that is what it is for
                assert issubclass(got[1], Unsupported) and row.code in got[2]
                continue
            assert got[0] == want[0] and same(list(got[1:]), list(want[1:])), (got, want)
    assert row.code in [record.code for record in pellucid.break_reasons()]


def test_every_reason_has_an_example():
    # Nothing known leads to a tensor of unknown origin (a check of pellucid's own), nor to an internal error.
    assert [row.code for row in REASONS.values() if not row.example] == ["PEL0103", "PEL0901"]


def test_internal_error(monkeypatch):
    def f(x):
        return x + functools.reduce(lambda a, b: a + b, [1, 2])

    monkeypatch.delattr(pellucid.polyfills, "reduce_by")  # a broken installation
    with pytest.raises(Unsupported) as caught:
        pellucid.compile(f, backend="eager", fullgraph=True)(X)
    assert caught.value.record.code == "PEL0901" and "no polyfill reduce_by" in str(caught.value)
    assert same(pellucid.compile(f, backend="eager")(X), f(X))


def test_rows_are_complete():
    for row in REASONS.values():
        assert re.fullmatch(r"PEL\d{4}", row.code) and row.name.isidentifier() and row.why.endswith(".") and row.fix
        assert not row.fix.endswith(".")
    assert len({row.name for row in REASONS.values()}) == len(REASONS)


def test_the_page_is_up_to_date():
    run = subprocess.run([sys.executable, ROOT / "tools/reasons_page.py", "--check"], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


# ---- what a message shows


def unsupported(f, *args) -> Unsupported:
    with pytest.raises(Unsupported) as caught:
        pellucid.compile(f, backend="eager", fullgraph=True)(*args)
    return caught.value


def stopped(f, *args) -> Unsupported:
    """The same of a backend, and without fullgraph=True, that do not have numbers of tensors in the graph."""
    with pytest.raises(Unsupported) as caught, pellucid.error_on_graph_break(True):
        pellucid.compile(f, backend="aot_eager")(*args)
    return caught.value


def middle(x):
    return (x + 1) * float(  # the frame below stands in this expression
        inner(x) + x.sum()
    )


def inner(x):
    y = x * 2j; z = [y.sin(), y.tolist(), y]  # noqa: E702  # fmt: skip
    return z[0]


def test_stack_and_column():
    error = stopped(lambda x: middle(x) + 1, X)
    stack = error.record.user_stack
    assert [frame.name for frame in stack] == ["<lambda>", "middle", "inner"]
    assert [frame.filename for frame in stack] == [__file__] * 3
    line = inner.__code__.co_firstlineno + 1
    source = linecache.getline(__file__, line)
    innermost = stack[-1]
    assert innermost.lineno == innermost.end_lineno == line
    assert source[innermost.colno : innermost.end_colno] == "y.tolist()"
    assert stack[1].lineno == middle.__code__.co_firstlineno + 2
    # The caret line is Python's own.
    text = str(error).splitlines()
    at = text.index(f'  File "{__file__}", line {line}, in inner')
    assert text[at + 2].strip() == "^" * len("y.tolist()")
    assert text[at + 2].index("^") == text[at + 1].index("y.tolist()")
    assert "".join(traceback.StackSummary.from_list(stack).format()) in str(error)


def test_the_place_of_a_value_that_cannot_be_rebuilt():
    def f(x):
        damaged = UnicodeDecodeError("utf-8", b"x", 0, 1, "no text")
        return damaged, x + 1

    record = unsupported(f, X).record
    assert record.code == "PEL0105" and "UnicodeDecodeError" in record.message
    assert record.user_stack[-1].lineno == f.__code__.co_firstlineno + 2


def branch(x):  # of single elements it would be foreseen
    if torch.cat([x, x]).sum() > 0:
        return x


def loop(x):
    while torch.cat([x, x]).sum():
        x = x - 1


def to_number(x):
    return int(x.sum())


def item(x):  # of a complex tensor, which no number of the region stands for
    return (x * 1j).sum().item()


def prints(x):
    print(x.shape)


def stack(x):
    return sys._getframe()


def imports(x):
    from reasons_tests_settings import scale

    return x * scale


def sparse(x):
    return x + SPARSE._nnz()


class Settings:
    scale = 2


sys.modules["reasons_tests_settings"] = Settings()
SPARSE = torch.eye(3).to_sparse()


@pytest.mark.parametrize("f", [branch, loop])
def test_a_branch_on_a_tensor_is_called_so_with_fullgraph_too(f):
    assert "a branch on a tensor (its truth)" in unsupported(f, X[:1]).record.message


@pytest.mark.parametrize(
    ("f", "words"),
    [
        (branch, "a branch on a tensor"),
        (loop, "a branch on a tensor"),
        (to_number, "int() of a tensor"),
        (item, "Tensor.item()"),
        (prints, "print() has an effect"),
        (stack, "sys._getframe() looks at"),
        (imports, "an import from something that is no module"),
        (sparse, "torch.sparse_coo tensor"),
    ],
)
def test_messages_name_things_as_the_program_does(f, words):
    record = stopped(f, X[:1]).record
    assert words in record.message
    assert not re.search(r"0x[0-9a-f]{6}|_core|LOAD_|DispatchKey|<built-in", record.message)


# ---- graph_break, error_on_graph_break, suppress_errors


@pytest.fixture(params=[False, True], ids=["eager_after_break", "continued"])
def both_modes(request):
    with pellucid.config.patch(continue_after_break=request.param):
        yield


def test_graph_break_tells_its_message(both_modes, counting):
    def f(x):
        y = x + 1
        pellucid.graph_break("here on purpose")
        return y * 2

    compiled = pellucid.compile(f, backend=counting)
    assert same(compiled(X), f(X))
    (record,) = pellucid.break_reasons()
    assert record.code == "PEL0303" and "here on purpose" in record.message
    assert record.user_stack[-1].lineno == f.__code__.co_firstlineno + 2
    error = unsupported(lambda x: pellucid.graph_break(msg="by keyword"), X)
    assert "by keyword" in str(error)


def breaks(x):
    print("break")
    return x + 1


def ends_in_error(f, *args):
    compiled = pellucid.compile(f, backend="eager")
    for _ in range(3):
        with pytest.raises(Unsupported) as caught:
            compiled(*args)
    return caught.value.record


def test_error_on_graph_break_as_block(both_modes):
    def f(x):
        y = x * 2
        with pellucid.error_on_graph_break(True):
            return breaks(y)

    record = ends_in_error(f, X)
    assert record.code == "PEL0304" and [frame.name for frame in record.user_stack] == ["f", "breaks"]
    assert same(f(X), X * 2 + 1)  # nothing in plain Python


def test_error_on_graph_break_as_decorator(both_modes):
    @pellucid.error_on_graph_break(True)
    def strict(x):
        return breaks(x)

    def f(x):
        return strict(x * 2)

    assert strict.__name__ == "strict"
    assert ends_in_error(f, X).code == "PEL0304"


def test_error_on_graph_break_around_the_call(both_modes):
    compiled = pellucid.compile(breaks, backend="eager")
    with pellucid.error_on_graph_break(True), pytest.raises(Unsupported):
        compiled(X)
    assert same(compiled(X), X + 1)


def test_error_on_graph_break_inner_blocks_win(both_modes):
    @pellucid.error_on_graph_break(False)
    def lenient(x):
        return breaks(x)

    def f(x):
        with pellucid.error_on_graph_break(True):
            y = lenient(x)
            with pellucid.error_on_graph_break(False):
                y = breaks(y)
        return breaks(y)

    compiled = pellucid.compile(f, backend="eager")
    for _ in range(3):
        assert same(compiled(X), X + 3)

    def g(x):
        with pellucid.error_on_graph_break(False), pellucid.error_on_graph_break(True):
            return breaks(x)

    ends_in_error(g, X)


def test_error_on_graph_break_behind_an_allowed_break(capsys):
    def f(x):
        y = breaks(x)
        with pellucid.error_on_graph_break(True):
            y = y * 2
            z = breaks(y)
        return z

    with pellucid.config.patch(continue_after_break=True):
        assert ends_in_error(f, X).code == "PEL0304"
        assert capsys.readouterr().out == "break\n" * 3  # the allowed one happened


def test_error_on_graph_break_is_left_behind_by_exceptions(both_modes):
    def f(x):
        try:
            with pellucid.error_on_graph_break(True):
                y = x * 2
                raise KeyError
        except KeyError:
            return breaks(y)

    compiled = pellucid.compile(f, backend="eager")
    for _ in range(2):
        assert same(compiled(X), X * 2 + 1)


def test_error_on_graph_break_does_not_weaken_fullgraph():
    def f(x):
        with pellucid.error_on_graph_break(False):
            return breaks(x)

    assert unsupported(f, X).record.code == "PEL0304"


def test_fullgraph_shares_no_breaks(both_modes):
    strict, lenient = (pellucid.compile(breaks, backend="eager", fullgraph=flag) for flag in (True, False))
    for _ in range(4):
        assert same(lenient(X), X + 1)
        with pytest.raises(Unsupported):
            strict(X)


def test_error_on_graph_break_without_a_break(both_modes, counting):
    @pellucid.error_on_graph_break(True)
    def f(x):
        return x.sin() + 1

    compiled = pellucid.compile(f, backend=counting)
    for _ in range(2):
        assert same(compiled(X), X.sin() + 1)
    assert counting.count == 1
    assert same(pellucid.compile(breaks, backend="eager")(X), X + 1)  # no block is left open


def test_error_on_graph_break_leaves_the_programs_exceptions_alone(both_modes):
    @pellucid.error_on_graph_break(True)
    def f(x):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        pellucid.compile(f, backend="eager")(X)


def failing(gm, example_inputs):
    raise ZeroDivisionError("no kernel")


def test_suppress_errors(both_modes, caplog):
    def f(x):
        return x + 1

    compiled = pellucid.compile(f, backend=failing)
    with pytest.raises(pellucid.errors.BackendCompilerFailed):
        compiled(X)
    with pellucid.config.patch(suppress_errors=True):
        for _ in range(4):
            assert same(compiled(X), X + 1)
        with pytest.raises(pellucid.errors.BackendCompilerFailed):
            pellucid.compile(f, backend=failing, fullgraph=True)(X)
    (record,) = pellucid.break_reasons(compiled)
    assert record.code == "PEL0902" and "'failing' raised ZeroDivisionError: no kernel" in record.message
    warnings = [r for r in caplog.records if r.name == "pellucid"]
    assert 1 <= len(warnings) <= 2 and "no kernel" in warnings[0].getMessage() and warnings[0].exc_info


def test_suppress_errors_behind_a_break(caplog, capsys):
    calls = []

    def backend(gm, example_inputs):
        calls.append(gm)
        if len(calls) > 1:
            raise ZeroDivisionError("second")
        return gm.forward

    def f(x):
        y = x * 2
        print("once")
        return y + 1

    with pellucid.config.patch(suppress_errors=True, continue_after_break=True):
        compiled = pellucid.compile(f, backend=backend)
        for _ in range(2):
            assert same(compiled(X), X * 2 + 1) and capsys.readouterr().out == "once\n"
    assert 2 <= len(calls) <= 3 and "second" in caplog.text


def test_interrupts_are_never_suppressed():
    def backend(gm, example_inputs):
        raise KeyboardInterrupt

    with pellucid.config.patch(suppress_errors=True), pytest.raises(KeyboardInterrupt):
        pellucid.compile(lambda x: x + 1, backend=backend)(X)


def test_a_function_that_is_no_frame_has_its_own_line():
    def generator(x):
        yield x + 1

    list(pellucid.compile(generator, backend="eager")(torch.ones(3)))
    (record,) = pellucid.break_reasons()
    assert record.code == "PEL0402"
    (frame,) = record.user_stack
    assert (frame.filename, frame.lineno, frame.name) == (__file__, generator.__code__.co_firstlineno, "generator")


def test_what_raises_is_one_break_for_each_place():
    def program(x, n):
        if n > 2:
            raise ValueError(f"no {n}")
        return x.reshape(n, 7)

    calls = [(torch.ones(3), n) for n in (1, 2, 5, 6)]
    watched = pellucid.ExplainWithBackend("eager")
    compiled = pellucid.compile(program, backend=watched)
    for call in calls:
        with pytest.raises((RuntimeError, ValueError)):
            compiled(*call)
    causes = {"Tensor.reshape cannot be computed on shapes alone: RuntimeError", "the program raises ValueError"}
    assert [record.cause for record in watched.break_reasons] == sorted(causes)
    assert set(pellucid.counters["graph_break"]) == causes
    assert "shape '[1, 7]' is invalid" in watched.break_reasons[0].message
