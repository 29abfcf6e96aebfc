"""The page of an ExplainOutput: one file, no script, nothing loaded from elsewhere."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

    from pellucid._explain import ExplainOutput, Guard
    from pellucid.errors import BreakRecord

_STYLE = """
:root { color-scheme: light dark; --text: #1d2430; --soft: #5c6675; --line: #e3e7ee; --back: #f6f7f9; --card: #ffffff; --accent: #1769c2; --bad: #b3321e;
  --code: #f4f6f9; }
@media (prefers-color-scheme: dark) { :root { --text: #e4e8ee; --soft: #97a2b3; --line: #2c333e; --back: #12161c; --card: #1a1f27; --accent: #6db2ff;
  --bad: #ff8a73; --code: #141920; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--back); color: var(--text); font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
main { max-width: 1080px; margin: 0 auto; padding: 40px 24px 80px; }
h1 { font-size: 26px; margin: 0 0 4px; } h2 { font-size: 18px; margin: 40px 0 12px; }
.soft { color: var(--soft); }
.numbers { display: grid; grid-template-columns: repeat(auto-fit, minmax(130px, 1fr)); gap: 12px; margin: 24px 0 0; padding: 0; list-style: none; }
.numbers li { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: 14px 16px; }
.numbers b { display: block; font-size: 24px; font-weight: 600; font-variant-numeric: tabular-nums; } .numbers span { color: var(--soft); font-size: 13px; }
details, .card { background: var(--card); border: 1px solid var(--line); border-radius: 8px; margin: 10px 0; }
.card { padding: 14px 16px; } .break { border-left: 4px solid var(--bad); }
summary { cursor: pointer; padding: 11px 16px; font-weight: 600; } summary .soft { font-weight: 400; }
details > div { border-top: 1px solid var(--line); overflow: auto; max-height: 560px; }
pre { margin: 0; padding: 14px 16px; background: var(--code); font: 12.5px/1.55 ui-monospace, Menlo, Consolas, monospace; overflow-x: auto; }
.card pre { margin-top: 10px; border-radius: 6px; }
table { border-collapse: collapse; width: 100%; font-size: 13px; } th, td { text-align: left; padding: 6px 16px; border-bottom: 1px solid var(--line); vertical-align: top; }
tr:last-child td { border-bottom: 0; }
th { position: sticky; top: 0; background: var(--card); color: var(--soft); font-weight: 600; white-space: nowrap; }
td { font-family: ui-monospace, Menlo, Consolas, monospace; font-size: 12px; overflow-wrap: anywhere; } td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; }
td:first-child, .nodes td:last-child { white-space: nowrap; }
.kind { color: var(--accent); white-space: nowrap; }
.bar { height: 8px; background: var(--accent); border-radius: 4px; min-width: 2px; }
"""


def page(output: ExplainOutput, title: str) -> str:
    parts = [
        f"<h1>{escape(title)}</h1>",
        f'<p class="soft">{_sentence(output)}</p>',
        _numbers(output),
        _breaks(output.break_reasons),
        "<h2>Graphs</h2>" if output.graphs else "",
        *(_graph(output, index) for index in range(len(output.graphs))),
        _guards(output.out_guards),
        _times(output),
    ]
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{escape(title)}</title><style>{_STYLE}</style>'
    return (
        f'<!doctype html>\n<html lang="en"><head>{head}</head><body><main>\n'
        + "\n".join(filter(None, parts))
        + "\n</main></body></html>\n"
    )


def _sentence(output: ExplainOutput) -> str:
    if not output.graphs:
        return "Nothing was captured."
    graphs = "one graph" if len(output.graphs) == 1 else f"{len(output.graphs)} graphs"
    return f"Captured as {graphs}" + (", without a break." if not output.break_reasons else ".")


def _numbers(output: ExplainOutput) -> str:
    times = sum(sum(region.milliseconds.values()) for region in output.regions)
    cells = [
        (len(output.graphs), "graphs"),
        (output.op_count, "calls of functions"),
        (len(output.break_reasons), "reasons for breaks"),
        (len(output.out_guards) if output.out_guards is not None else "–", "guards"),
        (f"{times:.1f} ms" if output.regions else "–", "to compile"),
    ]
    return (
        '<ul class="numbers">'
        + "".join(f"<li><b>{value}</b><span>{name}</span></li>" for value, name in cells)
        + "</ul>"
    )


def _breaks(records: list[BreakRecord]) -> str:
    if not records:
        return ""
    cards = []
    for record in records:
        frames = "".join(_frame(frame) for frame in record.user_stack)
        hint = f'<div class="soft">{escape(record.hint)}</div>' if record.hint else ""
        cards.append(
            f'<div class="card break"><b>{escape(record.code)} {escape(record.name)}</b>: {escape(record.message)}{hint}<pre>{frames}</pre></div>'
        )
    return "<h2>Where capture stopped</h2>" + "".join(cards)


def _frame(frame: Any) -> str:
    source = f"    {escape(frame.line)}\n" if frame.line else ""
    return f'<span class="soft">{escape(frame.filename)}:{frame.lineno} in {escape(frame.name)}</span>\n{source}'


def _graph(output: ExplainOutput, index: int) -> str:
    graph_module = output.graphs[index]
    region = next((region for region in output.regions if region.graph == index), None)
    calls = sum(node.op in ("call_function", "call_method", "call_module") for node in graph_module.graph.nodes)
    about = f"{calls} operations" + (f", {escape(region.function)}" if region else "")
    opened = " open" if len(output.graphs) == 1 else ""
    code = escape(graph_module.print_readable(print_output=False).strip())
    return (
        f'<details{opened}><summary>Graph {index + 1} <span class="soft">code, {about}</span></summary><div><pre>{code}</pre></div></details>'
        f'<details><summary>Graph {index + 1} <span class="soft">table</span></summary><div class="nodes">{_node_table(graph_module)}</div></details>'
    )


def _node_table(graph_module: torch.fx.GraphModule) -> str:
    rows = []
    for node in graph_module.graph.nodes:
        arguments = ", ".join([*map(str, node.args), *(f"{key}={value}" for key, value in node.kwargs.items())])
        target = node._pretty_print_target(node.target) if node.op == "call_function" else node.target
        cells = (
            node.op,
            node.name,
            target,
            arguments,
            _value(node.meta.get("example_value")),
            _last_line(node.meta.get("stack_trace")),
        )
        rows.append(_row(cells))
    return _table(("op", "name", "target", "arguments", "value", "line"), rows)


def _value(value: Any) -> str:
    if isinstance(value, (tuple, list)):
        return ", ".join(map(_value, value))
    shape = getattr(value, "shape", None)
    if shape is None or not hasattr(value, "dtype"):
        return "" if value is None else str(value)
    return f"{str(value.dtype).removeprefix('torch.')}{list(shape)}"


def _last_line(stack: str | None) -> str:
    """The program's line, from a stack as traceback prints it."""
    lines = [line.strip() for line in (stack or "").splitlines() if line.strip().startswith("File ")]
    if not lines:
        return ""
    file, number, *_ = lines[-1].removeprefix("File ").split(", ")
    name = file.strip('"').rsplit("/", 1)[-1]
    return f"{name}:{number.removeprefix('line ')}"


def _guards(guards: list[Guard] | None) -> str:
    if not guards:
        return ""
    parts = [
        "<h2>Guards</h2>",
        '<p class="soft">What each compiled region assumed, and the line that made it assume so.</p>',
    ]
    for region in sorted({guard.region for guard in guards}):
        own = [guard for guard in guards if guard.region == region]
        rows = [
            _row(
                (f"{guard.file}:{guard.line}" if guard.file else "", guard.operation, guard.source, guard.text),
                kind=guard.kind,
            )
            for guard in own
        ]
        table = _table(("guard", "made by", "", "looks at", "must be"), rows)
        parts.append(
            f'<details><summary>Region {region} <span class="soft">{len(own)} guards</span></summary><div>{table}</div></details>'
        )
    return "".join(parts)


def _times(output: ExplainOutput) -> str:
    if not output.regions:
        return f"<h2>Times</h2><pre>{escape(output.compile_times)}</pre>" if output.compile_times else ""
    totals: dict[str, float] = {}
    for region in output.regions:
        for step, time in region.milliseconds.items():
            totals[step] = totals.get(step, 0.0) + time
    longest = max(totals.values()) or 1.0
    rows = [
        f'<tr><td>{escape(step)}</td><td class="number">{time:.3f}</td><td style="width: 55%"><div class="bar" style="width: {100 * time / longest:.1f}%"></div></td></tr>'
        for step, time in totals.items()
    ]
    table = f'<table><thead><tr><th>step</th><th class="number">ms</th><th></th></tr></thead><tbody>{"".join(rows)}</tbody></table>'
    return f'<h2>Times</h2><div class="card" style="padding: 0">{table}</div>'


def _row(cells: tuple, kind: str | None = None) -> str:
    first = f'<td class="kind">{escape(kind)}</td>' if kind is not None else ""
    return f"<tr>{first}{''.join(f'<td>{escape(str(cell))}</td>' for cell in cells)}</tr>"


def _table(head: tuple[str, ...], rows: list[str]) -> str:
    return f"<table><thead><tr>{''.join(f'<th>{name}</th>' for name in head)}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
