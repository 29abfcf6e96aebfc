"""Pages of docs/ that are made from the code: written, or compared with what would be written."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parent.parent / "docs"


def write_or_check(name: str, text: str, tool: str, description: str | None) -> int:
    """Writes the page, or with --check says whether it is up to date. Returns the exit status."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    page = DOCS / name
    if not parser.parse_args().check:
        page.write_text(text, encoding="utf-8")
        return 0
    if page.exists() and page.read_text(encoding="utf-8") == text:
        return 0
    print(f"docs/{name} is out of date: run tools/{tool}", file=sys.stderr)
    return 1
