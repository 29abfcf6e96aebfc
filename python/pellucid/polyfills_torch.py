"""Functions of torch that take plain ints alone, said with functions that take open ones. They run on fakes only: the
graph has the function that the program called."""

from __future__ import annotations

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


FOR_OPEN_INTS = {
    operator.getitem: getitem,
    operator.setitem: setitem,
    torch.linspace: linspace,
    torch.logspace: logspace,
    torch.nn.functional.one_hot: one_hot,
    torch.hann_window: _window(torch.hann_window),
    torch.hamming_window: _window(torch.hamming_window),
    torch.blackman_window: _window(torch.blackman_window),
    torch.bartlett_window: _window(torch.bartlett_window),
    torch.kaiser_window: _window(torch.kaiser_window),
}
