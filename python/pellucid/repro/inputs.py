"""The inputs of a graph as a recipe: the lines of `load_args`, and the data that goes beside the script."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from pellucid.repro.errors import ReproRefused
from pellucid.repro.standalone import Reader


@dataclass(frozen=True)
class TensorRecipe:
    """How an input is laid out."""

    name: str
    """Of the graph's input, for the comment of its line."""
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype
    device: str
    is_leaf: bool
    requires_grad: bool
    storage: str | None
    """The key of its data; None: random values will do."""
    offset: int = 0

    def line(self) -> str:
        """Its line of `load_args`."""
        parts = [repr(self.shape)]
        if self.stride != torch.empty(self.shape, device="meta").stride():
            parts.append(repr(self.stride))
        parts += [
            f"{name}={value!s}"
            for name, value, default in (
                ("dtype", self.dtype, torch.float32),
                ("device", repr(self.device), repr("cpu")),
                ("is_leaf", self.is_leaf, True),
                ("requires_grad", self.requires_grad, False),
                ("storage", repr(self.storage), "None"),
                ("offset", self.offset, 0),
            )
            if value != default
        ]
        return f"reader.tensor({', '.join(parts)})  # {self.name}"


@dataclass(frozen=True)
class ValueRecipe:
    """An input that is no tensor, or a tensor that is saved whole because it has no strides."""

    name: str
    value: Any
    key: str | None = None

    def line(self) -> str:
        """Its line of `load_args`."""
        if self.key is not None:
            return f"reader.saved_value({self.key!r})  # {self.name}"
        text = repr(self.value) if _is_finite(self.value) else f"float({str(self.value)!r})"
        return f"reader.value({text})  # {self.name}"


def _is_finite(value: Any) -> bool:
    return not isinstance(value, float) or (value == value and abs(value) != float("inf"))


@dataclass
class Inputs:
    """The inputs of one graph.

    Example:
        >>> inputs = Inputs.of(["x"], [torch.ones(3)])
        >>> inputs.recipes[0].line()
        "reader.tensor((3,), storage='storage_0')  # x"
    """

    recipes: list[TensorRecipe | ValueRecipe] = field(default_factory=list)
    data: dict[str, torch.Tensor] = field(default_factory=dict)
    """What is saved: a storage as bytes once, views of it by offset and stride."""

    @classmethod
    def of(cls, names: Sequence[str], values: Sequence[Any]) -> Inputs:
        """The recipe of these values, with copies of their data.

        Raises:
            ReproRefused: a value is no tensor, number, text or None, or a tensor of a class that saves nothing.
        """
        inputs = cls()
        keys: dict[int, str] = {}
        for name, value in zip(names, values, strict=True):
            inputs.recipes.append(inputs._recipe(name, value, keys))
        return inputs

    def _recipe(self, name: str, value: Any, keys: dict[int, str]) -> TensorRecipe | ValueRecipe:
        if value is None or type(value) in (bool, int, float, complex, str):
            return ValueRecipe(name, value)
        if not isinstance(value, torch.Tensor):
            value = _plain_number(name, value)
            return ValueRecipe(name, value)
        if type(value) not in (torch.Tensor, torch.nn.Parameter):
            raise ReproRefused(f"the input {name} is a {type(value).__qualname__}: only plain tensors can be saved")
        if value.layout is not torch.strided or value.is_quantized:
            key = f"value_{len(self.data)}"
            self.data[key] = value.detach().clone()
            return ValueRecipe(name, None, key)
        plain = value.detach().resolve_conj().resolve_neg()
        storage = plain.untyped_storage()
        if storage._cdata not in keys:
            keys[storage._cdata] = key = f"storage_{len(self.data)}"
            whole = torch.empty(0, dtype=torch.uint8, device=plain.device).set_(storage.clone())
            self.data[key] = whole.cpu()
        return TensorRecipe(
            name,
            tuple(plain.shape),
            tuple(plain.stride()),
            plain.dtype,
            str(plain.device),
            value.is_leaf,
            value.requires_grad,
            keys[storage._cdata],
            int(plain.storage_offset()),
        )

    def make(self) -> list[Any]:
        """The inputs anew: each call gives others with the same values."""
        reader = Reader()
        reader.saved = {key: value.clone() for key, value in self.data.items()}
        for recipe in self.recipes:
            if isinstance(recipe, ValueRecipe):
                if recipe.key is None:
                    reader.value(recipe.value)
                else:
                    reader.saved_value(recipe.key)
            else:
                reader.tensor(
                    recipe.shape,
                    recipe.stride,
                    recipe.dtype,
                    recipe.device,
                    recipe.is_leaf,
                    recipe.requires_grad,
                    recipe.storage,
                    recipe.offset,
                )
        return reader.args

    def load_args(self) -> str:
        """The text of the function."""
        lines = [f"    {recipe.line()}" for recipe in self.recipes] or ["    pass"]
        return "\n".join(["def load_args(reader):", *lines])

    def changed(self, change: Callable[[TensorRecipe], TensorRecipe]) -> Inputs:
        """Other recipes with what data they still ask for."""
        recipes = [change(each) if isinstance(each, TensorRecipe) else each for each in self.recipes]
        return Inputs(recipes, self.data).pruned()

    def only(self, kept: Sequence[int]) -> Inputs:
        """The inputs with these indices."""
        return Inputs([self.recipes[i] for i in kept], self.data).pruned()

    def pruned(self) -> Inputs:
        """The same without data that no recipe asks for."""
        wanted = {each.storage if isinstance(each, TensorRecipe) else each.key for each in self.recipes}
        return Inputs(self.recipes, {key: value for key, value in self.data.items() if key in wanted})

    def renamed(self, names: Sequence[str]) -> Inputs:
        """The same recipes with other names in their comments."""
        return Inputs([replace(each, name=name) for each, name in zip(self.recipes, names, strict=True)], self.data)


def _plain_number(name: str, value: Any) -> Any:
    """Of a torch.SymInt and its like what it is now."""
    kinds: tuple[tuple[Any, Any], ...] = ((torch.SymInt, int), (torch.SymFloat, float), (torch.SymBool, bool))
    for kind, plain in kinds:
        if isinstance(value, kind):
            hint = getattr(value.node, "hint", None)
            return plain(value) if hint is None else plain(hint)
    raise ReproRefused(f"the input {name} is a {type(value).__qualname__}, which has no form as text")
