"""Numbers and sizes that stay open in a graph, as backends know them: symbols of torch's ShapeEnv.

`_core` says which ints are open and what the capture decided by them, in texts with the names s0, s1, …; fakes of the graph have
sizes in the same words. Whatever torch decides on top while the backend compiles is read back: the compiled code is for
calls where it is true.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, NamedTuple

from pellucid._fx import InputSource, as_dynamo_path

_EXACT = 2**53  # ints up to here are floats


class OpenNumber(NamedTuple):
    """An int that may be another one at the next call, or a float that the graph gives."""

    number: int
    """Of the symbol: its name is "s" and this."""
    source: str | None
    """Where it is read, as torch._dynamo writes it. None: the graph gives it ("unbacked")."""
    hint: int | float
    least: int | None
    """None: less than 64 bits hold."""
    most: int | None


@dataclass
class OpenNumbers:
    """What `_core` hands over beside a graph with numbers that stay open, and what it gets back."""

    symbols: Sequence[OpenNumber]
    decided: Sequence[str]
    """Conditions that are true at every call."""
    inputs: Sequence[int | None]
    """For each placeholder the number of its symbol; None: a tensor."""
    conditions: list[Any] | None = None
    """What the backend relies on beside, in prefix form; None: that the numbers are what they are now."""

    @classmethod
    def of(cls, handed: tuple) -> OpenNumbers:
        symbols, decided, inputs = handed
        return cls([OpenNumber(*symbol) for symbol in symbols], decided, inputs)

    def reach_the_graph(self) -> bool:
        """Not all of them are used outside of it only, as a counter of calls is."""
        return any(number is not None for number in self.inputs) or any(one.source is None for one in self.symbols)

    def examples(self, symbols: Symbols, inputs: Sequence[Any]) -> list[Any]:
        """The example inputs with a torch.SymInt for each open number."""
        return [
            example if number is None else symbols.value(f"s{number}")
            for example, number in zip(inputs, self.inputs, strict=True)
        ]


class Symbols:
    """The symbols of a ShapeEnv that stand for open numbers. Imports sympy."""

    def __init__(self, env: Any, numbers: OpenNumbers) -> None:
        import torch
        from torch.fx.experimental.symbolic_shapes import DimDynamic
        from torch.utils._sympy.numbers import int_oo
        from torch.utils._sympy.value_ranges import ValueRanges

        self.env = env
        of_math = {name.removeprefix("_sym_"): getattr(torch, name) for name in dir(torch) if name.startswith("_sym_")}
        self._values: dict[str, Any] = {
            "min": torch.sym_min,
            "max": torch.sym_max,
            "int": torch.sym_int,
            "float": torch.sym_float,
            "abs": abs,
            "math": SimpleNamespace(floor=math.floor, ceil=math.ceil, **of_math),
        }
        self._number_of: dict[Any, int] = {}
        for number, path, hint, least, most in numbers.symbols:
            if isinstance(hint, float):
                self._values[f"s{number}"] = env.create_unbacked_symfloat()
                continue
            # torch computes with such ends as floats too: beyond those it refuses what it began with.
            ends = (
                -int_oo if least is None or least < -_EXACT else least,
                int_oo if most is None or most > _EXACT else most,
            )
            if path is None:
                unbacked = env.create_unbacked_symint()
                env._update_var_to_range(unbacked.node.expr, ValueRanges(*ends))
                self._values[f"s{number}"] = unbacked
                continue
            source = InputSource(as_dynamo_path(path))
            is_size = least is not None and least >= 2
            create = env.create_symbol if is_size else env.create_unspecified_symbol
            symbol = create(hint, source, DimDynamic.DYNAMIC)
            env._update_var_to_range(symbol, ValueRanges(*ends))
            self._number_of[symbol] = number
            self._values[f"s{number}"] = env.create_symintnode(symbol, hint=hint, source=source)
        for condition in numbers.decided:
            if not bool(self.value(condition)):
                raise AssertionError(f"pellucid: {condition} is not true of its own hints")
        self._known_guards = len(env.guards)
        self._known_ranges = {symbol: env.var_to_range[symbol] for symbol in self._number_of}
        self._known_replacements = dict(env.replacements)

    def value(self, text: Any) -> Any:
        """What a text over s0, s1, … says: an int, a torch.SymInt or a condition. An int is itself."""
        return text if isinstance(text, int) else eval(str(text), {"__builtins__": {}}, self._values)

    def expression(self, value: Any) -> Any:
        """The sympy expression of an int or a torch.SymInt."""
        import sympy

        return sympy.Integer(value) if isinstance(value, int) else value.node.expr

    def conditions(self) -> list[Any] | None:
        """What the ShapeEnv has decided since, in prefix form: `("<=", ("s", 0), 128)`. None: it cannot be said."""
        try:
            return [self._prefix(condition) for condition in self._decided()]
        except _Unsaid:
            return None

    def _decided(self) -> Iterator[Any]:
        import sympy

        for guard in self.env.guards[self._known_guards :]:
            if not self._is_about_nested_ints(guard.expr):
                yield guard.expr
        for symbol, known in self._known_ranges.items():
            now = self.env.var_to_range[symbol]
            if now.lower > known.lower:
                yield sympy.Ge(symbol, now.lower)
            if now.upper < known.upper:
                yield sympy.Le(symbol, now.upper)
        for symbol, replacement in self.env.replacements.items():
            if self._known_replacements.get(symbol) != replacement and symbol in self._number_of:
                yield sympy.Eq(symbol, replacement, evaluate=False)

    def _is_about_nested_ints(self, expr: Any) -> bool:
        """They have no values, and are compared as the objects that they are: which of them are one is guarded."""
        from torch.utils._sympy.singleton_int import SingletonInt

        known = self.env.backed_var_to_val
        return bool(expr.free_symbols) and all(
            isinstance(known.get(symbol), SingletonInt) for symbol in expr.free_symbols
        )

    def _prefix(self, expr: Any) -> Any:
        if expr in self._number_of:
            return ("s", self._number_of[expr])
        if expr.is_Integer:
            return int(expr)
        if expr.is_Float:
            return float(expr)
        if expr == True:  # noqa: E712 (sympy's own)
            return True
        word = _words().get(type(expr))
        if word is None:
            raise _Unsaid(expr)
        parts = [self._prefix(arg) for arg in expr.args]
        if word == "modular":  # (a // b) % c
            return ("%", ("//", parts[0], parts[1]), parts[2])
        return parts[0] if word == "same" else (word, *parts)


class _Unsaid(Exception):
    """An expression of sympy that has no such words."""


@functools.cache
def _words() -> dict[type, str]:
    import sympy
    from torch.utils._sympy import functions as torchs

    return {
        sympy.Add: "+",
        sympy.Mul: "*",
        sympy.Pow: "**",
        torchs.PowByNatural: "**",
        torchs.FloorDiv: "//",
        torchs.CleanDiv: "//",
        torchs.Mod: "%",
        torchs.PythonMod: "%",
        torchs.ModularIndexing: "modular",
        torchs.IntTrueDiv: "/",
        torchs.FloatTrueDiv: "/",
        torchs.ToFloat: "float",
        torchs.TruncToInt: "int",
        torchs.FloorToInt: "floor",
        torchs.CeilToInt: "ceil",
        torchs.Identity: "same",
        torchs.Min: "min",
        torchs.Max: "max",
        sympy.Min: "min",
        sympy.Max: "max",
        sympy.Eq: "==",
        sympy.Ne: "!=",
        sympy.Lt: "<",
        sympy.Le: "<=",
        sympy.Gt: ">",
        sympy.Ge: ">=",
        sympy.And: "and",
        sympy.Or: "or",
        sympy.Not: "not",
    }
