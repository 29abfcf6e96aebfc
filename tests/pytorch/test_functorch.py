"""torch.func: transforms of functions are captured with what is in them, one graph each. Values, gradients, effects,
exceptions and the state of the thread are eager's."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch._C import _functorch
from torch.autograd import forward_ad
from torch.func import (
    functional_call,
    functionalize,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    linearize,
    stack_module_state,
    vjp,
    vmap,
)
from torch.nn import functional as F

import pellucid
from support import Counting, CountingOf, same

torch.manual_seed(0)
X = torch.randn(4, 3)
V = torch.randn(3)
W = torch.randn(3, 3)
LABELS = torch.tensor([0, 2, 1, 1])
LINEAR = nn.Linear(3, 3)
NET = nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 3))
NORM = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3, track_running_stats=False))
PARAMETERS = {name: parameter.detach() for name, parameter in NET.named_parameters()}
COMPILED = pellucid.compile(lambda row: row.sin())
ONE_GRAPH, BREAKS = [], []


def one_graph(f):
    ONE_GRAPH.append(f)
    return f


def breaks(f):
    BREAKS.append(f)
    return f


def state():
    """What transforms change of this thread."""
    torch._C._exit_dual_level(level=torch._C._enter_dual_level())  # raises where one is open
    return (
        forward_ad._current_level,
        _functorch.get_dynamic_layer_stack_depth(),
        _functorch.maybe_current_level(),
        _functorch.get_inplace_requires_grad_allowed(),
        torch._C._autograd._saved_tensors_hooks_get_disabled_error_message(),
        torch.is_grad_enabled(),
        torch._C._is_fwd_grad_enabled(),
        torch.autograd.forward_ad._current_level,
    )


CLEAN = state()


def outcome(f, *args):
    torch.manual_seed(1)
    try:
        return "value", f(*args), torch.get_rng_state()
    except Exception as error:
        return "raises", type(error), str(error)


def loss(parameters, row, label):
    return F.cross_entropy(functional_call(NET, parameters, (row.unsqueeze(0),)), label.unsqueeze(0))


# ---- vmap


@one_graph
def elementwise(x):
    return vmap(lambda row: row.sin() + 1)(x)


@one_graph
def dims(x):
    return vmap(lambda a, b: a @ b, in_dims=(1, None), out_dims=1)(x.t(), W)


@one_graph
def negative_dims(x):
    return vmap(lambda row: row * 2, in_dims=-1, out_dims=-1)(x)


@one_graph
def nested(x):
    return vmap(vmap(lambda a: a * 2 + V.sum()))(x)


@one_graph
def dicts(x):
    return vmap(lambda d: {"s": d["a"] * d["b"]}, in_dims=({"a": 0, "b": None},))({"a": x, "b": V})


@one_graph
def out_dims_of_many(x):
    return vmap(lambda row: (row, row.sum(), 3), out_dims=(1, 0, None))(x)


@one_graph
def keywords(x):
    return vmap(lambda row, scale: row * scale)(x, scale=x)


@one_graph
def chunked(x):
    return vmap(lambda row: row.sin(), chunk_size=3)(x)


@one_graph
def a_module(x):
    return vmap(LINEAR)(x)


@one_graph
def a_module_with_statistics(x):
    return vmap(lambda rows: NORM(rows), randomness="different")(torch.stack([x, x + 1]))


@one_graph
def random_numbers_that_differ(x):
    return vmap(lambda row: row + torch.rand(3), randomness="different")(x)


@one_graph
def the_same_random_numbers(x):
    return vmap(lambda row: row + torch.rand(3), randomness="same")(x)


@one_graph
def dropout(x):
    return vmap(lambda row: F.dropout(row, 0.5), randomness="different")(x)


@one_graph
def factories(x):
    return vmap(lambda row: row * torch.ones(3) + torch.tensor([1.0, 2.0, 3.0]) + torch.arange(3))(x)


@one_graph
def in_place(x):
    y = x.clone()

    def f(row):
        row.add_(1)
        return row * 2

    return vmap(f)(y), y


@one_graph
def an_input_in_place(x):
    vmap(lambda row: row.mul_(2))(x)
    return x + 1


@one_graph
def indexing(x):
    return vmap(lambda row, i: row[i], in_dims=(0, None))(x, torch.tensor([0, 2])), vmap(lambda r: r[1:])(x)


@one_graph
def where(x):
    return vmap(lambda row: torch.where(row > 0, row, -row))(x)


# ---- derivatives


@one_graph
def gradient(x):
    return grad(lambda v: v.sin().sum())(x)


@one_graph
def second_derivative(x):
    return grad(grad(lambda v: v.sin()))(x[0, 0])


@one_graph
def third_derivative(x):
    return grad(grad(grad(lambda v: v**4)))(x[0, 0])


@one_graph
def many_arguments(x):
    return grad(lambda a, b: ((a * b).sum(), a.cos()), argnums=(0, 1), has_aux=True)(x, x + 1)


@one_graph
def with_value(x):
    return grad_and_value(lambda v: v.sin().sum())(x)


@one_graph
def of_itself(x):
    value = x[0, 0]
    gradient, result = grad_and_value(lambda v: v)(value)
    return gradient, result


@one_graph
def unused(x):
    return grad(lambda a, b: a.sum(), argnums=1)(x, x)


@one_graph
def pulled_back(x):
    value, back = vjp(lambda a, b: (a * b, a.sin()), x, x + 1)
    return value, back((x, x))


@one_graph
def pulled_back_twice(x):
    _, back = vjp(lambda a: a.sin(), x)
    return back(x), back(x + 1)


@one_graph
def pulled_back_with_aux(x):
    value, back, aux = vjp(lambda a: (a.sin(), a.cos()), x, has_aux=True)
    return value, back(x), aux


@one_graph
def pushed_forward(x):
    return jvp(lambda a: a.sin() * a, (x,), (x * 2,))


@one_graph
def jacobians(x):
    def f(v):
        return v.sin() * v.sum()

    return jacrev(f)(x[0]), jacfwd(f)(x[0])


@one_graph
def jacobian_in_chunks(x):
    return jacrev(lambda v: v.sin() * v.sum(), chunk_size=2)(x[0])


@one_graph
def hessian_of(x):
    return hessian(lambda v: (v.sin() * v.sum()).sum())(x[0])


@one_graph
def forward_over_reverse(x):
    return jvp(grad(lambda v: v.sin().sum()), (x,), (x,))


@one_graph
def batched_forward(x):
    return vmap(lambda row: jvp(lambda a: a.sin(), (row,), (torch.ones_like(row),))[1])(x)


@one_graph
def per_sample_gradients(x):
    return vmap(grad(loss), in_dims=(None, 0, 0))(PARAMETERS, x, LABELS)


@one_graph
def per_sample_gradients_and_losses(x):
    return vmap(grad_and_value(loss), in_dims=(None, 0, 0))(PARAMETERS, x, LABELS)


@one_graph
def per_sample_squares(x):
    return vmap(grad(lambda row: (row**2).sum()))(x)


@one_graph
def no_grad_inside(x):
    def f(v):
        with torch.no_grad():
            c = v**2
        return (v - c).sum()

    return grad(f)(x)


@one_graph
def no_grad_outside(x):
    with torch.no_grad():
        return grad(lambda v: v.sin().sum())(x)


@one_graph
def a_number_made_inside(x):
    return grad(lambda v: (v * torch.tensor(2.0)).sum())(x)


@one_graph
def a_detached_part(x):
    return grad(lambda v: (v * v.detach()).sum())(x)


@one_graph
def in_place_below_grad(x):
    def f(v):
        w = v.clone()
        w.mul_(2).sin_()
        return w.sum()

    return grad(f)(x)


@one_graph
def autograd_inside(x):
    def f(v):
        return torch.autograd.grad(v.sin().sum(), v, create_graph=True)[0].sum()

    return grad(f)(x)


# ---- what the program does around them


@one_graph
def an_exception_that_is_caught(x):
    def f(row):
        raise ValueError("no")

    try:
        vmap(f)(x)
    except ValueError:
        pass
    return vmap(lambda row: row + 1)(x)


@one_graph
def effects(x):
    seen = []

    def f(row):
        seen.append(row.shape)
        return row * len(seen)

    return vmap(f)(x), seen


@one_graph
def a_compiled_function_inside(x):
    return vmap(COMPILED)(x)


@one_graph
def two_after_each_other(x):
    y = vmap(lambda row: row * 2)(x)
    return grad(lambda v: (v * y).sum())(x) + vmap(lambda row: row + 1)(y)


def check_one_graph(f, backend):
    compiled = pellucid.compile(f, backend=backend)
    for _ in range(2):
        given, expected = X.clone(), X.clone()
        assert same(outcome(compiled, given), outcome(f, expected))
        assert same(given, expected) and state() == CLEAN
    assert not pellucid.break_reasons(compiled)


@one_graph
def functionalized(x):
    return functionalize(lambda v: v.clone().add_(1))(x * 2) + 1


@one_graph
def functionalized_writes(x):
    """Nothing uses what the writes in the middle give, and the last of them is not the result."""

    def f(v):
        v.add_(1)
        part = v[1:]
        part.mul_(2)
        v[0, 0] = 5.0
        v.sin_()
        return part

    y = x * 2
    return functionalize(f)(y), y


@one_graph
def functionalized_views(x):
    def f(v):
        y = v.clone()
        rows = y.view(-1)
        rows.add_(3)
        rows[:2].zero_()
        return y, rows

    return functionalize(f, remove="mutations_and_views")(x * 1)


@one_graph
def functionalized_rows(x):
    return vmap(functionalize(lambda v: v.clone().mul_(v).sum()))(x)


@one_graph
def dual_numbers(x):
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, x.cos())
        return forward_ad.unpack_dual(dual.sin() * dual).tangent


@one_graph
def dual_numbers_leave(x):
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, x.cos())
        pair = forward_ad.unpack_dual((dual * dual).exp())
    return pair, pair.primal, dual * 2, forward_ad.unpack_dual(x).tangent


@one_graph
def dual_numbers_by_calls(x):
    level = forward_ad.enter_dual_level()
    y = x.clone()
    y.mul_(forward_ad.make_dual(x, x.cos()))
    tangent = forward_ad.unpack_dual(y, level=level).tangent
    forward_ad.exit_dual_level()
    return tangent, y


@one_graph
def gradients_of_dual_rows(x):
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, x.cos())
        return forward_ad.unpack_dual(vmap(grad(lambda row: row.sin().sum()))(dual))


@pytest.mark.parametrize("f", ONE_GRAPH, ids=lambda f: f.__name__)
def test_one_graph(f):
    counting = Counting()
    check_one_graph(f, counting)
    assert counting.count == 1


@pytest.mark.parametrize("f", ONE_GRAPH, ids=lambda f: f.__name__)
def test_run_by_the_core(f):
    check_one_graph(f, "eager")


@pytest.mark.parametrize("f", ONE_GRAPH, ids=lambda f: f.__name__)
def test_differentiated_by_torch(f):
    compiled = pellucid.compile(f, backend="aot_eager")
    for _ in range(2):
        given, expected = X.clone(), X.clone()
        got, want = outcome(compiled, given), outcome(f, expected)
        torch.testing.assert_close(got[1], want[1])
        assert same(given, expected) and state() == CLEAN
    assert not pellucid.break_reasons(compiled)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("f", [gradient, per_sample_gradients, pulled_back, hessian_of, elementwise, pushed_forward])
def test_gradients_go_through(f, backend):
    def gradients(g):
        x = X.clone().requires_grad_()
        leaves = torch.utils._pytree.tree_leaves(g(x))
        sum(leaf.sum() for leaf in leaves if leaf.requires_grad).backward()
        return [leaf.requires_grad for leaf in leaves], x.grad

    compiled = pellucid.compile(f, backend=backend)
    for _ in range(2):
        got, want = gradients(compiled), gradients(f)
        assert got[0] == want[0]
        torch.testing.assert_close(got[1], want[1])
    assert not pellucid.break_reasons(compiled)


# ---- what ends a region: the whole call of the outermost transform runs for real


@breaks
def item_inside(x):
    return vmap(lambda row: row * row.sum().item())(x * 2)


@breaks
def branch_inside(x):
    return vmap(lambda row: row if row.sum() > 0 else -row)(x * 2)


@breaks
def item_below_grad(x):
    y = x * 2
    return grad(lambda v: (v * v.sum().item()).sum())(y) + 1


@breaks
def break_below_two_levels(x):
    def f(v):
        pellucid.graph_break()
        return v.sin().sum()

    return vmap(grad(f))(x * 2) + 1


@breaks
def the_pullback_leaves(x):
    value, back = vjp(lambda v: v.sin(), x * 2)
    return value, back(x)


@breaks
def a_wrapper_is_alive_at_a_break(x):
    value, back = vjp(lambda v: v.sin(), x * 2)
    pellucid.graph_break()
    return value, back(x)


class Square(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(a):
        return a * a

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g):
        return 2 * g * ctx.saved_tensors[0]


@one_graph
def own_function_below_grad(x):
    return vmap(grad(lambda row: Square.apply(row).sum()))(x * 2)


@breaks
def linearized(x):
    value, forward = linearize(lambda v: v.sin(), x)
    return value, forward(x)


@breaks
def break_at_a_dual_level(x):
    y = x * 2
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(y, x)
        pellucid.graph_break()
        return forward_ad.unpack_dual(dual.sin()).tangent


@breaks
def two_dual_levels(x):
    y = x * 2
    with forward_ad.dual_level(), forward_ad.dual_level():
        return y


@breaks
def break_in_functionalize(x):
    def f(v):
        v.add_(1)
        pellucid.graph_break()
        return v * 2

    return functionalize(f)(x * 2)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("f", BREAKS, ids=lambda f: f.__name__)
def test_runs_for_real(f, backend):
    compiled = pellucid.compile(f, backend=backend)
    for _ in range(3):
        assert same(outcome(compiled, X.clone()), outcome(f, X.clone()))
        assert state() == CLEAN
    if f is not the_pullback_leaves:
        captured = f is item_below_grad and backend == "eager"  # whose graphs have numbers of tensors
        assert bool(pellucid.break_reasons(compiled)) != captured


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_what_linearize_gives_is_captured_in_one_graph_for_each_call(backend):
    """It folds the constants of a graph that is another one at each call, and keeps them as parameters."""

    def f(x, t):
        value, forward = linearize(lambda v: v.sin() * 2, x)
        return value, forward(t)

    counting = CountingOf(backend)
    compiled = pellucid.compile(f, backend=counting)
    for number in range(3):
        assert same(compiled(X + number, X.cos()), f(X + number, X.cos()))
        assert counting.count == 2 + number, "the function that is linearized, and what comes of it"


def test_a_dual_level_that_stays_open():
    def f(x):
        forward_ad.enter_dual_level()
        return forward_ad.make_dual(x * 2, x.cos()).sin()

    compiled = pellucid.compile(f)
    for _ in range(3):
        both = []
        for g in (f, compiled):
            both.append(tuple(forward_ad.unpack_dual(g(X))))
            forward_ad.exit_dual_level()
        assert same(*both) and both[0][1] is not None
        assert state() == CLEAN
    assert {record.name for record in pellucid.break_reasons(compiled)} == {"FunctionTransform"}


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_gradients_of_what_functionalize_gives(backend):
    """What a write gives has no gradient in eager, which says so in the backward pass."""

    def read(x):
        return functionalize(lambda v: v.view(-1).sin().sum())(x * 2)

    def written(x):
        return functionalize(lambda v: v.clone().add_(1).sum())(x * 2)

    def stored(x):
        def f(v):
            y = v.clone()
            y[0] = 1.0
            return y.sum()

        return functionalize(f)(x * 2)

    for f in (read, written, stored):
        compiled = pellucid.compile(f, backend=backend)
        for _ in range(2):
            found = []
            for g in (f, compiled):
                x = X.clone().requires_grad_()
                found.append((outcome(lambda x, g=g: g(x).backward(), x), x.grad))
            assert same(*found)
        reasons = {record.name for record in pellucid.break_reasons(compiled)}
        assert reasons == (set() if backend == "eager" else {"FunctionTransform"})


def test_the_closure_of_a_pullback_leaves_the_function():
    def f(x):
        y = x * 2
        return vjp(lambda v: v.sin(), y)

    compiled = pellucid.compile(f)
    for _ in range(2):
        value, back = compiled(X)
        expected, back_of_eager = f(X)
        assert same(value, expected) and same(back(X), back_of_eager(X))
    assert "CannotReconstruct" in {record.name for record in pellucid.break_reasons(compiled)}
    assert state() == CLEAN


# ---- errors


@pytest.mark.parametrize(
    "f",
    [
        lambda x: vmap(lambda a, b: a + b)(x, V),
        lambda x: vmap(lambda row: row + torch.rand(3))(x),
        lambda x: vmap(lambda row: "no tensor")(x),
        lambda x: vmap(lambda row: row, in_dims=5)(x),
        lambda x: vmap(lambda row: row, in_dims=(0, 0))(x),
        lambda x: vmap(lambda row: row, out_dims=(0, 0))(x),
        lambda x: vmap(lambda row: row, randomness="some")(x),
        lambda x: grad(lambda v: v)(x),
        lambda x: grad(lambda v: 3.0)(x),
        lambda x: grad(lambda v: v.sum())(x.long()),
        lambda x: vjp(lambda v: v.sin(), x)[1]((x, x)),
        lambda x: jvp(lambda v: v.sin(), (x,), x),
        lambda x: jacrev(lambda v: v.to(torch.complex64))(x),
        lambda x: vmap(lambda row: row @ torch.ones(5))(x),
    ],
)
def test_errors(f):
    compiled = pellucid.compile(f)
    for _ in range(2):
        got, want = outcome(compiled, X), outcome(f, X)
        assert got == want and got[0] == "raises"
        assert state() == CLEAN


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("place", range(6))
def test_the_state_behind_a_graph_that_raises(place, backend):
    """An index out of range, which only the graph finds, at each depth of nested levels."""

    def f(x, index):
        def inner(row):
            row = row[index] if place == 0 else row
            value = grad(lambda v: ((v[index] if place == 1 else v) ** 2).sum())(row)
            value = jvp(lambda v: v[index] if place == 2 else v.sin(), (value,), (value,))[1]
            return value[index] if place == 3 else value

        rows = vmap(inner)(x * 2)
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(rows, x)
            dual = dual[:, index] if place == 4 else dual
            rows = forward_ad.unpack_dual(dual.sin()).tangent
        return functionalize(lambda v: v.add_(1)[:, index] if place == 5 else v.add_(1))(rows)

    compiled = pellucid.compile(f, backend=backend)
    good, bad = torch.tensor([0, 1, 2]), torch.tensor([0, 7, 1])
    assert same(compiled(X, good), f(X, good))
    assert not pellucid.break_reasons(compiled)
    for _ in range(2):
        got, want = outcome(compiled, X, bad), outcome(f, X, bad)
        assert got[:2] == want[:2] and got[0] == "raises"
        assert state() == CLEAN
    assert same(compiled(X, good), f(X, good))


# ---- recompiling


def test_other_sizes():
    def f(x):
        return vmap(grad(lambda row: (row**2).sum()))(x), hessian(lambda v: (v**3).sum())(x[0])

    compiled = pellucid.compile(f, backend=Counting())
    for rows in (4, 5, 6, 7, 4):
        x = torch.randn(rows, 3)
        assert same(compiled(x), f(x))
    assert not pellucid.break_reasons(compiled)


@pytest.mark.parametrize("f", [gradient, pushed_forward, elementwise, per_sample_squares], ids=lambda f: f.__name__)
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("dynamic", [None, True])
def test_sizes_that_change(f, backend, dynamic):
    """How often they are captured is told in tests/sizes/test_below_transforms.py."""
    compiled = pellucid.compile(f, backend=backend, dynamic=dynamic)
    for rows in (3, 4, 5, 6):
        x = torch.randn(rows, 3)
        torch.testing.assert_close(compiled(x), f(x))
    assert not pellucid.break_reasons(compiled)


def test_two_captures_make_the_same_graph():
    def text():
        counting = Counting()
        pellucid.compile(lambda x: per_sample_gradients(x), backend=counting)(X)
        return [str(graph.graph) for graph in counting.graphs]

    assert text() == text()


def test_a_transform_that_is_made_outside():
    made = vmap(grad(lambda row: (row**2).sum()))
    counting = Counting()
    compiled = pellucid.compile(lambda x: made(x) * 2, backend=counting)
    assert same(compiled(X), made(X) * 2) and counting.count == 1
    assert not pellucid.break_reasons(compiled)


def test_an_ensemble():
    models = [nn.Linear(3, 2) for _ in range(3)]
    parameters, buffers = stack_module_state(models)

    def f(x):
        return vmap(lambda p, b, v: functional_call(models[0], (p, b), (v,)), in_dims=(0, 0, None))(
            parameters, buffers, x
        )

    counting = Counting()
    compiled = pellucid.compile(f, backend=counting)
    assert same(compiled(X), f(X)) and counting.count == 1
    assert not pellucid.break_reasons(compiled)
