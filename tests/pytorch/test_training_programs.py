"""Steps of training with writes that no version counter shows, beside eager."""

from __future__ import annotations

import pytest
import torch
import torch.utils.checkpoint
from torch import nn

import pellucid


def trained(compile, backend_calls=None):
    """Losses and weights of a few steps with a GradScaler."""
    torch.manual_seed(0)
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)

    def step(x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = model(x).float().pow(2).mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        return loss.detach()

    step = compile(step)
    losses = [step(torch.randn(3, 4)) for _ in range(4)]
    return [*losses, *model.parameters(), scaler._scale]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_grad_scaler(backend):
    torch.testing.assert_close(trained(lambda f: pellucid.compile(f, backend=backend)), trained(lambda f: f))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_unscaling_is_kept(backend):
    def unscale(grads, found):
        torch._amp_foreach_non_finite_check_and_unscale_(grads, found, torch.full((1,), 0.125))

    compiled = pellucid.compile(unscale, backend=backend, fullgraph=True)
    for values in ([8.0, 16.0], [8.0, float("inf")]):
        ours, theirs = torch.tensor(values), torch.tensor(values)
        ours_found, theirs_found = torch.zeros(1), torch.zeros(1)
        compiled([ours], ours_found)
        unscale([theirs], theirs_found)
        assert torch.equal(ours, theirs) and torch.equal(ours_found, theirs_found)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_checkpoint_around_a_compiled_model(backend):
    """The second run of the forward ends with an exception of the hook that has seen all tensors: it is no graph's error."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 2))
    compiled = pellucid.compile(model, backend=backend)

    def gradients(run):
        torch.manual_seed(1)
        model.zero_grad()
        x = torch.ones(3, 4, requires_grad=True)
        torch.utils.checkpoint.checkpoint(run, x, use_reentrant=False).sum().backward()
        return [x.grad, *(weight.grad for weight in model.parameters())]

    for _ in range(2):
        torch.testing.assert_close(gradients(compiled), gradients(model))
    torch.testing.assert_close(compiled.eval()(torch.ones(3, 4)), model(torch.ones(3, 4)))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_pack_hook_that_raises_runs_once(backend):
    compiled = pellucid.compile(lambda x: (x.exp() * 2).sum(), backend=backend)
    packed = []

    def pack(tensor):
        packed.append(tensor)
        raise LookupError("enough")

    for _ in range(2):
        packed.clear()
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x), pytest.raises(LookupError, match="enough"):
            compiled(torch.ones(3, requires_grad=True))
        assert len(packed) == 1
