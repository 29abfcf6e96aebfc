"""Texts of a class of their own, as torch.__version__ is one."""

from __future__ import annotations

import re

import pytest
import torch
from packaging import version

import pellucid
from support import Counting

PROGRAMS = {
    "compared": lambda x: x * 2 if torch.__version__ >= "2.1" else x,
    "compared with numbers": lambda x: x * 2 if torch.__version__ >= (2, 1) else x,
    "parsed": lambda x: x * 2 if version.parse(torch.__version__) >= version.parse("2.1") else x,
    "split": lambda x: x * int(torch.__version__.split("+")[0].split(".")[0]),
    "matched": lambda x: x * int(re.match(r"(\d+)\.(\d+)", torch.__version__).group(1)),
    "release": lambda x: x * version.parse(torch.__version__.split("+")[0]).release[0],
    "characters": lambda x: x * len([c for c in torch.__version__ if c.isdigit()]),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_versions(name):
    f = PROGRAMS[name]
    backend = Counting()
    compiled = pellucid.compile(f, backend=backend, fullgraph=True)
    for _ in range(2):
        assert torch.equal(compiled(torch.ones(2)), f(torch.ones(2)))
    assert backend.count == 1


class Loud(str):
    asked: list[str] = []

    def split(self, *args):
        self.asked.append("split")
        return super().split(*args)

    def __iter__(self):
        self.asked.append("iter")
        return super().__iter__()


TEXT = Loud("a b")


def test_methods_of_the_class_are_the_class_s():
    def f(x):
        return x * len(TEXT.split(" ")) + len([c for c in TEXT]) + len(str.split(TEXT, " "))

    compiled = pellucid.compile(f, backend="eager")
    for _ in range(2):
        Loud.asked.clear()
        gave = compiled(torch.ones(2))
        asked = list(Loud.asked)
        Loud.asked.clear()
        assert torch.equal(gave, f(torch.ones(2))) and asked == Loud.asked == ["split", "iter"]


def test_another_text_is_noticed():
    global TEXT
    compiled = pellucid.compile(lambda x: x * len(str.split(TEXT, " ")), backend="eager", fullgraph=True)
    kept = TEXT
    try:
        for words in ("a b", "a b c", "a"):
            TEXT = Loud(words)
            assert torch.equal(compiled(torch.ones(2)), torch.ones(2) * len(words.split(" ")))
    finally:
        TEXT = kept
