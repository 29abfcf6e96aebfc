"""autograd.Functions with rules of their own for torch.vmap and for forward mode."""

import pytest
import torch
from torch.autograd import forward_ad
from torch.func import grad, hessian, jacfwd, jacrev, jvp, vjp, vmap

import pellucid

SCALE = 3.0
CALLS = []
WEIGHT = torch.tensor([[0.5, -1.0, 2.0], [1.5, 0.25, -0.75]], requires_grad=True)


class Product(torch.autograd.Function):
    """A product whose rule has the rows behind."""

    @staticmethod
    def forward(x, y):
        return x * y

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        return g * y, g * x

    @staticmethod
    def jvp(ctx, x_t, y_t):
        x, y = ctx.saved_tensors
        return x_t * y + x * y_t

    @staticmethod
    def vmap(info, in_dims, x, y):
        x, y = (
            value.unsqueeze(-1) if dim is None else value.movedim(dim, -1)
            for value, dim in zip((x, y), in_dims, strict=True)
        )
        return Product.apply(x, y).movedim(-1, 0), 0


class Generated(torch.autograd.Function):
    """The same, by the rule that torch makes."""

    generate_vmap_rule = True
    forward = Product.__dict__["forward"]
    setup_context = Product.__dict__["setup_context"]
    backward = Product.__dict__["backward"]
    jvp = Product.__dict__["jvp"]


def mapped(product, x):
    return vmap(product)(x, x.cos())


def mapped_over_one(product, x):
    return vmap(product, in_dims=(1, None), out_dims=1)(x, x[:, 0].cos())


def mapped_twice(product, x):
    return vmap(vmap(product, in_dims=(0, None)))(x, x[:, 0].cos())


def not_of_the_inner_level(product, x):
    return vmap(lambda row: vmap(lambda item: product(row, row.cos()).sum() + item)(row))(x)


def mapped_gradients(product, x):
    return vmap(grad(lambda row: product(row, row.cos()).sum()))(x)


def mapped_twice_gradients(product, x):
    return vmap(vmap(grad(lambda item: product(item, item.cos()))))(x)


def gradient_of_mapped(product, x):
    return grad(lambda v: vmap(product)(v, v.cos()).sum())(x)


def second_order_of_mapped(product, x):
    return grad(lambda v: grad(lambda w: vmap(product)(w, w.cos()).sin().sum())(v).sum())(x)


def mapped_between(product, x):
    return vmap(grad(lambda row: vmap(product)(row, row.cos()).sum()))(x)


def pulled_back(product, x):
    value, back = vjp(lambda v: vmap(product)(v, v.cos()), x)
    return value, back(x)


def pushed_forward(product, x):
    return jvp(product, (x, x.cos()), (x.sin(), x))


def one_is_pushed_forward(product, x):
    return jvp(lambda v: product(v, torch.ones(2, 3)), (x,), (x,))


def pushed_forward_twice(product, x):
    return jvp(lambda v: jvp(product, (v, v.cos()), (v, v))[1], (x,), (x,))


def mapped_and_pushed_forward(product, x):
    return jvp(lambda v: vmap(product, in_dims=(0, None))(v, v[0].cos()), (x,), (x.sin(),))


def pushed_forward_and_mapped(product, x):
    return vmap(lambda row: jvp(product, (row, row.cos()), (row, row)))(x)


def jacobian(product, x):
    return jacfwd(lambda v: product(v, v.cos()))(x)


def gradient_pushed_forward(product, x):
    return jvp(grad(lambda v: product(v, v.cos()).sum()), (x,), (x,))


def second_derivatives(product, x):
    return hessian(lambda v: product(v, v.cos()).sum())(x)


def second_derivatives_backward(product, x):
    return jacrev(jacfwd(lambda v: product(v, v.cos()).sum()))(x)


def second_derivatives_forward(product, x):
    return jacfwd(jacfwd(lambda v: product(v, v.cos()).sum()))(x)


def at_a_dual_level(product, x):
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x * 2, x.sin())
        return tuple(forward_ad.unpack_dual(product(dual, x)))


def mapped_at_a_dual_level(product, x):
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x * 2, x.sin())
        return tuple(forward_ad.unpack_dual(vmap(product)(dual, x)))


def without_tangents_at_a_dual_level(product, x):
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x * 2, x.sin())
        return product(x, x.cos()), vmap(product)(x, x.cos()), forward_ad.unpack_dual(dual.cos()).tangent


def of_outer_gradients(product, x):
    return vmap(product)(WEIGHT * x, x.cos())


def pushed_forward_of_outer_gradients(product, x):
    return jvp(product, (WEIGHT * x, x.cos()), (x, x))


PROGRAMS = [
    mapped,
    mapped_over_one,
    mapped_twice,
    not_of_the_inner_level,
    mapped_gradients,
    mapped_twice_gradients,
    gradient_of_mapped,
    second_order_of_mapped,
    mapped_between,
    pulled_back,
    pushed_forward,
    one_is_pushed_forward,
    pushed_forward_twice,
    mapped_and_pushed_forward,
    pushed_forward_and_mapped,
    jacobian,
    gradient_pushed_forward,
    second_derivatives,
    second_derivatives_backward,
    second_derivatives_forward,
    at_a_dual_level,
    mapped_at_a_dual_level,
    without_tangents_at_a_dual_level,
    of_outer_gradients,
    pushed_forward_of_outer_gradients,
]
X = torch.tensor([[0.5, -1.0, 2.0], [1.5, 0.25, -0.75]])


def leaves_of(result):
    return [value for value in torch.utils._pytree.tree_leaves(result) if isinstance(value, torch.Tensor)]


def gradient_of(result):
    needing = [value for value in leaves_of(result) if value.requires_grad]
    return torch.autograd.grad(sum(value.sum() for value in needing), WEIGHT) if needing else ()


def assert_same(got, want):
    for one, other in zip(leaves_of(got), leaves_of(want), strict=True):
        assert torch.equal(one, other) and one.stride() == other.stride() and one.requires_grad == other.requires_grad
    for one, other in zip(gradient_of(got), gradient_of(want), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("cls", [Product, Generated])
@pytest.mark.parametrize("program", PROGRAMS)
def test_one_graph(program, cls, backend):
    def f(x):
        return program(cls.apply, x)

    compiled = pellucid.compile(f, backend=backend, fullgraph=True)
    for x in (X.clone(), X.cos()):
        assert_same(compiled(x), f(x))
    assert len(pellucid.cache_entries(compiled)) == 1


# ---- more than products


class Take(torch.autograd.Function):
    """As in torch's tutorial on functions for torch.func: along a dimension, which is no tensor."""

    @staticmethod
    def forward(x, ind, ind_inv, dim):
        return torch.take_along_dim(x, ind, dim)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, ind, ind_inv, dim = inputs
        ctx.save_for_backward(ind, ind_inv)
        ctx.save_for_forward(ind, ind_inv)
        ctx.dim = dim

    @staticmethod
    def backward(ctx, grad_output):
        ind, ind_inv = ctx.saved_tensors
        return Take.apply(grad_output, ind_inv, ind, ctx.dim), None, None, None

    @staticmethod
    def jvp(ctx, x_t, ind_t, ind_inv_t, dim_t):
        if dim_t is not None:  # pytest would have an assert read more
            raise AssertionError
        ind, ind_inv = ctx.saved_tensors
        return Take.apply(x_t, ind, ind_inv, ctx.dim)

    @staticmethod
    def vmap(info, in_dims, x, ind, ind_inv, dim):
        logical = x.dim() if in_dims[0] is None else x.dim() - 1
        dim = dim if dim >= 0 else dim + logical

        def ready(value, at):
            return value.expand(info.batch_size, *value.shape) if at is None else value.movedim(at, 0)

        x, ind, ind_inv = (ready(value, at) for value, at in zip((x, ind, ind_inv), in_dims, strict=False))
        return Take.apply(x, ind, ind_inv, dim + 1), 0


class Sort(torch.autograd.Function):
    """Three results, two of which are not differentiable; an argument by default."""

    @staticmethod
    def forward(x, dim=-1):
        ind = torch.argsort(x, dim=dim)
        return torch.take_along_dim(x, ind, dim=dim), ind, torch.argsort(ind, dim=dim)

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, ctx.dim = inputs
        _, ind, ind_inv = output
        ctx.mark_non_differentiable(ind, ind_inv)
        ctx.save_for_backward(ind, ind_inv)
        ctx.save_for_forward(ind, ind_inv)

    @staticmethod
    def backward(ctx, grad_output, _0, _1):
        ind, ind_inv = ctx.saved_tensors
        return Take.apply(grad_output, ind_inv, ind, ctx.dim), None

    @staticmethod
    def jvp(ctx, x_t, dim_t):
        ind, ind_inv = ctx.saved_tensors
        return Take.apply(x_t, ind, ind_inv, ctx.dim), None, None

    @staticmethod
    def vmap(info, in_dims, x, dim):
        dim = dim if dim >= 0 else dim + x.dim() - 1
        return Sort.apply(x.movedim(in_dims[0], 0), dim + 1), (0, 0, 0)


class StraightThrough(torch.autograd.Function):
    """Rounds, with the gradient and the tangent of the identity; its context is made in the forward."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return x.round()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx, g):
        return g

    @staticmethod
    def jvp(ctx, tangent):
        return tangent * 1


class OldStyle(torch.autograd.Function):
    """Forward mode without torch.func asks for no setup_context."""

    @staticmethod
    def forward(ctx, x, factor):
        ctx.factor = factor
        ctx.save_for_forward(x)
        return x**2 * factor, x > 0

    @staticmethod
    def jvp(ctx, tangent, _):
        (x,) = ctx.saved_tensors
        return 2 * x * tangent * ctx.factor, None


class PartlyMapped(Product):
    """Results with rows in other places, and without."""

    @staticmethod
    def forward(x, y):
        return {"both": x * y, "sums": (x.sum(), y)}

    @staticmethod
    def vmap(info, in_dims, x, y):
        assert in_dims == (1, None) and info.randomness == "same"
        return {"both": x * y[:, None], "sums": [x.sum(0), y * 2]}, {"both": 1, "sums": [0, None]}


class OfLists(Product):
    @staticmethod
    def vmap(info, in_dims, tensors, by):
        assert in_dims == ([0, None], None)
        return tensors[0] * tensors[1] * by, 0


def sorted_rows(x):
    return vmap(Sort.apply)(x)


def sorted_columns(x):
    return vmap(lambda column: Sort.apply(column, 0), in_dims=1, out_dims=(1, 0, 1))(x)


def gradients_of_sorted(x):
    return vmap(grad(lambda row: (Sort.apply(row)[0] * row.cos()).sum()))(x)


def tangents_of_sorted(x):
    return jvp(lambda v: Sort.apply(v)[0], (x,), (x.sin(),))


def jacobian_of_sorted(x):
    return jacfwd(lambda v: Sort.apply(v)[0])(x)


def jacobian_of_sorted_by_rows(x):
    return jacrev(lambda v: Sort.apply(v, -2)[0])(x)


def straight_through(x):
    return jvp(StraightThrough.apply, (x,), (x.cos(),)), jacfwd(StraightThrough.apply)(x)


def mapped_straight_through(x):
    return vmap(lambda row: jvp(StraightThrough.apply, (row,), (row.cos(),)))(x)


def old_style(x):
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x * 1, x.cos())
        value, positive = OldStyle.apply(dual, 3)
        return tuple(forward_ad.unpack_dual(value)), positive


def results_of_many_places(x):
    results = vmap(PartlyMapped.apply, in_dims=(1, None), randomness="same")(x, x[:, 0])
    return results["both"], results["sums"]


def lists_of_tensors(x):
    return vmap(lambda row: OfLists.apply([row, x[0]], 2))(x)


def level_of_the_program(x):
    """The rule asks for another torch.vmap, below."""
    return vmap(NestedRule.apply)(x, x.cos())


class NestedRule(Product):
    @staticmethod
    def vmap(info, in_dims, x, y):
        return vmap(Product.apply, in_dims, 1)(x, y), 1


MORE = [
    sorted_rows,
    sorted_columns,
    gradients_of_sorted,
    tangents_of_sorted,
    jacobian_of_sorted,
    jacobian_of_sorted_by_rows,
    straight_through,
    mapped_straight_through,
    old_style,
    results_of_many_places,
    lists_of_tensors,
    level_of_the_program,
]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", MORE)
def test_more_than_products(program, backend):
    compiled = pellucid.compile(program, backend=backend, fullgraph=True)
    for x in (X.clone(), X.cos()):
        assert_same(compiled(x), program(x))
    assert len(pellucid.cache_entries(compiled)) == 1


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", [mapped, gradient_of_mapped, mapped_gradients, jacobian, sorted_rows])
def test_sizes_that_change(program, backend):
    def f(x):
        return program(x) if program in MORE else program(Product.apply, x)

    compiled = pellucid.compile(f, backend=backend, fullgraph=True, dynamic=True)
    for rows in (2, 3, 5):
        x = torch.linspace(-1, 1, rows * 4).view(rows, 4)
        assert_same(compiled(x), f(x))
    if program in (mapped, gradient_of_mapped):
        assert len(pellucid.cache_entries(compiled)) == 1


# ---- what rules see and do


def derived(**functions):
    return type("Derived", (Product,), {name: staticmethod(function) for name, function in functions.items()})


def notes(info, in_dims, x, y):
    CALLS.append((info.batch_size, info.randomness, in_dims))
    return x * y * SCALE, 0


def draws(info, in_dims, x, y):
    shape = x.shape if info.randomness == "different" else x.shape[1:]
    return x * torch.rand(shape), 0


def notes_tangents(ctx, x_t, y_t):
    CALLS.append(x_t.shape)
    return x_t


NOTES, DRAWS, NOTES_TANGENTS = derived(vmap=notes), derived(vmap=draws), derived(jvp=notes_tangents)
SCALED = derived(jvp=lambda ctx, x_t, y_t: x_t * SCALE, vmap=lambda info, dims, x, y: (x * y * SCALE, 0))
FAILS = {
    "out_dims of another structure": derived(vmap=lambda info, dims, x, y: (x * y, (0, 0))),
    "no pair": derived(vmap=lambda info, dims, x, y: x * y),
    "three": derived(vmap=lambda info, dims, x, y: (x * y, 0, 1)),
    "raises": derived(vmap=lambda info, dims, x, y: 1 / 0, jvp=lambda ctx, x_t, y_t: 1 / 0),
    "out of range": derived(vmap=lambda info, dims, x, y: (x * y, 5)),
    "two rules": type("Both", (Product,), {"generate_vmap_rule": True}),
    "two tangents": derived(jvp=lambda ctx, x_t, y_t: (x_t, y_t)),
    "too few arguments": derived(jvp=lambda ctx, x_t: x_t),
    "a tangent of another shape": derived(jvp=lambda ctx, x_t, y_t: x_t.sum()),
}
NO_JVP = type("NoJvp", (torch.autograd.Function,), dict(Product.__dict__, jvp=torch.autograd.Function.jvp))


def outcome(f, x):
    CALLS.clear()
    torch.manual_seed(0)
    try:
        result = f(x)
    except Exception as error:
        return type(error), str(error), [*CALLS]
    return [(value.tolist(), value.stride()) for value in leaves_of(result)], [*CALLS]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("cls", [*FAILS.values(), NO_JVP], ids=[*FAILS, "no jvp"])
def test_what_torch_refuses(cls, backend):
    failed = 0
    for program in (mapped, mapped_gradients, pushed_forward, jacobian, at_a_dual_level):

        def f(x, program=program):
            return program(cls.apply, x)

        compiled = pellucid.compile(f, backend=backend)
        want = outcome(f, X)
        failed += isinstance(want[0], type)
        for _ in range(2):
            assert outcome(compiled, X) == want
        assert outcome(lambda x: x + 1, X) == outcome(pellucid.compile(lambda x: x + 1, backend=backend), X)
    assert failed > 0


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("randomness", ["error", "same", "different"])
def test_the_rule_is_followed(randomness, backend):
    """What it does is done at each call; random numbers are those of eager."""

    def f(x):
        return vmap(NOTES.apply, randomness=randomness)(x, x), vmap(DRAWS.apply, randomness=randomness)(x, x)

    compiled = pellucid.compile(f, backend=backend, fullgraph=True)
    for _ in range(2):
        got = outcome(compiled, X)
        assert got == outcome(f, X) and len(got[-1]) == 1


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", [mapped_gradients, pushed_forward, at_a_dual_level])
def test_what_a_node_does_besides_is_a_break(program, backend):
    cls = NOTES if program is mapped_gradients else NOTES_TANGENTS

    def f(x):
        return program(cls.apply, x)

    compiled = pellucid.compile(f, backend=backend)
    for _ in range(2):
        got = outcome(compiled, X)
        assert got == outcome(f, X) and got[-1]
    assert "ImpureBody" in {record.name for record in pellucid.break_reasons(compiled)}


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", [mapped, mapped_gradients, pushed_forward, jacobian, at_a_dual_level])
def test_what_a_rule_reads_is_guarded(program, backend, monkeypatch):
    def f(x):
        return program(SCALED.apply, x)

    compiled = pellucid.compile(f, backend=backend, fullgraph=True)
    assert outcome(compiled, X) == outcome(f, X)
    monkeypatch.setitem(globals(), "SCALE", 4.0)
    assert outcome(compiled, X) == outcome(f, X)


def test_a_break_in_a_rule():
    """The call of torch.vmap runs for real."""

    def rule(info, in_dims, x, y):
        pellucid.graph_break()
        return x * y, 0

    cls = derived(vmap=rule)

    def f(x):
        return vmap(cls.apply)(x * 2, x) + 1

    compiled = pellucid.compile(f, backend="eager")
    for _ in range(2):
        assert outcome(compiled, X) == outcome(f, X)
    assert pellucid.break_reasons(compiled)
    assert torch._C._functorch.peek_interpreter_stack() is None


def test_an_error_of_a_rule_that_is_caught():
    def f(x):
        try:
            return vmap(FAILS["raises"].apply)(x, x)
        except ZeroDivisionError:
            return vmap(Product.apply)(x, x)

    compiled = pellucid.compile(f, backend="eager", fullgraph=True)
    assert outcome(compiled, X) == outcome(f, X)


def test_a_rule_of_torch_below_several_levels_is_a_break():
    def f(x):
        return jvp(grad(lambda v: vmap(Generated.apply)(v, v.cos()).sum()), (x,), (x,))

    compiled = pellucid.compile(f, backend="eager")
    assert outcome(compiled, X) == outcome(f, X)
    assert {record.name for record in pellucid.break_reasons(compiled)} == {"ImpureBody"}
