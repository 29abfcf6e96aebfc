"""What a capture says of the strides and offset of a result is what eager gives, in every layout of the operand."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import pellucid
from support import Counting

CHANNELS_LAST = torch.channels_last


def image():
    return torch.randn(2, 4, 6, 5, generator=torch.Generator().manual_seed(0))


LAYOUTS = {
    "contiguous": image,
    "channels last": lambda: image().contiguous(memory_format=CHANNELS_LAST),
    "transposed": lambda: image().transpose(2, 3),
    "batches inside": lambda: image().transpose(0, 1).contiguous().transpose(0, 1),
    "part of channels last": lambda: image().repeat(1, 2, 1, 1).contiguous(memory_format=CHANNELS_LAST)[:, 1:5],
    "behind others": lambda: torch.cat([image(), image()])[2:],
    "expanded": lambda: image()[:, :1].expand(2, 4, 6, 5),
    "one channel": lambda: image()[:, :1].contiguous(memory_format=CHANNELS_LAST),
    "one place": lambda: image()[:, :, :1, :1].contiguous(memory_format=CHANNELS_LAST),
    "odd stride of one": lambda: image().as_strided((1, 4, 6, 5), (7, 30, 5, 1)),
    "nothing": lambda: image()[:0].contiguous(memory_format=CHANNELS_LAST),
    "volume": lambda: image()[..., None].repeat(1, 1, 1, 1, 3).contiguous(memory_format=torch.channels_last_3d),
}


def sides(x):
    return 2 * (x.dim() - 2)


OPERATORS = {
    "log_sigmoid": F.logsigmoid,
    "rrelu": F.rrelu,
    "rrelu in training": lambda x: F.rrelu(x, training=True),
    "hardswish": F.hardswish,
    "nan_to_num": torch.nan_to_num,
    "complex": lambda x: torch.complex(x, x),
    "abs of complex": lambda x: torch.complex(x, x).abs(),
    "angle": lambda x: torch.complex(x, x).angle(),
    "logical_not": torch.logical_not,
    "floor_divide": lambda x: x // 2.0,
    "prelu": lambda x: F.prelu(x, x.new_full((x.shape[1],), 0.5)),
    "replicate": lambda x: F.pad(x, (1, 0) * (x.dim() - 2), mode="replicate"),
    "reflect": lambda x: F.pad(x, (0,) * sides(x), mode="reflect"),
    "channel_shuffle": lambda x: F.channel_shuffle(x, x.shape[1]),
    "pixel_unshuffle": lambda x: F.pixel_unshuffle(x, 1),
    "unfold": lambda x: F.unfold(x, 1),
    "group_norm": lambda x: F.group_norm(x, 1),
    "interpolate": lambda x: F.interpolate(x, scale_factor=2.0),
    "silu of a sum": lambda x: F.silu(x + x.contiguous()),
}


def layout(x):
    formats = [CHANNELS_LAST] if x.dim() == 4 else [torch.channels_last_3d] if x.dim() == 5 else []
    return (
        tuple(x.shape),
        x.stride(),
        x.storage_offset(),
        x.is_contiguous(),
        [x.is_contiguous(memory_format=f) for f in formats],
    )


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("kind", LAYOUTS)
def test_what_is_said_of_a_layout(kind, name, dynamic):
    operator = OPERATORS[name]

    def f(x):
        y = operator(x)
        return layout(y), y

    def outcome(function):
        torch.manual_seed(0)
        try:
            return function(x)
        except (RuntimeError, ValueError, NotImplementedError) as error:
            return type(error)

    x = LAYOUTS[kind]()
    want = outcome(f)
    got = outcome(pellucid.compile(f, backend=Counting(), dynamic=dynamic))
    if isinstance(want, type):
        assert got is want
        return
    assert got[0] == want[0]
    assert layout(got[1]) == want[0]
    assert torch.equal(torch.nan_to_num(got[1]), torch.nan_to_num(want[1]))
    assert pellucid.counters()["ops"]
