"""The index of a dump, for people and for programs."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pellucid._dump.recording import Recording

_STYLE = "body{font:15px sans-serif;margin:2em auto;max-width:70em}code,td{font-family:monospace}td{padding:2px 12px 2px 0;vertical-align:top}"

ALL_BRANCHES = (
    "Only what ran inside of the block is here: a branch that no call has taken was not compiled. Run all branches that are to be "
    "looked at."
)


def facts(recording: Recording) -> dict[str, Any]:
    """What happened, in order, as plain data."""
    return {
        "functions": [
            {
                "name": one.name,
                "file": one.file,
                "line": one.line,
                "full_code": one.dumped,
                "regions": [region.name for region in one.regions],
                "compiled_before": len(one.before),
            }
            for one in recording.functions.values()
        ],
        "story": recording.story,
    }


def page(recording: Recording) -> str:
    """The same as a page with links."""
    functions = "".join(
        f"<tr><td>{_link(one.dumped)}</td><td>{escape(one.name)}</td><td>{escape(one.file)}:{one.line}</td>"
        f"<td>{len(one.regions)} regions</td><td>{_before(len(one.before))}</td></tr>"
        for one in recording.functions.values()
    )
    story = "".join(f"<tr><td>{escape(step['what'])}</td><td>{_step(step)}</td></tr>" for step in recording.story)
    return (
        f"<!doctype html><meta charset='utf-8'><title>pellucid: dump</title><style>{_STYLE}</style>"
        f"<h1>What was compiled</h1><p>{ALL_BRANCHES}</p><h2>Functions</h2><table>{functions}</table>"
        f"<h2>In order</h2><table>{story}</table>\n"
    )


def _before(count: int) -> str:
    return f"{count} compiled before the dump began" if count else ""


def _step(step: dict[str, Any]) -> str:
    words = [escape(str(step[key])) for key in ("name", "of", "place", "why") if step.get(key)]
    return " ".join([*words, *(_link(step[key]) for key in ("file", "guards", "bytecode") if step.get(key))])


def _link(file: str) -> str:
    return f"<a href='{escape(file)}'>{escape(file)}</a>"
