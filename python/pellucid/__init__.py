"""pellucid compiles PyTorch programs: it captures graphs from Python bytecode and hands them to a backend.

    import torch, pellucid

    @pellucid.compile(backend="eager")
    def f(x):
        return x.sin() + 1

See `pellucid.compile`.
"""

from __future__ import annotations

import sys

if sys.version_info[:2] != (3, 11) or sys.implementation.name != "cpython":
    raise ImportError(f"pellucid needs CPython 3.11; this is {sys.implementation.name} {sys.version.split()[0]}")

import torch  # before _core: it brings the libraries that _core is linked with

if torch.__version__.split("+")[0].rsplit(".", 1)[0] != "2.13":
    raise ImportError(f"pellucid needs PyTorch 2.13; this is {torch.__version__}")

# _core reads these while it sets up its tables at the first compile. Importing from disk there would let other threads
# run that then wait for the same table with the GIL held: a deadlock.
import torch.utils._device

from pellucid import (
    _bodies,
    _cached,
    _copying,
    _core,
    _draws,
    _exporting,
    _freed,
    _functional,
    _fx,
    _fx_trace,
    _gradients,
    _guard_filter,
    _inner_hooks,
    _late,
    _late_guards,
    _log_reader,
    _logging,
    _nested,
    _numpy,
    _numpy_operator,
    _numpy_sizes,
    _numpy_steps,
    _numpy_torch,
    _tensor_data,
    config,
    errors,
    events,
    polyfills,
    polyfills_torch,
)
from pellucid._bytecode_hooks import register_bytecode_hook
from pellucid._capture_cache import CaptureCacheRecord, capture_cache_report
from pellucid._capture_profile import CompileProfile, profile_compiles
from pellucid._compile_hooks import CompileInProgress, register_compile_hook
from pellucid._comptime import ComptimeContext, ComptimeValue, comptime
from pellucid._decompile import CannotDecompile, Decompiled, decompile
from pellucid._doctor import doctor
from pellucid._dump.context import debug
from pellucid._explain import ExplainOutput, ExplainWithBackend
from pellucid._guard_costs import GuardCost, GuardCosts, guard_costs
from pellucid._interception import (
    Artifact,
    innermost_fn,
    register_artifact_hook,
    register_graph_code_hook,
    register_kernel_loader,
)
from pellucid._profiler import CompileProfiler
from pellucid._replay.interface import record, replay
from pellucid.api import (
    break_reasons,
    cache_entries,
    compile,
    compile_times,
    counters,
    disable,
    error_on_graph_break,
    explain,
    export,
    graph_break,
    guard_failures,
    is_compiling,
    list_backends,
    recompile_reasons,
    reset,
    set_stance,
    show,
    step,
    triage,
)
from pellucid.control import (
    allow_in_graph,
    assume_constant_result,
    disallow_in_graph,
    forbid_in_graph,
    is_dynamo_compiling,
    nonstrict_trace,
    skip_frame,
    substitute_in_graph,
)
from pellucid.marks import mark_dynamic, mark_static, mark_unbacked, maybe_mark_dynamic
from pellucid.takeover import install, installed, uninstall

_log_reader.follow_torch()

__version__ = "0.1.0"

__all__ = [
    "Artifact",
    "CannotDecompile",
    "CaptureCacheRecord",
    "CompileInProgress",
    "CompileProfile",
    "CompileProfiler",
    "ComptimeContext",
    "ComptimeValue",
    "Decompiled",
    "ExplainOutput",
    "ExplainWithBackend",
    "GuardCost",
    "GuardCosts",
    "allow_in_graph",
    "assume_constant_result",
    "break_reasons",
    "cache_entries",
    "capture_cache_report",
    "compile",
    "compile_times",
    "comptime",
    "config",
    "counters",
    "debug",
    "decompile",
    "disable",
    "disallow_in_graph",
    "doctor",
    "error_on_graph_break",
    "errors",
    "events",
    "explain",
    "export",
    "forbid_in_graph",
    "graph_break",
    "guard_costs",
    "guard_failures",
    "innermost_fn",
    "install",
    "installed",
    "is_compiling",
    "is_dynamo_compiling",
    "list_backends",
    "mark_dynamic",
    "mark_static",
    "mark_unbacked",
    "maybe_mark_dynamic",
    "nonstrict_trace",
    "profile_compiles",
    "recompile_reasons",
    "record",
    "register_artifact_hook",
    "register_bytecode_hook",
    "register_compile_hook",
    "register_graph_code_hook",
    "register_kernel_loader",
    "replay",
    "reset",
    "set_stance",
    "show",
    "skip_frame",
    "step",
    "substitute_in_graph",
    "triage",
    "uninstall",
]
