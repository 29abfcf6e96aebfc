"""autograd.Function below transforms of torch.func that compute gradients: one node, at each level what torch does in eager."""

from __future__ import annotations

import pytest
import torch
from torch.autograd import Function
from torch.func import functional_call, grad, grad_and_value, hessian, jacrev, vjp, vmap

import pellucid
from support import CountingOf, same

BACKENDS = ["eager", "aot_eager"]


class Sine(Function):
    """Its gradient is not that of sin(), so that it shows whose backward has run."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x, factor=2.0):
        return x.sin() * factor

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0])
        ctx.factor = inputs[1]

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient * x.cos() * 3, None


class TwoResults(Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x, y):
        return x * y, (x > y).to(x.dtype)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.LOG = inputs[0].dim()  # a global has this name, which the attribute has nothing to do with
        ctx.save_for_backward(*inputs)
        ctx.mark_non_differentiable(output[1])
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx, gradient, of_mask):
        x, y = ctx.saved_tensors
        if gradient is None or ctx.LOG > 5:
            return None, None
        return gradient * y if ctx.needs_input_grad[0] else None, gradient * x * 5 if ctx.needs_input_grad[1] else None


class Halved(Function):
    """Gives a view."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return x[..., :2]

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.width = inputs[0].shape[-1]

    @staticmethod
    def backward(ctx, gradient):
        return torch.nn.functional.pad(gradient, (0, ctx.width - 2)) * 7


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x):
        return Sine.apply(self.linear(x)).sum(-1)


LAYER = Layer()
PARAMETERS = {name: value.detach() for name, value in LAYER.named_parameters()}


def loss(row):
    return (Sine.apply(row) * Halved.apply(row).sum()).sum()


def per_sample(x):
    return vmap(grad(lambda p, row: functional_call(LAYER, p, (row,))), in_dims=(None, 0))(PARAMETERS, x)


def twice(x):
    return grad(lambda a: grad(lambda b: Sine.apply(b).sum())(a).square().sum())(x)


def pull_back(x):
    result, pull = vjp(Sine.apply, x)
    return result, pull(torch.ones_like(result))


def two_results(x):
    return grad(lambda a, b: (TwoResults.apply(a, b)[0] * TwoResults.apply(b, a)[1]).sum(), argnums=(0, 1))(x, x.cos())


def beside_eager(x):
    return Sine.apply(x) + grad(loss)(x), vmap(grad(loss))(x)


PROGRAMS = {
    "grad": grad(loss),
    "grad and value": grad_and_value(loss),
    "vjp": pull_back,
    "jacrev": lambda x: jacrev(Sine.apply)(x[0]),
    "reverse over reverse": lambda x: jacrev(jacrev(lambda a: Sine.apply(a).sum()))(x[0]),
    "per sample": lambda x: vmap(grad(loss))(x),
    "of a module": per_sample,
    "vmap inside": lambda x: grad(lambda a: vmap(Sine.apply)(a).sum())(x),
    "two vmaps": lambda x: vmap(vmap(grad(lambda a: Sine.apply(a))))(x),
    "twice": twice,
    "two results": two_results,
    "a number": lambda x: grad(lambda a: Sine.apply(a, 0.5).sum())(x),
    "not mapped": lambda x: vmap(lambda a: grad(loss)(x) + a)(x),
    "beside eager": beside_eager,
}


def step(f, x):
    """What it gives, and the gradient of that for an input from outside."""
    x = x.clone().requires_grad_()
    result = f(x)
    total = sum(value.sum() for value in torch.utils._pytree.tree_leaves(result))
    return result, torch.autograd.grad(total, x, allow_unused=True)[0] if total.requires_grad else None


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_as_in_eager(name, backend):
    function = PROGRAMS[name]
    counting = CountingOf(backend)
    compiled = pellucid.compile(function, backend=counting, fullgraph=True)
    for seed in range(2):
        torch.manual_seed(seed)
        x = torch.randn(3, 4)
        assert same(function(x), compiled(x))
    assert counting.count == 1


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients_from_outside(name, backend):
    function = PROGRAMS[name]
    compiled = pellucid.compile(function, backend=backend, fullgraph=True)
    for seed in range(2):
        torch.manual_seed(seed)
        x = torch.randn(3, 4)
        assert same(step(function, x), step(compiled, x))


LOG: list[str] = []
FACTOR = 2.0


class Says(Sine):
    @staticmethod
    def backward(ctx, gradient):
        LOG.append("backward")
        return gradient * 3, None


class SaysForward(Sine):
    @staticmethod
    def forward(x, factor=2.0):
        LOG.append("forward")
        return x * factor


class ReadsFactor(Sine):
    @staticmethod
    def backward(ctx, gradient):
        return gradient * FACTOR, None


class ForwardReadsFactor(Sine):
    @staticmethod
    def forward(x, factor=2.0):
        return x * FACTOR


class Together(Function):
    """Without setup_context, which torch.func asks for."""

    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 3


class OwnRule(Function):
    @staticmethod
    def forward(x):
        return x.exp()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.saved_tensors[0] * 3

    @staticmethod
    def vmap(info, in_dims, x):
        LOG.append("vmap")
        return OwnRule.apply(x), in_dims[0]


class Forward(Sine):
    generate_vmap_rule = False

    @staticmethod
    def jvp(ctx, tangent, _):
        return tangent * 11


def changed_between(x):
    global FACTOR

    def f(a):
        global FACTOR
        y = ReadsFactor.apply(a).sum()
        FACTOR = FACTOR + 1
        return y

    return grad(f)(x)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "function",
    [
        grad(lambda a: Says.apply(a).sum()),
        grad(lambda a: SaysForward.apply(a).sum()),
        grad(lambda a: ReadsFactor.apply(a).sum()),
        grad(lambda a: ForwardReadsFactor.apply(a).sum()),
        changed_between,
        grad(lambda a: Together.apply(a).sum()),
        vmap(grad(lambda a: Together.apply(a).sum())),
        vmap(OwnRule.apply),
        vmap(grad(lambda a: OwnRule.apply(a).sum())),
        lambda x: torch.func.jvp(Forward.apply, (x,), (x,)),
        lambda x: hessian(lambda a: Sine.apply(a).sum())(x[0]),
    ],
)
def test_what_else_is_seen_of_them(function, backend):
    """Effects, what they read, errors: whether that is captured or not."""
    compiled = pellucid.compile(function, backend=backend)

    def run(f, x, factor):
        global FACTOR
        LOG.clear()
        FACTOR = factor
        try:
            result = f(x)
        except RuntimeError as error:
            result = str(error)
        return result, list(LOG), FACTOR

    for seed in range(3):
        torch.manual_seed(seed)
        x = torch.randn(3, 4)
        assert same(run(function, x, float(seed)), run(compiled, x, float(seed)))
