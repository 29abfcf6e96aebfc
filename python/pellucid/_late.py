"""What the text of a container with numbers in it is, called by compiled code with the numbers of the call."""

from __future__ import annotations

from typing import Any

import torch


def text_of_list(items: tuple) -> str:
    return repr(list(items))


def text_of_size(sizes: tuple[int, ...]) -> str:
    return repr(torch.Size(sizes))


def text_of_dict(keys: tuple, values: tuple[Any, ...]) -> str:
    return repr(dict(zip(keys, values, strict=True)))
