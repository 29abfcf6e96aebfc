"""Who is told of graph modules before they run: pellucid.debug and hooks, of those that are captured while they listen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

captured: list[Callable[[Any], None]] = []
"""Called with a captured graph, before its backend."""

made: list[Callable[[Any], None]] = []
"""Called with a graph that AOTAutograd made and that runs as it is."""
