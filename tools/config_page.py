#!/usr/bin/env python3
"""Writes docs/config.md from the options of pellucid.config.

python tools/config_page.py            # writes the page
python tools/config_page.py --check    # exits with 1 when the page is not what would be written
"""

from __future__ import annotations

import sys
import textwrap

from pages import write_or_check

HEAD = """\
# Options

Made by `tools/config_page.py` from `python/pellucid/config.py`; do not edit.

An option has one value for the process, and others where a thread or asyncio task says so:

```python
import pellucid

pellucid.config.recompile_limit = 16  # for the process
del pellucid.config.recompile_limit  # as at the start of the process

with pellucid.config.patch(recompile_limit=1):  # for this thread, inside the block
    ...


@pellucid.config.patch(recompile_limit=1)  # for this thread, while the function runs
def train(): ...
```

Options of one compiled function hold for its calls, and for what these compile and call; no other compiled function of
the process sees them, but for those that it calls and that have none of their own. Inlined into a capture of another
compiled function it goes by that one's options.

```python
compiled = pellucid.compile(f, config={"recompile_limit": 1, "dynamic_shapes": False})
```

A name that is no option is an AttributeError that names the nearest one.

The environment gives the values at the start of the process: `PELLUCID_RECOMPILE_LIMIT=16`. Truths are `1`, `0`,
`true`, `false`, `yes`, `no`, `on` or `off`. A value that an option cannot have is a ValueError that names the
variable, when pellucid is imported.
"""


def section(option) -> str:
    meaning = option.meaning[0].upper() + option.meaning[1:] + "."
    other = f" or `{option.other_variable}`" if option.other_variable is not None else ""
    is_text = option.type in (int, bool, float, str)
    variable = f", `{option.variable}`{other}" if is_text else ", not from the environment"
    default = repr(option.default) if is_text else "empty"
    lines = [f"## {option.name}", "", f"`{option.type.__name__}`, default `{default}`{variable}.", ""]
    lines.append(textwrap.fill(meaning, 120, break_long_words=False, break_on_hyphens=False))
    return "\n".join([*lines, ""])


def page() -> str:
    from pellucid import config

    return "\n".join([HEAD, *map(section, config.options().values())]).rstrip("\n") + "\n"


if __name__ == "__main__":
    sys.exit(write_or_check("config.md", page(), "config_page.py", __doc__))
