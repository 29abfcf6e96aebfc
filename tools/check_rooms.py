#!/usr/bin/env python3
"""Checks the includes of src/: each room includes only what CMakeLists.txt lets it use, and headers of torch and of
CPython's internals only where they are fenced in.

    python tools/check_rooms.py [root]

Prints one line for each wrong include; the exit status is 1 when there is any.
"""

import re
import sys
from pathlib import Path

# Header pattern -> (rooms, suffixes) that may include it.
FENCES = {
    r"<(torch|ATen|c10)/": ({"aten"}, {".cpp"}),
    r"<internal/pycore_": ({"py", "frames"}, {".cpp"}),
    r"<nanobind/": ({"binding"}, {".h", ".cpp"}),
}
INCLUDE = re.compile(r'\s*#\s*include\s+([<"][^>"]+[>"])')


def room_order(root):
    text = (root / "cmake/rooms.cmake").read_text()
    return re.search(r"set\(PELLUCID_ROOMS ([\w ]+)\)", text)[1].split()


def allowed_rooms(root):
    """room -> rooms it may include, itself among them."""
    order = room_order(root)
    uses = {room: {room} for room in order}
    for room, used in re.findall(r"pellucid_room\((\w+)(?:\s+USES ([\w ]+))?\)", (root / "CMakeLists.txt").read_text()):
        uses[room] |= set(used.split())
        for other in used.split():
            if order.index(other) >= order.index(room):
                raise SystemExit(f"CMakeLists.txt: room '{room}' may not use room '{other}', which is not to its left")
    return uses


def complaint(target, room, path, uses, source):
    """Why `path` may not include `target`, or None."""
    for pattern, (rooms, suffixes) in FENCES.items():
        if re.match(pattern, target) and not (room in rooms and path.suffix in suffixes):
            return f"{target} is fenced to the {'/'.join(sorted(suffixes))} files of {'/'.join(sorted(rooms))}"
    if target.startswith("<"):
        return None
    name = target.strip('"')
    if not (source / name).is_file():
        return f"{target} is not a file of src/ (write the path as room/file.h)"
    if name.split("/")[0] not in uses[room]:
        return f"room '{room}' may not include {target}"
    return None


def check(root):
    source, uses, found = root / "src", allowed_rooms(root), []
    for path in sorted(p for p in source.rglob("*") if p.suffix in {".h", ".cpp", ".def"}):
        room = path.relative_to(source).parts[0]
        if room not in uses:
            found.append(f"{path}: no room '{room}' in cmake/rooms.cmake")
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            include = INCLUDE.match(line)
            why = include and complaint(include[1], room, path, uses, source)
            if why:
                found.append(f"{path.relative_to(root)}:{number}: {why}")
    return found


if __name__ == "__main__":
    wrong = check(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent)
    print("\n".join(wrong) if wrong else "rooms: all includes are allowed")
    sys.exit(bool(wrong))
