"""RecursionError comes at the depth where eager raises it, from wherever a compiled function is called, and never brings the process down."""

import subprocess
import sys

import pytest
import torch

import pellucid


def plain(x, log):
    x = x * 2

    def down(n):
        log.append(n)
        down(n + 1)

    try:
        down(0)
    except RecursionError:
        pass
    return x + 1


def caught_at_each_level(x, log):
    x = x * 2

    def down(x, n):
        try:
            return down(x + 1, n + 1)
        except RecursionError:
            log.append(n)
            return x

    return down(x, 0)


def with_a_break(x, log):
    x = x * 2

    log.append((x + 1).tolist())

    def down(x, n):
        log.append(n)
        pellucid.graph_break()
        return down(x + 1, n + 1)

    try:
        down(x, 0)
    except RecursionError:
        pass
    return x + 1


def by_methods(x, log):
    x = x * 2

    class Node:
        def __init__(self, n):
            self.n = n

        def down(self, x):
            log.append(self.n)
            self.n += 1
            return self.down(x * 1)

    try:
        Node(0).down(x)
    except RecursionError:
        pass
    return x + 1


def by_generators(x, log):
    x = x * 2

    def down(n):
        log.append(n)
        yield n
        yield from down(n + 1)

    try:
        for _ in down(0):
            pass
    except RecursionError:
        pass
    return x + 1


class Number:
    def __init__(self, n, log):
        self.n, self.log = n, log

    def __add__(self, other):
        self.log.append(self.n)
        self.n += 1
        return self + other


def by_dunders(x, log):
    x = x * 2

    try:
        Number(0, log) + 1
    except RecursionError:
        pass
    return x + 1


def not_too_deep(x, log):
    x = x * 2

    def down(x, n):
        return x if n == 0 else down(x + 1, n - 1)

    try:
        log.append(down(x, 150).tolist())
    except RecursionError:
        log.append("too deep")
    return x + 1


def open_frames():
    """Of the caller and those below it."""
    depth, frame = 0, sys._getframe(1)
    while frame is not None:
        depth, frame = depth + 1, frame.f_back
    return depth


@pytest.fixture
def shallow():
    """Deep is 350 levels from here."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(open_frames() + 350)
    yield
    sys.setrecursionlimit(limit)


def at_depth(levels, f, *args):
    return f(*args) if levels == 0 else at_depth(levels - 1, f, *args)


PROGRAMS = [plain, caught_at_each_level, with_a_break, by_methods, by_generators, by_dunders, not_too_deep]


@pytest.mark.parametrize("first", [0, 100, 270])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_the_depth_is_that_of_eager(program, first, shallow):
    graphs = []

    def backend(graph, inputs):
        graphs.append(graph)
        return graph.forward

    compiled = pellucid.compile(program, backend=backend)
    for depth in (first, 0, 180, 20, 300, 0):
        seen = []
        for f in (program, compiled):
            log = []
            result = at_depth(depth, f, torch.ones(2), log)
            seen.append((log, result.tolist()))
        assert seen[0] == seen[1], depth
    assert graphs


def test_backends_have_room_near_the_limit():
    """Compiling needs more levels than the program has left."""

    def f(x):
        return x * 2 + 1

    graphs = []

    def backend(graph, inputs):
        def deep(n):
            return n if n == 0 else deep(n - 1)

        deep(600)
        graphs.append(graph)
        return graph.forward

    compiled = pellucid.compile(f, backend=backend)
    room = sys.getrecursionlimit() - 250
    assert at_depth(room - open_frames(), compiled, torch.ones(2)).tolist() == [3, 3]
    assert len(graphs) == 1


def test_the_process_goes_on_after_deep_recursion():
    text = """
import torch, pellucid

def f(x, n=0):
    try:
        return f(x + 1, n + 1)
    except RecursionError:
        return n

compiled = pellucid.compile(f, backend="eager")
print([g(torch.ones(1)) for g in (f, compiled, compiled)])
"""
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:1000]
    depths = eval(done.stdout)
    assert depths[0] == depths[1] == depths[2]
