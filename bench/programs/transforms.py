"""torch.func and forward-mode differentiation."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch.func import (
    functional_call,
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

from programs import Case, program
from programs.checkpointing import leaf_calls
from programs.optimizers import batches, small_net


def vectors(*sizes: int, count: int = 3) -> list[tuple]:
    return [(torch.randn(*sizes),) for _ in range(count)]


@program("torch.func", inductor=True)
def grad_of_a_sum():
    return Case(lambda x: grad(lambda x: (x.sin() ** 2).sum())(x), vectors(4))


@program("torch.func")
def grad_with_value_and_aux():
    def loss(x, w):
        y = x @ w
        return y.square().mean(), y

    return Case(
        lambda x, w: grad_and_value(loss, argnums=1, has_aux=True)(x, w),
        [(torch.randn(3, 4), torch.randn(4)) for _ in range(3)],
    )


@program("torch.func", inductor=True)
def vmap_of_dot():
    return Case(lambda x, y: vmap(torch.dot)(x, y), [(torch.randn(3, 4), torch.randn(3, 4)) for _ in range(3)])


@program("torch.func")
def vmap_dims():
    def f(x, y):
        return vmap(lambda a, b: (a @ b, a.sum()), in_dims=(1, None), out_dims=(1, 0))(x, y)

    return Case(f, [(torch.randn(4, 3), torch.randn(4, 2)) for _ in range(3)])


@program("torch.func")
def vmap_nested():
    def f(x, y):
        return vmap(lambda a: vmap(lambda b: torch.dot(a, b))(y))(x)

    return Case(f, [(torch.randn(3, 4), torch.randn(2, 4)) for _ in range(3)])


@program("torch.func")
def vmap_of_random():
    return Case(lambda x: vmap(lambda a: a + torch.randn(4), randomness="different")(x), vectors(3, 4))


@program("torch.func")
def vmap_random_refused():
    return Case(lambda x: vmap(lambda a: a + torch.randn(4))(x), vectors(3, 4))


@program("torch.func")
def vmap_in_chunks():
    return Case(lambda x: vmap(lambda a: a.softmax(-1), chunk_size=2)(x), vectors(5, 4))


@program("torch.func")
def vmap_with_gradients():
    w = torch.randn(4, 4, requires_grad=True)
    return Case(lambda x: vmap(lambda a: torch.tanh(w @ a))(x), leaf_calls(3, 4), state=w)


@program("torch.func", inductor=True)
def vjp_of_a_net():
    def f(x, v):
        out, pull = vjp(lambda x: x.sin() * x, x)
        return out, pull(v)[0]

    return Case(f, [(torch.randn(4), torch.randn(4)) for _ in range(3)])


@program("torch.func")
def jvp_of_a_net():
    return Case(
        lambda x, t: jvp(lambda x: x.sin() * x, (x,), (t,)), [(torch.randn(4), torch.randn(4)) for _ in range(3)]
    )


@program("torch.func")
def reverse_jacobian():
    return Case(lambda x: jacrev(lambda x: x.sin() * x.sum())(x), vectors(4))


@program("torch.func")
def forward_jacobian():
    return Case(lambda x: jacfwd(lambda x: x.sin() * x.sum())(x), vectors(4))


@program("torch.func")
def hessian_of_a_loss():
    return Case(lambda x: hessian(lambda x: (x.sin() * x).sum())(x), vectors(4))


@program("torch.func")
def hessian_vector_product():
    def f(x, v):
        return jvp(grad(lambda x: (x**3).sum()), (x,), (v,))[1]

    return Case(f, [(torch.randn(4), torch.randn(4)) for _ in range(3)])


@program("torch.func")
def linearized():
    def f(x, t):
        out, push = linearize(lambda x: x.sin() * 2, x)
        return out, push(t)

    return Case(f, [(torch.randn(4), torch.randn(4)) for _ in range(3)])


@program("torch.func")
def functional_call_of_a_net():
    model = small_net()
    base = dict(model.named_parameters())

    def f(x, y, scale):
        scaled = {name: p * scale for name, p in base.items()}
        return F.cross_entropy(functional_call(model, scaled, (x,)), y)

    return Case(f, [(*batch, scale) for batch, scale in zip(batches(), (1.0, 0.5, 0.5))], state=model)


@program("torch.func")
def per_sample_gradients():
    model = small_net()
    parameters = {name: p.detach() for name, p in model.named_parameters()}

    def loss(parameters, x, y):
        return F.cross_entropy(functional_call(model, parameters, (x[None],)), y[None])

    return Case(lambda x, y: vmap(grad(loss), in_dims=(None, 0, 0))(parameters, x, y), batches())


@program("torch.func")
def ensemble():
    models = [small_net() for _ in range(3)]
    parameters, buffers = stack_module_state(models)
    base = small_net().to("meta")

    def f(x):
        return vmap(lambda p, b, x: functional_call(base, (p, b), (x,)), in_dims=(0, 0, None))(parameters, buffers, x)

    return Case(f, vectors(4, 6), state=parameters)


@program("torch.func")
def ensemble_stacked_inside():
    models = [small_net() for _ in range(2)]
    base = small_net().to("meta")

    def f(x):
        parameters, buffers = stack_module_state(models)
        return vmap(lambda p, b: functional_call(base, (p, b), (x,)))(parameters, buffers).detach()

    return Case(f, vectors(4, 6))


@program("torch.func")
def newton_steps():
    """A loop over transforms, as an optimizer of second order has it."""

    def f(x):
        def loss(x):
            return (x**4 - x**2).sum() + 2 * (x**2).sum()

        for _ in range(3):
            x = x - torch.linalg.solve(hessian(loss)(x), grad(loss)(x))
        return x

    return Case(f, vectors(3))


@program("torch.func")
def functionalized():
    def inner(x):
        y = x.clone()
        y[0] = 1.0
        y.add_(2)
        return y

    return Case(lambda x: torch.func.functionalize(inner)(x), vectors(4))


@program("torch.func")
def dual_numbers():
    import torch.autograd.forward_ad as fwAD

    def f(x, t):
        with fwAD.dual_level():
            dual = fwAD.make_dual(x, t)
            return fwAD.unpack_dual(dual.sin() * dual).tangent

    return Case(f, [(torch.randn(4), torch.randn(4)) for _ in range(3)])


@program("torch.func")
def old_functional_api():
    def f(x):
        return (
            torch.autograd.functional.jacobian(lambda x: x.sin(), x),
            torch.autograd.functional.hvp(lambda x: (x**3).sum(), x, torch.ones(4))[1],
        )

    return Case(f, vectors(4))


@program("torch.func")
def grad_logs_inside():
    """What a transformed function does to Python objects."""
    log: list = []

    def loss(x):
        log.append(tuple(x.shape))
        return (x * x).sum()

    return Case(lambda x: vmap(grad(loss))(x), vectors(3, 4), state=log)
