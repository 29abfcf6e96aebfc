#!/usr/bin/env python3
"""Writes docs/reasons.md from the registry of reasons (src/base/reasons.def, read through the built module).

python tools/reasons_page.py            # writes the page
python tools/reasons_page.py --check    # exits with 1 when the page is not what would be written
"""

from __future__ import annotations

import sys
import textwrap

from pages import write_or_check

HEAD = """\
# Why capture stops

Made by `tools/reasons_page.py` from `src/base/reasons.def`; do not edit.

What cannot be captured runs as plain Python, and a record says why: `pellucid.break_reasons()` lists them, `pellucid.explain` shows
them, and with `fullgraph=True` (or in a block of `pellucid.error_on_graph_break(True)`) the record is the error
`pellucid.errors.Unsupported`. A record names what the program did, the frames that led there with the column of the expression, why
that cannot be captured and what to do about it. `pellucid.errors.reasons()` gives this table.

Each example defines `f`; `pellucid.compile(f, backend="eager", fullgraph=True)(torch.ones(3))` stops for that reason.
"""


def _wrapped(text: str) -> str:
    return textwrap.fill(text, 120, break_long_words=False, break_on_hyphens=False)


def section(reason) -> str:
    lines = [f"## {reason.code} {reason.name}", "", f"> {reason.what}", ""]
    lines += [_wrapped(f"**Why.** {reason.why}"), ""]
    lines += [_wrapped(f"**What to do.** {reason.fix[0].upper()}{reason.fix[1:]}."), ""]
    if reason.example:
        lines += ["```python", reason.example.rstrip("\n"), "```", ""]
    return "\n".join(lines)


def page() -> str:
    from pellucid import errors

    rows = errors.reasons().values()
    index = ["| id | name | what happened |", "|---|---|---|"]
    index += [f"| [{row.code}](#{row.code.lower()}-{row.name.lower()}) | {row.name} | {row.what} |" for row in rows]
    return "\n".join([HEAD, *index, "", *map(section, rows)]).rstrip("\n") + "\n"


if __name__ == "__main__":
    sys.exit(write_or_check("reasons.md", page(), "reasons_page.py", __doc__))
