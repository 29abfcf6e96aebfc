#!/usr/bin/env python3
"""Writes the programs of docs/design/examples, and what `python -m pellucid show` says of them, into README.md and docs/design/*.md.

python tools/design_pages.py            # writes the pages
python tools/design_pages.py --check    # exits with 1 when a page is not what would be written

A page has the places, the rest of it is written by hand:

    <!-- program effects.py -->                                    the file
    <!-- show effects.py:Counter.step --only graph,guards,code -->  what the command prints
    <!-- end -->                                                   where what is made ends
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import re
import shlex
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "docs/design/examples"
_PLACE = re.compile(r"(<!-- (program|show) ([^\n]*?) -->\n).*?(<!-- end -->)", re.S)


def pages() -> list[Path]:
    return [ROOT / "README.md", *sorted((ROOT / "docs/design").glob("*.md"))]


def shown(arguments: str) -> str:
    from pellucid.__main__ import main

    out, err = io.StringIO(), io.StringIO()
    with contextlib.chdir(EXAMPLES), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = main(["show", *shlex.split(arguments)])
    if status != 0:
        raise SystemExit(f"show {arguments} ends with {status}:\n{err.getvalue()}")
    return out.getvalue()


def _filled(place: re.Match[str]) -> str:
    head, kind, what, end = place.groups()
    body = ("python", (EXAMPLES / what).read_text()) if kind == "program" else ("text", shown(what))
    return f"{head}```{body[0]}\n{body[1].rstrip()}\n```\n{end}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    stale = []
    for page in pages():
        text = page.read_text(encoding="utf-8")
        made = _PLACE.sub(_filled, text)
        if made != text:
            stale.append(os.path.relpath(page, ROOT))
            if not check:
                page.write_text(made, encoding="utf-8")
    if check and stale:
        print(f"out of date: {', '.join(stale)}: run make docs", file=sys.stderr)
    return int(check and bool(stale))


if __name__ == "__main__":
    sys.exit(main())
