"""A class has at most 30 methods."""

import re
from collections import Counter

from source import classes, cpp_files

MOST = 30
_NO_METHOD = re.compile(r"(?:public|private|protected)\s*:|\b(?:using|friend|enum|typedef|static_assert)\b")


def methods_of(cls):
    members = (re.sub(r"\b(?:public|private|protected)\s*:", "", member).strip() for member in cls.members)
    return [member for member in members if "(" in member.split("=")[0] and not _NO_METHOD.search(member)]


def check(root):
    """One finding for each method over the limit, so that the number of findings is what the class has too many."""
    found = Counter()
    for path in cpp_files(root):
        for cls in classes(path):
            found[f"{path.relative_to(root)}: class {cls.name} has more than {MOST} methods"] += max(
                len(methods_of(cls)) - MOST, 0
            )
    return found
