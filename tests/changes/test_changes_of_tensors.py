"""Between calls tensors and torch's state that a region read may change: the result equals eager's every time (support/changes.py)."""

import contextlib

import pytest
import torch

import pellucid
from support import SinIsCos, deterministic_algorithms, same
from support.changes import Cases, X

case = CASES = Cases(
    eager={
        "tensor_offset",
        "flags_of_backends",
        "matmul_precision",
        "seed_asked",
        "requires_grad_of_a_view",
        "number_of_threads_asked",
    }
)


WEIGHT = torch.tensor([2.0, 3.0, 4.0])


# ---- tensors and torch's state


case.argument(
    "tensor_dtype",
    lambda v, x: v + 1,
    torch.ones(3),
    torch.ones(3, dtype=torch.float64),
    torch.ones(3, dtype=torch.int64),
)
case.argument("tensor_shape", lambda v, x: v * v.shape[0], torch.ones(3), torch.ones(4), torch.ones(3, 1))
case.argument(
    "tensor_strides",
    lambda v, x: v + 1 if v.is_contiguous() else v - 1,
    torch.ones(2, 2),
    torch.ones(2, 2).as_strided((2, 2), (1, 2)),
)
case.argument("tensor_offset", lambda v, x: v + v.storage_offset(), torch.ones(4)[:3], torch.ones(4)[1:])
case.argument("tensor_or_number", lambda v, x: x * v, torch.ones(3), 3, torch.tensor(2.0))
case.argument(
    "tensor_requires_grad",
    lambda v, x: v + 1 if v.requires_grad else v - 1,
    torch.ones(3),
    torch.ones(3, requires_grad=True),
)
case.argument(
    "tensor_is_leaf",
    lambda v, x: v + 1 if v.is_leaf else v - 1,
    torch.ones(3, requires_grad=True),
    torch.ones(3, requires_grad=True) * 1,
)
case.argument(
    "parameter_or_tensor",
    lambda v, x: x + 1 if isinstance(v, torch.nn.Parameter) else x - 1,
    torch.ones(3),
    torch.nn.Parameter(torch.ones(3)),
)
case.argument(
    "conjugate_view",
    lambda v, x: v.real * 2 if v.is_conj() else v.imag,
    torch.ones(3) * 1j,
    (torch.ones(3) * 1j).conj(),
)
case.argument(
    "negative_view", lambda v, x: v + 1 if v.is_neg() else v - 1, torch.zeros(3), (torch.ones(3) * 1j).conj().imag
)
case.argument("meta_tensor", lambda v, x: x + 1 if v.is_meta else x - 1, torch.ones(3), torch.ones(3, device="meta"))
case.argument("tensor_layout", lambda v, x: x + 1 if v.is_sparse else x - 1, torch.ones(3), torch.ones(3).to_sparse())
case.argument(
    "inference_tensor",
    lambda v, x: x + 1 if v.is_inference() else x - 1,
    torch.ones(3),
    torch.inference_mode()(torch.ones)(3),
)


@case
def requires_grad_set():
    t = torch.ones(3)

    def f(t, x):
        return t * x

    yield f, t, X
    t.requires_grad_()
    yield f, t, X
    t.requires_grad_(False)
    yield f, t, X


@case
def tensor_resized_in_place():
    t = torch.ones(3)

    def f(t):
        return t * t.numel()

    yield f, t
    t.resize_(5).fill_(2)
    yield f, t
    t.data = torch.ones(2, 2)
    yield f, t


@case
def tensor_attribute():
    t = torch.ones(3)
    t.tag = 2

    def f(t, x):
        return x * t.tag if hasattr(t, "tag") else x

    yield f, t, X
    t.tag = 3
    yield f, t, X
    del t.tag
    yield f, t, X


@case
def gradient_present():
    t = torch.ones(3, requires_grad=True)

    def f(t, x):
        return x - 1 if t.grad is None else x + t.grad

    yield f, t, X
    t.grad = torch.ones(3)
    yield f, t, X
    t.grad = torch.ones(3) * 2
    yield f, t, X


@case
def aliasing_of_inputs():
    a, b = torch.ones(3), torch.ones(3)

    def f(a, b):
        return a + 1 if a is b else a - b

    yield f, a, b
    yield f, a, a
    yield f, b, a
    yield f, b, b


def test_B09_aliasing_of_mutated_inputs(counting):
    def f(a, b):
        a.add_(1)
        return a * b

    compiled = pellucid.compile(f, backend=counting)
    for alias in (False, True, False, True):
        got, want = torch.ones(3), torch.ones(3)
        assert same(compiled(got, got if alias else torch.ones(3)), f(want, want if alias else torch.ones(3)))
        assert same(got, want)
    assert counting.count == 2


@case
def aliasing_through_a_list():
    a, b = torch.ones(3), torch.ones(3)

    def f(v, t):
        return sum(w * 2 if w is t else w for w in v)

    yield f, [a, b], a
    yield f, [a, b], b
    yield f, [a, a], a
    yield f, [b, b], a


@case
def aliasing_with_a_global():
    def f(t):
        return t + 1 if t is WEIGHT else t - 1

    yield f, WEIGHT.clone()
    yield f, WEIGHT


@contextlib.contextmanager
def default_dtype():
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


class Doubling(torch.utils._python_dispatch.TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {})) * 2


P = torch.ones(3, requires_grad=True)
M = torch.ones(3, 3)
case.state("grad_mode", lambda t: t * 2, torch.no_grad, P)
case.state("grad_mode_asked", lambda t: t + 1 if torch.is_grad_enabled() else t - 1, torch.no_grad, X)
case.state("inference_mode", lambda t: t * 2, torch.inference_mode, P)
case.state("autocast", lambda t: t @ t, lambda: torch.autocast("cpu", dtype=torch.bfloat16), M)
case.state("default_dtype", lambda: torch.ones(3), default_dtype)
case.state("default_device", lambda: torch.ones(3), lambda: torch.device("meta"))
case.state(
    "deterministic_flag",
    lambda t: t + 1 if torch.are_deterministic_algorithms_enabled() else t - 1,
    deterministic_algorithms,
    X,
)
case.state("torch_function_mode", lambda t: torch.sin(t), SinIsCos, X)
case.state("torch_dispatch_mode", lambda t: torch.sin(t), Doubling, X)


@case
def number_of_threads_asked():
    before = torch.get_num_threads()

    def f(x):
        return x * torch.get_num_threads()

    yield f, X
    try:
        torch.set_num_threads(before + 1)
        yield f, X
    finally:
        torch.set_num_threads(before)
    yield f, X


@case
def tensor_version_and_storage():
    t = torch.ones(4)

    def f(t, x):
        return x * t._version + t.storage_offset() if t is not None else x + 1

    yield f, None, X
    yield f, t, X
    t.add_(0)
    yield f, t, X
    yield f, t[1:], X


@case
def flags_of_backends():
    before = torch.backends.cudnn.benchmark

    def f(x):
        return x + 1 if torch.backends.cudnn.benchmark else x - 1

    yield f, X
    with torch.backends.__allow_nonbracketed_mutation():  # torch.testing freezes the flags where it has been imported
        torch.backends.cudnn.benchmark = not before
    try:
        yield f, X
    finally:
        with torch.backends.__allow_nonbracketed_mutation():
            torch.backends.cudnn.benchmark = before


@case
def matmul_precision():
    before = torch.get_float32_matmul_precision()

    def f(x):
        return x * len(torch.get_float32_matmul_precision())

    yield f, X
    try:
        torch.set_float32_matmul_precision("medium")
        yield f, X
    finally:
        torch.set_float32_matmul_precision(before)


@case
def seed_asked():
    before = torch.initial_seed()

    def f(x):
        return x + 1 if torch.initial_seed() == 7 else x - 1

    yield f, X
    try:
        torch.manual_seed(7)
        yield f, X
    finally:
        torch.manual_seed(before % 2**63)


@case
def tensors_in_sets_and_dicts():
    a, b = torch.ones(3), torch.ones(3)

    def f(t, table):
        return t * table.get(t, 5)

    yield f, a, {a: 2}
    yield f, b, {a: 2}
    yield f, b, {b: 3}


@case
def requires_grad_of_a_view():
    base = torch.ones(3, 3)

    def f(t, x):
        return x + 1 if t._base is None else x - 1

    yield f, base, X
    yield f, base[0], X


@case
def torch_function_of_a_subclass():
    class Mine(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return torch.Tensor(torch.zeros(3)).as_subclass(torch.Tensor)

    def f(t):
        return t + 1

    yield f, X
    yield f, X.clone().as_subclass(Mine)


@pytest.mark.parametrize("make", CASES, ids=CASES.names)
def test_B01_change(make, counting):
    CASES.check(make, counting)
