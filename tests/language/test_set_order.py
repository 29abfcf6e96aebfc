"""Sets are iterated in the order of eager, which follows from the hashes of their elements and from what came first."""

import datetime
import types

import pytest
import torch

import pellucid

BUILTINS = {
    "int": lambda n: n + 7,
    "float": lambda n: n + 0.5,
    "complex": lambda n: complex(n, 1),
    "str": lambda n: str(n),
    "bytes": lambda n: bytes([97 + n]),
    "tuple": lambda n: (1, n),
    "frozenset": lambda n: frozenset([n, 100]),
    "timedelta": lambda n: datetime.timedelta(n),
}
WAYS = {
    "frozenset_first": lambda x, key: (x + 1, frozenset([key, 5, 3])),
    "frozenset_amid": lambda x, key: (x + 1, frozenset([3, key, 5])),
    "set": lambda x, key: (x + 1, {key, 5, 3}),
    "pair": lambda x, key: (x + 1, frozenset([(key, key), 5, 3])),
}


def classes_over(base):
    """Of a builtin class: itself, a class without code, and classes with methods of their own that compare."""
    own = {"__eq__": lambda self, other: base.__eq__(self, other), "__hash__": base.__hash__}
    return [base, types.new_class("Mine", (base,)), types.new_class("Compares", (base,), {}, lambda d: d.update(own))]


def converted(value, cls):
    if type(value) is cls:
        return value
    return cls(days=value.days) if isinstance(value, datetime.timedelta) else cls(value)


def added(x, key):
    made = set()
    made.add(3)
    made.add(key)
    made.add(5)
    return x + 1, made


@pytest.mark.parametrize("way", [*WAYS.values(), added], ids=[*WAYS, "added"])
@pytest.mark.parametrize("kind", BUILTINS)
def test_order_where_hashes_collide(kind, way):
    """In a table of eight slots many of these keys are in the way of 3 or 5."""
    x, orders = torch.ones(1), set()
    for cls in classes_over(type(BUILTINS[kind](0))):
        compiled = pellucid.compile(way, backend="eager")
        with pellucid.config.patch(recompile_limit=64):
            for n in range(24):
                value = converted(BUILTINS[kind](n), cls)
                expected, got = list(way(x, value)[1]), list(compiled(x, value)[1])
                assert [*map(repr, got)] == [*map(repr, expected)] and [*map(type, got)] == [*map(type, expected)]
                orders.add(tuple(element in (3, 5) for element in expected))
        assert pellucid._core.cache_entries(compiled)
    assert len(orders) > 1
