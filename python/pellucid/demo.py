"""The main job: a 12-layer GPT-2 from transformers (random weights), captured, checked and timed beside torch.compile.

python -m pellucid.demo [--tokens 64] [--backends eager aot_eager inductor] [--rounds 5] [--out demo_out]
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import torch

import pellucid
from pellucid._measure import measure, median, pellucid_compiler, torch_compiler

_Result = TypeVar("_Result")

# How far results may be from eager's, relative and absolute. "eager" and "aot_eager" run the same kernels.
_TOLERANCE = {"eager": 0.0, "aot_eager": 1e-5}
_ELSE = 1e-3


class Failed(Exception):
    """Something is not as it must be; the text says what."""


def main(arguments: list[str] | None = None) -> int:
    options = _options(arguments)
    torch.manual_seed(0)
    try:
        model, tokens = _model(options)
        _inference(model, tokens, options.backends)
        _side_by_side(model, tokens, options.rounds)
        _training(model, tokens, options.backends)
        _report(model, tokens, Path(options.out))
    except Failed as failure:
        print(f"\n\nFAILED: {failure}", file=sys.stderr)
        return 1
    print("\nAll as in eager.")
    return 0


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m pellucid.demo", description=__doc__.splitlines()[0])
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--width", type=int, default=768, help="a multiple of 12")
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--backends", nargs="+", default=["eager", "aot_eager", "inductor"])
    parser.add_argument("--rounds", type=int, default=5, help="of the comparison with torch.compile")
    parser.add_argument("--out", default="demo_out", help="folder of report.html")
    return parser.parse_args(arguments)


def _model(options: argparse.Namespace) -> tuple[torch.nn.Module, torch.Tensor]:
    from transformers import GPT2Config, GPT2LMHeadModel

    with _step("building the model") as done:
        # Without dropout, so that training has one right answer.
        config = GPT2Config(
            n_layer=options.layers,
            n_embd=options.width,
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
            use_cache=False,
        )
        model = GPT2LMHeadModel(config).eval()
        count = sum(parameter.numel() for parameter in model.parameters())
        done(f"GPT-2, {options.layers} layers, {count / 1e6:.0f} M parameters, {options.tokens} tokens")
    return model, torch.randint(0, config.vocab_size, (1, options.tokens))


# ---- inference


@torch.no_grad()
def _inference(model: torch.nn.Module, tokens: torch.Tensor, backends: list[str]) -> None:
    _title("Inference")
    expected = model(tokens).logits
    rows = []
    for backend in backends:
        with _step(f"{backend}: first call"):
            compiled, since = _compiled(model, backend)
            first, result = _timed(lambda: compiled(tokens).logits)
        difference = _compare("the logits", result, expected, backend)
        second, again = _timed(lambda: compiled(tokens).logits)
        _compare("the logits of the second call", again, expected, backend)
        rows.append(
            (backend, _one_graph(since, backend), f"{first:.2f} s", f"{1e3 * second:.0f} ms", f"{difference:.1e}")
        )
    _table(("backend", "graphs", "first call", "second call", "off eager by"), rows)


def _compiled(model: torch.nn.Module, backend: str) -> tuple[Callable, int]:
    """The compiled model, and the number of the next event."""
    pellucid.reset()
    return pellucid.compile(model, backend=backend, fullgraph=True), pellucid._core.next_event()


def _one_graph(since: int, backend: str) -> int:
    graphs = sum(event["kind"] == "backend" for event in pellucid._core.events(since))
    if graphs != 1:
        raise Failed(f"backend {backend}: {graphs} graphs instead of one")
    return graphs


def _compare(what: str, result: torch.Tensor, expected: torch.Tensor, backend: str) -> float:
    """The largest difference."""
    if result.shape != expected.shape or result.dtype != expected.dtype:
        raise Failed(
            f"backend {backend}: {what}: {result.dtype}{list(result.shape)} instead of {expected.dtype}{list(expected.shape)}"
        )
    difference = (result - expected).abs().max().item()
    tolerance = _TOLERANCE.get(backend, _ELSE)
    if not torch.allclose(result, expected, rtol=tolerance, atol=tolerance):
        raise Failed(f"backend {backend}: {what}: off eager by {difference:.3e}, more than {tolerance:.0e}")
    return difference


# ---- beside torch.compile


def _side_by_side(model: torch.nn.Module, tokens: torch.Tensor, rounds: int) -> None:
    _title("Beside torch.compile, by turns in this process")
    small = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
    with _step("warming up: a small module in both"):
        compilers = (pellucid_compiler(), torch_compiler())
        measure(compilers, small, (torch.ones(1, 4),), {}, rounds=1)
    with _step(f"capturing {rounds} times each") as done:
        samples = measure(compilers, model, (tokens,), {}, rounds=rounds, progress=_show)
        done()
    ours, theirs = samples["pellucid"], samples["torch.compile"]
    if ours.graphs != 1:
        raise Failed(f"{ours.graphs} graphs with the stub backend instead of one")
    rows = [
        _compared("capture, CPU ms", ours.capture, theirs.capture, 1e3),
        _compared("call of the compiled model with a stub for the graph, us", ours.call, theirs.call, 1e6),
    ]
    _table(("median", "pellucid", "torch.compile", "ratio"), rows)


def _compared(name: str, ours: list[float], theirs: list[float], unit: float) -> tuple[str, ...]:
    mine, other = median(ours), median(theirs)
    return (name, f"{unit * mine:.1f}", f"{unit * other:.1f}", f"{other / mine:.1f}x")


# ---- training


def _training(model: torch.nn.Module, tokens: torch.Tensor, backends: list[str]) -> None:
    _title("One training step")
    model.train()
    with _step("eager"):
        loss, expected = _gradients(model, model, tokens)
    rows = []
    for backend in backends:
        with _step(f"{backend}: forward and backward"):
            compiled, since = _compiled(model, backend)
            seconds, (result, gradients) = _timed(lambda: _gradients(compiled, model, tokens))
        _compare("the loss", result, loss, backend)
        if gradients.keys() != expected.keys():
            raise Failed(
                f"backend {backend}: gradients for other parameters: {sorted(gradients.keys() ^ expected.keys())}"
            )
        worst = max(_compare(f"the gradient of {name}", gradients[name], expected[name], backend) for name in expected)
        rows.append(
            (
                backend,
                _one_graph(since, backend),
                f"{result.item():.6f}",
                f"{seconds:.2f} s",
                len(gradients),
                f"{worst:.1e}",
            )
        )
    _table(("backend", "graphs", "loss", "time with compile", "gradients", "off eager by"), rows)
    model.eval()


def _gradients(
    run: Callable, model: torch.nn.Module, tokens: torch.Tensor
) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    model.zero_grad(set_to_none=True)
    logits = run(tokens).logits
    loss = torch.nn.functional.cross_entropy(logits[0, :-1], tokens[0, 1:])
    loss.backward()
    gradients = {name: parameter.grad for name, parameter in model.named_parameters() if parameter.grad is not None}
    model.zero_grad(set_to_none=True)
    return loss.detach(), gradients


# ---- report


def _report(model: torch.nn.Module, tokens: torch.Tensor, folder: Path) -> None:
    _title("Report")
    with _step("explain") as done:
        folder.mkdir(parents=True, exist_ok=True)
        with torch.no_grad():
            output = pellucid.explain(model)(tokens)
        path = output.to_html(folder / "report.html", title="GPT-2, as pellucid captured it")
        done(
            f"{output.graph_count} graph, {output.op_count} calls of functions, {len(output.out_guards)} guards: {path}"
        )


# ---- printing


def _title(text: str) -> None:
    print(f"\n{text}\n", flush=True)


def _show(text: str) -> None:
    """What goes on now, over the line before; only where somebody watches."""
    if sys.stdout.isatty():
        print(f"\r\x1b[K  {text} …", end="", flush=True)


@contextmanager
def _step(name: str):
    """A line that says what goes on, and in the end how long it took."""
    notes: list[str] = []
    _show(name)
    if not sys.stdout.isatty():
        print(f"  {name} …", end="", flush=True)
    start = time.perf_counter()
    yield lambda note="": notes.append(note)
    note = "".join(f"  {note}" for note in notes if note)
    lead = f"\r\x1b[K  {name} …" if sys.stdout.isatty() else ""
    print(f"{lead} {time.perf_counter() - start:.1f} s{note}", flush=True)


def _timed(call: Callable[[], _Result]) -> tuple[float, _Result]:
    start = time.perf_counter()
    result = call()
    return time.perf_counter() - start, result


def _table(head: tuple[str, ...], rows: list[tuple]) -> None:
    cells = [head, *(tuple(map(str, row)) for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(head))]
    print()
    for row in cells:
        print(
            "  "
            + "   ".join(
                cell.ljust(width) if i == 0 else cell.rjust(width)
                for i, (cell, width) in enumerate(zip(row, widths, strict=True))
            )
        )
    print(flush=True)


if __name__ == "__main__":
    sys.exit(main())
