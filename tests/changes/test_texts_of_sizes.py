"""Sizes, alone and in containers, in templates: one region serves all of them where the text only moves."""

# ruff: noqa: UP030, UP032, F507, F524
from __future__ import annotations

import pytest
import torch

import pellucid
from support import Counting
from support.calls import ramp

SIZES = (3, 5, 4, 8, 2, 7)

TEMPLATES = [
    lambda x, n: "%s" % (x.shape,),
    lambda x, n: "%s and %d" % (x.shape, n),
    lambda x, n: "%10s|%-12s|%.3s" % (x.shape, n, x.shape),
    lambda x, n: "%d x %d" % x.shape,
    lambda x, n: "%d%% of %s" % (n, (x.shape[0], n, "a")),
    lambda x, n: "%s %s" % ([x.shape[0], 1], {"n": n}),
    lambda x, n: "%s" % [n, x.shape[0]],
    lambda x, n: "{} {}".format(x.shape, n),
    lambda x, n: "{}".format(x.shape),
    lambda x, n: "{1} {0} {1:>5}".format(x.shape, n),
    lambda x, n: "{!s:>30}|{!s}".format(x.shape, [n]),
    lambda x, n: "{{}} {}".format((n, x.shape[0])),
    lambda x, n: f"{x.shape} {x.shape[0]:>4d} {x.size(0) * 2:04} {x.shape[0] / 7:.2f}",
    lambda x, n: f"{x.shape!s:>30} {n!r:>5} {tuple(x.shape)}",
    lambda x, n: str(x.shape) + repr(list(x.shape)),
    lambda x, n: "%s of %s" % (torch.Size([n, 2]), (n,)),
]


def texts(f, compiled):
    for n in SIZES:
        mine, its = compiled(ramp(n, 3), n + 1), f(ramp(n, 3), n + 1)
        assert mine[1] == its[1] and torch.equal(mine[0], its[0])


@pytest.mark.parametrize("template", TEMPLATES)
def test_templates_that_only_move(template):
    def f(x, n):
        return x * 2, template(x, n)

    counting = Counting()
    texts(f, pellucid.compile(f, backend=counting))
    assert counting.count == 2


LOOKED_AT = [
    lambda x, n: "%d" % (x.shape,) if n < 0 else "",
    lambda x, n: "%r %s" % (x.shape, n),
    lambda x, n: "{!r}".format(x.shape),
    lambda x, n: "{0.shape} {1}".format(x, n) if n < 0 else str(n),
    lambda x, n: "%s" % (("a", [x.shape]),),
    lambda x, n: len("{} {}".format(x.shape, n)),
    lambda x, n: "%c" % (x.shape[0] + 60),
    lambda x, n: "%*d" % (x.shape[0], n),
]


@pytest.mark.parametrize("template", LOOKED_AT)
def test_others_are_right_all_the_same(template):
    def f(x, n):
        return x * 2, template(x, n)

    counting = Counting()
    with pellucid.config.patch(recompile_limit=100):
        texts(f, pellucid.compile(f, backend=counting))
    assert counting.count >= 1


ERRORS = [
    lambda x, n: "%s" % x.shape,
    lambda x, n: "%s %s" % (x.shape,),
    lambda x, n: "%d" % (x.shape,),
    lambda x, n: "{:>20}".format(x.shape),
    lambda x, n: "{} {} {}".format(x.shape, n),
    lambda x, n: "{:d}".format([n]),
]


@pytest.mark.parametrize("template", ERRORS)
def test_errors_are_eagers(template):
    def f(x, n):
        return x * 2, template(x, n)

    compiled = pellucid.compile(f, backend="eager")
    for n in SIZES:
        with pytest.raises((TypeError, IndexError)) as eager:
            f(ramp(n, 3), n)
        with pytest.raises(eager.type) as ours:
            compiled(ramp(n, 3), n)
        assert str(ours.value) == str(eager.value)


def test_a_list_that_changes_behind_its_text():
    def f(x, n):
        sizes = [x.shape[0], n]
        text = "%s and {}" % (sizes,)
        sizes.append(n)
        return x * 2, (text.format(1), "{}".format(sizes), sizes)

    counting = Counting()
    texts(f, pellucid.compile(f, backend=counting))
