"""The switches of support/forced_breaks.py; for programs that tests start as well."""

EAGERLY = "eagerly"
OPEN = "open"  # all sizes and numbers from the first capture on


def switch_on(pellucid, mode: str) -> None:
    pellucid.config.force_break_every = 0 if mode in (EAGERLY, OPEN) else int(mode)
    pellucid.config.force_open = int(mode == OPEN)
    pellucid.config.recompile_limit = 0 if mode == EAGERLY else 100000


def ignore_fullgraph(pellucid) -> None:
    settings = pellucid.api.Settings
    check = settings.__post_init__

    def checked(self) -> None:
        check(self)
        self.fullgraph = False

    settings.__post_init__ = checked
