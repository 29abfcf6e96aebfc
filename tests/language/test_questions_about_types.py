"""typing.get_origin() and get_args() of types and their aliases."""

from collections.abc import Callable
from typing import Annotated, Any, Literal, Optional, Union, get_args, get_origin

import pytest
import torch

import pellucid


class Own:
    pass


TYPES = [
    list[int],
    dict[str, Own],
    Optional[int],  # noqa: UP045
    int | None,
    Union[int, str],  # noqa: UP007
    Callable[[int], str],
    tuple[int, ...],
    Annotated[int, 3],
    Literal[1, 2],
    Any,
    None,
    int,
    Own,
    3,
]


@pytest.mark.parametrize("asked", TYPES, ids=str)
def test_origin_and_arguments(asked):
    def f(x, kind):
        return x + 1, get_origin(kind), get_args(kind)

    compiled = pellucid.compile(f, backend="eager", fullgraph=True)
    x = torch.ones(2)
    for kind in (asked, asked, list[str]):  # another type is compiled anew
        want, got = f(x, kind), compiled(x, kind)
        assert torch.equal(got[0], want[0]) and got[1:] == want[1:]
    assert pellucid.explain(f)(x, asked).graph_count == 1
