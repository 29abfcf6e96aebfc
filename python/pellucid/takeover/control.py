"""What steers a capture function by function."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from pellucid._logging import log
from pellucid.takeover.once import warn_once
from pellucid.takeover.switch import is_installed


def same_name(consequence: str, *, warns: bool = False) -> Callable[[Callable], Callable]:
    """pellucid's function of this name; while it has none, torch's, which leaves its mark for torch.compile after `uninstall`.

    Args:
        consequence: what follows of it.
        warns: more than graphs may differ from what the program asks for; else a line of the log tells.
    """

    def stand_in(original: Callable) -> Callable:
        import pellucid

        name = original.__name__
        ours = getattr(pellucid, name, None)

        @functools.wraps(original)
        def chosen(*args: Any, **kwargs: Any) -> Any:
            if not is_installed():
                return original(*args, **kwargs)
            if ours is not None:
                return ours(*args, **kwargs)
            (warn_once if warns else log.info)(f"torch's {name}() has no meaning for pellucid yet: {consequence}")
            return original(*args, **kwargs)

        return chosen

    return stand_in


def without(**consequences: str) -> Callable[[Callable], Callable]:
    """torch's function as it is, with a warning for each argument that changes nothing for pellucid.

    Args:
        consequences: of the arguments by name, what follows of it.
    """

    def stand_in(original: Callable) -> Callable:
        signature = inspect.signature(original)

        @functools.wraps(original)
        def warned(*args: Any, **kwargs: Any) -> Any:
            if is_installed():
                try:
                    given = signature.bind(*args, **kwargs).arguments
                except TypeError:
                    given = {}  # the original has the message
                for name in consequences:
                    if given.get(name):
                        what = f"the argument {name} of torch's {original.__name__}()"
                        warn_once(f"{what} has no meaning for pellucid: {consequences[name]}")
            return original(*args, **kwargs)

        return warned

    return stand_in
