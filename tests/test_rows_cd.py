"""What a region leaves behind, and the contract with backends, row by row (docs/feature_rows.md)."""

import inspect
import logging
import traceback
import zlib

import pytest
import torch
from runtime_common import outcome, same

import pellucid
from pellucid.errors import BackendCompilerFailed

X = torch.arange(1.0, 4.0)
SHARED = [1, 2]
log = logging.getLogger("rows")


def placeholders(gm):
    return gm.graph.find_nodes(op="placeholder")


# ---- C10, C11: what is no work of the graph


def test_C10_nothing_to_compute_calls_no_backend(counting):
    def f(x):
        return x

    compiled = pellucid.compile(f, backend=counting, fullgraph=True)
    assert compiled(X) is X and compiled(X) is X
    (entry,) = pellucid.cache_entries(compiled)
    assert counting.count == 0 and entry["hits"] == 1


def test_C10_a_graph_with_effects_only_is_called():
    calls = []

    def backend(gm, inputs):
        calls.append(gm)
        return lambda *args: calls.append(args) or gm.forward(*args)

    def f(x):
        x.add_(1)

    compiled, x = pellucid.compile(f, backend=backend, fullgraph=True), torch.zeros(3)
    assert compiled(x) is None and x.tolist() == [1, 1, 1]
    assert compiled(x) is None and x.tolist() == [2, 2, 2]
    assert len(calls) == 3 and calls[0].graph.output_node().args == ((),)


def test_C11_inputs_and_globals_keep_their_identity(counting):
    def f(x, nested):
        return x, x + 1, SHARED, nested, nested["x"]

    compiled = pellucid.compile(f, backend=counting, fullgraph=True)
    for _ in range(2):
        x, nested = torch.ones(3), {"x": torch.zeros(2)}
        result = compiled(x, nested)
        assert result[0] is x and result[2] is SHARED and result[3] is nested and result[4] is nested["x"]
        assert torch.equal(result[1], x + 1)
    assert counting.count == 1


# ---- C12, C13: effects


class Box:
    def __init__(self, **attributes):
        self.__dict__.update(attributes)


def effects(box, x):
    box.count += 1
    box.items.append(x + box.count)
    box.table["last"] = box.items
    made = [x * 2]
    box.first, box.second = made, {"made": made}
    made.append(made)
    return made


def break_that_reads(box, x):
    made = effects(box, x)
    check = zlib.crc32(str([box.count, len(box.items), list(box.table), len(made)]).encode())
    return x + check % 1000, made


@pytest.mark.parametrize(("f", "captured"), [(effects, True), (break_that_reads, False)])
def test_C12_effects_happen_once_and_new_objects_are_one(counting, f, captured):
    compiled = pellucid.compile(f, backend=counting)
    box, eager = (Box(count=0, items=[], table={}) for _ in range(2))
    items = box.items
    for n in (1, 2, 3):
        got, want = compiled(box, X), f(eager, X)
        made = got if captured else got[1]
        assert captured or same(got[0], want[0])
        assert box.first is made and box.second["made"] is made and made[1] is made and same(made[0], X * 2)
        assert box.items is items is box.table["last"] and box.count == eager.count == n
        assert same(box.items, eager.items) and len(box.items) == n
    assert counting.count > 0  # of the second function, the part that can be captured
    assert [record.name for record in pellucid.break_reasons(compiled)] == ([] if captured else ["UntracedCallable"])


def test_C13_hook_logging_and_mutation(counting, caplog):
    seen = []

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(3, 3)
            self.calls = 0

        def forward(self, x):
            log.warning("forward %d of %s", 1, type(self).__name__)
            self.calls += 1
            self.last = [self.linear(x)]
            log.warning("done")
            return self.last[0] + 1

    def hook(module, args, result):
        log.warning("hook")
        seen.append(result)
        return result * 2

    torch.manual_seed(0)
    net = Net()
    net.linear.register_forward_hook(hook)
    with caplog.at_level(logging.WARNING, logger="rows"):
        want = net(X)
        messages, eager_seen = [r.getMessage() for r in caplog.records], list(seen)
        caplog.clear(), seen.clear()
        with pellucid.config.patch(reorderable_logging_functions={logging.Logger.warning}):
            compiled = pellucid.compile(net, backend=counting, fullgraph=True)
            got = compiled(X)
    assert same(got, want) and same(seen, eager_seen) and counting.count == 1
    assert [r.getMessage() for r in caplog.records] == messages == ["forward 1 of Net", "hook", "done"]
    assert net.calls == 2 and same(net.last[0] + 1, got)


@pytest.mark.parametrize("registered", [True, False])
def test_C13_a_handler_of_the_program_sees_the_mutations_before(registered):
    order = []

    class Watch(logging.Handler):
        def emit(self, record):
            order.append((record.args, len(state.items)))

    def f(x):
        made = Box(x=x + 1)
        state.items.append(made)
        log.warning("made %s", "it")
        return made

    state = Box(items=[])
    handler = Watch()
    log.addHandler(handler)
    try:
        functions = {logging.Logger.warning} if registered else set()
        with pellucid.config.patch(reorderable_logging_functions=functions):
            compiled = pellucid.compile(f, backend="eager", fullgraph=registered)
            made = compiled(X)
    finally:
        log.removeHandler(handler)
    assert order == [(("it",), 1)] and state.items == [made] and same(made.x, X + 1)


# ---- C17, C18: what emitted code looks like


def plain(a, b, c=3):
    return a + b * c


def everything(a, /, b, *rest, k=2, **extra):
    return a + b + sum(rest) + k + extra.get("z", 0)


@pytest.mark.parametrize("f", [plain, everything])
def test_C17_a_compiled_function_stands_in_for_the_original(counting, f):
    compiled = pellucid.compile(f, backend=counting, fullgraph=True)
    assert inspect.signature(compiled) == inspect.signature(f) and compiled.__code__ is f.__code__
    calls = [((X, 1), {}), ((X, 1, 2), {}), ((X,), {"b": 4})]
    if f is everything:
        calls += [((X, 1, 2, 3), {"k": 5}), ((X, 1), {"z": 7, "k": 1})]
    for args, kwargs in calls * 2:
        assert same(compiled(*args, **kwargs), f(*args, **kwargs))
    assert counting.count == len(calls)
    assert outcome(compiled)[:2] == outcome(f)[:2] == ("raises", TypeError) and outcome(compiled) == outcome(f)


def test_C17_code_of_a_region():
    factor = 3

    def f(x, y=2):
        inner = lambda: x * factor + y  # noqa: E731
        return inner()

    compiled = pellucid.compile(f, backend="eager", fullgraph=True)
    assert same(compiled(X), X * 3 + 2)
    (entry,) = pellucid.cache_entries(compiled)
    code, original = entry["code"], f.__code__
    assert code.co_argcount == original.co_argcount and code.co_flags == original.co_flags
    assert code.co_varnames[:2] == original.co_varnames[:2] and code.co_freevars == original.co_freevars == ("factor",)
    assert entry["function"].__closure__ == f.__closure__
    assert same(entry["function"](X, 2), f(X))  # a function that can be called in its place


tmp_0 = 1


def users_names(x, graph_out_0, __compiled_fn_0):
    random_values_0, out, add, new_list = 1, 2, 3, [x]
    new_list.append(new_list)
    value = x + tmp_0 + graph_out_0 + __compiled_fn_0 + random_values_0 + out + add
    return new_list, value, [value], graph_out_0


def test_C18_names_of_the_user(counting):
    compiled = pellucid.compile(users_names, backend=counting, fullgraph=True)
    for _ in range(2):
        new_list, value, (again,), given = compiled(X, 10, 100)
        assert new_list[0] is X and new_list[1] is new_list and again is value and given == 10
        assert same(value, X + 117)
    assert counting.count == 1


# ---- D01, D02, D03: the contract with the backend


def two(x, y):
    return x + y, x * y


class Wrapper:
    def __init__(self, gm):
        self.gm = gm

    def __call__(self, *args):
        return self.gm.forward(*args)


@pytest.mark.parametrize(
    "wrap",
    [
        lambda gm: gm,
        lambda gm: gm.forward,
        Wrapper,
        lambda gm: lambda *args: list(gm.forward(*args)),
        lambda gm: torch.fx.Interpreter(gm).run,
    ],
    ids=["module", "forward", "object", "gives_a_list", "interpreter"],
)
def test_D01_what_a_backend_may_give(wrap):
    given = []

    def backend(gm, example_inputs):
        given.append((gm, example_inputs))
        return wrap(gm)

    compiled = pellucid.compile(two, backend=backend, fullgraph=True)
    for x in (X + 1, X + 2):
        assert same(compiled(x, X), two(x, X))
    ((gm, inputs),) = given
    assert isinstance(gm, torch.fx.GraphModule) and type(inputs) is list


def test_D01_the_graph_is_called_positionally():
    calls = []

    def backend(gm, example_inputs):
        def run(*args, **kwargs):
            calls.append((args, kwargs))
            return gm.forward(*args)

        return run

    compiled = pellucid.compile(two, backend=backend, fullgraph=True)
    a, b = torch.ones(3), torch.zeros(3)
    compiled(a, b), compiled(x=b, y=a)
    assert [kwargs for _, kwargs in calls] == [{}, {}]
    assert [[t is s for t, s in zip(args, want)] for (args, _), want in zip(calls, [(a, b), (b, a)])] == [
        [True] * 2
    ] * 2


@pytest.mark.parametrize("result", [None, 3, "text"])
def test_D01_what_cannot_be_called(result):
    compiled = pellucid.compile(two, backend=lambda gm, example_inputs: result)
    with pytest.raises(BackendCompilerFailed, match="did not return callable"):
        compiled(X, X)


def test_D02_example_inputs_are_the_real_tensors_in_order():
    given = []

    def backend(gm, example_inputs):
        given.append((gm, list(example_inputs)))
        return gm.forward

    net = torch.nn.Linear(3, 3)

    def f(unused, x, box):
        return net(box["b"]) + x

    unused, x, box = torch.ones(9), torch.ones(3), {"a": torch.ones(2), "b": torch.zeros(3)}
    assert same(pellucid.compile(f, backend=backend, fullgraph=True)(unused, x, box), f(unused, x, box))
    ((gm, examples),) = given
    scope = {"L": {"unused": unused, "x": x, "box": box, "net": net}}
    sources = [node._dynamo_source.name for node in placeholders(gm)]
    assert len(examples) == len(sources) == 4
    for example, source in zip(examples, sources, strict=True):
        assert example is eval(source, scope)


@pytest.mark.parametrize(
    ("f", "count"),
    [
        (lambda x: x + 1, 1),
        (lambda x: [x + 1], 1),
        (lambda x: {"a": x + 1, "b": (x * 2, x)}, 2),
        (lambda x: ((x + 1).shape, x.sin().dtype), 0),
    ],
    ids=["one", "list", "dict", "none"],
)
def test_D03_the_output_is_one_tuple_of_the_live_values(counting, f, count):
    compiled = pellucid.compile(f, backend=counting, fullgraph=True)
    assert same(compiled(X), f(X))
    (gm,) = counting.graphs
    (values,) = gm.graph.output_node().args
    assert type(values) is tuple and len(values) == count
    assert type(gm.forward(X)) is tuple and len(gm(X)) == count


# ---- D05: what the graph module says of itself


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3))

    def forward(self, x):
        return self.layers(x).relu()


def test_D05_reason_names_and_sources(counting):
    model = Model()

    def f(x):
        y = model(x)
        return y + 1

    x = torch.randn(2, 3)
    compiled = pellucid.compile(f, backend=counting, fullgraph=True)
    compiled(x), compiled(torch.randn(4, 3))
    gm, later = counting.graphs
    reason = gm.compile_subgraph_reason
    assert (reason.reason, reason.graph_break) == ("return_value", False)
    (frame,) = reason.user_stack
    assert (frame.filename, frame.name, frame.lineno) == (__file__, "f", f.__code__.co_firstlineno + 2)
    assert frame.line == "return y + 1"
    assert repr(gm) == "GraphModule()"
    assert gm.graph.owning_module is gm  # the rest is filled in when somebody looks
    scope = {"L": {"model": model, "x": x}}
    names = gm._param_name_to_source
    tensors = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    assert set(names) == {f"model.{name}" for name in tensors}
    assert all(eval(names[f"model.{name}"].name, scope) is tensor for name, tensor in tensors.items())
    flat = gm.meta["dynamo_flat_name_to_original_fqn"]
    assert flat == {"L__model___" + name.replace(".", "_"): name for name in tensors}
    assert gm._source_to_user_stacks == {}  # of symbols: static shapes have none
    first, second = gm.meta["dynamo_compile_id"], later.meta["dynamo_compile_id"]
    assert first.frame_id == second.frame_id and (first.frame_compile_id, second.frame_compile_id) == (0, 1)
    assert str(second) == f"{second.frame_id}/1"


# ---- D10, D14, D16


def test_D10_a_failing_backend():
    def breaks_down(gm, example_inputs):
        raise KeyError("inner text")

    compiled = pellucid.compile(two, backend=breaks_down)
    for _ in range(2):
        with pytest.raises(BackendCompilerFailed) as caught:
            compiled(X, X)
        error = caught.value
        assert type(error.inner_exception) is KeyError and error.backend_name == "breaks_down"
        assert "backend='breaks_down' raised:\nKeyError: 'inner text'" in str(error)
        assert 'raise KeyError("inner text")' in "".join(traceback.format_tb(error.__traceback__))
    assert pellucid.cache_entries(compiled) == []


def test_D14_torch_state_while_the_backend_runs():
    seen = []

    def backend(gm, example_inputs):
        seen.append((torch.is_grad_enabled(), torch.is_autocast_enabled("cpu"), torch.get_default_dtype()))
        torch.set_grad_enabled(True)
        torch.set_autocast_enabled("cpu", True)
        return gm.forward

    def f(x):
        y = x * 2
        torch._C._set_grad_enabled(False)
        return y, x * 3

    compiled = pellucid.compile(f, backend=backend, fullgraph=True)
    w = torch.ones(3, requires_grad=True)
    for _ in range(2):
        try:
            y, z = compiled(w)
            assert not torch.is_grad_enabled() and not torch.is_autocast_enabled("cpu")
        finally:
            torch.set_grad_enabled(True)
        assert y.requires_grad and not z.requires_grad
    assert seen == [(True, False, torch.float32)]


@pytest.mark.parametrize(
    ("f", "inputs", "calls"),
    [
        (lambda x, y, z: (x, y, z)[0] + [y, z][0], ["l_x_", "l_y_"], ["add"]),
        (lambda x, y, z: x + [y, z][-2] if z is not y else x, ["l_x_", "l_y_"], ["add"]),
        # a dead call stays: it may fail when it runs
        (lambda x, y, z: (x + y, z.sin())[0], ["l_x_", "l_y_", "l_z_"], ["add", "sin"]),
        (lambda x, y, z: (x + y, z.sum(0)[None])[0], ["l_x_", "l_y_", "l_z_"], ["add", "sum_1"]),
    ],
)
def test_D16_unused_inputs_and_dead_reads_go(counting, f, inputs, calls):
    compiled = pellucid.compile(f, backend=counting, fullgraph=True)
    y, z = X + 1, X + 2
    assert same(compiled(X, y, z), f(X, y, z))
    (gm,) = counting.graphs
    assert [node.name for node in placeholders(gm)] == inputs
    assert [node.name for node in gm.graph.nodes if node.op.startswith("call")] == calls
