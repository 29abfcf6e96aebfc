"""The page of a recording: one file that loads nothing. Arrow keys go forward and back."""

from __future__ import annotations

from html import escape
from pathlib import Path

_FOLDER = Path(__file__).parent
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
_PANELS = (
    ("source", "Program"),
    ("bytecode", "Bytecode"),
    ("frames", "Frames"),
    ("stack", "Stack"),
    ("locals", "Variables"),
    ("graph", "Graph so far"),
    ("guards", "Guards so far"),
)


def page(data: str, title: str) -> str:
    """The whole page.

    Args:
        data: `Steps.to_dict()` as JSON.
        title: what stands at its head.

    Example:
        >>> page(json.dumps(steps.to_dict()), "model.py")
    """
    style, script = ((_FOLDER / name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    head = (
        f'<meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        f'<meta name="viewport" content="width=device-width"><title>{escape(title)}</title><style>{style}</style>'
    )
    panels = "".join(
        f'<section class="{name}"><h2>{words}</h2><pre id="{name}"></pre></section>' for name, words in _PANELS
    )
    keys = (
        "<kbd>→</kbd> <kbd>←</kbd> instruction &nbsp; <kbd>↓</kbd> <kbd>↑</kbd> line &nbsp; <kbd>PgDn</kbd> <kbd>PgUp</kbd> capture"
        " &nbsp; <kbd>Home</kbd> <kbd>End</kbd>"
    )
    body = (
        f'<header><h1>{escape(title)}</h1><select id="capture" aria-label="capture"></select>'
        f'<span id="number"></span><span class="soft">{keys}</span></header>'
        '<input id="slider" type="range" min="0" value="0" aria-label="step">'
        f'<div id="place"></div><div id="end" hidden></div><main>{panels}</main>'
    )
    # No text of the program may end the element, or begin a comment in it.
    safe = data.replace("<", "\\u003c")
    return (
        f'<!doctype html>\n<html lang="en"><head>{head}</head><body>{body}\n'
        f'<script id="data" type="application/json">{safe}</script>\n<script>{script}</script></body></html>\n'
    )
