"""Steps of optimizers whose numbers change at each call (learning rates, momenta, betas by schedulers), in graphs for
compilers, in which such a number is a tensor: a few graphs for all of them, and eager's values."""

from __future__ import annotations

import copy
import random

import pytest
import torch
from torch import nn

import pellucid
from support import CountingOf

OPTIMIZERS = {
    "SGD": {"lr": 0.05, "momentum": 0.9},
    "SGD-nesterov": {"lr": 0.05, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01},
    "Adam": {"lr": 0.01},
    "Adam-amsgrad": {"lr": 0.01, "amsgrad": True, "weight_decay": 0.01},
    "AdamW": {"lr": 0.01},
    "NAdam": {"lr": 0.01},
    "RAdam": {"lr": 0.01},
    "Adamax": {"lr": 0.01},
    "RMSprop": {"lr": 0.01, "momentum": 0.9, "centered": True},
    "Adagrad": {"lr": 0.05},
    "Adadelta": {"lr": 0.5},
}
SCHEDULERS = {
    "cosine": lambda optimizer: torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 40),
    "one cycle": lambda optimizer: torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.05, total_steps=40),
}
STEPS = 10
# Where torch's code knows that it is compiled, the powers of betas are computed of the step counts, which are float32.
ROUNDED_POWERS = {"Adam": 1e-6, "AdamW": 1e-6, "NAdam": 1e-6, "RAdam": 1e-4, "Adamax": 1e-6}
# Differences of nearly equal numbers under a root.
TOLERANCES = ROUNDED_POWERS | {"RMSprop": 1e-5}
# These have no momentum that OneCycleLR could cycle.
WITHOUT_MOMENTUM = {"Adagrad", "Adadelta"}


def trained(name, schedule, around, whole, dtype=torch.float32, **options):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3)).to(dtype)
    optimizer = getattr(torch.optim, name.split("-")[0])(net.parameters(), **OPTIMIZERS[name], **options)
    scheduler = SCHEDULERS[schedule](optimizer)
    update = optimizer.step if whole else around(lambda: optimizer.step())

    def step(x):
        optimizer.zero_grad()
        loss = net(x).pow(2).mean()
        loss.backward()
        update()
        scheduler.step()
        return loss.detach()

    step = around(step) if whole else step
    losses = [step(torch.randn(4, 6, dtype=dtype)) for _ in range(STEPS)]
    return losses, [parameter.detach() for parameter in net.parameters()], copy.deepcopy(optimizer.state_dict())


def check(name, schedule, most, *, whole=True, backend="aot_eager", tolerance=None, **options):
    tolerance = tolerance or TOLERANCES.get(name.split("-")[0], 1e-6)
    counting = CountingOf(backend)
    got = trained(name, schedule, lambda step: pellucid.compile(step, backend=counting), whole, **options)
    want = trained(name, schedule, lambda step: step, whole, **options)
    torch.testing.assert_close(got[:2], want[:2], rtol=tolerance, atol=tolerance)
    assert got[2]["param_groups"] == want[2]["param_groups"]
    torch.testing.assert_close(got[2]["state"], want[2]["state"], rtol=tolerance, atol=tolerance)
    assert 1 <= counting.count <= most


@pytest.mark.parametrize("foreach", [False, True])
@pytest.mark.parametrize("schedule", SCHEDULERS)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_few_graphs_for_all_numbers(name, schedule, foreach):
    if schedule == "one cycle" and name in WITHOUT_MOMENTUM:
        schedule = "cosine"
    check(name, schedule, 3, foreach=foreach)


@pytest.mark.parametrize("name", ["SGD", "AdamW", "NAdam", "RMSprop"])
def test_the_step_alone(name):
    check(name, "one cycle", 2, whole=False, foreach=True)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW"])
def test_fused(name, backend):
    """For a compiler such a step is no part of a graph: the parts before and behind it stay as they are."""
    check(name, "cosine", 2 if backend == "eager" else 5, backend=backend, fused=True)


@pytest.mark.parametrize("foreach", [False, True])
@pytest.mark.parametrize("name", ["SGD", "AdamW", "NAdam", "RMSprop"])
def test_double_precision(name, foreach):
    check(name, "one cycle", 3, dtype=torch.float64, tolerance=ROUNDED_POWERS.get(name, 1e-12), foreach=foreach)


@pytest.mark.parametrize("foreach", [False, True])
@pytest.mark.parametrize("name", ["SGD", "AdamW", "NAdam"])
def test_short_floats(name, foreach):
    """Each operator computes in float32 and rounds, as eager's does."""
    check(name, "one cycle", 4, dtype=torch.bfloat16, tolerance=2e-2, foreach=foreach)


# ---- the operators, with eager's bits


def tensors(dtype, count=3):
    return [torch.linspace(-2, 3, 5 + n).to(dtype) * (n + 1) for n in range(count)]


LISTS = {
    "add": lambda x, k: torch._foreach_add(x, k),
    "add of each": lambda x, k: torch._foreach_add(x, [k, k * 2, 0.5]),
    "add with a factor": lambda x, k: torch._foreach_add(x, [one + 1 for one in x], alpha=k),
    "sub": lambda x, k: torch._foreach_sub(x, k),
    "mul": lambda x, k: torch._foreach_mul(x, k),
    "mul by each": lambda x, k: torch._foreach_mul(x, [k, -k, k]),
    "mul by a keyword": lambda x, k: torch._foreach_mul(x, scalar=k),
    "div": lambda x, k: torch._foreach_div(x, k),
    "pow": lambda x, k: torch._foreach_pow(k, x),
    "lerp": lambda x, k: torch._foreach_lerp(x, [one * 2 + 1 for one in x], k),
    "addcmul": lambda x, k: torch._foreach_addcmul(x, x, [one + 1 for one in x], value=k),
    "addcdiv": lambda x, k: torch._foreach_addcdiv(x, x, [one * one + 1 for one in x], [k, k + 1, k * k]),
    "lerp of one": lambda x, k: [torch.lerp(x[0], x[0] * 2, k), x[1].lerp(x[1] + 1, weight=k)],
}
IN_PLACE = {
    "add_": lambda x, k: torch._foreach_add_(x, k),
    "sub_": lambda x, k: torch._foreach_sub_(x, [k, k, k]),
    "mul_": lambda x, k: torch._foreach_mul_(x, k),
    "div_": lambda x, k: torch._foreach_div_(x, k),
    "lerp_": lambda x, k: torch._foreach_lerp_(x, [one * 2 + 1 for one in x], k),
    "addcmul_": lambda x, k: torch._foreach_addcmul_(x, [one + 1 for one in x], [one - 1 for one in x], value=k),
    "addcdiv_": lambda x, k: torch._foreach_addcdiv_(x, [one + 1 for one in x], [one * one + 1 for one in x], value=k),
    "lerp_ of one": lambda x, k: x[0].lerp_(x[0] * 2, k),
}
NUMBERS = [0.1, 0.9, 0.45, 1 / 3, 2.5, -0.7]
# Where torch computes a sum of a product it depends on the machine whether it rounds once or twice; AOTAutograd makes
# new tensors of what is written in place, for which torch does not round a factor first.
ROUNDED = {"addcmul", "addcdiv", "addcmul_", "addcdiv_", "add with a factor", "mul_"}


def close(got, want, name, dtype):
    assert [one.dtype for one in got] == [one.dtype for one in want]
    if name in ROUNDED:
        eps = torch.finfo(dtype).eps
        torch.testing.assert_close(got, want, rtol=2 * eps, atol=4 * eps)
    else:
        assert all(map(torch.equal, got, want)), (got, want)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", LISTS)
def test_operators_of_lists(name, dtype):
    if name == "pow":
        numbers = [abs(number) for number in NUMBERS]
    else:
        numbers = NUMBERS
    counting = CountingOf("aot_eager")
    compiled = pellucid.compile(lambda x, k: LISTS[name](x, k), backend=counting)
    for number in numbers:
        close(compiled(tensors(dtype), number), LISTS[name](tensors(dtype), number), name, dtype)
    assert 1 <= counting.count <= 3


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", IN_PLACE)
def test_operators_in_place(name, dtype):
    counting = CountingOf("aot_eager")
    compiled = pellucid.compile(lambda x, k: (IN_PLACE[name](x, k), None)[1], backend=counting)
    for number in NUMBERS:
        got, want = tensors(dtype), tensors(dtype)
        compiled(got, number)
        IN_PLACE[name](want, number)
        close(got, want, name, dtype)
    assert 1 <= counting.count <= 3


@pytest.mark.parametrize("dtype", [torch.int64, torch.complex64, torch.bool])
@pytest.mark.parametrize("name", ["mul", "lerp", "add with a factor", "div"])
def test_other_dtypes_are_left_to_torch(name, dtype):
    def outcome(f, *args):
        try:
            return [(one.dtype, one.tolist()) for one in f(*args)]
        except RuntimeError as error:
            return str(error)

    compiled = pellucid.compile(lambda x, k: LISTS[name](x, k), backend="aot_eager")
    for number in NUMBERS[:4]:
        assert outcome(compiled, tensors(dtype), number) == outcome(LISTS[name], tensors(dtype), number)


def test_lists_of_other_lengths_are_errors_of_torch():
    compiled = pellucid.compile(lambda x, a, k: torch._foreach_mul(x, [a, k]), backend="aot_eager")
    for number in NUMBERS[:3]:
        with pytest.raises(RuntimeError, match=r"same number|same length|corresponding"):
            compiled(tensors(torch.float32), 1.5, number)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_factors_that_are_drawn(backend):
    """Such a number is an int that changes at each call."""

    def f(x):
        number = random.randint(2, 9)
        written = [x * 1]
        torch._foreach_addcmul_(written, [x], [x], value=number)
        return torch._foreach_mul([x, x], number)[0] + torch.lerp(x, x * 2, number), written[0]

    compiled = pellucid.compile(f, backend=backend)
    for seed in range(5):
        random.seed(seed)
        got = compiled(torch.arange(4.0))
        random.seed(seed)
        torch.testing.assert_close(got, f(torch.arange(4.0)))


@torch.library.custom_op("pellucid_rates::mul", mutates_args=())
def mul_of_library(x: torch.Tensor, number: float) -> torch.Tensor:
    return x * number + x.dim()


@mul_of_library.register_fake
def _(x, number):
    return torch.empty_like(x)


@pellucid.allow_in_graph
def add(x, number):
    return x * number if number > 1 else x - number


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize(
    "function",
    [
        lambda x, number: torch.ops.pellucid_rates.mul(x.sum(), number),
        lambda x, number: torch.ops.pellucid_rates.mul(x, number),
        add,
        lambda x, number: add(x.sum(), number) * 2,
    ],
    ids=["operator of a scalar", "operator", "function", "function of a scalar"],
)
def test_functions_of_others_with_names_of_torchs(function, backend):
    compiled = pellucid.compile(lambda x, number: function(x, number), backend=backend)
    for number in (1.5, 2.5, 0.5, 3.5, -1.0):
        torch.testing.assert_close(compiled(torch.arange(4.0), number), function(torch.arange(4.0), number))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_one_tensor_twice_in_a_list_is_written_twice(backend):
    def f(x, number):
        y = x.clone()
        torch._foreach_mul_([y, y], number)
        torch._foreach_add_([y, x, y], [number, number, 1.0])
        return y, x

    compiled = pellucid.compile(f, backend=backend, dynamic=True)  # the number is open in the first graph
    for number in NUMBERS:
        got, want = compiled(torch.arange(4.0), number), f(torch.arange(4.0), number)
        assert all(map(torch.equal, got, want))
