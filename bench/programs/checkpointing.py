"""Activation checkpointing: both forms, what is kept by choice, random numbers, nesting."""

from __future__ import annotations

import functools

import torch
from torch import nn
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    checkpoint_sequential,
    create_selective_checkpoint_contexts,
)

from programs import Case, program


def leaf_calls(*sizes: int, count: int = 3) -> list[tuple]:
    return [(torch.randn(*sizes, requires_grad=True),) for _ in range(count)]


class Block(nn.Module):
    def __init__(self, width: int = 6, dropout: float = 0.0):
        super().__init__()
        self.norm, self.first, self.second = (
            nn.LayerNorm(width),
            nn.Linear(width, 2 * width),
            nn.Linear(2 * width, width),
        )
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, scale=1.0):
        return x + scale * self.dropout(self.second(nn.functional.gelu(self.first(self.norm(x)))))


class Stack(nn.Module):
    def __init__(self, *blocks: nn.Module, **options: object):
        super().__init__()
        self.blocks, self.options = nn.ModuleList(blocks), options

    def forward(self, x):
        for block in self.blocks:
            x = checkpoint(block, x, **self.options)
        return x


def stack(*, dropout: float = 0.0, **options: object) -> Case:
    model = Stack(Block(dropout=dropout), Block(dropout=dropout), **options)
    return Case(model, leaf_calls(4, 6), state=model)


program("checkpointing", name="not_reentrant", inductor=True)(functools.partial(stack, use_reentrant=False))
program("checkpointing", name="reentrant")(functools.partial(stack, use_reentrant=True))
program("checkpointing", name="checkpoint_dropout")(functools.partial(stack, dropout=0.5, use_reentrant=False))
program("checkpointing", name="checkpoint_without_rng")(
    functools.partial(stack, use_reentrant=False, preserve_rng_state=False)
)
program("checkpointing", name="checkpoint_no_check")(
    functools.partial(stack, use_reentrant=False, determinism_check="none")
)


@program("checkpointing")
def selective_by_policy():
    def policy(ctx, op, *args, **kwargs):
        return CheckpointPolicy.MUST_SAVE if "addmm" in str(op) else CheckpointPolicy.PREFER_RECOMPUTE

    model = Stack(
        Block(),
        Block(),
        use_reentrant=False,
        context_fn=functools.partial(create_selective_checkpoint_contexts, policy),
    )
    return Case(model, leaf_calls(4, 6), state=model)


@program("checkpointing")
def selective_by_list():
    saved = [torch.ops.aten.mm.default, torch.ops.aten.addmm.default]
    model = Stack(
        Block(), use_reentrant=False, context_fn=functools.partial(create_selective_checkpoint_contexts, saved)
    )
    return Case(model, leaf_calls(4, 6), state=model)


@program("checkpointing")
def nested_checkpoint():
    w = torch.randn(6, 6, requires_grad=True)

    def inner(x):
        return torch.tanh(x @ w)

    def outer(x):
        return checkpoint(inner, checkpoint(inner, x, use_reentrant=False) * 2, use_reentrant=False)

    def f(x):
        return checkpoint(outer, x, use_reentrant=False)

    return Case(f, leaf_calls(3, 6), state=w)


@program("checkpointing")
def sequential_form():
    model = nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 2))

    def f(x):
        return checkpoint_sequential(model, 2, x, use_reentrant=False)

    return Case(f, leaf_calls(3, 6), state=model)


@program("checkpointing")
def keyword_arguments():
    block = Block()

    def f(x, scale):
        return checkpoint(block, x, scale=scale, use_reentrant=False)

    return Case(f, [(x, scale) for (x,), scale in zip(leaf_calls(3, 6), (1.0, 0.5, 0.25))], state=block)


@program("checkpointing")
def several_results():
    w = torch.randn(6, 6, requires_grad=True)

    def part(x):
        y = x @ w
        return y.sin(), {"cos": y.cos(), "size": y.shape[0]}

    def f(x):
        first, rest = checkpoint(part, x, use_reentrant=False)
        return first * rest["cos"] + rest["size"]

    return Case(f, leaf_calls(3, 6), state=w)


@program("checkpointing")
def without_gradients():
    block = Block()

    def f(x):
        with torch.no_grad():
            return checkpoint(block, x, use_reentrant=False) + 1

    return Case(f, leaf_calls(3, 6), state=block)


@program("checkpointing")
def under_autocast():
    block = Block()

    def f(x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return checkpoint(block, x, use_reentrant=False).float()

    return Case(f, leaf_calls(3, 6), state=block)


@program("checkpointing")
def every_second_block():
    blocks = nn.ModuleList(Block() for _ in range(4))

    def f(x):
        for number, block in enumerate(blocks):
            x = checkpoint(block, x, use_reentrant=False) if number % 2 else block(x)
        return x

    return Case(f, leaf_calls(3, 6), state=blocks)


@program("checkpointing")
def batch_norm_recomputed():
    """The running statistics are moved twice, in eager too."""
    block = nn.Sequential(nn.Linear(6, 6), nn.BatchNorm1d(6), nn.ReLU())

    def f(x):
        return checkpoint(block, x, use_reentrant=False)

    return Case(f, leaf_calls(4, 6), state=block)


@program("checkpointing")
def checkpoint_in_train_step():
    model = Stack(Block(dropout=0.1), Block(dropout=0.1), use_reentrant=False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)

    def step(x):
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return Case(step, [(torch.randn(4, 6),) for _ in range(3)], state=[model, optimizer])


@program("checkpointing")
def body_counts_its_calls():
    """A block that runs again in the backward pass counts twice."""
    counter = {"runs": 0}
    w = torch.randn(6, 6, requires_grad=True)

    def part(x):
        counter["runs"] += 1
        return torch.sigmoid(x @ w)

    def f(x):
        return checkpoint(part, x, use_reentrant=False)

    return Case(f, leaf_calls(3, 6), state=[w, counter])
