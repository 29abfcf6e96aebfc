"""What AOTAutograd and Inductor make of a graph, as they tell it to torch's structured log.

They name the compile that a record is of, also of a backward graph that is compiled when it is first needed: so each is the
artifact of its own graph, whatever was compiled in between.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import torch._logging._internal as torch_logs

KINDS = {
    "aot_joint_graph": "joint",
    "aot_forward_graph": "forward",
    "aot_inference_graph": "forward",
    "aot_backward_graph": "backward",
    "inductor_post_grad_graph": "post_grad",
    "inductor_output_code": "kernel",
}
"""The kinds in file names, by torch's names."""

NUMBERED = ("post_grad", "kernel")
"""Of these a graph has several: one for the forward and one for the backward graph."""


class Handler(logging.Handler):
    """Tells of each artifact.

    Args:
        tell: called with the compile, the kind as it is in file names, the text, and the file where torch has it.
    """

    def __init__(self, tell: Callable[[tuple[int, int], str, str, str], None]) -> None:
        super().__init__()
        self._tell = tell

    def emit(self, record: logging.LogRecord) -> None:
        """Called by torch's log."""
        metadata: dict[str, Any] = getattr(record, "metadata", None) or {}
        payload = getattr(record, "payload", None)
        compile_id = (metadata.get("frame_id"), metadata.get("frame_compile_id"))
        named = metadata.get("artifact")
        name = named.get("name") if isinstance(named, dict) else next((key for key in KINDS if key in metadata), None)
        kind = KINDS.get(name or "")
        if kind is not None and isinstance(payload, str) and None not in compile_id:
            try:
                self._tell(compile_id, kind, payload, _file_of(metadata.get(name or "")))  # type: ignore[arg-type]
            except Exception:
                self.handleError(record)

    def start(self) -> None:
        """From here on it hears of them."""
        torch_logs.trace_log.addHandler(self)

    def stop(self) -> None:
        """It hears nothing more."""
        torch_logs.trace_log.removeHandler(self)


def _file_of(described: object) -> str:
    return str(described.get("filename", "")) if isinstance(described, dict) else ""
