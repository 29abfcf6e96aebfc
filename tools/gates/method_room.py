"""A method is defined in the room of its class."""

import re
from collections import Counter

from source import bare, classes, cpp_files, room_of

_DEFINED = re.compile(r"^(?:[\w:<>,*& \[\]]+[ *&])?((?:\w+::)*)(\w+)::(~?\w+)\(", re.M)


def check(root):
    rooms = {}
    for path in cpp_files(root):
        for cls in classes(path):
            rooms.setdefault(cls.name, set()).add(room_of(path, root))
    found = Counter()
    for path in cpp_files(root):
        for match in _DEFINED.finditer(bare(path)):
            home = rooms.get(match[2])
            if home and room_of(path, root) not in home and not match[0].startswith((" ", "return")):
                found[f"{path.relative_to(root)}: {match[2]}::{match[3]} belongs to room {'/'.join(sorted(home))}"] += 1
    return found
