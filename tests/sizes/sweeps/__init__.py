"""Small programs that are called with many sizes: `table` says what a row is, a file is a family."""

from sweeps import elementwise, networks, python, shaping  # noqa: F401
from sweeps.table import EDGES, SIZES, SWEEPS, Sweep

__all__ = ["EDGES", "SIZES", "SWEEPS", "Sweep"]
