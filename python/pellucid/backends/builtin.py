"""The table of our own backends; docs/backends.md tells what they do."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class _Builtin:
    """Where one of them is. It is imported at the first use, so that "eager" costs nothing."""

    module: str
    attribute: str
    tags: tuple[str, ...] = ("debug",)
    uses_aot: bool = False  # it runs AOTAutograd, so it needs torch's tracing context
    takes_symbols: bool = True  # what it makes of a graph serves other sizes too
    takes_coo: bool = False  # torch's AOTAutograd makes graphs with sparse inputs, and what runs them takes these


TABLE: dict[str, _Builtin] = {
    "eager": _Builtin("eager", "eager"),
    "eager_noexcept": _Builtin("checking", "eager_noexcept"),
    "eager_debug": _Builtin("checking", "eager_debug"),
    "interpreter": _Builtin("checking", "interpreter"),
    "skip": _Builtin("checking", "skip"),
    "pre_dispatch_eager": _Builtin("retraced", "pre_dispatch_eager", takes_symbols=False),
    "ts": _Builtin("retraced", "ts", takes_symbols=False),
    "aot_ts": _Builtin("retraced", "aot_ts", uses_aot=True, takes_symbols=False),
    "aot_eager": _Builtin("aot", "aot_eager", uses_aot=True, takes_coo=True),
    "aot_eager_default_partitioner": _Builtin("aot", "aot_eager_default_partitioner", uses_aot=True),
    "aot_eager_decomp_partition": _Builtin("aot", "aot_eager_decomp_partition", uses_aot=True),
    "aot_eager_decomp_partition_with_mode": _Builtin("aot", "aot_eager_decomp_partition_with_mode", uses_aot=True),
    "aot_eager_decomp_partition_crossref": _Builtin("aot", "aot_eager_decomp_partition_crossref", uses_aot=True),
    "invoke_subgraph": _Builtin("aot", "invoke_subgraph", uses_aot=True),
    "inductor": _Builtin("aot", "inductor", (), uses_aot=True),
    "relu_compile_error_TESTING_ONLY": _Builtin("planted", "relu_compile_error_TESTING_ONLY"),
    "relu_runtime_error_TESTING_ONLY": _Builtin("planted", "relu_runtime_error_TESTING_ONLY"),
    "relu_accuracy_error_TESTING_ONLY": _Builtin("planted", "relu_accuracy_error_TESTING_ONLY"),
    "non_leaf_compile_error_TESTING_ONLY": _Builtin("planted", "non_leaf_compile_error_TESTING_ONLY"),
}


def load(name: str) -> Callable | None:
    """The backend of this name; None: it is none of ours."""
    facts = TABLE.get(name)
    if facts is None:
        return None
    return getattr(importlib.import_module(f"pellucid.backends.{facts.module}"), facts.attribute)


def uses_aot(backend: str | Callable) -> bool:
    """Of one of our own, by name: it always runs AOTAutograd."""
    return isinstance(backend, str) and backend in TABLE and TABLE[backend].uses_aot


def takes_coo(backend: str | Callable) -> bool:
    """Its graphs may have sparse inputs of layout COO. Others than our own are not taken to."""
    return isinstance(backend, str) and backend in TABLE and TABLE[backend].takes_coo


def takes_symbols(backend: str | Callable) -> bool:
    """What the backend makes of a graph serves other sizes too. Others than our own are taken to."""
    return not (isinstance(backend, str) and backend in TABLE) or TABLE[backend].takes_symbols
