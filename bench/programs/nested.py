"""Nested tensors with the jagged layout."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from programs import Case, program


def jagged(*lengths: int, width: int = 4, gradients: bool = False) -> torch.Tensor:
    return torch.nested.nested_tensor(
        [torch.randn(length, width) for length in lengths], layout=torch.jagged, requires_grad=gradients
    )


LENGTHS = ((2, 3, 1), (4, 1), (2, 2, 2))


def calls(**options: object) -> list[tuple]:
    return [(jagged(*lengths, **options),) for lengths in LENGTHS]


@program("nested tensors", inductor=True)
def jagged_pointwise():
    return Case(lambda x: (x.sin() * 2 + 1).values(), calls())


@program("nested tensors")
def jagged_linear():
    layer = torch.nn.Linear(4, 2)
    return Case(lambda x: torch.relu(layer(x)), calls(), state=layer)


@program("nested tensors")
def jagged_sum():
    return Case(lambda x: (x.sum(-1).values(), x.sum(1)), calls())


@program("nested tensors")
def jagged_gradients():
    return Case(lambda x: (x * x).values().sum(), calls(gradients=True))


@program("nested tensors")
def jagged_to_padded():
    return Case(lambda x: torch.nested.to_padded_tensor(x, 0.0) * 2, calls())


@program("nested tensors")
def jagged_made_inside():
    def f(values, offsets):
        x = torch.nested.nested_tensor_from_jagged(values, offsets)
        return (x * 2).values(), x.size(0)

    return Case(f, [(torch.randn(6, 4), torch.tensor([0, 2, 5, 6])), (torch.randn(5, 4), torch.tensor([0, 4, 5]))])


@program("nested tensors")
def jagged_from_list():
    def f(a, b):
        return torch.nested.as_nested_tensor([a, b], layout=torch.jagged).sin().values()

    return Case(f, [(torch.randn(2, 4), torch.randn(3, 4)), (torch.randn(5, 4), torch.randn(1, 4))])


@program("nested tensors")
def jagged_attention():
    def f(x):
        heads = x.unflatten(-1, [2, 2]).transpose(1, 2)
        return F.scaled_dot_product_attention(heads, heads, heads).transpose(1, 2).flatten(-2).values()

    return Case(f, calls())


@program("nested tensors")
def jagged_unbound():
    return Case(lambda x: [part.mean(0) for part in x.unbind()], calls())


@program("nested tensors")
def jagged_norm_and_softmax():
    norm = torch.nn.LayerNorm(4)
    return Case(lambda x: torch.softmax(norm(x), dim=-1).values(), calls(), state=norm)
