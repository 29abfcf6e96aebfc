"""What would avoid a recompile: the advice that fits a guard that failed, and the backend that the program is compiled with."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pellucid._in_words import Words

_MISMATCH = re.compile(r"(.+?) mismatch(?: at index (\d+))?, expected (.*), actual (.*)")
_OF_BACKEND = "is compiled by the backend"  # what the guard is said to be for that has its conditions
_VALUE_ITSELF = re.compile(r"(.+) == -?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
_SIZE = re.compile(r"\.(size|stride)\(\d+\)$")
_NUMBER = re.compile(r"-?\d+(\.\d+)?([eE][-+]?\d+)?")
_KEPT = re.compile(r"L\['self'\]\..*|G\[.*")  # what an object or a module keeps from call to call
_HOOKS = re.compile(r"(.*)\._(global_)?(\w+)_hooks(?:_with_kwargs|_always_called)?")
_ELEMENT = ("AHEAD(", "VALUE_AHEAD(")  # how sources of what an iterator gives next begin
_MISSING = "that it does not exist"
_TELL_SOURCES = ("CONDITION", "FORESEEN", "IS", "IS_NOT", "DISTINCT")  # kinds whose texts name other values


_STATE = re.compile(r"(.+?): expected (.+), found (.+)")
_ONCE = "set {} once, before the first call: each setting is compiled once"
_BLOCK = (
    "call the function always inside of the block that sets {}, or always outside, or put the block into the function: each way is"
    " compiled once"
)
_OF_STATE = {
    "grad mode": _BLOCK,
    "inference mode": _BLOCK,
    "forward grad mode": _BLOCK,
    "autocast for cpu": _BLOCK,
    "autocast for cuda": _BLOCK,
    "the cache of autocast": _BLOCK,
    "open autocast blocks": _BLOCK,
    "deterministic algorithms": _ONCE,
    "deterministic algorithms that only warn": _ONCE,
    "default dtype": _ONCE,
    "default device": _ONCE,
    "kernels of attention": _ONCE,
    "float32 matmul precision": _ONCE,
    "mkldnn": _ONCE,
    "cudnn": _ONCE,
}


@dataclass(frozen=True)
class Failed:
    """A guard that did not hold, as `_core` tells it."""

    kind: str
    source: str
    expected: str
    found: str
    operation: str
    history: str
    """Of a number: "pinned", the program asked an open one for its value; "open", it has changed, and is open since; else ""."""

    @property
    def is_of_element(self) -> bool:
        """Whether it is about what an iterator gives next."""
        return self.source.startswith(_ELEMENT)


def texts_of(failed: Failed, words: Words) -> tuple[str, str]:
    """What was expected and what was found, in the words of the program."""
    if failed.is_of_element and failed.found == _MISSING:
        return failed.expected, "none: the iterator is at its end"
    if failed.kind == "GLOBAL_STATE":
        return _state_texts(failed.found) or (failed.expected, failed.found)
    if failed.kind in _TELL_SOURCES:
        return words.of(failed.expected), words.of(failed.found)
    return failed.expected, failed.found


def advice_for(failed: Failed, words: Words, backend: object) -> str | None:
    """What fits better than the advice for all guards of this kind; None: nothing.

    Args:
        words: of the part of the program that is compiled.
        backend: what it is compiled with.
    """
    kind, source, expected, found = failed.kind, failed.source, failed.expected, failed.found
    if words.goes_on and (kind.startswith("ITERATOR_") or (failed.is_of_element and found == _MISSING)):
        return (
            "a loop with a graph break in it is compiled apart for where it ends: take the break out of the loop, or the loop"
            " out of what is compiled"
        )
    if kind == "GLOBAL_STATE":
        return _advice_about_state(found)
    if found == _MISSING:
        return "it was there when this was compiled: keep it, or never have it"
    hooks = _HOOKS.fullmatch(words.of(source))
    if hooks is not None and kind == "LENGTH":
        return _advice_about_hooks(hooks, expected, found)
    if words.parameters is not None and source in ("L['args']", "L['kwargs']"):
        return "pass the same arguments at each call, each always by position or always by name"
    if kind in ("ID_MATCH", "TENSOR_MATCH", "EQUALS_MATCH", "TYPE_MATCH") and _is_none(expected) != _is_none(found):
        return (
            "with None and with something else the program is compiled apart, once each: pass always the same of both"
        )
    if kind == "TENSOR_MATCH":
        return _advice_about_size(words.typed(source), found, backend)
    if kind == "EQUALS_MATCH" and _NUMBER.fullmatch(expected) and _NUMBER.fullmatch(found.split(" ")[0]):
        return _advice_about_number(failed, backend)
    if kind == "EQUALS_MATCH" and expected.startswith(("'", '"', "b'", 'b"')):
        return _advice_about_text(failed.operation)
    if kind == "CONDITION":
        return _advice_about_condition(expected, found, failed.operation, backend)
    return None


def _state_changes(found: str) -> list[re.Match[str]]:
    """What differs in torch's state: a match of name, expected and found for each; none where that is not known."""
    return [match for part in found.split("; ") if (match := _STATE.fullmatch(part)) is not None]


def _state_texts(found: str) -> tuple[str, str] | None:
    """ "grad mode on, default dtype torch.float32" and what they are now."""
    changes = _state_changes(found)
    if not changes:
        return None
    before, now = ([f"{change[1]} {change[at]}" for change in changes] for at in (2, 3))
    return ", ".join(before), ", ".join(now)


def _advice_about_state(found: str) -> str | None:
    names: dict[str, list[str]] = {}
    for change in _state_changes(found):
        if change[1] in _OF_STATE:
            names.setdefault(_OF_STATE[change[1]], []).append(change[1])
    return "; ".join(advice.format(" and ".join(which)) for advice, which in names.items()) or None


def _advice_about_hooks(hooks: re.Match[str], expected: str, found: str) -> str:
    before, now = (int(text.removeprefix("length ")) for text in (expected, found))
    kind = hooks[3].replace("_", " ")
    whose = "all modules" if hooks[2] else hooks[1]
    happened = f"a {kind} hook was {'added to' if now > before else 'removed from'} {whose}"
    return f"{happened}: register hooks before the first call and leave them, or both ways are compiled, once each"


def _advice_about_text(operation: str) -> str:
    if operation in ("compares", "tests the truth"):
        return (
            "the program goes another way for each text, and each is compiled once: where there are many, decide outside of"
            " what is compiled, such as with a function for each"
        )
    return "the program looks at this text: each one is compiled anew, unless it is used outside of what is compiled"


def _advice_about_size(typed: str | None, found: str, backend: object) -> str | None:
    """Nothing where more than sizes, and strides because of them, is another: then there is no one way to avoid it.

    Args:
        typed: the tensor, as the user can type it; None: there is no such expression.
    """
    mismatches = [_MISMATCH.fullmatch(text) for text in found.split("; ")]
    if not all(match is not None and match[1] == "size" for match in mismatches):
        return None
    sizes = [(match[2], match[3], match[4]) for match in mismatches if match is not None]
    if any({old, new} & {"0", "1"} or old == "at least 2" for _, old, new in sizes):
        return "sizes of 0 and 1 are compiled apart: leave tensors of these out, or fill them up"
    if getattr(backend, "static", False):
        return "dynamic=False compiles each size anew: leave it away"
    if not _takes_open_sizes(backend):
        return (
            f"the backend {_name(backend)!r} compiles for fixed sizes: fill up to a few sizes, or take another backend"
        )
    if any(old.startswith(("at least ", "at most ")) for _, old, _ in sizes):
        return "the mark of this size says its range: give mark_dynamic a wider one"
    if getattr(backend, "dynamic", False):
        return (
            "sizes are open here, but the program needs this one itself, or marks it as static: each one is compiled"
            " anew, so fill up to a few sizes"
        )
    dims = sizes[0][0] if len(sizes) == 1 else f"[{', '.join(dim for dim, _, _ in sizes)}]"
    what = "this size" if len(sizes) == 1 else "these sizes"
    marks = f"pellucid.mark_dynamic({typed}, {dims}) or " if typed is not None else ""
    return f"{marks}dynamic=True opens {what} at the first call already"


def _is_none(text: str) -> bool:
    return text in ("None", "the object None", "type NoneType") or text.endswith("actual NoneType")


def _takes_open_sizes(backend: object) -> bool:
    return getattr(backend, "takes_numbers", False) or getattr(backend, "takes_symbols", False)


def _needs_the_value(operation: str) -> str:
    return f"the program needs the value itself ({operation}), so each one is compiled anew"


def _advice_about_condition(expected: str, found: str, operation: str, backend: object) -> str:
    if operation == _OF_BACKEND:
        return (
            f"the backend {_name(backend)!r} compiled for numbers of which this is true, and compiles again for others:"
            " once for each outcome"
        )
    if operation == "reads an item":
        pads = "fill up to a few sizes, or " if re.search(r"\.size\(\d+\)", expected) else ""
        return (
            f"{_needs_the_value(operation)}: {pads}compute what is looked up from the number, or keep all of it in one"
            " tensor and take from that by a tensor"
        )
    # A value that was asked of an open number or size. `if n == 2` is a way that the program goes.
    known = _VALUE_ITSELF.fullmatch(expected)
    if known is not None and found.startswith(f"{known[1]} = ") and operation not in ("compares", "tests the truth"):
        instead = "fill up to a few sizes" if _SIZE.search(known[1]) else "pass it as a tensor"
        return f"{_needs_the_value(operation)}: {instead}"
    return (
        "the program goes another way for this value, and each way is compiled once: where values go many ways, decide"
        " on tensors (torch.where), or outside of what is compiled"
    )


def _advice_about_number(failed: Failed, backend: object) -> str:
    expected, found, operation = failed.expected, failed.found.split(" ")[0], failed.operation
    if failed.history == "open":
        return "versions that were compiled later leave this number open"
    if failed.history == "pinned":
        return f"{_needs_the_value(operation)}: pass it as a tensor"
    if getattr(backend, "static", False):
        return "dynamic=False compiles each number anew: leave it away"
    is_float, was_float = ("." in text or "e" in text for text in (found, expected))
    if is_float != was_float:
        return "ints and floats are compiled apart: pass always the same"
    if is_float and not getattr(backend, "takes_numbers", False):
        return (
            f"the backend {_name(backend)!r} takes a float in a graph for a constant, unless it is added, subtracted,"
            " multiplied, divided or compared with a tensor of floats: pass it as a tensor if it enters the graph"
        )
    if not _takes_open_sizes(backend):
        return (
            f"the backend {_name(backend)!r} takes a number in a graph for a constant: pass it as a tensor if it enters the"
            " graph"
        )
    if getattr(backend, "dynamic", False):
        return _needs_the_value(operation)
    kept = "one that changes at each call is better kept in a tensor; " if _KEPT.fullmatch(failed.source) else ""
    return f"{kept}dynamic=True opens this number at the first call already"


def _name(backend: object) -> str:
    return getattr(backend, "name", type(backend).__name__)
