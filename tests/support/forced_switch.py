"""The switches of support/forced_breaks.py; for programs that tests start as well."""

EAGERLY = "eagerly"


def switch_on(pellucid, mode: str) -> None:
    pellucid.config.force_break_every = 0 if mode == EAGERLY else int(mode)
    pellucid.config.recompile_limit = 0 if mode == EAGERLY else 100000


def ignore_fullgraph(pellucid) -> None:
    settings = pellucid.api.Settings
    check = settings.__post_init__

    def checked(self) -> None:
        check(self)
        self.fullgraph = False

    settings.__post_init__ = checked
