"""What stands in for a test's body: itself, or the body compiled; and what a compiler says about it afterwards."""

from __future__ import annotations

import logging
import types
from collections.abc import Callable
from typing import Any

import torch


def around(x: torch.Tensor, body: Callable[[], Any]) -> torch.Tensor:
    """One graph when nothing in the body ends it."""
    x = x + 1
    body()
    return x * 2


class Plain:
    """CPython itself."""

    def start(self) -> None:
        """Before a test: nothing of other tests may be reused."""

    def compile(self, function: Callable) -> Callable:
        return function

    def facts(self) -> dict[str, Any]:
        return {}


class Pellucid(Plain):
    """`pellucid.compile(backend="eager")`."""

    def __init__(self) -> None:
        import pellucid

        self.pellucid = pellucid
        logging.getLogger("pellucid").setLevel(logging.CRITICAL)  # tests read stderr

    def start(self) -> None:
        self.pellucid.reset()
        self.pellucid.counters.clear()

    def compile(self, function: Callable) -> Callable:
        return self.pellucid.compile(function, backend="eager")

    def facts(self) -> dict[str, Any]:
        count = self.pellucid.counters()
        reasons = [
            {"reason": record.name, "message": record.message, "where": where(record.user_stack)}
            for record in self.pellucid.break_reasons()
        ]
        return {
            "captured": count["captures"] > count["stops"],
            "graphs": count["graphs"],
            "one_graph": count["graphs"] == 1 and count["ops"] == 2 and count["stops"] == 0,
            "stops": reasons,
        }


class Dynamo(Plain):
    """`torch.compile` with a backend that only counts."""

    def __init__(self) -> None:
        import torch._dynamo
        from torch._dynamo.utils import counters

        self.dynamo, self.counters, self.graphs = torch._dynamo, counters, []

    def start(self) -> None:
        self.dynamo.reset()
        self.counters.clear()
        self.graphs.clear()

    def compile(self, function: Callable) -> Callable:
        def counting(module, inputs):
            self.graphs.append(sum(node.op.startswith("call") for node in module.graph.nodes))
            return module.forward

        return torch.compile(function, backend=counting)

    def facts(self) -> dict[str, Any]:
        breaks = self.counters["graph_break"]
        return {
            "captured": self.counters["frames"]["ok"] > 0,
            "graphs": len(self.graphs),
            "one_graph": self.graphs == [2] and not breaks,
            "stops": [{"reason": "", "message": text.splitlines()[0], "where": ""} for text in breaks],
        }


def make(name: str) -> Plain:
    return {"plain": Plain, "pellucid": Pellucid, "dynamo": Dynamo}[name]()


def where(stack: list) -> str:
    """The innermost frame of a stop, and the instruction's line."""
    return f"{stack[-1].filename.rpartition('/')[2]}:{stack[-1].lineno} {stack[-1].name}" if stack else ""


def caller(compiler: Plain, torch_ops: bool) -> Callable[[Callable], Any]:
    """Calls a test method compiled, as the compiler does it; with `torch_ops` inside of `around`."""

    def call(method: Callable) -> Any:
        if torch_ops:
            result = compiler.compile(around)(torch.ones(2), method)
            if result.tolist() != [4.0, 4.0]:
                raise AssertionError(f"(1 + 1) * 2 gave {result}")
            return None
        if isinstance(method, types.MethodType):
            return types.MethodType(compiler.compile(method.__func__), method.__self__)()
        return compiler.compile(method)()

    return call
