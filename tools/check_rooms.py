#!/usr/bin/env python3
"""Checks the includes of src/: each room includes only what CMakeLists.txt lets it use, and headers of torch and of
CPython's internals only where they are fenced in.

    python tools/check_rooms.py [root]

Prints one line for each wrong include; the exit status is 1 when there is any.
"""

import re
import sys
from pathlib import Path

# Header pattern -> rooms that may include it. A header that does is private to its room.
FENCES = {
    r"<(torch|ATen|c10)/": {"aten"},
    r"<internal/pycore_": {"py", "frames"},
    r"<nanobind/": {"binding"},
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


def includes_of(path):
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if found := INCLUDE.match(line):
            yield number, found[1]


def fences_of(target):
    return {pattern for pattern in FENCES if re.match(pattern, target)}


def fences_behind(files, source):
    """header -> the fences that it takes its includer through, directly or by other headers."""
    includes = {str(path.relative_to(source)): [target for _, target in includes_of(path)] for path in files}
    behind = {name: set().union(*map(fences_of, targets)) for name, targets in includes.items()}
    for _ in includes:
        grown = {
            name: behind[name].union(*(behind.get(t.strip('"'), set()) for t in includes[name])) for name in includes
        }
        if grown == behind:
            break
        behind = grown
    return behind


def complaint(target, room, uses, source, behind):
    """Why a file of `room` may not include `target`, or None."""
    name = target.strip('"')
    for pattern in fences_of(target) | behind.get(name, set()):
        if room not in FENCES[pattern]:
            return f"{target} is, or includes, what is fenced to {'/'.join(sorted(FENCES[pattern]))}"
    if target.startswith("<"):
        return None
    if not (source / name).is_file():
        return f"{target} is not a file of src/ (write the path as room/file.h)"
    if name.split("/")[0] not in uses[room]:
        return f"room '{room}' may not include {target}"
    return None


def check(root):
    source, uses, found = root / "src", allowed_rooms(root), []
    files = sorted(p for p in source.rglob("*") if p.suffix in {".h", ".cpp", ".def", ".inc"})
    behind = fences_behind(files, source)
    for path in files:
        room = path.relative_to(source).parts[0]
        if room not in uses:
            found.append(f"{path}: no room '{room}' in cmake/rooms.cmake")
            continue
        for number, target in includes_of(path):
            if why := complaint(target, room, uses, source, behind):
                found.append(f"{path.relative_to(root)}:{number}: {why}")
    return found


if __name__ == "__main__":
    wrong = check(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent)
    print("\n".join(wrong) if wrong else "rooms: all includes are allowed")
    sys.exit(bool(wrong))
