"""Calls that wait until the graph has run: config.reorderable_logging_functions, logging, warnings (docs/feature_rows.md, C14)."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import io
import logging
import warnings

import pytest
import torch

import pellucid
from support import Counting, same

X = torch.tensor([1.0, 2.0, 3.0])
log = logging.getLogger("rows.calls")
history = []
SEEN = []


def note(*values, **named):
    history.append((values, named))
    return "never seen"


class Reporter:
    def __init__(self):
        self.lines = []

    def report(self, text, value):
        self.lines.append((text, value))


@pytest.fixture(autouse=True)
def registered():
    reporter.lines.clear()
    history.clear()
    names = {print, note, warnings.warn, reporter.report, log.info, looks_back}
    with pellucid.config.patch(reorderable_logging_functions=names):
        yield


reporter = Reporter()


def both(f, *args, calls=2, one_graph=True):
    """Calls f compiled, then eagerly, each with inputs of its own; the results."""
    counting = Counting()
    compiled = pellucid.compile(f, backend=counting, fullgraph=one_graph)
    for _ in range(calls):
        got = compiled(*[a.clone() if isinstance(a, torch.Tensor) else a for a in args])
        want = f(*[a.clone() if isinstance(a, torch.Tensor) else a for a in args])
        assert same(got, want)
    assert not one_graph or counting.count == 1
    return counting


def printed(capsys, f, *args, calls=2, **options):
    """The same with what is printed compared; what one call prints."""
    original = list(capsys.readouterr())  # noqa: F841
    counting = Counting()
    compiled = pellucid.compile(f, backend=counting, **({"fullgraph": True} | options))
    for _ in range(calls):
        inputs = [[a.clone() if isinstance(a, torch.Tensor) else a for a in args] for _ in range(2)]
        got = compiled(*inputs[0])
        out = capsys.readouterr()
        want = f(*inputs[1])
        assert out == capsys.readouterr() and same(got, want) and same(inputs[0], inputs[1])
    assert counting.count == 1
    return out.out


def test_C14_print_of_a_tensor_keeps_one_graph(capsys):
    def f(x):
        y = x * 2
        print("y =", y, "sum", y.sum())
        return y + 1

    assert printed(capsys, f, X) == "y = tensor([2., 4., 6.]) sum tensor(12.)\n"


def test_C14_order_of_the_program(capsys):
    def f(x):
        print("first")
        for i in range(3):
            x = x + i
            print(i, x)
        note("last")
        print("end", sep="", end="!\n")
        return x

    assert printed(capsys, f, X).splitlines()[0] == "first"
    assert [values for values, _ in history] == [("last",)] * 4


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_C14_a_tensor_that_is_written_later_shows_what_it_was(capsys, backend):
    def f(x):
        print("in", x)
        y = x * 2
        view = y[1:]
        print(view)
        y.add_(10)
        print(view, y)
        x.mul_(0)
        print(x)
        x[0] = 7
        print(x)
        return y

    compiled = pellucid.compile(f, backend=backend, fullgraph=True)
    for _ in range(2):
        a, b = X.clone(), X.clone()
        got, out = compiled(a), capsys.readouterr().out
        want = f(b)
        assert out == capsys.readouterr().out and same((got, a), (want, b))
    assert out.splitlines() == [
        "in tensor([1., 2., 3.])",
        "tensor([4., 6.])",
        "tensor([14., 16.]) tensor([12., 14., 16.])",
        "tensor([0., 0., 0.])",
        "tensor([7., 0., 0.])",
    ]


TABLE = {"a": [1, 2], "t": X}


def test_C14_containers_show_what_they_were(capsys):
    def f(x, items):
        fresh = [x.sum(), [1]]
        print(fresh, {"k": fresh}, (fresh,))
        fresh.append("later")
        fresh[1].append(2)
        print(fresh)
        print(items)
        items.append(4)
        print(items, len(items))
        items.clear()
        print(items, TABLE)
        return x + 1

    capsys.readouterr()
    compiled = pellucid.compile(f, backend="eager", fullgraph=True)
    for _ in range(2):
        a, b = [1, [2]], [1, [2]]
        got, out = compiled(X, a), capsys.readouterr().out
        assert same(got, f(X, b)) and a == b == [] and out == capsys.readouterr().out
    assert out.splitlines()[2:] == ["[1, [2]]", "[1, [2], 4] 3", f"[] {TABLE}"]


def test_C14_f_strings(capsys):
    def f(x):
        y = x * 2
        print(f"y={y} sum={y.sum():.2f} repr={y!r:>10} {'plain'} {len(y)}")
        print(f"{y}", f"{x.mean():5.1f}|", end=f"<{x.sum()}>\n")
        y.zero_()
        return y

    out = printed(capsys, f, X)
    assert "sum=12.00" in out and "  2.0|" in out and out.endswith("<6.0>\n")


def test_C14_f_strings_of_other_functions_and_methods():
    def f(x):
        y = x + 1
        note(f"{y}", keyword=f"{x.sum()}")
        reporter.report(f"<{y}>", y)
        return y

    both(f, X)
    assert [h[0] for h in history] == [("tensor([2., 3., 4.])",)] * 4
    assert history[0][1] == {"keyword": "6.0"}
    assert [line for line, _ in reporter.lines] == ["<tensor([2., 3., 4.])>"] * 4


def test_C14_an_f_string_that_goes_elsewhere_is_no_print(capsys):
    def f(x):
        text = f"{x}"
        print(text)
        return x + len(text)

    with pytest.raises(pellucid.errors.Unsupported, match="printing a tensor"):
        pellucid.compile(f, backend="eager", fullgraph=True)(X)
    assert same(pellucid.compile(f, backend="eager")(X), f(X))

    def g(x):
        print(f"{x} {x.sum().item()}", f"{x}" + "a", len(f"{x}"))
        return x + 1

    out = []
    for h in (pellucid.compile(g, backend="eager"), g):
        capsys.readouterr()
        assert same(h(X), X + 1)
        out.append(capsys.readouterr().out)
    assert out[0] == out[1]


def test_C14_user_functions_and_their_value():
    def f(x):
        got = note(x * 2, [x], key={"a": 1})
        return x + 1, got

    compiled = pellucid.compile(f, backend="eager", fullgraph=True)
    for n in (1, 2):
        assert same(compiled(X), (X + 1, None))  # the value is lost
        ((doubled, listed), named) = history[-1]
        assert same(doubled, X * 2) and listed[0] is X and named == {"key": {"a": 1}} and len(history) == n


def looks_back(x):
    SEEN.append((len(STATE), list(STATE)))


STATE = []


def test_C14_a_function_sees_the_changes_before_it_and_not_those_after():
    def f(x):
        STATE.append("one")
        looks_back(x)
        STATE.append("two")
        looks_back(x)
        STATE.clear()
        looks_back(x)
        STATE.append("three")
        return x + 1

    results = []
    for g in (f, pellucid.compile(f, backend="eager", fullgraph=True)):
        SEEN.clear()
        for _ in range(2):
            STATE.clear()
            g(X)
        results.append((list(SEEN), list(STATE)))
    assert results[0] == results[1]
    assert results[0][0][:3] == [(1, ["one"]), (2, ["one", "two"]), (0, [])]


def test_C14_methods_of_a_logger(caplog):
    def f(x):
        y = x * 2
        log.info("y %s", y)
        y += 1
        log.info("then %s of %d", y, 3)
        return y

    with caplog.at_level(logging.INFO, logger="rows.calls"):
        both(f, X)
    lines = [line.partition("INFO     rows.calls:")[2] for line in caplog.text.splitlines()]
    assert [line.partition(" ")[2] for line in lines] == [
        "y tensor([2., 4., 6.])",
        "then tensor([3., 5., 7.]) of 3",
    ] * 4
    assert len({line.partition(" ")[0] for line in lines}) == 2  # file and line as eager tells them


@contextlib.contextmanager
def handled_by(handler):
    """`log` has this handler and no other, and nothing is registered."""
    handlers, log.handlers, propagate, log.propagate = log.handlers, [handler], log.propagate, False
    level = log.level
    log.setLevel(logging.INFO)
    try:
        with pellucid.config.patch(reorderable_logging_functions=set()):
            yield
    finally:
        log.handlers, log.propagate = handlers, propagate
        log.setLevel(level)


def test_C14_logging_without_registration_shows_what_was():
    def f(x):
        items = [1]
        log.warning("items %s of %s", items, x.sum())
        items.append(2)
        return x + len(items)

    stream = io.StringIO()
    with handled_by(logging.StreamHandler(stream)):
        both(f, X)
    assert stream.getvalue() == "items [1] of tensor(6.)\n" * 4


class Remembers(logging.Handler):
    def __init__(self):
        super().__init__()
        self.seen = []

    def emit(self, record):
        self.seen.append(record.getMessage())


def test_logging_that_the_program_itself_handles_does_not_wait():
    handler = Remembers()

    def f(x):
        x = x + 1
        log.warning("one")
        return x * len(handler.seen)

    with handled_by(handler):
        compiled = pellucid.compile(f, backend="eager")
        assert [compiled(X).tolist() for _ in range(3)] == [((X + 1) * n).tolist() for n in (1, 2, 3)]
    assert pellucid.cache_entries(compiled)
    assert [reason.name for reason in pellucid.break_reasons()] == ["SideEffect"]


@pytest.mark.parametrize(
    "what", ["level", "disabled", "formatter", "filter", "own", "formatter's own", "logger's own", "factory"]
)
def test_what_the_region_changes_of_logging_counts_from_then_on(what):
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logging.Formatter("%(message)s"))
    emitted = []

    def f(x):
        x = x + 1
        log.warning("before")
        if what == "level":
            handler.setLevel(logging.ERROR)
        elif what == "disabled":
            log.disabled = True
        elif what == "formatter":
            handler.setFormatter(logging.Formatter("then %(message)s"))
        elif what == "filter":
            handler.addFilter(lambda record: record.levelno > logging.WARNING)
        elif what == "own":
            handler.emit = emitted.append
        elif what == "formatter's own":
            handler.formatter.format = lambda record: emitted.append(record) or "own"
        elif what == "logger's own":
            log.handle = emitted.append
        else:
            logging.setLogRecordFactory(
                lambda *args, **kwargs: emitted.append(args) or logging.LogRecord(*args, **kwargs)
            )
        log.warning("after")
        seen = len(emitted)
        log.disabled = False
        log.error("at last")
        return x + seen

    def run(call):
        stream.truncate(0)
        stream.seek(0)
        emitted.clear()
        try:
            return call(X), stream.getvalue(), len(emitted)
        finally:
            handler.setLevel(0)
            handler.setFormatter(logging.Formatter("%(message)s"))
            handler.filters.clear()
            for own in (handler, log):
                own.__dict__.pop("emit", None), own.__dict__.pop("handle", None)
            log.disabled = False
            logging.setLogRecordFactory(logging.LogRecord)

    with handled_by(handler):
        compiled = pellucid.compile(f, backend="eager")
        for _ in range(3):
            assert same(run(compiled), run(f))
        assert pellucid.cache_entries(compiled)


class Tells(io.StringIO):
    """A stream of the program's own."""

    def write(self, text):
        told.append(text)
        return len(text)


told: list[str] = []


def as_warnings_are_printed():
    """The function that prints a warning; pytest puts another in its place."""
    spec = importlib.util.spec_from_file_location("warnings", warnings.__file__)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module._showwarnmsg_impl


def warns(x):
    x = x + 1
    warnings.warn("here", stacklevel=1)
    return x * len(told)


def logs(x):
    x = x + 1
    log.warning("one")
    return x * len(told)


@pytest.mark.parametrize("handler", [None, "stream", "stderr"])
def test_what_goes_to_a_stream_of_the_programs_own_does_not_wait(handler, monkeypatch):
    monkeypatch.setattr(warnings, "_showwarnmsg_impl", as_warnings_are_printed())
    compiled = pellucid.compile(warns if handler is None else logs, backend="eager")
    with warnings.catch_warnings(), contextlib.ExitStack() as stack:
        warnings.simplefilter("always")
        stack.enter_context(pellucid.config.patch(reorderable_logging_functions=set()))
        stream = io.StringIO()
        stack.enter_context(contextlib.redirect_stderr(stream))
        if handler is not None:
            own = logging.StreamHandler(stream) if handler == "stream" else logging.lastResort
            stack.enter_context(handled_by(own))
        told.clear()
        assert not compiled(X).any() and stream.getvalue()  # a plain stream: nobody of the program's sees it
        with contextlib.redirect_stderr(Tells()):
            if handler == "stream":
                own.setStream(Tells())
            assert compiled(X).all() and told  # in time for the program to count it
    assert pellucid.cache_entries(compiled)
    assert [reason.name for reason in pellucid.break_reasons()] == ["SideEffect"]


def test_warnings_that_the_program_itself_records_or_raises_do_not_wait():
    def f(x, action):
        x = x + 1
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter(action)
            try:
                warnings.warn("here", stacklevel=1)
                x = x * 2
            except UserWarning as error:
                return x * 3, str(error)
            return x + len(caught), [str(warning.message) for warning in caught]

    with pellucid.config.patch(reorderable_logging_functions=set()):
        compiled = pellucid.compile(f, backend="eager")
        for action in ("always", "error", "ignore"):
            assert same(compiled(X, action), f(X, action))
    assert pellucid.cache_entries(compiled)


def test_C14_warnings():
    def f(x):
        warnings.warn(f"sum {x.sum()}", UserWarning, stacklevel=1)
        return x + 1

    compiled = pellucid.compile(f, backend="eager", fullgraph=True)
    for _ in range(2):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            assert same(compiled(X), X + 1)
        assert [str(w.message) for w in caught] == ["sum 6.0"]


def inner_warning(x):
    warnings.warn("here", stacklevel=1)
    log.info("in inner")
    warnings.warn("in the caller", stacklevel=2)
    return x * 2


def test_C14_places_are_the_programs(caplog):
    def f(x):
        y = inner_warning(x)
        log.info(f"in f {x.sum()}")
        return y + 1

    places = []
    with caplog.at_level(logging.INFO, logger="rows.calls"):
        for g in (f, pellucid.compile(f, backend="eager", fullgraph=True)):
            caplog.clear()
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                g(X)
            logged = [(r.filename, r.lineno, r.funcName, r.getMessage()) for r in caplog.records]
            places.append((logged, [(w.filename, w.lineno, str(w.message)) for w in caught]))
    assert places[0] == places[1]
    assert [name for _, _, name, _ in places[0][0]] == ["inner_warning", "f"]


class Thing:
    def __init__(self):
        self.n = 1

    def __repr__(self):
        return f"Thing({self.n})"


def test_C14_what_may_change_until_then_breaks(capsys):
    def f(x, thing):
        print(thing)
        thing.n += 1
        return x + thing.n

    compiled = pellucid.compile(f, backend="eager")
    a, b = Thing(), Thing()
    for _ in range(2):
        got, out = compiled(X, a), capsys.readouterr().out
        assert same(got, f(X, b)) and out == capsys.readouterr().out and a.n == b.n
    with pytest.raises(pellucid.errors.Unsupported, match="print"):
        pellucid.compile(f, backend="eager", fullgraph=True)(X, Thing())


def test_C14_what_was_printed_before_an_exception_is_visible(capsys):
    def f(x, n):
        print("before", x)
        y = x * 2
        if n > 1:
            raise ValueError("stop")
        print("after", y)
        return y

    compiled = pellucid.compile(f, backend="eager")
    for n in (1, 2, 2, 1):
        outs = []
        for g in (compiled, f):
            with contextlib.suppress(ValueError):
                g(X, n)
            outs.append(capsys.readouterr().out)
        assert outs[0] == outs[1]


def test_C14_functions_met_by_argument_are_guarded():
    def other(*values):
        history.append(("other", values))

    def f(x, tell):
        tell("x", x)
        return x + 1

    compiled = pellucid.compile(f, backend="eager")
    compiled(X, note), compiled(X, other), compiled(X, functools.partial(note, "more")), compiled(X, note)
    assert [h[0] for h in history] == [("x", X), "other", ("more", "x", X), ("x", X)] or len(history) == 4
    assert history[1][0] == "other" and history[2][0][0] == "more" and history[3][0][0] == "x"


def test_C14_without_registration_it_breaks(capsys):
    def f(x):
        print(x)
        return x + 1

    with pellucid.config.patch(reorderable_logging_functions=set()):
        with pytest.raises(pellucid.errors.Unsupported) as caught:
            pellucid.compile(f, backend="eager", fullgraph=True)(X)
    assert "reorderable_logging_functions" in str(caught.value)


def test_C14_the_set_may_be_changed_in_place():
    default = pellucid.config.options()["reorderable_logging_functions"].default

    def mine(x):
        history.append(x)

    def f(x):
        mine(x)
        return x + 1

    pellucid.config.reorderable_logging_functions = set()
    try:
        with pellucid.config.patch(reorderable_logging_functions=set()):
            pellucid.config.reorderable_logging_functions.add(mine)
            assert pellucid.compile(f, backend="eager", fullgraph=True)(X).tolist() == [2, 3, 4]
    finally:
        del pellucid.config.reorderable_logging_functions
    assert default == set() and len(history) == 1
