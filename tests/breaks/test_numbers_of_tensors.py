"""What a program reads of tensors is in the graph of a backend that takes numbers of Python: item(), float(), int() and
tolist(), with what is computed of them. What the program goes by ends the region, and eager is the specification."""

from __future__ import annotations

import math
import typing

import pytest
import torch

import pellucid
from support import Counting

T = torch.tensor
CALLS = [
    T([1.0, 2.0]),
    T([0.0, 1.0]),
    T([3.0, -2.5]),
    T([2.0, math.nan]),
    T([1.0, math.inf]),
    T([-1.0, -0.0]),
    T([-math.inf, 4.0]),
    T([1e30, 7.0]),
]


def outcome(f, x):
    """The result or the exception in words that tell NaN and -0.0, and what became of the argument."""
    x = x.clone()
    torch.manual_seed(0)
    try:
        result = f(x)
    except Exception as error:
        result = (type(error), str(error))
    return repr(result), repr(x), x._version, torch.rand(()).item()


def moved(x):
    return (x * 2).sum().item(), x + 1


def listed(x):
    return (x * 2).tolist(), x * float(x[0])


def text(x):
    return f"{x[0].item():.2f} {x[1].item()}", x + 1


def computed(x):
    total = 0.0
    for i in range(2):
        total += x[i].item()
    return total, x * total, total * 0.0, -total


def before_and_behind_a_write(x):
    old = x[0].item()
    x.add_(1)
    return old, x[0].item(), x


def through_a_view(x):
    first = x[:1]
    x.mul_(3)
    return first.item(), x.view(-1, 1)[1].item()


def written_by_the_number(x):
    x.fill_(x.sum().item())
    return x


def random_one(x):
    return torch.rand(()).item(), x * torch.rand(2)


def greatest(x):
    return max(x[0].item(), -math.inf), max(-math.inf, x[1].item()), min(math.inf, x[1].item()), x + 1


def with_an_endless_one(x):
    return x[1].item() * math.inf, x[1].item() + math.inf, x + 1


def kinds(x):
    y = x.nan_to_num(0, 0, 0).clamp(-9, 9)
    values = [y.to(dtype)[0].item() for dtype in (torch.float16, torch.bfloat16, torch.float64, torch.int8, torch.bool)]
    return values, [type(value) for value in values], int(y[1]), x + 1


def in_a_dict(x):
    return {"loss": x.sum().item(), "x": x + 1}


def cast(x):
    return x * typing.cast(float, x[0].item() * 2), x + 1


def for_each_tensor(x):
    numbers = [value.item() for value in x]
    y = torch._foreach_mul([x, x + 1], numbers)
    torch._foreach_add_(y, numbers[0])
    torch._foreach_sub_(y, numbers)
    torch._foreach_addcmul_(y, [x, x], [x, x], numbers)
    torch._foreach_addcdiv_(y, [x, x], [x + 3, x], scalars=numbers)
    torch._foreach_lerp_(y, [x, x], numbers[1])
    return torch._foreach_maximum(y, numbers), torch._foreach_clamp_max(y, numbers), torch._foreach_pow(y, numbers)


IN_ONE_GRAPH = [
    cast,
    for_each_tensor,
    moved,
    listed,
    text,
    computed,
    before_and_behind_a_write,
    through_a_view,
    written_by_the_number,
    random_one,
    greatest,
    with_an_endless_one,
    kinds,
    in_a_dict,
]


@pytest.mark.parametrize("backend", ["eager", "counting"])
@pytest.mark.parametrize("f", IN_ONE_GRAPH)
def test_one_graph(f, backend):
    counting = Counting()
    compiled = pellucid.compile(f, backend=counting if backend == "counting" else backend)
    for x in CALLS:
        assert outcome(compiled, x) == outcome(f, x)
    assert not pellucid.break_reasons(compiled) and len(pellucid.cache_entries(compiled)) == 1
    assert counting.count == (backend == "counting")


def branch(x):
    y = x * 2
    if y.sum().item() > 3:
        return y + 1
    return y - 1


def branch_behind_arithmetic(x):
    half = x.sum().item() / 2
    x.add_(1)
    return x * half if half >= 1 or half < -1 else x - half


def truth(x):
    return x + 1 if x[0].item() else x - 1


def not_a_number(x):
    value = x[1].item()
    return (x + 1, value) if math.isnan(value) else (x * value, value)


def equal_to_itself(x):
    value = x[1].item()
    return x + 1 if value == value else x - 1


def key(x):
    return {1.0: x + 1, 3.0: x - 1}.get(x[0].item(), x)


def index(x):
    return [x, x + 1, x + 2, x + 3][int(x[0])]


def count(x):
    total = x
    for i in range(int(x.nan_to_num(0, 0, 0)[0].clamp(0, 4))):
        total = total + i
    return total


def divided(x):
    return x + 1 / x[0].item()


@pytest.mark.parametrize(
    "f", [branch, branch_behind_arithmetic, truth, not_a_number, equal_to_itself, key, index, count]
)
def test_what_the_program_goes_by_ends_the_region(f):
    counting = Counting()
    compiled = pellucid.compile(f, backend=counting)
    for _ in range(2):
        for x in CALLS:
            assert outcome(compiled, x) == outcome(f, x)
    assert counting.count >= 1
    assert {record.name for record in pellucid.break_reasons(compiled)} == {"DataDependent"}


def root(x):
    """Of negative numbers it is complex."""
    return x * x[0].item() ** 0.5, torch._foreach_mul([x, x], [value.item() ** 0.5 for value in x])


@pytest.mark.parametrize("backend", ["eager", "counting"])
def test_powers_that_may_be_complex(backend):
    counting = Counting()
    compiled = pellucid.compile(root, backend=counting if backend == "counting" else backend)
    for x in (CALLS[0], T([0.0, 4.0])):
        assert outcome(compiled, x) == outcome(root, x)
    assert not pellucid.break_reasons(compiled) and len(pellucid.cache_entries(compiled)) == 1
    for x in CALLS:
        assert outcome(compiled, x) == outcome(root, x)


def two_elements(x):
    return (x + 1).item()


@pytest.mark.parametrize("f", [divided, two_elements])
def test_exceptions_are_the_programs_own(f):
    compiled = pellucid.compile(f, backend=Counting())
    for x in [*CALLS, T([0.0, -1.0])]:
        assert outcome(compiled, x) == outcome(f, x)


def test_a_number_that_only_moves_asserts_nothing_and_nothing_is_kept_for_it():
    counting = Counting()
    compiled = pellucid.compile(before_and_behind_a_write, backend=counting)
    compiled(T([1.0, 2.0]))
    (graph,) = counting.graphs
    assert not [node for node in graph.graph.nodes if "_assert" in str(node.target)]
    kept = pellucid.counters()["kept_bytes"]
    compiled = pellucid.compile(before_and_behind_a_write, backend="eager")
    x = torch.full((1000,), math.nan)
    for _ in range(2):
        assert outcome(compiled, x) == outcome(before_and_behind_a_write, x)
    assert pellucid.counters()["kept_bytes"] - kept < 1000  # its version, but not its data


def test_a_long_list_is_one_step_at_a_break():
    def f(x):
        return (x * 2).tolist(), x + 1

    x = torch.arange(65.0)
    compiled = pellucid.compile(f, backend="eager")
    assert outcome(compiled, x) == outcome(f, x) and outcome(compiled, x[:64]) == outcome(f, x[:64])
    assert len(pellucid.break_reasons(compiled)) == 1
    whole = pellucid.compile(f, backend="eager", fullgraph=True)
    assert outcome(whole, x) == outcome(f, x)


def test_gradients_flow_past_it():
    def f(x):
        scale = x.detach().sum().item()
        return (x * x * scale).sum(), scale

    results = []
    counting = Counting()
    for function in (f, pellucid.compile(f, backend=counting)):
        x = T([1.0, 2.0], requires_grad=True)
        loss, scale = function(x)
        loss.backward()
        results.append((loss.item(), scale, x.grad.tolist()))
    assert results[0] == results[1] and counting.count == 1


def test_a_training_step_with_its_loss_as_a_number():
    def step(model, optimizer, x):
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.item()

    losses = []
    for around in (lambda f: f, lambda f: pellucid.compile(f, backend="eager")):
        torch.manual_seed(0)
        model = torch.nn.Linear(3, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        function = around(step)
        losses.append([function(model, optimizer, torch.ones(4, 3)) for _ in range(4)])
    assert losses[0] == losses[1]
