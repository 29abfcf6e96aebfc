"""The exceptions of `pellucid.repro`."""

from __future__ import annotations

from pellucid.errors import PellucidError


class ReproRefused(PellucidError):
    """A graph holds something that a script cannot make again in another process. The message names it.

    Example:
        >>> raise ReproRefused("the graph calls self.block, a module of type mine.Block")
    """


class AccuracyError(PellucidError):
    """What was compiled computes something else than the graph does. The message says where, and by how much.

    Example:
        >>> raise AccuracyError("result 0: rmse 1.0, where the eager run has 1e-8")
    """


class NothingFails(PellucidError):
    """There is nothing to make smaller: the script does not fail in this process."""
