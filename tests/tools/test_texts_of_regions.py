"""What a region's printed text says is what the region does: names, keywords and numbers that Python has no literal for."""

import math

import pytest
import torch

import pellucid
from pellucid import events
from support import emitted


def named_as_an_output(x, n):
    return x * 2, n * 2


def endless(x):
    return x + 1, math.inf, -math.inf


def not_a_number(x):
    return x + 1, (math.nan, 1.0), complex(0.0, math.inf)


def keywords(x):
    y = x + 1
    print(y.shape, "end", sep=" ", end="")
    return y


PROGRAMS = [
    (named_as_an_output, (3,), "mul_1(n, 2)"),
    (endless, (), "inf"),
    (not_a_number, (), "a_tuple"),
    (keywords, (), "sep=' ', end=''"),
]


@pytest.mark.parametrize(("function", "others", "part"), PROGRAMS, ids=[one[0].__name__ for one in PROGRAMS])
def test_text_is_what_is_emitted(function, others, part):
    texts, differences = [], []

    def look(event):
        if isinstance(event, events.RegionFinished):
            differences.append(emitted.difference(event.emitted_function, event.read))
            texts.append("\n".join(event.read("listing")[1]))

    compiled = pellucid.compile(function, backend="eager", dynamic=True)
    with events.subscribe(look), pellucid.config.patch(reorderable_logging_functions={print}):
        compiled(torch.ones(2), *others)
    assert differences == [""]
    assert part in texts[0], texts[0]
