"""Values that are alive where a region begins and that it only moves or drops: they are not looked at, so they need no guard."""

import gc

import pytest
import torch

import pellucid
from support import Counting

LOG = []


class Clock:
    """Another number at each call, and a graph break."""

    def __init__(self):
        self.now = 0.0

    @pellucid.disable
    def __call__(self):
        self.now += 1.0
        return self.now


def graphs_of(function, *calls):
    """The graphs that the calls compile; each gives what eager gives."""
    counting = Counting()
    compiled = pellucid.compile(function, backend=counting)
    for args in calls:
        expected = function(*args)
        got = compiled(*args)
        torch.testing.assert_close(got, expected)
    return counting.graphs


def test_a_result_that_is_dropped():
    clock = Clock()

    def program(x):
        for _ in range(8):
            clock()
            x = x + 1
        return x

    assert len(graphs_of(program, *[(torch.ones(2),)] * 4)) == 2  # the first step of the loop, and one for all others


def test_a_result_that_is_stored_and_never_read():
    clock = Clock()

    def program(x):
        for _ in range(4):
            began = clock()  # noqa: F841
            x = x * 2
        return x

    assert len(graphs_of(program, *[(torch.ones(2),)] * 4)) == 2  # `began` is unbound in the first turn alone


def test_a_result_that_is_read_is_guarded():
    clock = Clock()

    def program(x):
        now = clock()
        return x + now

    compiled = pellucid.compile(program, backend="eager")
    assert [compiled(torch.zeros(1)).item() for _ in range(4)] == [1.0, 2.0, 3.0, 4.0]


def test_a_value_that_is_read_on_one_path():
    clock = Clock()

    def program(x, wanted):
        now = clock()
        x = x + 1
        return x + now if wanted else x

    compiled = pellucid.compile(program, backend="eager")
    got = [compiled(torch.zeros(1), wanted).item() for wanted in (False, False, True, True, False)]
    assert got == [1.0, 1.0, 4.0, 5.0, 1.0]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_what_is_dropped_has_a_finalizer_later(backend):
    class Noisy:
        def __del__(self):
            LOG.append("gone")

    give = [1.0, 1.0, Noisy, 2.0, Noisy]

    @pellucid.disable
    def next_value(at):
        made = give[at]
        return made() if isinstance(made, type) else made

    def program(x, at):
        value = next_value(at)
        LOG.append("stored")
        value = None  # noqa: F841
        LOG.append("dropped")
        return x + 1

    def run(call):
        LOG.clear()
        for at in range(len(give)):
            call(torch.ones(1), at)
            gc.collect()
        return list(LOG)

    expected = run(program)
    assert "gone" in expected
    assert run(pellucid.compile(program, backend=backend)) == expected


def test_objects_of_any_kind_move_through():
    values = [1, "text", [1], {"a": torch.ones(1)}, torch.ones(3), None, object(), (1, [2]), range(3), print]

    @pellucid.disable
    def give(at):
        return values[at]

    def program(x, at):
        held = give(at)
        x = x + 1
        return x, held

    graphs = []
    compiled = pellucid.compile(program, backend=lambda gm, inputs: graphs.append(gm) or gm.forward)
    for at, value in enumerate(values):
        assert compiled(torch.ones(2), at)[1] is value
    assert len(graphs) <= 2 + len(values)  # `at` is a number of the call


def test_the_same_container_moves_and_is_changed():
    @pellucid.disable
    def twice(container):
        return container, container

    def program(x, container):
        a, b = twice(container)
        a.append(x + 1)
        return x * 2, b

    def run(call):
        container = []
        result = [call(torch.ones(1), container) for _ in range(3)]
        return len(container), [pair[1] is container for pair in result]

    assert run(pellucid.compile(program, backend="eager")) == run(program) == (3, [True] * 3)


class Watched:
    """Attributes are set and looked up by functions of its own, which count their calls in LOG."""

    def __init__(self):
        object.__setattr__(self, "first", 1)

    def __setattr__(self, name, value):
        LOG.append(("set", name))
        super().__setattr__(name, value)

    def __getattribute__(self, name):
        LOG.append(("get", name))
        return super().__getattribute__(name)


def test_a_value_that_is_read_later_keeps_its_own_type():
    """The stand-in of a value that was not looked at yet says nothing of how its attributes are set and got."""
    clock = Clock()

    def program(x, watched):
        clock()
        watched.second = 2
        return x + watched.first

    for _ in range(20):  # the order of a table by address decided
        LOG.clear()
        watched, compiled = Watched(), pellucid.compile(program, backend="eager")
        torch.testing.assert_close(compiled(torch.ones(2), watched), torch.full((2,), 2.0))
        assert LOG == [("set", "second"), ("get", "first")]


def seen(error, depth=0):
    if error is None or depth > 5:
        return None
    return type(error), [seen(one, depth + 1) for one in (error.__cause__, error.__context__)]


@pytest.mark.parametrize("every", range(1, 20))
def test_an_argument_that_becomes_a_cell(every):
    """A region may begin before the function has made the cell of its argument: whoever has the cell reads it."""

    def program(x):
        y = x + 1
        try:
            return y.nothing
        except AttributeError as error:
            return seen(error), y

    with pellucid.config.patch(force_break_every=every, recompile_limit=1000):
        compiled = pellucid.compile(program, backend="eager")
        for _ in range(3):
            assert str(compiled(torch.ones(2))) == str(program(torch.ones(2)))
    assert pellucid.counters()["stops"] > 0
