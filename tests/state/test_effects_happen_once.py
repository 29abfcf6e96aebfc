"""What a region leaves behind: nothing to compute, identity, effects once and in order (docs/feature_rows.md, C10 to C13)."""

import logging
import zlib

import pytest
import torch

import pellucid
from support import Plain, same

X = torch.arange(1.0, 4.0)
SHARED = [1, 2]
log = logging.getLogger("rows")


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
    box, eager = (Plain(count=0, items=[], table={}) for _ in range(2))
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
        made = Plain(x=x + 1)
        state.items.append(made)
        log.warning("made %s", "it")
        return made

    state = Plain(items=[])
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
