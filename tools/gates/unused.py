"""A function has a caller outside of the tests and their hooks."""

import re
from collections import Counter

from source import bare, cpp_files, declarations

_NAME = re.compile(r"(?<![\w])~?[A-Za-z_]\w*")
_PASTED = re.compile(r"\b(\w+?)\s*##|##\s*(\w+)")
_PYTHON = re.compile(r"^\s*(?:async )?def (\w+)\(", re.M)
# What others call by convention or by a name that they make up.
_CALLED_ELSEWHERE = re.compile(r"operator|decltype|__\w+__$|~")
# Methods that torch calls on what it is handed (a Source), or user code on what stands for the context of an
# autograd.Function; what libraries read of a compiled module.
_OF_AN_INTERFACE = {
    "dynamo_ctx",
    *(
        "_name_template",
        "guard_source",
        "is_unspecialized_builtin_nn_module",
        "is_unspecialized_nn_module",
        "reconstruct",
    ),
    *("mark_dirty", "mark_non_differentiable", "save_for_backward", "save_for_forward", "set_materialize_grads"),
}


def check(root):
    found = Counter()
    for path, name in [*_unused_cpp(root), *_unused_python(root)]:
        found[f"{path.relative_to(root)}: {name} has no caller outside of the tests"] += 1
    return found


def _unused_cpp(root):
    places, uses, prefixes = {}, Counter(), set()
    for path in cpp_files(root):
        text = bare(path)
        prefixes |= {part for match in _PASTED.finditer(text) for part in match.groups() if part and part.endswith("_")}
        declared = {match.start: match.name for match in declarations(text) if not match.name.isupper()}
        for name in declared.values():
            places.setdefault(name, path)
        uses.update(match[0] for match in _NAME.finditer(text) if match.start() not in declared)
    types = {match[1] for path in cpp_files(root) for match in re.finditer(r"\b(?:class|struct)\s+(\w+)", bare(path))}
    for name, path in sorted(places.items(), key=str):
        known = uses[name] or name in types or any(name.startswith(prefix) for prefix in prefixes)
        if not known and not _CALLED_ELSEWHERE.match(name):
            yield path, name


def _unused_python(root):
    """Python is called by name from C++ too, so any mention in the sources, strings too, is a use."""
    sources = [path.read_text() for path in sorted((root / "python").rglob("*.py"))]
    everywhere = sources + [path.read_text() for path in cpp_files(root)]
    for folder in ("bench", "tools"):
        everywhere += [path.read_text() for path in sorted((root / folder).rglob("*.py"))]
    uses = Counter(name for text in everywhere for name in _NAME.findall(re.sub(r"(?m)#.*$|//.*$", "", text)))
    for path in sorted((root / "python").rglob("*.py")):
        for name in _PYTHON.findall(path.read_text()):
            defined = sum(len(re.findall(rf"\bdef {name}\(", text)) for text in sources)
            if uses[name] <= defined and not _CALLED_ELSEWHERE.match(name) and name not in _OF_AN_INTERFACE:
                yield path, name
