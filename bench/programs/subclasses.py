"""Tensors of other classes, and modes: `__torch_function__`, `__torch_dispatch__`."""

from __future__ import annotations

import typing

import torch
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing

from programs import Case, program
from programs.checkpointing import leaf_calls


class Named(torch.Tensor):
    """Results keep the name of the first argument that has one."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        result = super().__torch_function__(func, types, args, kwargs or {})
        name = next((arg.label for arg in args if isinstance(arg, Named) and hasattr(arg, "label")), None)
        if isinstance(result, Named) and name is not None:
            result.label = name
        return result


def named(*sizes: int, name: str = "x") -> Named:
    tensor = torch.randn(*sizes).as_subclass(Named)
    tensor.label = name
    return tensor


class Logged(torch.Tensor):
    log: typing.ClassVar[list] = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.log.append(func.__name__)
        return super().__torch_function__(func, types, args, kwargs or {})


class Two(torch.Tensor):
    """A pair of tensors that are computed side by side."""

    @staticmethod
    def __new__(cls, a, b):
        return torch.Tensor._make_wrapper_subclass(
            cls, a.shape, strides=a.stride(), dtype=a.dtype, device=a.device, requires_grad=a.requires_grad
        )

    def __init__(self, a, b):
        self.a, self.b = a, b

    def __tensor_flatten__(self):
        return ["a", "b"], None

    @staticmethod
    def __tensor_unflatten__(inner, context, size, stride):
        return Two(inner["a"], inner["b"])

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        a = func(*pytree.tree_map_only(Two, lambda t: t.a, args), **pytree.tree_map_only(Two, lambda t: t.a, kwargs))
        b = func(*pytree.tree_map_only(Two, lambda t: t.b, args), **pytree.tree_map_only(Two, lambda t: t.b, kwargs))
        flat_a, spec = pytree.tree_flatten(a)
        flat_b = pytree.tree_leaves(b)
        pairs = [Two(x, y) if isinstance(x, torch.Tensor) else x for x, y in zip(flat_a, flat_b)]
        return return_and_correct_aliasing(func, args, kwargs, pytree.tree_unflatten(pairs, spec))


def two(*sizes: int) -> Two:
    return Two(torch.randn(*sizes), torch.randn(*sizes))


@program("subclasses")
def metadata_is_kept():
    def f(x):
        y = (x * 2).relu() + 1
        return y, y.label

    return Case(f, [(named(3),), (named(3),), (named(3, name="other"),)])


@program("subclasses")
def subclass_meets_tensor():
    return Case(lambda x, y: (torch.cat([x, y]), y @ x), [(named(3), torch.randn(3)) for _ in range(3)])


@program("subclasses")
def subclass_logs():
    def make():
        return torch.randn(3).as_subclass(Logged)

    Logged.log = []

    def f(x):
        return (x.sin() + 1).sum(), x.shape[0]

    return Case(f, [(make(),) for _ in range(3)], state=Logged.log)


@program("subclasses")
def made_inside():
    def f(x):
        y = x.as_subclass(Named)
        y.label = "inside"
        z = y * 2
        return z.label, z.as_subclass(torch.Tensor)

    return Case(f, [(torch.randn(3),) for _ in range(3)])


@program("subclasses")
def without_torch_function():
    def f(x):
        with torch._C.DisableTorchFunctionSubclass():
            y = x * 2
        return y, x + 1

    return Case(f, [(named(3),) for _ in range(3)])


@program("subclasses")
def parameter_subclass():
    class Scaled(torch.nn.Parameter):
        pass

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = Scaled(torch.randn(4, 4))

        def forward(self, x):
            return torch.tanh(x @ self.w), isinstance(self.w, Scaled)

    model = Model()
    return Case(model, leaf_calls(3, 4), state=model)


@program("subclasses")
def units_of_measure():
    """Two classes of which one gives way."""

    class Metres(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            if not all(issubclass(kind, (Metres, torch.Tensor)) for kind in types) or any(
                kind.__name__ == "Seconds" for kind in types
            ):
                return NotImplemented
            return super().__torch_function__(func, types, args, kwargs or {})

    class Seconds(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            plain = pytree.tree_map_only(torch.Tensor, lambda t: t.as_subclass(torch.Tensor), args)
            return func(*plain, **(kwargs or {}))

    def f(x, y):
        return x + x, x / y

    calls = [(torch.rand(3).as_subclass(Metres), torch.rand(3).as_subclass(Seconds)) for _ in range(3)]
    return Case(f, calls)


@program("modes")
def function_mode_inside():
    class Doubles(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            result = func(*args, **(kwargs or {}))
            return result * 2 if func is torch.sin else result

    def f(x):
        with Doubles():
            y = torch.sin(x)
        return y + torch.sin(x)

    return Case(f, leaf_calls(3))


@program("modes")
def function_mode_around():
    class Counts(TorchFunctionMode):
        def __init__(self):
            super().__init__()
            self.names: list = []

        def __torch_function__(self, func, types, args=(), kwargs=None):
            self.names.append(func.__name__)
            return func(*args, **(kwargs or {}))

    mode = Counts()

    def f(x):
        return torch.sin(x) + torch.cos(x)

    def g(x):
        with mode:
            return f(x)

    return Case(g, [(torch.randn(3),) for _ in range(3)], state=mode.names)


@program("modes")
def device_context():
    def f(x):
        with torch.device("cpu"):
            y = torch.ones(3)
        return x + y

    return Case(f, leaf_calls(3))


@program("modes")
def dispatch_mode_inside():
    class Counts(TorchDispatchMode):
        def __init__(self):
            super().__init__()
            self.names: list = []

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            self.names.append(str(func))
            return func(*args, **(kwargs or {}))

    kept: list = []

    def f(x):
        with Counts() as mode:
            y = torch.sin(x) * 2
        kept.append(mode.names)
        return y

    return Case(f, leaf_calls(3), state=kept)


@program("modes")
def flop_counter():
    from torch.utils.flop_counter import FlopCounterMode

    w = torch.randn(4, 5)
    counts: list = []

    def f(x):
        with FlopCounterMode(display=False) as counter:
            y = x @ w
        counts.append(counter.get_total_flops())
        return y

    return Case(f, [(torch.randn(3, 4),) for _ in range(3)], state=counts)


@program("modes")
def default_dtype():
    def f(x):
        before = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)
        try:
            y = torch.ones(3)
        finally:
            torch.set_default_dtype(before)
        return x + y

    return Case(f, [(torch.randn(3),) for _ in range(3)])


@program("subclasses")
def wrapper_as_argument():
    return Case(lambda x: (x * 2).sin() + 1, [(two(3),) for _ in range(3)], backward=False)


@program("subclasses")
def wrapper_made_inside():
    def f(x, y):
        pair = Two(x, y) * 2
        return pair.a + pair.b

    return Case(f, [(torch.randn(3), torch.randn(3)) for _ in range(3)])


@program("subclasses")
def wrapper_written_through_a_part():
    """A write to a part is a write to the pair."""

    def f(x):
        x.a.add_(1)
        return x * 1

    return Case(f, [(two(3),) for _ in range(3)], backward=False)


@program("subclasses")
def wrapper_as_parameter():
    model = torch.nn.Linear(4, 2, bias=False)
    model.weight = torch.nn.Parameter(two(2, 4))
    return Case(lambda x: model(x).b, [(torch.randn(3, 4),) for _ in range(3)])


@program("subclasses")
def wrapper_in_place():
    def f(x, y):
        x.mul_(y)
        return x.sum()

    return Case(f, [(two(3), two(3)) for _ in range(3)], backward=False)
