"""pellucid in the place of torch.compile: `install`, `uninstall`, `installed`.

`table` says what is replaced by what, `switch` puts it in place and back. Nothing here imports torch._dynamo: what belongs
there is replaced when the program has imported it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from pellucid.takeover import switch

__all__ = ["install", "installed", "uninstall"]


def install() -> None:
    """From here on torch.compile, and what belongs to it in torch.compiler and torch._dynamo, is pellucid: for all code.

    Libraries need no change, not even those that have bound torch's functions already. What torch.compile made before is
    compiled by pellucid too as long as it holds. Calls may be nested: as many `uninstall` undo them. docs/install.md lists what
    is replaced.

    Example:
        >>> pellucid.install()
        >>> model = torch.compile(model)  # pellucid's
    """
    switch.install()


def uninstall() -> None:
    """Undoes one `install`; the last one puts back all that was replaced.

    What was compiled in between stays compiled by pellucid.

    Raises:
        RuntimeError: nothing is installed.

    Example:
        >>> pellucid.install()
        >>> pellucid.uninstall()
    """
    switch.uninstall()


@contextlib.contextmanager
def installed() -> Iterator[None]:
    """`install` for a `with` block or a decorated function. It holds in the whole process, other threads included.

    Example:
        >>> with pellucid.installed():
        ...     trainer.train()
    """
    switch.install()
    try:
        yield
    finally:
        switch.uninstall()
