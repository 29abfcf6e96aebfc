"""Grad mode, autocast and torch-function handling as a region sets them, and what is left of them behind a break or an error (docs/feature_rows.md, A23 to A25).

More of global state is in test_global_state.py.
"""

from __future__ import annotations

import operator
import zlib

import pytest
import torch

import pellucid
from support import CountingOf, same
from support.graphs import calls, targets


# A23, A24, A25: grad mode and autocast
@pytest.fixture
def grad_enabled():
    assert torch.is_grad_enabled()
    yield
    torch.set_grad_enabled(True)


def leaves_it_off(x):
    y = x * 2
    torch.set_grad_enabled(False)
    return y, x * 3


def test_A23_grad_mode_left_off(counting, grad_enabled):
    compiled, x = pellucid.compile(leaves_it_off, backend=counting, fullgraph=True), torch.ones(2, requires_grad=True)
    for _ in range(2):
        torch.set_grad_enabled(True)
        y, z = compiled(x)
        assert not torch.is_grad_enabled()
        assert y.requires_grad and not z.requires_grad and same(z, torch.full((2,), 3.0))
    assert counting.count == 1
    assert targets(counting.graphs[0]) == [operator.mul, torch._C._set_grad_enabled, operator.mul]


def scaled_without_grad(x):
    with torch.no_grad():
        y = x * 2
    return y, x * 3


@torch.no_grad()
def wholly_without_grad(x):
    return x * 2, x * 3


@pytest.mark.parametrize("function, grads", [(scaled_without_grad, [False, True]), (wholly_without_grad, [False] * 2)])
def test_A23_no_grad_is_in_the_graph(function, grads, counting, grad_enabled):
    x = torch.ones(2, requires_grad=True)
    got = pellucid.compile(function, backend=counting, fullgraph=True)(x)
    assert same(got, function(x)) and [y.requires_grad for y in got] == grads
    assert torch.is_grad_enabled()
    switches = [n.args for n in calls(counting.graphs[0]) if n.target is torch._C._set_grad_enabled]
    assert switches == [(False,), (True,)]


def global_state():
    return (
        torch.is_grad_enabled(),
        torch.is_autocast_enabled("cpu"),
        torch.get_autocast_dtype("cpu"),
        torch.is_autocast_enabled("cuda"),
        torch.get_autocast_dtype("cuda"),
        torch.is_autocast_cache_enabled(),
        torch._C._is_torch_function_enabled(),
    )


def stops_below_no_grad(x):
    with torch.no_grad():
        y = x * 2
        zlib.crc32(b"")  # nobody knows what it does
    return y


def stops_below_autocast(x):
    with torch.autocast("cpu", dtype=torch.float16, cache_enabled=False):
        y = x * 2
        zlib.crc32(b"")
    return y


def stops_without_torch_function(x):
    with torch._C.DisableTorchFunctionSubclass():
        y = x * 2
        zlib.crc32(b"")
    return y


def raises_below_no_grad(x):
    with torch.no_grad():
        return x.view(7, 7)


STOPS = [stops_below_no_grad, stops_below_autocast, stops_without_torch_function]


@pytest.mark.parametrize("stops", STOPS)
def test_A24_state_after_a_break(stops, counting, grad_enabled):
    def outer(x):
        y = stops(x)
        return y, global_state(), x * 3

    x = torch.ones(2, requires_grad=True)
    before = global_state()
    got, want = pellucid.compile(outer, backend=counting)(x), outer(x)
    assert same(got, want) and got[1] == before == global_state()
    assert [y.requires_grad for y in (got[0], got[2])] == [y.requires_grad for y in (want[0], want[2])]
    assert pellucid.break_reasons()


@pytest.mark.parametrize("stops", [*STOPS, raises_below_no_grad])
def test_A24_state_after_an_error(stops, grad_enabled):
    before = global_state()
    with pytest.raises(
        (pellucid.errors.Unsupported, RuntimeError),
        match=r"zlib\.crc32|DisableTorchFunction|is invalid for input of size",
    ):
        pellucid.compile(stops, backend="eager", fullgraph=True)(torch.ones(2, requires_grad=True))
    assert global_state() == before


def test_A24_the_backend_finds_the_state_of_the_call(grad_enabled):
    found = []

    def backend(gm, example_inputs):
        found.append(global_state())
        return gm.forward

    before = global_state()
    pellucid.compile(leaves_it_off, backend=backend, fullgraph=True)(torch.ones(2, requires_grad=True))
    assert found == [before]
    assert not torch.is_grad_enabled()


def autocast_inside(x):
    with torch.autocast("cpu"):
        y = x @ x
        with torch.autocast("cpu", enabled=False):
            z = x @ x
    return y, z, x @ x


def product(x):
    return x @ x, torch.get_autocast_dtype("cpu"), torch.is_autocast_enabled("cpu")


def test_A25_autocast_inside(counting):
    x, before = torch.rand(3, 3), global_state()
    got = pellucid.compile(autocast_inside, backend=counting, fullgraph=True)(x)
    assert same(got, autocast_inside(x))
    assert [y.dtype for y in got] == [torch.bfloat16, torch.float32, torch.float32]
    assert global_state() == before
    products = [n.meta["example_value"].dtype for n in calls(counting.graphs[0]) if n.target is operator.matmul]
    assert products == [torch.bfloat16, torch.float32, torch.float32]


def test_A25_autocast_outside(counting):
    compiled, x = pellucid.compile(product, backend=counting, fullgraph=True), torch.rand(3, 3)
    for arguments in ({"enabled": False}, {}, {"dtype": torch.float16}, {}, {"enabled": False}):
        with torch.autocast("cpu", **arguments):
            assert same(compiled(x), product(x))
    assert counting.count == 3


def break_in_no_grad(x):
    with torch.no_grad():
        pellucid.graph_break()
        y = x * 2
    with torch.enable_grad():
        pellucid.graph_break()
    return y, x + 1, torch.is_grad_enabled()


def switches_first(x):
    torch.set_grad_enabled(True)
    torch.set_grad_enabled(False)
    return x * 2


def leaves_it_off_at_a_break(x):
    torch.set_grad_enabled(False)
    pellucid.graph_break()
    return x * 2, torch.is_grad_enabled()


def switches_between(x):
    y = x * 2
    torch.set_grad_enabled(False)
    torch.set_grad_enabled(True)
    torch.set_grad_enabled(False)
    z = x * 3
    torch.set_grad_enabled(True)
    return y, z, x * 4


def only_switches(x):
    torch.set_grad_enabled(False)
    return x


@pytest.mark.parametrize("enabled", [True, False])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize(
    ("program", "graphs"),
    [
        (break_in_no_grad, 2),
        (switches_first, 1),
        (leaves_it_off_at_a_break, 1),
        (switches_between, 1),
        (only_switches, 0),
    ],
)
def test_switches_of_the_grad_mode_alone_are_no_graph(program, graphs, backend, enabled):
    counting = CountingOf(backend)
    compiled = pellucid.compile(program, backend=counting)
    seen = []
    for function in (compiled, program):
        calls = []
        for _ in range(2):
            x = torch.arange(3.0, requires_grad=True)
            with torch.set_grad_enabled(enabled):
                result = function(x)
                calls.append(torch.is_grad_enabled())
            values = result if isinstance(result, tuple) else (result,)
            calls.append([(v.tolist(), v.requires_grad) if isinstance(v, torch.Tensor) else v for v in values])
        seen.append(calls)
    assert seen[0] == seen[1]
    assert counting.count == graphs


def cast_by(closed_over):
    def run(x, device, enabled):
        try:
            with torch.autocast(device_type=closed_over, enabled=enabled), torch.autocast(device, enabled=enabled):
                y = x.mm(x)
        except TypeError:
            y = x * 0
        with torch.inference_mode(not enabled):
            return y, y * 2

    return run


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_A25_devices_and_switches_that_are_arguments(backend):
    f = cast_by("cpu")
    counting = CountingOf(backend)
    compiled = pellucid.compile(f, backend=counting, fullgraph=True)
    for enabled in (True, False, True):
        got, want = (run(torch.ones(2, 2), "cpu", enabled) for run in (compiled, f))
        assert same(got, want)
        kinds = [[value.is_inference() for value in values] for values in (got, want)]
        assert backend != "eager" or kinds[0] == kinds[1]  # AOTAutograd leaves the mode out
    assert counting.count == 2


def test_A25_what_leaving_gives():
    def f(x):
        given = []
        for context in (torch.autocast("cpu"), torch.inference_mode(), torch.no_grad()):
            context.__enter__()
            given.append(context.__exit__(None, None, None))
        return x + 1, given

    x = torch.ones(2)
    assert same(pellucid.compile(f, backend="eager", fullgraph=True)(x), f(x)) and f(x)[1][0] is False


class Cast(torch.autograd.Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu", cast_inputs=torch.float32)
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x @ w

    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")
    def backward(ctx, gradient):
        x, w = ctx.saved_tensors
        return gradient @ w.t(), x.t() @ gradient


@pytest.mark.parametrize("enabled", [True, False])
def test_A25_functions_with_a_cast_of_their_own(enabled):
    def f(x, w):
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            y = Cast.apply(x, w) @ w
        return y.float().sum()

    counting = CountingOf("eager")
    compiled = pellucid.compile(f, backend=counting, fullgraph=True)
    for size in (2, 3, 4):
        ours, theirs = ([torch.ones(size, 3).requires_grad_(), torch.eye(3).requires_grad_()] for _ in range(2))
        got, want = compiled(*ours), f(*theirs)
        got.backward()
        want.backward()
        assert same(got.detach(), want.detach()) and same([x.grad for x in ours], [x.grad for x in theirs])
    assert counting.count == 2
