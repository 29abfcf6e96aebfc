"""What a backend says to whoever called it."""

from __future__ import annotations


class GraphRefused(Exception):
    """A backend says what of the graph it would compute otherwise than eager does: the graph breaks there."""


class LoadedAOTAutograd(Exception):
    """A backend loaded AOTAutograd while it compiled a graph, which was not prepared for it. It is for another one."""
