"""What goes wrong with records."""

from __future__ import annotations

from pellucid.errors import PellucidError


class RecordError(PellucidError, ValueError):
    """A file is no record, or one that is damaged, too large, or made for something that a record must not do.

    Nothing of it has been used then, and no code of it has run.

    Example:
        >>> try:
        ...     pellucid.replay("f_PEL0304_12.rec")
        ... except pellucid.errors.PellucidError as error:
        ...     print(error)
    """
