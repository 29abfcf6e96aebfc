"""Row A44, `pellucid.register_compile_hook`: what is done around the graph of one compile."""

import operator

import pytest
import torch

import pellucid
from support import same


@pytest.fixture
def hooked():
    """Registers hooks, and removes them behind the test."""
    handles = []

    def register(hook):
        handles.append(pellucid.register_compile_hook(hook))
        return handles[-1]

    yield register
    for handle in handles:
        handle.remove()


def program(x):
    y = x.sin()
    pellucid.graph_break()
    return y + 1


X = torch.ones(3)


def watched(log):
    def backend(gm, example_inputs):
        log.append("backend")
        return gm.forward

    return backend


def test_A44_cleanup_hooks_run_in_reverse_just_before_the_backend(hooked):
    log = []

    def hook(compile):
        compile.add_cleanup(lambda: log.append("first"))
        compile.add_cleanup(lambda: log.append("second"))
        compile.add_graph_finalizer(lambda gm: log.append("finalizer"))

    hooked(hook)
    compiled = pellucid.compile(lambda x: x.cos() * 2, backend=watched(log))
    assert same(compiled(X), X.cos() * 2)
    assert log == ["second", "first", "finalizer", "backend"]
    compiled(X)
    assert len(log) == 4


@pytest.mark.parametrize("name", ["eager", "aot_eager"])
def test_A44_a_finalizer_sees_the_graph_module_and_may_change_it(hooked, name):
    seen = []

    def finalizer(gm):
        seen.append([node.target for node in gm.graph.nodes if node.op == "call_function"])
        for node in gm.graph.nodes:
            if node.target is operator.add:
                node.target = operator.sub
        gm.recompile()

    handle = hooked(lambda compile: compile.add_graph_finalizer(finalizer))

    def f(x):
        return x + 3

    assert same(pellucid.compile(f, backend=name)(X), X - 3)
    assert seen == [[operator.add]]
    handle.remove()
    pellucid.reset()
    assert same(pellucid.compile(f, backend=name)(X), X + 3)


@pytest.mark.parametrize("name", ["eager", "aot_eager"])
def test_A44_code_before_the_graph_runs_once_for_each_call(hooked, name):
    log = []

    def f(x, items):
        items.append(1)
        return x * 2

    handle = hooked(lambda compile: compile.add_before_graph(lambda: log.append("before")))
    compiled = pellucid.compile(f, backend=name)
    items = []
    for count in range(1, 4):
        assert same(compiled(X, items), X * 2)
        assert log == ["before"] * count
    handle.remove()  # what is compiled keeps what was added to it
    compiled(X, items)
    assert len(log) == 4 and items == [1] * 4


def test_A44_it_runs_once_when_the_graph_raises(hooked):
    log = []

    def f(x, index):
        try:
            return x[index] * 2
        except IndexError:
            return x - 1

    hooked(lambda compile: compile.add_before_graph(lambda: log.append("before")))
    compiled = pellucid.compile(f, backend="eager")
    for index in (torch.tensor([0]), torch.tensor([7])):
        del log[:]
        assert same(compiled(X, index), f(X, index))
        assert log == ["before"]


def test_A44_what_it_raises_is_reported_and_the_graph_runs(hooked, monkeypatch):
    told = []
    monkeypatch.setattr("sys.unraisablehook", lambda error: told.append(error.exc_type))

    def refuses():
        raise PermissionError("not now")

    hooked(lambda compile: compile.add_before_graph(refuses))
    compiled = pellucid.compile(lambda x: x * 2, backend="eager")
    assert same(compiled(X), X * 2) and same(compiled(X), X * 2)
    assert told == [PermissionError] * 2


def test_A44_each_part_of_a_function_is_a_compile(hooked):
    seen = []
    hooked(lambda compile: seen.append((compile.code, compile.begins_behind_break, compile.compile_id)))
    assert same(pellucid.compile(program, backend="eager")(X), program(X))
    assert [one[:2] for one in seen] == [(program.__code__, False), (program.__code__, True)]
    assert seen[0][2] != seen[1][2]


def test_A44_code_at_capture_time_may_add_to_the_compile(hooked):
    log, now = [], []
    hooked(now.append)

    def note(ctx):
        now[-1].add_cleanup(lambda: log.append("cleaned"))

    def f(x):
        y = x * 2
        pellucid.comptime(note)
        return y

    assert same(pellucid.compile(f, backend=watched(log))(X), X * 2)
    assert log == ["cleaned", "backend"]


def test_A44_a_capture_that_is_dropped_cleans_up(hooked):
    log = []

    def backend(gm, example_inputs):
        if any(not isinstance(one, torch.Tensor) for one in example_inputs):
            raise RuntimeError("tensors only")
        log.append("backend")
        return gm.forward

    hooked(lambda compile: (log.append("begun"), compile.add_cleanup(lambda: log.append("cleaned"))))
    compiled = pellucid.compile(lambda x, n: x * n, backend=backend)
    assert same(compiled(X, 2), X * 2)
    del log[:]
    assert same(compiled(X, 3), X * 3)  # captured with an open number first, which this backend refuses
    assert log == ["begun", "cleaned", "begun", "cleaned", "backend"]


def test_A44_a_region_without_a_graph_cleans_up(hooked):
    log = []
    hooked(lambda compile: compile.add_cleanup(lambda: log.append("cleaned")))
    assert pellucid.compile(lambda n: n + 1, backend="eager")(3) == 4
    assert log == ["cleaned"]


def test_A44_what_a_finalizer_raises_ends_the_compile(hooked):
    def fails(gm):
        raise KeyError("finalizer")

    handle = hooked(lambda compile: compile.add_graph_finalizer(fails))
    compiled = pellucid.compile(lambda x: x * 2, backend="eager")
    with pytest.raises(KeyError, match="finalizer"):
        compiled(X)
    handle.remove()
    handle.remove()
    assert same(compiled(X), X * 2)


def test_A44_what_the_hook_raises_is_reported(hooked, monkeypatch):
    told = []
    monkeypatch.setattr("sys.unraisablehook", lambda error: told.append(error.exc_type))

    def fails(compile):
        raise KeyError("hook")

    hooked(fails)
    assert same(pellucid.compile(program, backend="eager")(X), program(X))
    assert told == [KeyError] * 2


def test_A44_a_hook_is_a_callable():
    with pytest.raises(TypeError, match="hook must be callable, not int"):
        pellucid.register_compile_hook(3)
