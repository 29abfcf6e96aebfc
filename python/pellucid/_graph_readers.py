"""Who is told of graph modules before they run: pellucid.debug, of those that are captured inside of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

captured: Callable[[Any], None] | None = None
"""Called with a captured graph, before its backend."""

made: Callable[[Any], None] | None = None
"""Called with a graph that AOTAutograd made and that runs as it is."""
