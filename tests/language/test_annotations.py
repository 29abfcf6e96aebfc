"""Annotations of functions and classes that the program makes, and types as values: what typing makes of types."""

# ruff: noqa: UP006, UP007, UP035, UP045 - the old spellings are what is tested
from __future__ import annotations

import collections.abc
import gc
import typing
from typing import Annotated, Any, Callable, Dict, Iterator, List, Literal, Optional, ParamSpec, Tuple, TypeVar, Union

import pytest
import torch
from torch.utils import _pytree as pytree

import pellucid
from support import Counting

T = TypeVar("T")
P = ParamSpec("P")

MADE = {
    "callable": lambda: Callable[[T], int],
    "callable of abc": lambda: collections.abc.Callable[[T], int],
    "callable of parameters": lambda: Callable[P, int],
    "callable of anything": lambda: Optional[Callable[..., Any]],
    "applied": lambda: Callable[[T], Any][int],
    "list of a variable": lambda: (List[T], list[T]),
    "dict": lambda: (Dict[T, "str"], dict[T, List[int]]),
    "union": lambda: (Union[T, int, None], T | None, int | None),
    "tuple": lambda: (Tuple[T, ...], Tuple[str, torch.Tensor]),
    "literal": lambda: (Literal["a", 1], Literal[1] == Literal[True]),
    "annotated": lambda: Annotated[int, "a"],
    "mapping": lambda: collections.abc.Mapping[str, T],
    "nested": lambda: Iterator[Tuple[str, Optional[Dict[str, Any]]]],
}


@pytest.mark.parametrize("name", MADE)
def test_what_is_made_of_types_is_a_value(name):
    def f(x):
        return x * 2, MADE[name]()

    backend = Counting()
    compiled = pellucid.compile(f, backend=backend, fullgraph=True)
    for _ in range(2):
        (gave, made), (expected, by_eager) = compiled(torch.ones(2)), f(torch.ones(2))
        assert torch.equal(gave, expected)
        assert made == by_eager and type(made) is type(by_eager) and repr(made) == repr(by_eager)
    assert backend.count == 1


def test_annotations_of_a_function_of_the_region():
    namespace: dict[str, Any] = {}
    exec(  # annotations that are evaluated, which this file's are not
        "def f(x, g_of=None):\n"
        "    def g(a: Callable[[T], Any], b: Optional[Dict[str, Any]] = None) -> List[Tuple[int, ...]]:\n"
        "        return a * 2\n"
        "    return g(x), g.__annotations__\n",
        {**vars(typing), "T": T},
        namespace,
    )
    f = namespace["f"]
    backend = Counting()
    compiled = pellucid.compile(f, backend=backend, fullgraph=True)
    for _ in range(2):
        (gave, annotations), (expected, by_eager) = compiled(torch.ones(2)), f(torch.ones(2))
        assert torch.equal(gave, expected) and annotations == by_eager
    assert backend.count == 1


def test_tree_map_only():
    def f(x):
        tree = {"a": x, "b": [x + 1, 3]}
        return pytree.tree_map_only(torch.Tensor, lambda t: t * 2, tree), pytree.tree_map_only(
            int, lambda n: n + 1, tree
        )

    backend = Counting()
    compiled = pellucid.compile(f, backend=backend, fullgraph=True)
    for _ in range(2):
        torch.testing.assert_close(compiled(torch.ones(2)), f(torch.ones(2)))
    assert backend.count == 1


OF = int


def test_a_type_that_is_another_one_is_noticed():
    def f(x):
        return x * 2 if Optional[OF] == Optional[int] else x * 3

    global OF
    compiled = pellucid.compile(f, backend="eager", fullgraph=True)
    for of in (int, str, int):
        OF = of
        assert torch.equal(compiled(torch.ones(2)), f(torch.ones(2)))


def test_a_number_in_a_literal_is_noticed():
    def f(x, n):
        return x * 2 if Literal[n] == Literal[1] else x * 3

    compiled = pellucid.compile(f, backend="eager")
    for n in (1, 2, 3, 1, 4):
        assert torch.equal(compiled(torch.ones(2), n), f(torch.ones(2), n))


def test_a_class_with_a_hash_of_its_own_is_asked():
    asked = []

    class Meta(type):
        def __hash__(cls):
            asked.append(cls)
            return 1

    class A(metaclass=Meta):
        pass

    def f(x):
        return x * 2, Optional[A] is not None

    def asked_by(call):
        asked.clear()
        call(torch.ones(2))
        return len(asked)

    compiled = pellucid.compile(f, backend="eager")
    f(torch.ones(2))  # the caches of typing ask once more
    for _ in range(3):
        by_eager = asked_by(f)
        assert by_eager > 0 and asked_by(compiled) == by_eager


def test_an_alias_that_nothing_but_a_cache_of_typing_holds():
    """typing gives it up when others come, and makes another one that is equal: the entry stays."""

    def f(x):
        torch.jit.annotate(typing.Optional["SomeName"], None)  # noqa: F821
        return x + 1

    compiled = pellucid.compile(f, backend=(backend := Counting()))
    for _ in range(2):
        assert torch.equal(compiled(torch.ones(3)), torch.ones(3) + 1)
        for clear in typing._cleanups:
            clear()
        gc.collect()
    assert backend.count == 1
