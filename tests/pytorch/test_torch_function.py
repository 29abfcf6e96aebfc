"""Classes derived from torch.Tensor: what their `__torch_function__` sees, gives and changes is as eager has it, in one
graph. Each program runs eagerly and compiled on equal arguments; the functions that the classes were asked about, the
results, their classes and attributes, and what became of the arguments are compared."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import pellucid
from support import outcome

LOG: list = []
BACKENDS = ["eager", "aot_eager"]


class Logged(torch.Tensor):
    """Says which functions it was asked about."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        LOG.append((cls.__name__, func))
        return super().__torch_function__(func, types, args, kwargs or {})


class Derived(Logged):
    pass


class Bare(torch.Tensor):
    """Nothing of its own: torch.Tensor's own `__torch_function__` keeps the class."""


class Tagged(torch.Tensor):
    """Hands a tag from arguments to results."""

    @staticmethod
    def __new__(cls, data, tag):
        return data.as_subclass(cls)

    def __init__(self, data, tag):
        self.tag = tag

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        LOG.append(("Tagged", func))
        with torch._C.DisableTorchFunctionSubclass():
            result = func(*args, **(kwargs or {}))
        tags = [a.tag for a in args if isinstance(a, Tagged)]
        if type(result) is torch.Tensor and tags:
            result = result.as_subclass(cls)
            result.tag = tags[0] if len(tags) == 1 else (tags[0], tags[1])
        return result


class Picky(torch.Tensor):
    """Answers for nothing but `mul`."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        LOG.append(("Picky", func))
        if func is torch.Tensor.mul:
            with torch._C.DisableTorchFunctionSubclass():
                return torch.Tensor.mul(*args)
        return NotImplemented


class Willing(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        LOG.append(("Willing", func))
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **(kwargs or {}))


class Wrapper(torch.Tensor):
    """Over another tensor: operations are those of what is inside."""

    @staticmethod
    def __new__(cls, inner):
        made = torch.Tensor._make_subclass(cls, inner)
        made.inner = inner
        return made

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        LOG.append(("Wrapper", func))
        if func.__name__ == "__get__":
            return super().__torch_function__(func, types, args, kwargs or {})
        result = func(*inner_of(args), **(kwargs or {}))
        return Wrapper(result) if isinstance(result, torch.Tensor) else result


def inner_of(value):
    if isinstance(value, (list, tuple)):
        return [inner_of(v) for v in value]
    return value.inner if isinstance(value, Wrapper) else value


class Own(Logged):
    """Methods, operators and properties of its own."""

    def sin(self):
        return super().cos()

    def __add__(self, other):
        return torch.Tensor.__sub__(self, other)

    __radd__ = __add__

    @property
    def T(self):
        return self * 2

    def twice(self):
        return self + self

    def __len__(self):
        return 7


class Image(torch.Tensor):
    """As torchvision's tv_tensors: results are plain, but for some functions and in-place ones."""

    @staticmethod
    def __new__(cls, data, *, dtype=None):
        return data.as_subclass(cls)

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if not all(issubclass(cls, t) for t in types):
            return NotImplemented
        LOG.append(("Image", func))
        with torch._C.DisableTorchFunctionSubclass():
            output = func(*args, **(kwargs or {}))
        if func in (torch.Tensor.clone, torch.Tensor.to, torch.Tensor.detach):
            return output.as_subclass(cls)
        if func.__name__.endswith("_") and isinstance(args[0], cls):
            return output
        return output.as_subclass(torch.Tensor) if isinstance(output, cls) else output


class Quantity:
    """No tensor, but torch asks it too."""

    def __init__(self, value, unit):
        self.value, self.unit = value, unit

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        LOG.append(("Quantity", func))
        args = [a.value if isinstance(a, Quantity) else a for a in args]
        return Quantity(func(*args, **(kwargs or {})), "?")


def ramp(*shape):
    return torch.arange(1.0, 1.0 + torch.Size(shape).numel()).reshape(shape) / 4


def shown(value):
    """What can be said of a value, without asking its class."""
    with torch._C.DisableTorchFunction():
        if isinstance(value, torch.Tensor):
            plain = value.detach().as_subclass(torch.Tensor)
            # AOTAutograd notes on a result which of its sizes it has compiled for any value.
            ours = {k: v for k, v in vars(value).items() if k != "_dynamo_propagated_dynamic_indices"}
            attributes = {k: shown(v) for k, v in ours.items()}
            facts = (tuple(plain.shape), plain.stride(), str(plain.dtype), value.requires_grad)
            grad = shown(value.grad) if value.is_leaf and value.grad is not None else None
            return type(value).__name__, facts, plain.tolist(), grad, attributes
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [shown(v) for v in value]
    if isinstance(value, dict):
        return {k: shown(v) for k, v in value.items()}
    if isinstance(value, (Quantity,)):
        return type(value).__name__, shown(vars(value))
    return value


def run(function, make, calls=2):
    """Per call: the outcome, the arguments afterwards, which of them came back, and what classes were asked about."""
    seen = []
    for _ in range(calls):
        args = make()
        LOG.clear()
        result = outcome(function, *args)
        log = list(LOG)
        came_back = [i for i, a in enumerate(args) if result[-1] is a]
        seen.append((shown(result), shown(list(args)), came_back, log))
    return seen


def check(function, make, backend, whole=True):
    """`whole`: in one graph; else it may break."""
    eager = run(function, make)
    pellucid.reset()
    got = run(pellucid.compile(function, backend=backend, fullgraph=whole), make)
    for want, have in zip(eager, got, strict=True):
        assert have == want


def of(cls, *shape):
    return lambda: (ramp(*(shape or (2, 3))).as_subclass(cls),)


PROGRAMS = {
    "arithmetic": lambda x: ((x + 1) * x - x / 3) ** 2,
    "reflected": lambda x: (1 + x) + (2 - x) + 3 * x + 4 / x + 2**x,
    "unary": lambda x: (-x, abs(x), +x),
    "comparison": lambda x: (x > 1, x == x, 1 < x, x != 2, x <= x),
    "matmul": lambda x: x @ x.T,
    "in place": lambda x: x.clone().add_(1).mul_(x),
    "augmented": lambda x: augmented(x),
    "indexing": lambda x: (x[0], x[:, 1], x[..., None], x[x > 1], x[[0, 1]]),
    "plain by its mask": lambda x: ramp(2, 3)[x > 1],
    "plain by its indices": lambda x: (
        ramp(4, 3)[x[0].long()],
        ramp(4, 3)[:, x[0].long()],
        ramp(4, 3)[x[0].long(), :2],
    ),
    "set by its mask": lambda x: set_by(x > 1),
    "set by its indices": lambda x: set_by(x[1].long() - 3),
    "setitem": lambda x: set_items(x),
    "properties": lambda x: (x.shape, x.dtype, x.device, x.ndim, x.T, x.mT, x.requires_grad, x.is_leaf),
    "data": lambda x: x.data + 1,
    "grad": lambda x: x.grad,
    "methods": lambda x: (x.sum(), x.mean(0, keepdim=True), x.max(dim=1), x.view(-1), x.size(), x.size(0), x.dim()),
    "functions": lambda x: (torch.sin(x), torch.sum(x, dim=0), torch.where(x > 1, x, 0.0), torch.max(x, 1)),
    "factories": lambda x: (torch.zeros_like(x), x.new_zeros(2), torch.full_like(x, 2.0), torch.ones(2) + x[0, 0]),
    "F": lambda x: (F.softmax(x, dim=0), F.relu(x), F.gelu(x), F.layer_norm(x, (3,)), F.linear(x, x)),
    "F with a plain one": lambda x: F.linear(ramp(4, 3), x, ramp(2)),
    "cat": lambda x: (torch.cat([x, ramp(1, 3)]), torch.stack([ramp(2, 3), x]), torch.cat((ramp(2, 3), x), dim=1)),
    "out": lambda x: torch.add(x, 1, out=x),
    "isinstance": lambda x: (isinstance(x, torch.Tensor), type(x), isinstance(x, Logged), type(x + 1), x.__class__),
    "len and iteration": lambda x: (len(x), [row.sum() for row in x], list(x)[0]),
    "chained": lambda x: x.relu().sum(dim=1).unsqueeze(0).expand(3, 2),
    "split": lambda x: (x.split(1), x.chunk(2), x.unbind(0), torch.split(x, 2, dim=1)),
    "einsum": lambda x: torch.einsum("ij,ij->i", x, x),
    "returned": lambda x: x,
    "returned twice": lambda x: (x, x, x + 0),
    "disabled": lambda x: disabled(x),
    "dtype": lambda x: (x.double(), x.to(torch.float16), x.int(), x.type_as(ramp(1))),
    "norm": lambda x: (torch.norm(x), x.norm(dim=0), x.std(), x.var(0)),
    "plain first": lambda x: (ramp(2, 3) + x, torch.add(ramp(2, 3), x), ramp(2, 3).mul(x), ramp(2, 3) > x),
    "kwargs": lambda x: (torch.sum(input=x, dim=0), torch.add(x, x, alpha=2), x.sum(dim=0, keepdim=True)),
    "attributes": lambda x: attributes(x),
    "as plain": lambda x: x.as_subclass(torch.Tensor) + 1,
    "no grad": lambda x: without_gradients(x),
    "dropped": lambda x: F.dropout(x, 0.5, training=False),
    "aten": lambda x: torch.ops.aten.add(x, 1),
    "closure": lambda x: [f(x) for f in (torch.sin, torch.cos, lambda y: y * 2)],
}


def augmented(x):
    y = x
    y += 1
    y *= 2
    return y


def set_items(x):
    x[0] = 1
    x[:, 1] = ramp(2)
    x[x > 1] = 0
    return x


def set_by(key):
    values = ramp(3, 3) if key.ndim == 1 else ramp(2, 3)
    values[key] = -1
    return values


def disabled(x):
    with torch._C.DisableTorchFunctionSubclass():
        y = x + 1
        z = x.sin()
    return y, z, x * 2


def attributes(x):
    x.note = "set"
    y = x + 1
    y.origin = x
    y.count = 3
    return y, y.count, x.note, hasattr(y, "note")


def without_gradients(x):
    with torch.no_grad():
        return x * 2


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("cls", [Logged, Derived, Bare, Image, Willing], ids=lambda c: c.__name__)
@pytest.mark.parametrize("name", PROGRAMS)
def test_as_eager(name, cls, backend):
    check(PROGRAMS[name], of(cls), backend, whole=False)


# Programs whose capture ends somewhere: the gradient of an object that asks its class; a set that
# hashes an operator in Python.
BREAKING = {"grad", "aten"}


@pytest.mark.parametrize("cls", [Logged, Bare], ids=lambda c: c.__name__)
@pytest.mark.parametrize("name", [name for name in PROGRAMS if name not in BREAKING])
def test_A21_in_one_graph(name, cls):
    check(PROGRAMS[name], of(cls), "eager")


def pair(first, second):
    return lambda: (ramp(2, 3).as_subclass(first), ramp(3).as_subclass(second))


TWO = {
    "operators": lambda a, b: (a + b, b - a, a * b, b / a),
    "functions": lambda a, b: (torch.add(a, b), torch.cat([a[0], b]), torch.stack([b, a[1]])),
    "in place": lambda a, b: a.add_(b),
    "comparison": lambda a, b: (a > b, b == a),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("classes", [(Logged, Derived), (Derived, Logged), (Logged, Picky), (Picky, Willing)])
@pytest.mark.parametrize("name", TWO)
def test_two_classes(name, classes, backend):
    check(TWO[name], pair(*classes), backend, whole=False)


def test_the_next_class_is_asked_in_one_graph():
    check(lambda a, b: (torch.add(a, b), a * b, a + b), pair(Picky, Willing), "eager")


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x + 1,
        lambda x: 1 - x,
        lambda x: torch.add(x, 1),
        lambda x: x.sub(1),
        lambda x: x.shape,
        lambda x: x[0],
    ],
)
def test_nobody_answers(function):
    check(function, of(Picky), "eager", whole=False)


def test_nobody_answers_and_the_program_goes_on():
    def f(x):
        try:
            return torch.sin(x)
        except TypeError as error:
            return str(error), x * 2

    check(f, of(Picky), "eager", whole=False)


@pytest.mark.parametrize("backend", BACKENDS)
def test_tags(backend):
    make = lambda: (Tagged(ramp(2, 3), "a"), Tagged(ramp(3), "b"))  # noqa: E731
    check(lambda a, b: (a + b, (a * 2).tag, torch.sin(b).tag, Tagged(a.sum(), "new")), make, backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_tag_is_guarded(backend):
    def f(x):
        return x * 2 if x.tag == "double" else x * 3

    pellucid.reset()
    compiled = pellucid.compile(f, backend=backend, fullgraph=True)
    for tag in ("double", "triple", "double"):
        assert shown(compiled(Tagged(ramp(3), tag))) == shown(f(Tagged(ramp(3), tag)))


@pytest.mark.parametrize("backend", BACKENDS)
def test_wrapper(backend):
    make = lambda: (Wrapper(ramp(2, 3)),)  # noqa: E731
    check(lambda x: (x.sin() + 1, torch.cat([x, x]), x.shape, (x * 2).inner), make, backend)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "program",
    [
        lambda x: (x.sin(), x + 1, 1 + x, x.T, x.twice(), len(x)),
        lambda x: (torch.sin(x), torch.add(x, 1), F.softmax(x, dim=0), x.mul(2)),
    ],
)
def test_methods_of_its_own(program, backend):
    check(program, of(Own), backend, whole=False)


@pytest.mark.parametrize("backend", BACKENDS)
def test_no_tensor(backend):
    def f(x):
        q = torch.add(Quantity(x, "m"), x)
        return q.value, q.unit, (torch.sin(q)).value, (x + Quantity(x, "s")).value

    check(f, lambda: (ramp(2, 3),), backend)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("cls", [Logged, Bare, Image, Willing], ids=lambda c: c.__name__)
def test_backward(cls, backend):
    """A leaf of the class gets the gradient that it has in eager, and no class is asked on the way."""

    def f(x, w):
        return (F.relu(x * 2) @ w).sum()

    def train(function):
        x, w = ramp(2, 3).as_subclass(cls).requires_grad_(), ramp(3, 2).requires_grad_()
        loss = function(x, w)
        LOG.clear()
        with torch._C.DisableTorchFunctionSubclass():
            loss.backward()
            grads = x.grad.as_subclass(torch.Tensor).tolist(), w.grad.tolist()
        return type(loss), grads, list(LOG)

    pellucid.reset()
    compiled = pellucid.compile(f, backend=backend, fullgraph=True)
    assert train(f) == train(compiled) == train(compiled)


def test_stored_on_an_object():
    class Holder:
        pass

    holder = Holder()

    def f(x):
        holder.kept = x + 1
        return holder.kept * 2

    check(f, of(Logged), "eager")
    f(*of(Logged)())
    assert type(holder.kept) is Logged


def test_classes_are_guarded():
    def f(x):
        return x + 1

    pellucid.reset()
    compiled = pellucid.compile(f)
    for cls in (Logged, Bare, torch.Tensor, Derived, Picky, Image):
        make = of(cls)
        for want, have in zip(run(f, make, 1), run(compiled, make, 1), strict=True):
            assert have == want


def test_another_torch_function_of_the_class():
    class Changing(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            with torch._C.DisableTorchFunctionSubclass():
                return func(*args) * 2

    def f(x):
        return x + 1

    pellucid.reset()
    compiled = pellucid.compile(f, fullgraph=True)
    assert compiled(ramp(2).as_subclass(Changing)).tolist() == ((ramp(2) + 1) * 2).tolist()
    Changing.__torch_function__ = classmethod(lambda cls, func, types, args=(), kwargs=None: "other")
    assert compiled(ramp(2).as_subclass(Changing)) == "other"


def test_a_break_in_the_class_is_carried_out_once():
    class Printing(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            LOG.append(func)
            pellucid.graph_break()
            return super().__torch_function__(func, types, args, kwargs or {})

    check(lambda x: (x + 1).sin() * 2, of(Printing), "eager", whole=False)


def test_dispatch_of_its_own_is_left_to_torch():
    class Dispatching(torch.Tensor):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    pellucid.reset()
    compiled = pellucid.compile(lambda x: x + 1)
    x = torch.Tensor._make_wrapper_subclass(Dispatching, (2,))
    with pytest.raises(pellucid.errors.Unsupported):
        pellucid.compile(lambda x: x + 1, fullgraph=True)(x)
    assert compiled(ramp(2)).tolist() == (ramp(2) + 1).tolist()


def test_what_reads_the_offsets_of_a_nested_tensor_is_a_break():
    """Its class has a `__torch_dispatch__`, which asks for the values of a part (tests/pytorch/test_jagged.py)."""

    def made(x):
        nested = torch.nested.nested_tensor([x[0], x[1, :3]], layout=torch.jagged)
        return nested.sin().unbind()[0] + 1

    def given(nested):
        return nested.sin().unbind()[0] + 1

    x = torch.randn(4, 6)
    assert torch.equal(pellucid.compile(made, backend="eager")(x), made(x))
    nested = torch.nested.nested_tensor([x[0], x[1, :3]], layout=torch.jagged)
    compiled = pellucid.compile(given, backend="eager")
    assert torch.equal(compiled(nested), given(nested))
    assert any("PEL0201" in str(reason) for reason in pellucid.break_reasons(compiled))


# ---- memory of an instance that requires gradients, written to in another way


def through_detach(x, scale):
    x.detach().mul_(scale)
    return x * 2


def through_data(x, scale):
    x.data.mul_(scale)
    return x * 2


def read_first(x, scale):
    y = x * 2
    x.detach().mul_(scale)
    return y + x


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("as_parameter", [False, True])
@pytest.mark.parametrize("function", [through_detach, through_data, read_first])
def test_writes_past_an_instance_keep_its_gradients(function, as_parameter, backend):
    class Own(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return super().__torch_function__(func, types, args, kwargs or {})

    def called(f):
        outcomes = []
        for count in (4, 4, 6):
            x = torch.ones(count).as_subclass(Own)
            x = torch.nn.Parameter(x) if as_parameter else x.detach().requires_grad_()
            result = f(x, 3.0)
            result.sum().backward()
            outcomes.append((type(result), type(x), x.grad.tolist(), result.tolist(), x.tolist()))
        return outcomes

    assert called(pellucid.compile(function, backend=backend)) == called(function)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_writes_to_memory_of_an_instance_that_is_read_later(backend):
    class Own(torch.Tensor):
        pass

    def f(memory, x):
        memory.mul_(3)
        return x * 2

    def called(f):
        x = torch.ones(4).as_subclass(Own).detach().requires_grad_()
        result = f(x.detach().as_subclass(torch.Tensor), x)
        result.sum().backward()
        return x.grad.tolist(), result.tolist()

    assert called(pellucid.compile(f, backend=backend)) == called(f)
