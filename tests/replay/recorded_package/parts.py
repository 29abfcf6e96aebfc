import collections
import collections.abc
import dataclasses
import enum

import torch

from . import SCALE

LIMITS = {"low": [0.5, 1.5], "high": (2, 3)}
FACTOR = 4


class Kind(enum.Enum):
    SMALL = "small"
    LARGE = "large"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


@dataclasses.dataclass
class Options:
    size: int
    kind: Kind = Kind.LARGE
    names: list = dataclasses.field(default_factory=list)


Pair = collections.namedtuple("Pair", "left right")


def scaled(x):
    return x * SCALE + LIMITS["low"][1]


class Base:
    bias = 2.0

    def __init__(self, width):
        self.width = width

    @property
    def twice(self):
        return self.width * 2

    @staticmethod
    def doubled(x):
        return x + x

    @classmethod
    def made(cls, x):
        return cls.bias * x

    def run(self, x):
        return x * self.width + self.bias


class Derived(Base):
    __slots__ = ("extra",)

    def __init__(self, width):
        super().__init__(width)
        self.extra = [1.0, 2.0]

    def run(self, x):
        return super().run(x) + self.extra[1] + self.twice


class Block(torch.nn.Module):
    def __init__(self, options):
        super().__init__()
        self.options = options
        self.linear = torch.nn.Linear(3, 3)
        self.norm = torch.nn.LayerNorm(3)
        self.register_buffer("shift", torch.ones(3))
        self.layers = torch.nn.ModuleList([torch.nn.Linear(3, 3) for _ in range(2)])

    def forward(self, x, *, deep=True):
        x = self.norm(self.linear(x)) + self.shift
        for layer in self.layers if deep else ():
            x = torch.nn.functional.gelu(layer(x))
        if self.options.kind is Kind.LARGE:
            x = x * self.options.size
        return {"out": x, "names": self.options.names}


class Switched(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.sin()

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2


class ForClasses(property):
    def __get__(self, instance, owner):
        return self.fget(owner)


class Functions(collections.abc.MutableMapping):
    """As what transformers keeps its attention functions in."""

    name: "str | None" = None

    def __init__(self):
        self.held = {"double": lambda x: x * 2}

    def __getitem__(self, key):
        return self.held[key]

    def __setitem__(self, key, value):
        self.held[key] = value

    def __delitem__(self, key):
        del self.held[key]

    def __iter__(self):
        return iter(self.held)

    def __len__(self):
        return len(self.held)

    @ForClasses
    def title(cls):
        return cls.__name__


class Failing(ValueError):
    pass
