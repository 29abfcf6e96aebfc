"""What is replaced while pellucid is installed: one row each.

Not in the table, because they are right as they are: torch.compiler.compile and nn.Module.compile (they call torch.compile);
torch.compiler.disable, set_stance and the other marks of sizes (pellucid honours what they leave, also when it is not installed);
OptimizedModule (pellucid's is an instance of it); the registry of backends (pellucid looks names up there too); the counting and
recording backends of torch._dynamo.testing; cudagraph_mark_step_begin (Inductor's).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pellucid import api
from pellucid.takeover import capture, compiling, control, tools


@dataclass(frozen=True)
class Row:
    """`stand_in` makes from torch's object what is in all `places` of it."""

    places: tuple[str, ...]
    stand_in: Callable[[Any], Any]


_DYNAMO = "torch._dynamo"
_FRAMES = f"{_DYNAMO}.eval_frame"
_DECORATORS = f"{_DYNAMO}.decorators"


def _public(name: str, home: str) -> tuple[str, str]:
    return (f"{_DYNAMO}.{name}", f"{home}.{name}")


_NO_MEANING = {
    "hint_override": "backends get the size of the call that is captured as their hint",
    "specialize_on": "one region serves all sizes for which the program goes the same way",
}
_EQUAL = "sizes that have to be equal are compared at each call, and others get code of their own"
_TRACED = "it is captured like any other, or ends a graph where it cannot be"

ROWS = (
    # compiling
    Row(("torch.compile",), compiling.torch_compile),
    Row((f"{_FRAMES}.OptimizeContext",), compiling.optimize_context),
    Row(_public("run", _DECORATORS), compiling.run),
    # torch._dynamo gets no frame
    Row((f"{_FRAMES}.set_eval_frame", f"{_DECORATORS}.set_eval_frame"), capture.set_eval_frame),
    Row((f"{_FRAMES}._maybe_set_eval_frame",), capture.set_eval_frame),
    Row((f"{_FRAMES}.set_fullgraph_compiled_frame_count",), capture.count_of_frames),
    Row((f"{_DYNAMO}.convert_frame.compile_frame",), capture.compile_frame),
    # state and reports
    Row(("torch.compiler.is_compiling",), lambda original: api.is_compiling),
    Row(("torch.compiler.reset",), tools.reset),
    Row((f"{_DYNAMO}.reset",), tools.reset),
    Row((f"{_DYNAMO}.reset_code_caches",), tools.reset),
    Row(_public("explain", _FRAMES), tools.in_place_of(api.explain)),
    Row((f"{_DYNAMO}.utils.compile_times",), tools.in_place_of(api.compile_times)),
    Row((f"{_DYNAMO}.utils.counters",), tools.counters),
    Row((f"{_DYNAMO}.list_backends",), tools.in_place_of(api.list_backends)),
    # control
    Row(_public("error_on_graph_break", _DECORATORS), tools.in_place_of(api.error_on_graph_break)),
    Row(_public("allow_in_graph", _DECORATORS), control.same_name(f"the function is no node of its own; {_TRACED}")),
    Row(_public("mark_dynamic", _DECORATORS), control.without(**_NO_MEANING)),
    Row((f"{_DECORATORS}.mark_unbacked",), control.without(**_NO_MEANING, shape_id=_EQUAL)),
    Row(_public("disallow_in_graph", _DECORATORS), control.same_name("the operator is part of graphs", warns=True)),
    Row(_public("forbid_in_graph", _DECORATORS), control.same_name(f"a call is no error; {_TRACED}", warns=True)),
    Row(_public("assume_constant_result", _DECORATORS), control.same_name(f"the function is called; {_TRACED}")),
    Row(_public("substitute_in_graph", _DECORATORS), control.same_name(f"the original is called; {_TRACED}")),
    Row(_public("nonstrict_trace", _DECORATORS), control.same_name(f"the function is no node of its own; {_TRACED}")),
)
