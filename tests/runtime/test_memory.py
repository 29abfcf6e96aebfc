"""Nothing grows, and nothing lives longer than in eager. The garbage collector is off throughout, so what eager frees at `del` must be free
at `del`; only the counts of live objects come after a collection, because torch.fx's own graphs are cyclic.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import logging
import sys
import types
import weakref

import pytest
import torch
from torch import nn

import pellucid
from support import SANITIZED, Counting, same

X = torch.arange(4.0)
Y = torch.randn(2, 4)


@pytest.fixture(autouse=True)
def no_collector():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(4, 8), nn.LayerNorm(8), nn.Linear(8, 4)
        self.table = {"scale": [1, 2]}

    def forward(self, x):
        self.calls = self.table["scale"][0]
        return self.last(torch.relu(self.norm(self.first(x)))) * self.table["scale"][1]


def containers(x, *rest, scale=2, **more):
    parts = [x * i + scale for i in range(3)]
    return {"first": parts[0], "all": parts, "count": len(rest) + len(more)}


def breaks(x):
    y = x + 1
    sys.stdout.write("")
    return y * 2


class Mallinfo2(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_size_t)
        for name in "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost".split()
    ]


LIBC = ctypes.CDLL(None)
LIBC.mallinfo2.restype = Mallinfo2


def allocated_mb() -> float:
    """What malloc has given and not taken back, in MB. The pages of the process say less: they depend on when malloc
    returns free ones to the system, so they may be more after each run although nothing is lost."""
    if SANITIZED:
        return 0.0
    info = LIBC.mallinfo2()
    return (info.uordblks + info.hblkhd) / 2**20


def growth(work, loops: int, warm: int = 40) -> tuple[int, int, float]:
    """How many objects, blocks of Python's allocator and MB are more after `loops` runs than after the first `warm`."""
    for _ in range(warm):
        work()
    gc.collect()
    objects, blocks, size = len(gc.get_objects()), sys.getallocatedblocks(), allocated_mb()
    for _ in range(loops):
        work()
    gc.collect()
    return len(gc.get_objects()) - objects, sys.getallocatedblocks() - blocks, allocated_mb() - size


def assert_no_growth(work, loops: int) -> None:
    seen = []
    for _ in range(3):  # allocators settle late, after other tests above all: what really grows, grows every time
        seen.append(growth(work, loops))
        objects, blocks, size = seen[-1]
        if objects < 20 and blocks < loops and size < 1:
            return
    raise AssertionError(f"(objects, blocks, MB) more: {seen}")


# ---- A43: cached calls


CALLS = {
    "function": lambda: (pellucid.compile(containers, backend="eager", fullgraph=True), (X, 1), {"scale": 3, "k": 1}),
    "module": lambda: (pellucid.compile(Net(), backend="eager", fullgraph=True), (Y,), {}),
    "break": lambda: (pellucid.compile(breaks, backend="eager"), (X,), {}),
}


@pytest.mark.parametrize("kind", CALLS)
def test_A43_cached_calls_grow_nothing(kind):
    f, args, kwargs = CALLS[kind]()
    watched = [f, *args, *kwargs.values(), None, True, (), torch.float32, type(f), pellucid, nn.Module, Net]
    references = []

    def work():
        f(*args, **kwargs)

    assert_no_growth(work, 10_000)
    for _ in range(3):
        references.append([sys.getrefcount(object_) for object_ in watched])
        for _ in range(1000):
            f(*args, **kwargs)
    assert all(abs(a - b) < 500 for a, b in zip(*references[1:], strict=True)), references


def test_A43_calls_of_an_eager_function_make_no_garbage():
    f = pellucid.compile(Net(), backend="eager", fullgraph=True)
    f(Y)
    gc.collect()
    before = len(gc.get_objects())
    for _ in range(1000):
        f(Y)
    assert len(gc.get_objects()) - before < 20  # no collection: there are no cycles


# ---- B18: compile and reset


def raises(x):
    y = x + 1
    raise ValueError(y.shape)


def wrong_shape(x):
    return x @ torch.ones(7, 7)


def failing_backend(gm, inputs):
    raise ValueError("bad")


def quietly(f, *args):
    try:
        f(*args)
    except (ValueError, RuntimeError):
        return True
    return False


def closure_over(x):
    scale = 3
    box = [x]

    def inner(y):
        nonlocal scale
        scale = scale + 1
        box.append(y)
        return y * scale

    return inner(x) + sum(inner(y) for y in box[:1])


COMPILES = {
    "function": (containers, "eager"),
    "module": (Net(), "eager"),
    "closure": (closure_over, "eager"),
    "break": (breaks, "eager"),
    "exception": (raises, "eager"),
    "operator fails": (wrong_shape, "eager"),
    "backend fails": (containers, failing_backend),
}


@pytest.mark.parametrize("kind", COMPILES)
def test_B18_compile_and_reset_grow_nothing(kind):
    target, backend = COMPILES[kind]
    f = pellucid.compile(target, backend=backend)
    x = Y if isinstance(target, nn.Module) else X
    references = []

    def work():
        quietly(f, x)
        pellucid.reset()
        references[1:] = [(sys.getrefcount(x), sys.getrefcount(target))]  # those of the first run and of the last

    assert_no_growth(work, 300)
    gc.collect()
    work()
    assert references[-1] == references[0]


def test_B18_training_steps_and_resets_grow_nothing():
    net = Net()
    f = pellucid.compile(net, backend="eager", fullgraph=True)

    def work():
        f(Y).sum().backward()
        net.zero_grad()
        pellucid.reset()

    assert_no_growth(work, 300)


@pytest.mark.parametrize("kind", [kind for kind, (_, backend) in COMPILES.items() if backend == "eager"])
def test_B18_compiles_leave_no_cycles(kind):
    """Backend "eager": not one object waits for a collection."""
    target, backend = COMPILES[kind]
    f = pellucid.compile(target, backend=backend)
    x = Y if isinstance(target, nn.Module) else X

    def work():
        quietly(f, x)
        pellucid.reset()

    for _ in range(40):
        work()
    gc.collect()
    before = len(gc.get_objects())
    for _ in range(300):
        work()
    assert len(gc.get_objects()) - before < 20
    if kind not in ("exception", "operator fails"):  # the traceback of a caught exception is in its frame's locals
        assert gc.collect() == 0


def cycles_of(objects: list) -> list[list]:
    """The strongly connected components with more than one object (Tarjan's algorithm)."""
    members = {id(o): o for o in objects}
    order, low, path, found = {}, {}, [], []
    on_path = set()
    for start in members:
        if start in order:
            continue
        work = [(start, None)]
        while work:
            at, rest = work.pop()
            if rest is None:
                order[at] = low[at] = len(order)
                path.append(at)
                on_path.add(at)
                rest = [id(o) for o in gc.get_referents(members[at]) if id(o) in members]
            while rest:
                other = rest[-1]
                if other not in order:
                    work += [(at, rest), (other, None)]
                    break
                rest.pop()
                if other in on_path:
                    low[at] = min(low[at], low[other])
            else:
                if low[at] == order[at]:
                    component = []
                    while not component or component[-1] != at:
                        component.append(path.pop())
                        on_path.discard(component[-1])
                    if len(component) > 1:
                        found.append([members[i] for i in component])
    return found


def test_cycles_of():
    a, b, c = [], [], []
    a.append(b), b.append(a), c.append(a)
    assert [{id(o) for o in cycle} for cycle in cycles_of([c, a, b])] == [{id(a), id(b)}]
    assert cycles_of([c, [c]]) == []


def cycles_of_compiles(dynamic: bool, compiles: int) -> list[list]:
    """With a backend that is called, and so gets a torch.fx.GraphModule."""
    f = pellucid.compile(Net(), backend=lambda gm, inputs: gm.forward, fullgraph=True, dynamic=dynamic)
    for _ in range(3):
        f(Y)
        pellucid.reset()
    gc.collect()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        for _ in range(compiles):
            f(Y)
            pellucid.reset()
        gc.collect()
        garbage = list(gc.garbage)
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
    assert garbage
    return cycles_of(garbage)


def test_B18_what_a_backend_was_given_is_cyclic_by_torch_fx():
    """The nodes of a torch.fx.GraphModule and its graph refer to each other, and GraphModule makes a class for each instance; classes are
    cyclic. That waits for a collection; no cycle goes through anything else of ours.
    """
    cycles = cycles_of_compiles(dynamic=False, compiles=10)
    assert len(cycles) == 2 * 10
    for cycle in cycles:
        makers = {type(o).__module__ for o in cycle if not isinstance(o, type)}
        assert makers <= {"builtins", "collections", "torch.fx.graph", "torch.fx.node", "torch.fx.graph_module"}, makers
        classes = [o for o in cycle if isinstance(o, type)]
        assert all(o.__qualname__ == "GraphModule.__new__.<locals>.GraphModuleImpl" for o in classes), classes
        assert classes or any(isinstance(o, torch.fx.Graph) for o in cycle)


def test_B18_open_sizes_are_cyclic_by_torch_only():
    """torch's fakes and their ShapeEnv are, what the first use of an operator on them makes, and the class for a change of torch's
    configuration."""
    cycles = cycles_of_compiles(dynamic=True, compiles=10)
    assert any("ConfigPatch" in repr(o) for cycle in cycles for o in cycle if isinstance(o, type))
    for cycle in cycles:
        makers = {type(o).__module__ for o in cycle} | {o.__module__ for o in cycle if isinstance(o, type)}
        makers |= {o.__module__ for o in cycle if isinstance(o, types.FunctionType)}
        assert not [maker for maker in makers if maker.startswith("pellucid")], makers


@pytest.mark.slow
def test_B18_aot_eager_grows_nothing(monkeypatch):
    """AOTAutograd itself grows: torch.fx keeps the source of every module that it generates (`linecache.cache`), torch._dynamo the
    trace of every metric that it sets. A control loop calls AOTAutograd with the graph that pellucid captured, without pellucid.
    """
    from torch._dynamo.backends.debugging import aot_eager
    from torch._dynamo.utils import clear_compilation_metrics
    from torch._guards import CompileContext, CompileId, TracingContext, compile_context, tracing
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    monkeypatch.setattr(logging.getLogger("torch.__trace"), "disabled", True)  # pytest keeps what is logged
    net = Net()
    f = pellucid.compile(net, backend="aot_eager", fullgraph=True)
    given = []
    pellucid.compile(net, backend=lambda gm, inputs: given.append((gm, inputs)) or gm.forward, fullgraph=True)(Y)
    ((gm, inputs),) = given
    gm.recompile()

    def control():
        context = TracingContext(FakeTensorMode(shape_env=ShapeEnv(), static_shapes=True))
        with compile_context(CompileContext(CompileId(frame_id=0, frame_compile_id=0))), tracing(context):
            compiled = aot_eager(gm, inputs)
        compiled(*inputs)[0].sum().backward()
        clear_compilation_metrics()

    def work():
        f(Y).sum().backward()
        pellucid.reset()
        clear_compilation_metrics()

    loops = 25
    alone, *_ = growth(control, loops, warm=10)
    ours, *_ = growth(work, loops, warm=10)
    assert alone >= 10 * loops
    assert ours - alone < 20, (ours, alone)


def test_B17_fresh_functions_and_models_grow_nothing():
    def work():
        def f(x):
            return x + 1

        pellucid.compile(f, backend="eager")(X)
        pellucid.compile(Net(), backend="eager")(Y)

        class Local(nn.Module):
            def forward(self, x):
                return x * 2

        pellucid.compile(Local(), backend="eager")(X)

    assert_no_growth(work, 100)


def test_recompiles_up_to_the_limit_grow_nothing(monkeypatch):
    monkeypatch.setattr(logging.getLogger("pellucid"), "disabled", True)  # pytest keeps what is logged

    def work():
        f = pellucid.compile(lambda x, k: x + k, backend="eager")
        for k in range(12):
            f(X, k)

    with pellucid.config.patch(recompile_limit=3):
        assert_no_growth(work, 60)


def test_events_are_bounded():
    f = pellucid.compile(lambda x: x + 1, backend="eager")
    for _ in range(1600):
        f(X)
        pellucid.reset()
    assert pellucid._core.next_event() > 4096 >= len(pellucid._core.events(0))


# ---- inputs, intermediates and outputs die when eager's do


def test_A43_inputs_are_freed():
    f = pellucid.compile(containers, backend="eager", fullgraph=True)
    for _ in range(3):
        x = torch.ones(5)
        watch = weakref.ref(x)
        f(x)
        del x
        assert watch() is None


@pytest.mark.parametrize("kind", ["break", "exception", "operator fails", "backend fails"])
def test_A43_inputs_are_freed_after_a_failure(kind):
    target, backend = COMPILES[kind]
    importlib.import_module("pellucid.backends.tracing_context")  # what torch loads keeps the frames that asked for it
    f = pellucid.compile(target, backend=backend)
    for _ in range(3):
        x = torch.ones(5)
        watch = weakref.ref(x)
        quietly(f, x)
        del x
        assert watch() is None


def test_A43_inputs_are_freed_when_a_backend_takes_constants_only(caplog):
    """Whoever keeps records of the log keeps no input with them."""

    def backend(gm, example_inputs):
        if any(isinstance(size, torch.SymInt) for x in example_inputs for size in [x, *getattr(x, "shape", ())]):
            raise ValueError("constants only")
        return gm.forward

    importlib.import_module("pellucid.backends.tracing_context")
    f = pellucid.compile(lambda x: x.view(x.shape[0], -1) + 1, backend=backend, dynamic=True)
    for length in 5, 6:
        x = torch.ones(length)
        watch = weakref.ref(x)
        assert same(f(x), torch.full((length, 1), 2.0))
        del x
        assert watch() is None
    assert any("constants only" in record.getMessage() for record in caplog.records)


def test_A43_inputs_are_freed_after_an_error_with_fullgraph():
    f = pellucid.compile(breaks, backend="eager", fullgraph=True)
    for _ in range(2):
        x = torch.ones(5)
        watch = weakref.ref(x)
        assert quietly(f, x)
        del x
        assert watch() is None


@pytest.mark.parametrize("requires_grad", [False, True])
def test_A43_outputs_and_intermediates_are_freed(requires_grad):
    """Storages are watched, since tensors of the graph are never seen by the program."""
    alive = weakref.WeakSet()

    def spy(x):
        alive.add(x.untyped_storage())
        return x

    def backend(gm, inputs):
        for node in list(gm.graph.nodes):
            if node.op in ("call_function", "call_method"):
                with gm.graph.inserting_after(node):
                    seen = gm.graph.call_function(spy, (node,))
                node.replace_all_uses_with(seen, delete_user_cb=lambda user, seen=seen: user is not seen)
        gm.recompile()
        return gm.forward

    f = pellucid.compile(lambda x: ((x * 2).exp() + 1).relu(), backend=backend, fullgraph=True)
    for _ in range(2):
        y = f(torch.ones(5, requires_grad=requires_grad))
        assert len(alive) >= 1
        if requires_grad:
            y.sum().backward()
        del y
        assert len(alive) == 0


def test_A43_intermediates_die_inside_the_graph():
    """At most two of the big intermediates live at once, as in eager."""
    sizes = []

    def measured(x):
        sizes.append(sum(watch() is not None for watch in watches))
        watches.append(weakref.ref(x.untyped_storage()))
        return x

    watches: list = []

    def backend(gm, inputs):
        def run(x):
            return gm.forward(x)

        return run

    def f(x):
        for _ in range(6):
            x = x + 1
        return x

    compiled = pellucid.compile(f, backend=backend, fullgraph=True)
    x = torch.ones(250_000)
    compiled(x)
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as prof:
        compiled(x)
    live = peak = 0
    for event in prof.profiler.kineto_results.events():
        if event.name() == "[memory]":
            live += event.nbytes()
            peak = max(peak, live)
    assert 0 < peak <= 2 * 1_000_000 + 4096


def test_A43_models_are_freed():
    for backend in ("eager", Counting()):
        net = Net()
        parameter, module = weakref.ref(net.first.weight), weakref.ref(net)
        compiled = pellucid.compile(net, backend=backend, fullgraph=True)
        compiled(Y).sum().backward()
        del net, compiled
        if not isinstance(backend, str):
            backend.graphs.clear()
        assert module() is None and parameter() is None


def test_A43_a_model_given_as_argument_is_freed():
    f = pellucid.compile(lambda net, x: net(x) + 1, backend="eager", fullgraph=True)
    for _ in range(3):
        net = Net()
        watch = weakref.ref(net), weakref.ref(net.first.weight), weakref.ref(net.norm)
        f(net, Y)
        del net
        assert [w() for w in watch] == [None] * 3


def test_A43_models_are_freed_after_a_break():
    class Breaking(Net):
        def forward(self, x):
            sys.stdout.write("")
            return super().forward(x)

    net = Breaking()
    watch = weakref.ref(net), weakref.ref(net.first.weight)
    compiled = pellucid.compile(net, backend="eager")
    compiled(Y), compiled(Y)
    del net, compiled
    assert [w() for w in watch] == [None, None]


# ---- B17: what the program made is not kept by us


def module_of(text: str) -> types.ModuleType:
    module = types.ModuleType("scratch")
    exec(text, module.__dict__)
    return module


SCRATCH = """
class Scale:
    def __init__(self, by):
        self.by = by
class Config:
    scale = 2
config = Config()
scales = [Scale(1), Scale(2)]
def helper(x):
    return x * config.scale + scales[1].by
def f(x):
    return helper(x) + 1
"""


@pytest.mark.parametrize("how", ["drop", "reset"])
def test_B17_globals_and_code_are_freed(how):
    module = module_of(SCRATCH)
    compiled = pellucid.compile(module.f, backend="eager", fullgraph=True)
    compiled(X)
    watch = {name: weakref.ref(getattr(module, name)) for name in ("f", "helper", "Config", "Scale", "config")}
    watch["code"] = weakref.ref(module.helper.__code__)
    watch["module"] = weakref.ref(module)
    if how == "reset":
        pellucid.reset()
        del module.__dict__["helper"], module.__dict__["config"], module.__dict__["scales"]
        gc.collect()  # classes are cyclic in CPython
        assert watch["helper"]() is None and watch["code"]() is None and watch["config"]() is None
    else:
        del compiled
        del module
        gc.collect()  # functions and their globals are cyclic in CPython
        assert {name for name, w in watch.items() if w() is not None} == set()


def test_B17_without_cycles_of_its_own_a_function_dies_at_once():
    def make():
        box = Net()
        return (lambda x: box(x) + 1), box

    f, box = make()
    watch = weakref.ref(f), weakref.ref(box)
    compiled = pellucid.compile(f, backend="eager", fullgraph=True)
    compiled(Y)
    del f, box, compiled
    assert watch[0]() is None and watch[1]() is None


def test_B18_reset_frees_graph_and_backend_result():
    class Result:
        def __init__(self, gm):
            self.gm = gm

        def __call__(self, *args):
            return self.gm.forward(*args)

    made = []

    def backend(gm, inputs):
        result = Result(gm)
        made.append(weakref.ref(result))
        return result

    f = pellucid.compile(containers, backend=backend, fullgraph=True)
    f(X)
    assert made[0]() is not None
    pellucid.reset()
    assert made[0]() is None


def test_a_tensor_made_for_the_graph_dies_with_the_entry():
    scale = torch.ones(4)
    watch = weakref.ref(scale)
    f = pellucid.compile(eval("lambda x: x * scale", {"scale": scale}), backend="eager", fullgraph=True)
    f(X)
    f.__globals__.clear()
    del scale
    assert watch() is None


def test_subclass_and_enum_in_the_region_are_freed():
    def work():
        import collections
        import enum

        class Colour(enum.Enum):
            RED = 1

        Pair = collections.namedtuple("Pair", "a b")

        class Wrapper(list):
            pass

        def f(x):
            pair = Pair(x, Colour.RED)
            items = Wrapper([pair.a])
            return (items[0] + pair.b.value, isinstance(items, list))

        f = pellucid.compile(f, backend="eager")
        f(X)
        return weakref.ref(Colour), weakref.ref(Pair), weakref.ref(Wrapper)

    watches = work()
    gc.collect()
    assert [watch() for watch in watches] == [None] * 3
