"""What came of a capture, as plain data: it is written into records, and compared."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

import torch

from pellucid import _core, config, errors
from pellucid._addresses import ADDRESS
from pellucid.backends.call import Backend
from pellucid.errors import BreakRecord

# Options that captures depend on.
_OPTIONS = (
    "allow_ignore_mark_dynamic",
    "assume_static_by_default",
    "automatic_dynamic_shapes",
    "capture_dynamic_output_shape_ops",
    "capture_scalar_outputs",
    "continue_after_break",
    "dynamic_shapes",
    "force_open",
    "force_parameter_static_shapes",
    "only_allow_pt2_compliant_ops",
    "region_limit",
    "specialize_float",
    "specialize_int",
)
# What would do more than capture.
_OFF: dict[str, Any] = {
    "progress": False,
    "replay_record_enabled": False,
    "repro_after": None,
    "suppress_errors": False,
    "verify_correctness": False,
    "force_break_every": 0,
    "force_break_at": 0,
}
_MARKS = ("aot", "static", "dynamic", "takes_numbers", "takes_symbols", "takes_coo")


@dataclass
class Settings:
    """What a capture depends on beside the objects that it reads."""

    fullgraph: bool = True
    in_error_block: bool = False
    marks: dict[str, bool] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    torch: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def now(cls, backend: Any, fullgraph: bool, in_error_block: bool) -> Settings:
        """Of a capture for this backend in the state that torch is in."""
        marks = {name: getattr(backend, name, False) is True for name in _MARKS}
        options = {name: config.value_of(name) for name in _OPTIONS}
        return cls(fullgraph, in_error_block, marks, options, _state_of_torch())

    @contextlib.contextmanager
    def hold(self) -> Iterator[None]:
        """Options and the state of torch, for the length of a block."""
        options = {name: value for name, value in self.options.items() if name in _OPTIONS}
        with contextlib.ExitStack() as stack:
            stack.enter_context(config.patch({**options, **_OFF}))
            _enter_state(stack, self.torch)
            if self.in_error_block:
                _core.open_break_block(True)
                stack.callback(_core.close_break_block)
            yield


def _state_of_torch() -> dict[str, Any]:
    autocast = {
        device: [torch.is_autocast_enabled(device), str(torch.get_autocast_dtype(device)).removeprefix("torch.")]
        for device in ("cpu", "cuda")
    }
    return {
        "grad": torch.is_grad_enabled(),
        "inference": torch.is_inference_mode_enabled(),
        "default_dtype": str(torch.get_default_dtype()).removeprefix("torch."),
        "autocast": autocast,
        "autocast_cache": torch.is_autocast_cache_enabled(),
        "deterministic": [
            torch.are_deterministic_algorithms_enabled(),
            torch.is_deterministic_algorithms_warn_only_enabled(),
        ],
    }


def _enter_state(stack: contextlib.ExitStack, state: dict[str, Any]) -> None:
    from pellucid._replay.tensors import dtype_named

    if not state:
        return
    before = _state_of_torch()
    stack.callback(_switch, before)
    if bool(state["inference"]) != before["inference"]:
        stack.enter_context(torch.inference_mode(bool(state["inference"])))
    stack.enter_context(torch.set_grad_enabled(bool(state["grad"])))
    for _, dtype in state["autocast"].values():
        dtype_named(dtype)
    _switch(state)


def _switch(state: dict[str, Any]) -> None:
    from pellucid._replay.tensors import dtype_named

    torch.set_default_dtype(dtype_named(state["default_dtype"]))
    torch.set_autocast_cache_enabled(bool(state["autocast_cache"]))
    enabled, warn_only = state["deterministic"]
    if [enabled, warn_only] != _state_of_torch()["deterministic"]:
        torch.use_deterministic_algorithms(bool(enabled), warn_only=bool(warn_only))
    for device in ("cpu", "cuda"):
        on, dtype = state["autocast"][device]
        torch.set_autocast_enabled(device, bool(on))
        torch.set_autocast_dtype(device, dtype_named(dtype))


@dataclass
class Outcome:
    """What came of a capture: its graph, and why and where it stopped."""

    graphs: list[str] = field(default_factory=list)
    """Each as text, with the metadata of its inputs and nodes."""
    code: str | None = None
    """The id of the reason, "PEL0304"; None: it did not stop."""
    name: str = ""
    message: str = ""
    where: list[list[Any]] = field(default_factory=list)
    """The frames of the program, outermost first: file, line, column, function."""
    error: str | None = None
    """The error of pellucid, torch or Python that ended it instead; None: there was none."""

    def key(self) -> Any:
        """Equal for equal outcomes: without addresses of objects."""
        return _plain(asdict(self))

    def summary(self) -> str:
        """A line for people."""
        if self.error is not None:
            return f"error {self.error.splitlines()[0] if self.error else ''}"
        if self.code is None:
            return f"captured, {len(self.graphs)} graph{'s' if len(self.graphs) != 1 else ''}"
        at = f" at {self.where[-1][0]}:{self.where[-1][1]}" if self.where else ""
        return f"{self.code} {self.name}: {self.message}{at}"


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    return ADDRESS.sub("0x…", value) if isinstance(value, str) else value


def captured(
    function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], settings: Settings
) -> tuple[Outcome, BreakRecord | None]:
    """Captures for a call with these arguments. Nothing of the call runs, and no backend.

    Gives the outcome, and the record of the stop if there is one.
    """
    graphs: list[str] = []

    def remember(gm: torch.fx.GraphModule, example_inputs: Any, **options: Any) -> Any:
        graphs.append(graph_text(gm))
        return gm.forward

    marks = {name: bool(settings.marks.get(name)) for name in _MARKS}
    backend = Backend("replay", remember, **marks)  # type: ignore[arg-type]
    compiled = _core.CompiledFunction(function, backend, fullgraph=settings.fullgraph)
    try:
        stop = _core.compile_alone(compiled, args, kwargs)
    except Exception as error:
        return Outcome(graphs, error=f"{type(error).__name__}: {error}"), None
    if stop is None:
        return Outcome(graphs), None
    errors.forget_stop(stop)
    where = [[frame.filename, frame.lineno, frame.colno, frame.name] for frame in stop.user_stack]
    for frame in stop.user_stack:
        _ = frame.line  # read while its text is there
    return Outcome(graphs, stop.code, stop.name, stop.message, where), stop


def graph_text(gm: torch.fx.GraphModule) -> str:
    """A graph with what is known of each node."""
    lines = []
    for node in gm.graph.nodes:
        value = node.meta.get("example_value")
        known = f"  # {_layout(value)}" if isinstance(value, torch.Tensor) else ""
        lines.append(f"{node.format_node()}{known}")
    return "\n".join(lines)


def _layout(tensor: torch.Tensor) -> str:
    dtype = str(tensor.dtype).removeprefix("torch.")
    return f"{dtype}{list(tensor.shape)} {list(tensor.stride())} {tensor.device}"
