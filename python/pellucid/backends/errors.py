"""What a backend says to whoever called it."""

from __future__ import annotations

from collections.abc import Sequence
from traceback import FrameSummary


class GraphRefused(Exception):
    """A backend says what of the graph it would compute otherwise than eager does: the graph breaks there."""


class BackendRefused(Exception):
    """A backend knows no shapes for an operator of the graph: the call runs eagerly, with a warning."""

    def __init__(self, backend_name: str, inner_exception: Exception, user_stack: Sequence[FrameSummary]) -> None:
        self.backend_name = backend_name
        self.inner_exception = inner_exception
        self.user_stack = user_stack
        super().__init__(f"{type(inner_exception).__name__}: {inner_exception}")


class BackendSkips(Exception):
    """A backend raised SkipFrame: the call runs as if it were not compiled."""


class LoadedAOTAutograd(Exception):
    """A backend loaded AOTAutograd while it compiled a graph, which was not prepared for it. It is for another one."""
