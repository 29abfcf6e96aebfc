"""Runs one program eagerly and compiled, and compares what could be seen after each call.

A program is the text of a module with four functions: `inputs(variant)` gives fresh arguments and keywords, `f` is what is compiled,
`reset()` puts the module's state back, `change()` changes it. `TAKES_NUMBERS` may say which graphs the backend gets.
"""

from __future__ import annotations

import contextlib
import difflib
import gc
import io
import linecache
import random
import sys
import types
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import torch
from snapshot import Snapshot

import pellucid
from pellucid.errors import BackendCompilerFailed

FILENAME = "<fuzzed program>"
DRAWN, REFUSED = "torch's random numbers: ", "gradients raised: "
# Calls of one world: what happens before it, and which inputs it gets. The second call should find the first one's
# entry; the last ones those for any size and number.
SCHEDULE = (("reset", 0), ("reset", 0), ("", 0), ("change", 1), ("", 0), ("reset", 0), ("", 3), ("change", 2), ("", 5))


backend = ""  # name of the backend; "" for Counting


def own_autograd() -> bool:
    """The backend goes through AOTAutograd, which makes one node of autograd of each graph. It keeps other values for the
    backward graph than eager, so that only one of them may refuse to run backward because one was overwritten, or it
    refuses the graph; gradients are sums in another order, and zero where eager has none; random operators whose result
    nobody uses draw nothing, so that what is drawn then differs."""
    return backend not in ("", "eager")


class Refused(Exception):
    """The backend does not compile the program's graph."""


class Gradient(str):
    """A line about the gradient of a leaf. With a backend that differentiates the graph itself, lines of one leaf are equal
    when their numbers are close."""

    numbers: torch.Tensor | None

    @classmethod
    def of(cls, leaf: torch.Tensor) -> Gradient:
        line = cls(f"gradient: {leaf.tolist()!r} {leaf.grad}")
        line.leaf, line.numbers = leaf.tolist(), leaf.grad
        return line

    def __eq__(self, other: object) -> bool:
        if not own_autograd() or not isinstance(other, Gradient) or self.numbers is None or other.numbers is None:
            return str.__eq__(self, other)
        scale = self.numbers.abs().max().nan_to_num().item()
        close = torch.allclose(self.numbers, other.numbers, rtol=1e-3, atol=1e-4 * scale, equal_nan=True)
        return self.leaf == other.leaf and close

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__


@dataclass
class Report:
    """What the comparison of one program found."""

    difference: str = ""  # empty: none
    kind: str = ""  # what differs first, for keeping a difference the same while it is shrunk
    graphs: int = 0  # compiled in all calls
    nodes: int = 0
    one_graph: bool = False  # the first call is one graph, without a break
    invalid: bool = False  # not a program: it does not compile, or its own set-up fails
    raised: bool = False  # the first call ends with an exception


class Counting:
    """The backend "eager", counted. `takes_numbers`: as "eager" does; otherwise numbers and sizes that change come with torch's
    symbols, floats as tensors."""

    def __init__(self, takes_numbers: bool) -> None:
        self.graphs = self.nodes = 0
        self.takes_numbers = takes_numbers

    def __call__(self, gm, example_inputs):
        self.graphs += 1
        self.nodes += sum(node.op.startswith("call") for node in gm.graph.nodes)
        return gm.forward


class World:
    """One execution of the program's text, called several times."""

    collects = False
    forgets = False

    def __init__(self, source: str, compiled: bool) -> None:
        self.compiled = compiled
        linecache.cache[FILENAME] = (len(source), None, source.splitlines(keepends=True), FILENAME)
        self.module = types.ModuleType("fuzzed")
        self.module.torch = torch
        sys.modules["fuzzed"] = self.module
        self.seed()
        exec(compile(source, FILENAME, "exec"), self.module.__dict__)
        self.backend = Counting(getattr(self.module, "TAKES_NUMBERS", False))
        self.f = pellucid.compile(self.module.f, backend=backend or self.backend) if compiled else self.module.f

    def seed(self) -> None:
        random.seed(7)
        torch.manual_seed(7)
        torch.set_grad_enabled(True)

    def call(self, before: str, variant: int) -> list[str]:
        if self.collects:
            gc.collect()
        if self.forgets and not self.compiled:
            forget_types(self.module)
        if before:
            getattr(self.module, before)()
        args, kwargs = self.module.inputs(variant)
        arguments, keywords, printed = list(args), dict(kwargs), io.StringIO()
        view = Snapshot(FILENAME, nodes_named=not own_autograd())
        with contextlib.redirect_stdout(printed):
            try:
                result = self.f(*args, **kwargs)
            except (
                TimeoutError,
                RecursionError,
            ):  # not compared: how deep the stack is when it overflows is nobody's promise
                raise
            except BackendCompilerFailed as error:
                if not own_autograd():
                    raise
                raise Refused(str(error).replace("\n", " ")[:100]) from None
            except (Exception, SystemExit, KeyboardInterrupt) as error:
                view.add("raised", error)
                error.__traceback__ = None
            else:
                view.add("result", result)
        view.lines.append(f"printed: {printed.getvalue()!r}")
        for index, value in enumerate(arguments):
            view.add(f"args[{index}]", value)
        for name, value in keywords.items():
            view.add(f"kwargs[{name!r}]", value)
        view.namespace(self.module.__dict__)
        view.lines.append(f"random: {hash(random.getstate())}")
        view.lines.append(f"{DRAWN}{hash(bytes(torch.get_rng_state().tolist()))}")
        view.lines.append(f"grad enabled: {torch.is_grad_enabled()}")
        torch.set_grad_enabled(True)
        return view.seen() + gradients(view.tensors)


def gradients(tensors: list[torch.Tensor]) -> list[str]:
    """What the graphs behind `tensors` do when they run backward: the gradients of their leaves, as text."""
    roots = [t for t in tensors if t.grad_fn is not None and (t.is_floating_point() or t.is_complex())]
    if not roots:
        return []
    leaves, waiting, met = [t for t in tensors if t.is_leaf and t.requires_grad], [t.grad_fn for t in roots], set()
    while waiting:
        node = waiting.pop()
        if node is not None and node not in met:
            met.add(node)
            waiting += [following for following, _ in node.next_functions]
            leaves += [node.variable] if hasattr(node, "variable") else []
    leaves = list({id(leaf): leaf for leaf in leaves}.values())
    before = [leaf.grad for leaf in leaves]
    for leaf in leaves:
        leaf.grad = None
    try:
        total = sum((i + 1) * t.double().sum() for i, t in enumerate(roots))
        torch.autograd.backward(total, retain_graph=True)  # the next call may go on with these tensors
        # Which leaf is met first depends on the nodes between, so they come in the order of what they hold.
        told = [leaf for leaf in leaves if not own_autograd() or (leaf.grad is not None and leaf.grad.any())]
        return sorted(map(Gradient.of, told))
    except RuntimeError as error:
        return [f"{REFUSED}{error}"]
    finally:
        for leaf, grad in zip(leaves, before):
            leaf.grad = grad


def check(source: str, begin: Callable[[], object] = int, end: Callable[[], object] = int) -> Report:
    """Runs `source` in both worlds and says where they part. `begin` and `end` are called around the first eager run: a
    program that ends is one that differs, too, however long collecting takes before each of its calls."""
    report = compare(source, begin, end)
    if not report.difference or report.invalid:
        return report
    with collected():
        again = compare(source)
    if again.difference and not again.invalid:
        with forgotten():
            again = compare(source)
    if not again.difference or depends_on_depth(source):
        # What it does depends on when the collector finds its cycles, on how warm its code is, or on where the stack
        # ends.
        again.invalid = True
    return again


def depends_on_depth(source: str) -> bool:
    """It runs into the recursion limit and goes on."""

    def deeper(levels: int) -> list[list[str]]:
        return deeper(levels - 1) if levels else eager_calls(source)

    try:
        return eager_calls(source) != deeper(5)
    except RecursionError:
        return True


@contextlib.contextmanager
def collected():
    """The collector runs before each call, and never within."""
    World.collects = True
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        World.collects = False


@contextlib.contextmanager
def forgotten():
    """The eager calls run code that has not been specialised: CPython's superinstructions name another line for an unbound variable."""
    World.forgets = True
    try:
        yield
    finally:
        World.forgets = False


def forget_types(module: types.ModuleType) -> None:
    def cold(code: types.CodeType) -> types.CodeType:
        return code.replace(co_consts=tuple(cold(c) if isinstance(c, types.CodeType) else c for c in code.co_consts))

    for holder in [module, *(value for value in vars(module).values() if isinstance(value, type))]:
        for value in vars(holder).values():
            if isinstance(value, types.FunctionType) and value.__module__ == module.__name__:
                value.__code__ = cold(value.__code__)


def compare(source: str, begin: Callable[[], object] = int, end: Callable[[], object] = int) -> Report:
    report = Report()
    pellucid.reset()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            begin()
            expected, again = eager_calls(source), eager_calls(source)
            if expected != again:
                raise ValueError("two eager runs differ")
            end()
        except Exception as error:
            end()
            report.invalid, report.difference = True, f"{type(error).__name__}: {error}"
            return report
        report.raised = expected[0][0].startswith("raised:")
        pellucid.counters.clear()
        world = World(source, compiled=True)
        try:
            for number, step in enumerate(SCHEDULE):
                found = world.call(*step)
                report.graphs, report.nodes = world.backend.graphs, world.backend.nodes
                if backend:
                    report.graphs, report.nodes = pellucid.counters()["graphs"], pellucid.counters()["ops"]
                if number == 0:
                    report.one_graph = report.graphs == 1 and not pellucid.counters()["stops"]
                wanted = expected[number]
                if own_autograd() and (wanted[-1].startswith(REFUSED) or found[-1].startswith(REFUSED)):
                    wanted, found = without_gradients(wanted), without_gradients(found)
                if own_autograd() and drawn(found) != drawn(wanted):
                    report.invalid, report.difference = True, "unused random operators"
                    break
                if found != wanted:
                    report.difference = explain(number, wanted, found)
                    report.kind = kind_of(report.difference)
                    break
        except Refused as error:
            report.invalid, report.difference = True, f"refused: {error}"
        except Exception as error:  # the set-up works eagerly
            report.difference = f"outside of the call: {type(error).__name__}: {error}"
            report.kind = "outside"
    pellucid.reset()
    return report


def without_gradients(lines: list[str]) -> list[str]:
    return [line for line in lines if not isinstance(line, Gradient) and not line.startswith(REFUSED)]


def drawn(lines: list[str]) -> list[str]:
    return [line for line in lines if line.startswith(DRAWN)]


def eager_calls(source: str) -> list[list[str]]:
    world = World(source, compiled=False)
    return [world.call(*step) for step in SCHEDULE]


def explain(call: int, expected: list[str], found: list[str]) -> str:
    lines = [
        line for line in difflib.unified_diff(expected, found, lineterm="", n=0) if line[:2] not in ("--", "++", "@@")
    ]
    return "\n".join([f"call {call} (- eager, + compiled)", *(line[:300] for line in lines[:12])])


def kind_of(difference: str) -> str:
    """The first thing that differs, without what a smaller program changes (values, numbers of objects)."""
    first = difference.splitlines()[1] if "\n" in difference else difference
    head = first[1:].split(":")[0].split("[")[0].split(".")[0]
    return "call" if head in ("result", "raised") else head
