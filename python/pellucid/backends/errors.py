"""What a backend says to whoever called it."""

from __future__ import annotations


class GraphRefused(Exception):
    """A backend says what of the graph it would compute otherwise than eager does: the graph breaks there."""
