"""What steers a capture function by function."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from pellucid.takeover.once import warn_once
from pellucid.takeover.switch import is_installed


def same_name(consequence: str) -> Callable[[Callable], Callable]:
    """pellucid's function of this name; while it has none, torch's, with a warning that says what follows.

    Torch's function still leaves its mark, for torch.compile after `uninstall`.
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
            warn_once(f"torch's {name}() has no meaning for pellucid yet: {consequence}")
            return original(*args, **kwargs)

        return chosen

    return stand_in
