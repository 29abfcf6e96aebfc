"""Prose (pages, comments, docstrings) is at most 120 columns wide. Rows of tables, code and addresses may be wider."""

import subprocess
from collections import Counter

MOST = 120
_COMMENT = {".h": "//", ".cpp": "//", ".def": "//", ".py": "#", ".cmake": "#", ".toml": "#", "": "#"}


def tracked(root):
    if (root / ".git").exists():
        names = subprocess.run(["git", "ls-files"], cwd=root, capture_output=True, text=True, check=True).stdout.split(
            "\n"
        )
        return [root / name for name in names if name and (root / name).is_file()]
    return sorted(path for path in root.rglob("*") if path.is_file())


def wide_lines(path):
    in_code = False
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if path.suffix == ".md":
            in_code ^= line.lstrip().startswith("```")
            counts = not in_code and not line.startswith("|") and "://" not in line
        else:
            # A comment that has its line to itself: rows of a table may end in a word of explanation.
            counts = line.lstrip().startswith(_COMMENT[path.suffix])
        if counts and len(line) > MOST:
            yield number


def check(root):
    found = Counter()
    for path in tracked(root):
        if path.suffix in {".md", *_COMMENT} and (path.suffix or path.name == "Makefile"):
            lines = list(wide_lines(path))
            found[f"{path.relative_to(root)}: prose over {MOST} columns"] += len(lines)
    return found
