"""Hooks: of tensors, modules, gradients that were accumulated, saved tensors; and in which order they are called."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from programs import Case, program
from programs.checkpointing import leaf_calls
from programs.optimizers import batches, small_net


@program("hooks", inductor=True)
def hook_of_inner_tensor():
    def f(x):
        y = x.sin()
        y.register_hook(lambda grad: grad * 2)
        return y * x

    return Case(f, leaf_calls(3, 4))


@program("hooks")
def hook_of_argument():
    log: list = []

    def f(x):
        x.register_hook(lambda grad: log.append(tuple(grad.shape)))
        return x.sin()

    return Case(f, leaf_calls(3, 4), state=log)


@program("hooks")
def hook_removed():
    def f(x):
        y = x.sin()
        handle = y.register_hook(lambda grad: grad * 100)
        handle.remove()
        return y * 2

    return Case(f, leaf_calls(3, 4))


@program("hooks")
def hook_handed_out():
    def f(x):
        y = x.sin()
        handle = y.register_hook(lambda grad: grad * 3)
        return y * 2, handle

    def g(x):
        y, _ = f(x)
        return y

    return Case(g, leaf_calls(3, 4))


@program("hooks")
def hooks_in_order():
    """Several hooks on one tensor, and one that was there before the call."""
    log: list = []
    w = torch.randn(4, requires_grad=True)
    w.register_hook(lambda grad: log.append("w"))

    def f(x):
        y = x * w
        y.register_hook(lambda grad: log.append("y 1"))
        y.register_hook(lambda grad: log.append("y 2"))
        z = y.cos()
        z.register_hook(lambda grad: log.append("z"))
        return z

    return Case(f, leaf_calls(3, 4), state=[w, log])


@program("hooks")
def retained_grad():
    kept: list = []

    def f(x):
        y = x.sin()
        y.retain_grad()
        loss = (y * y).sum()
        loss.backward()
        kept.append(y.grad)
        return loss.detach()

    return Case(f, leaf_calls(3, 4), state=kept)


@program("hooks", inductor=True)
def module_forward_hooks():
    model = small_net()
    shapes: list = []
    model[0].register_forward_hook(lambda module, args, out: shapes.append(tuple(out.shape)))
    model[1].register_forward_pre_hook(lambda module, args: (args[0] * 0.5,))
    model[2].register_forward_hook(lambda module, args, out: out + 1)
    return Case(lambda x, y: F.cross_entropy(model(x), y), batches(), state=[model, shapes])


@program("hooks")
def module_hook_with_keywords():
    class Scaled(nn.Module):
        def forward(self, x, *, scale=1.0):
            return x * scale

    model = Scaled()
    model.register_forward_pre_hook(
        lambda module, args, kwargs: (args, {"scale": kwargs["scale"] * 2}), with_kwargs=True
    )
    model.register_forward_hook(lambda module, args, kwargs, out: out + kwargs["scale"], with_kwargs=True)
    return Case(lambda x: model(x, scale=3.0), leaf_calls(3, 4))


@program("hooks")
def full_backward_hook():
    model = small_net()
    log: list = []
    model[2].register_full_backward_hook(lambda module, gin, gout: log.append(("head", gout[0].sum())))
    model[0].register_full_backward_hook(lambda module, gin, gout: log.append(("first", gout[0].sum())))
    return Case(lambda x, y: F.cross_entropy(model(x), y), batches(), state=[model, log])


@program("hooks")
def full_backward_hook_changes():
    model = small_net()
    model[2].register_full_backward_hook(lambda module, gin, gout: (gin[0] * 2,))
    model[2].register_full_backward_pre_hook(lambda module, gout: (gout[0] * 0.5,))
    return Case(lambda x, y: F.cross_entropy(model(x), y), batches(), state=model)


@program("hooks")
def activations_by_hooks():
    """What feature extractors do: hooks that are there for one call alone."""
    model = small_net()

    def f(x):
        found = {}
        handles = [
            layer.register_forward_hook(lambda module, args, out, name=name: found.__setitem__(name, out))
            for name, layer in model.named_children()
        ]
        out = model(x)
        for handle in handles:
            handle.remove()
        return out, found

    return Case(f, [(torch.randn(3, 6),) for _ in range(3)], state=model)


@program("hooks")
def global_forward_hook():
    model = small_net()
    log: list = []

    def f(x):
        handle = nn.modules.module.register_module_forward_hook(
            lambda module, args, out: log.append(type(module).__name__)
        )
        try:
            return model(x)
        finally:
            handle.remove()

    return Case(f, [(torch.randn(3, 6),) for _ in range(3)], state=[model, log])


@program("hooks")
def post_accumulate_hook():
    model = small_net()
    order: list = []
    names = {p: name for name, p in model.named_parameters()}
    for p in names:
        p.register_post_accumulate_grad_hook(lambda p: order.append((names[p], p.grad.norm())))

    def f(x, y):
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        return loss.detach()

    return Case(f, batches(), state=[model, order])


@program("hooks")
def hook_clips_gradients():
    """Hooks of parameters, made before, and a backward pass in the region."""
    model = small_net()
    for p in model.parameters():
        p.register_hook(lambda grad: grad.clamp(-0.01, 0.01))

    def f(x, y):
        model.zero_grad()
        F.cross_entropy(model(x), y).backward()

    return Case(f, batches(), state=model)


@program("hooks")
def saved_tensors_hooks():
    packed: list = []

    def pack(tensor):
        packed.append(tuple(tensor.shape))
        return tensor.to(torch.float64)

    def unpack(tensor):
        return tensor.to(torch.float32)

    def f(x):
        with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
            y = x.sin()
            return y * y

    return Case(f, leaf_calls(3, 4), state=packed)


@program("hooks")
def saved_on_cpu():
    w = torch.randn(4, 4, requires_grad=True)

    def f(x):
        with torch.autograd.graph.save_on_cpu():
            return torch.tanh(x @ w)

    return Case(f, leaf_calls(3, 4), state=w)


@program("hooks")
def saved_hooks_around_the_call():
    """The hooks are entered by the caller, who calls the compiled function below them."""
    log: list = []
    hooks = torch.autograd.graph.saved_tensors_hooks(lambda t: (log.append("pack"), t)[1], lambda t: t)

    def between(number: int) -> None:
        if number == 1:
            hooks.__enter__()
        if number == 2:
            hooks.__exit__()

    return Case(lambda x: (x.sin() * x).sum(), leaf_calls(3, 4), state=log, between=between)


@program("hooks")
def multi_grad_hook():
    log: list = []

    def f(x):
        a, b = x.sin(), x.cos()
        torch.autograd.graph.register_multi_grad_hook((a, b), lambda grads: log.append([g.sum() for g in grads]))
        return a * b

    return Case(f, leaf_calls(3, 4), state=log)


@program("hooks")
def grad_fn_hook():
    log: list = []

    def f(x):
        y = x.sin()
        y.grad_fn.register_hook(lambda gin, gout: log.append(len(gout)))
        return y * 2

    return Case(f, leaf_calls(3, 4), state=log)


@program("hooks")
def grad_fn_names():
    def f(x):
        y = (x.sin() * 2).sum()
        return y, y.grad_fn.name(), type(y.grad_fn).__name__, len(y.grad_fn.next_functions)

    return Case(f, leaf_calls(3, 4))


@program("hooks")
def hook_added_between_calls():
    model = small_net()
    log: list = []

    def between(number: int) -> None:
        if number == 2:
            model[0].register_forward_hook(lambda module, args, out: log.append("new") or out * 2)

    return Case(lambda x, y: F.cross_entropy(model(x), y), batches(4), state=[model, log], between=between)


@program("hooks")
def hook_that_raises():
    def f(x):
        y = x.sin()

        def hook(grad):
            raise RuntimeError("refused")

        y.register_hook(hook)
        return y * 2

    return Case(f, leaf_calls(3, 4))
