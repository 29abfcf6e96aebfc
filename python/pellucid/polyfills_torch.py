"""Functions of torch that take plain ints alone or read plain sizes, said with functions that take open ones. They run on
fakes only: the graph has the function that the program called."""

from __future__ import annotations

import functools
import operator
from typing import Any

import torch


def _parts(tensor: torch.Tensor, key: Any) -> tuple | None:
    """The parts of a key that only picks and slices dimensions, an open int among them."""
    parts = key if type(key) is tuple else (key,)
    known = all(part is None or part is Ellipsis or type(part) in (int, slice, torch.SymInt) for part in parts)
    taken = sum(part is not None and part is not Ellipsis for part in parts)
    is_open = any(type(part) is torch.SymInt for part in parts)
    return parts if known and is_open and taken <= tensor.dim() and parts.count(Ellipsis) <= 1 else None


def getitem(tensor: torch.Tensor, key: Any) -> torch.Tensor:
    parts = _parts(tensor, key)
    if parts is None:
        return tensor[key]
    dim, skipped = 0, tensor.dim() - sum(part is not None and part is not Ellipsis for part in parts)
    for part in parts:
        if part is Ellipsis:
            dim += skipped
        elif part is None:
            tensor, dim = tensor.unsqueeze(dim), dim + 1
        elif type(part) is slice:
            tensor, dim = tensor[(slice(None),) * dim + (part,)], dim + 1
        else:
            tensor = tensor.select(dim, part)
    return tensor


def setitem(tensor: torch.Tensor, key: Any, value: Any) -> None:
    if _parts(tensor, key) is None:
        tensor[key] = value
        return
    view = getitem(tensor, key)
    if not isinstance(value, torch.Tensor):
        view.fill_(value)
        return
    while value.dim() > view.dim() and value.shape[0] == 1:
        value = value.select(0, 0)
    view.copy_(value)


def linspace(start: Any, end: Any, steps: Any, **options: Any) -> torch.Tensor:
    return torch.linspace(start, end, 2, **options).new_empty(steps)


def logspace(start: Any, end: Any, steps: Any, base: float = 10.0, **options: Any) -> torch.Tensor:
    return torch.logspace(start, end, 2, base, **options).new_empty(steps)


def one_hot(tensor: torch.Tensor, num_classes: Any = -1) -> torch.Tensor:
    if num_classes < 1:
        return torch.nn.functional.one_hot(tensor, num_classes)
    return torch.nn.functional.one_hot(tensor, 2).new_empty((*tensor.shape, num_classes))


def _window(function: Any) -> Any:
    def window(window_length: Any, *args: Any, **options: Any) -> torch.Tensor:
        return function(2, *args, **options).new_empty(window_length)

    return window


def fftfreq(n: Any, *args: Any, **options: Any) -> torch.Tensor:
    return torch.fft.fftfreq(2, *args, **options).new_empty(n)


def rfftfreq(n: Any, *args: Any, **options: Any) -> torch.Tensor:
    return torch.fft.rfftfreq(2, *args, **options).new_empty(n // 2 + 1)


def take_along_dim(tensor: torch.Tensor, indices: torch.Tensor, dim: int | None = None) -> torch.Tensor:
    if dim is None:
        return tensor.reshape(-1).gather(0, indices.reshape(-1))
    at = dim % tensor.dim() if tensor.dim() else 0
    others = [d for d in range(tensor.dim()) if d != at]
    if tensor.dim() != indices.dim() or any(tensor.shape[d] != indices.shape[d] for d in others):
        return torch.take_along_dim(tensor, indices, dim)
    return tensor.gather(dim, indices)


def multi_dot(tensors: Any) -> torch.Tensor:
    if len(tensors) < 2:
        return torch.linalg.multi_dot(tensors)
    return functools.reduce(torch.matmul, tensors)


def kron(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    dims = max(left.dim(), right.dim())
    rows = (1,) * (dims - left.dim()) + tuple(left.shape)
    columns = (1,) * (dims - right.dim()) + tuple(right.shape)
    left = left.reshape([size for row in rows for size in (row, 1)])
    right = right.reshape([size for column in columns for size in (1, column)])
    return (left * right).reshape([row * column for row, column in zip(rows, columns)])


def block_diag(*blocks: torch.Tensor) -> torch.Tensor:
    if not blocks or any(block.dim() != 2 or block.dtype != blocks[0].dtype for block in blocks):
        return torch.block_diag(*blocks)
    row = column = 0
    made = blocks[0].new_zeros(
        functools.reduce(operator.add, [block.shape[0] for block in blocks]),
        functools.reduce(operator.add, [block.shape[1] for block in blocks]),
    )
    for block in blocks:
        made[row : row + block.shape[0], column : column + block.shape[1]] = block
        row, column = row + block.shape[0], column + block.shape[1]
    return made


def pad_sequence(
    sequences: Any, batch_first: bool = False, padding_value: float = 0.0, padding_side: str = "right"
) -> torch.Tensor:
    length = functools.reduce(torch.sym_max, [sequence.shape[0] for sequence in sequences])
    sizes, rest = (len(sequences), length), tuple(sequences[0].shape[1:])
    made = sequences[0].new_full((*(sizes if batch_first else sizes[::-1]), *rest), padding_value)
    for i, sequence in enumerate(sequences):
        own = sequence.shape[0]
        row = made[i] if batch_first else made[:, i]
        (row[:own] if padding_side == "right" else row[length - own :]).copy_(sequence)
    return made


FOR_OPEN_SIZES = {
    torch.kron: kron,
    torch._C._VariableFunctions.block_diag: block_diag,  # type: ignore[attr-defined]
    torch.functional.block_diag: block_diag,
    torch._C._nn.pad_sequence: pad_sequence,
    torch.take_along_dim: take_along_dim,
    torch.Tensor.take_along_dim: take_along_dim,
    torch.linalg.multi_dot: multi_dot,
}

FOR_OPEN_INTS = FOR_OPEN_SIZES | {
    operator.getitem: getitem,
    operator.setitem: setitem,
    torch.linspace: linspace,
    torch.logspace: logspace,
    torch.nn.functional.one_hot: one_hot,
    torch.fft.fftfreq: fftfreq,
    torch.fft.rfftfreq: rfftfreq,
    torch.hann_window: _window(torch.hann_window),
    torch.hamming_window: _window(torch.hamming_window),
    torch.blackman_window: _window(torch.blackman_window),
    torch.bartlett_window: _window(torch.bartlett_window),
    torch.kaiser_window: _window(torch.kaiser_window),
}
