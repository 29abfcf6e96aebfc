"""copy.copy and copy.deepcopy of what a region got or made: the copies with their sharing, whose methods are asked, and
in which order, as eager, without a graph break."""

from __future__ import annotations

import collections
import copy
import copyreg
import typing

import pytest
import torch
from torch import nn

import pellucid
from support import Counting, CountingOf
from support.programs import picture

SAID: list[str] = []


class Plain:
    def __init__(self):
        self.names = ["a", "b"]
        self.again = self.names
        self.me = self


class Slots:
    __slots__ = ("_Slots__private", "__dict__", "first", "never")

    def __init__(self):
        self.first, self.__private = [1], {"a": 2}


class MoreSlots(Slots):
    __slots__ = ("third",)

    def __init__(self):
        super().__init__()
        self.third = self
        self.in_dict = 3


class SaysItsState:
    def __init__(self):
        self.kept, self.cache = [1], {"heavy": 1}

    def __getstate__(self):
        SAID.append("getstate")
        return {"kept": self.kept}

    def __setstate__(self, state):
        SAID.append(f"setstate {state}")
        self.__dict__.update(state)
        self.cache = {"fresh": 1}


class CopiesItself:
    def __init__(self, inside):
        self.inside = inside

    def __copy__(self):
        SAID.append("copy")
        return CopiesItself(self.inside)

    def __deepcopy__(self, memo):
        SAID.append(f"deepcopy {id(self) in memo}")
        made = memo[id(self)] = CopiesItself(None)
        made.inside = copy.deepcopy(self.inside, memo)
        return made


class Reduced:
    def __init__(self, inside):
        self.inside = inside

    def __reduce_ex__(self, protocol):
        SAID.append(f"reduce_ex {protocol}")
        return Reduced, (self.inside,)


class ReducedAsName(Reduced):
    def __reduce_ex__(self, protocol):
        return "a name"


class MadeOf:
    def __new__(cls, first, /, *, second):
        self = super().__new__(cls)
        self.both = first, second
        return self

    def __getnewargs_ex__(self):
        return self.both[:1], {"second": self.both[1]}


class WrongArguments:
    def __getnewargs_ex__(self):
        return [1, 2]


class WrongArgumentsOfOld:
    def __getnewargs__(self):
        return [1]


class Pair(tuple):
    def __new__(cls, a, b):
        return super().__new__(cls, (a, b))

    def __getnewargs__(self):
        return tuple(self)


class Named(typing.NamedTuple):
    first: list
    second: int


class Items(list):
    def append(self, item):
        SAID.append(f"append {item}")
        super().append(item)


class Table(dict):
    def __setitem__(self, key, value):
        SAID.append(f"set {key}")
        super().__setitem__(key, value)


class Ordered(collections.OrderedDict):
    def __init__(self, *args, **kwargs):
        SAID.append("init")
        super().__init__(*args, **kwargs)


class Registered:
    def __init__(self, inside):
        self.inside = inside


copyreg.pickle(Registered, lambda registered: (Registered, (registered.inside,)))


def moved(ordered):
    ordered.move_to_end(next(iter(ordered)))
    return ordered


def with_attributes(value, **attributes):
    vars(value).update(attributes)
    return value


def in_a_circle():
    a = [1]
    a.append({"a": a, "b": (a, [2])})
    return a


OBJECTS = {
    "plain": Plain,
    "slots": Slots,
    "more_slots": MoreSlots,
    "says_its_state": SaysItsState,
    "copies_itself": lambda: CopiesItself([1]),
    "reduced": lambda: Reduced([1]),
    "reduced_as_name": lambda: ReducedAsName([1]),
    "made_of": lambda: MadeOf([1], second=[2]),
    "pair": lambda: with_attributes(Pair([1], 2), more=[3]),
    "named": lambda: Named([1], 2),
    "items": lambda: with_attributes(Items([1, [2]]), more=[3]),
    "table": lambda: with_attributes(Table(a=1, b=[2]), more=[3]),
    "ordered": lambda: moved(collections.OrderedDict(a=[1], b=2, c=3)),
    "ordered_subclass": lambda: with_attributes(moved(Ordered(a=[1], b=2)), more=[3]),
    "default_dict": lambda: collections.defaultdict(list, a=[1]),
    "default_dict_without": lambda: collections.defaultdict(None, a=[1]),
    "counter": lambda: collections.Counter("abca"),
    "deque": lambda: collections.deque([[1], 2]),
    "short_deque": lambda: collections.deque([[1], 2], maxlen=3),
    "set": lambda: {1, (2, 3)},
    "size": lambda: torch.Size([1, 2]),
    "atoms": lambda: [torch.float32, torch.device("cpu", 0), torch.strided, torch.channels_last, int, len],
    "registered": lambda: Registered([1]),
    "circle": in_a_circle,
    "exceptions_of_none": lambda: [None, ..., NotImplemented, 1.5, "a", b"b", range(3)],
}


def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 3), nn.Sequential(nn.ReLU(), nn.Linear(3, 3, bias=False)))


def doubled(module, inputs, output):
    return output * 2


def with_hooks():
    made = net()
    made[0]._forward_hooks[7] = doubled  # with a number that is the same in each run
    made._forward_pre_hooks[8] = lambda module, inputs: (inputs[0] + 1,)
    return made


def with_gradients():
    made = net()
    made(torch.ones(3)).sum().backward()
    made[0].weight.requires_grad_(False)
    return made


def tied():
    made = net()
    made[1][1].weight = made[0].weight
    return made


def attention():
    torch.manual_seed(0)
    return nn.MultiheadAttention(4, 2).eval()


MODELS = {
    "net": net,
    "with_hooks": with_hooks,
    "with_gradients": with_gradients,
    "tied": tied,
    "parameters": lambda: nn.ParameterDict({"a": torch.ones(3), "b": torch.zeros(3)}),
    "attention": attention,
}


def traced(function, make):
    """What three calls give, what they leave of the object, and what its methods said."""
    SAID.clear()
    given, found = make(), []
    for number in range(3):
        gave = function(given, torch.full((3,), 1.0 + number))
        found.append((picture([gave, given]), list(SAID)))
    return found


@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy])
@pytest.mark.parametrize("make", [*OBJECTS.values(), *MODELS.values()], ids=[*OBJECTS, *MODELS])
def test_copies_of_what_was_given(make, how):
    def f(given, x):
        return how(given), x * 2

    backend = Counting()
    want = traced(f, make)
    assert traced(pellucid.compile(f, backend=backend, fullgraph=True), make) == want
    assert backend.count == 1


@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy])
@pytest.mark.parametrize("make", OBJECTS.values(), ids=OBJECTS)
def test_copies_of_what_was_made(make, how):
    """The object comes into being behind a break, and the copy is changed beside the first."""

    def f(given, x):
        held = [given, given]
        made = how(held)
        made.append(how(made[0]))
        return made, made[0] is made[1], made[0] is given, x * 2

    backend = Counting()
    want = traced(f, make)
    assert traced(pellucid.compile(f, backend=backend, fullgraph=True), make) == want
    assert backend.count == 1


@pytest.mark.parametrize("make", [WrongArguments, WrongArgumentsOfOld], ids=lambda make: make.__name__)
def test_wrong_arguments_are_told_of(make):
    def f(given, x):
        try:
            copy.copy(given)
        except TypeError as error:
            return str(error), x * 2

    backend = Counting()
    want = traced(f, make)
    assert traced(pellucid.compile(f, backend=backend, fullgraph=True), make) == want
    assert backend.count == 1


def test_a_memo_of_the_program():
    def f(given, x):
        memo = {id(given[0]): "in its place"}
        return copy.deepcopy(given, memo), len(memo), x * 2

    backend = Counting()
    make = lambda: [[1], [2], {"a": [3]}]  # noqa: E731
    want = traced(f, make)
    assert traced(pellucid.compile(f, backend=backend, fullgraph=True), make) == want
    assert backend.count == 1


def test_a_model_is_copied_and_both_are_used():
    """The twin is trained apart: the first has its own weights, and keeps them."""

    def f(model, x):
        twin = copy.deepcopy(model)
        with torch.no_grad():
            twin[0].weight.mul_(2)
        return twin(x) - model(x)

    backend = Counting()
    for make in (net, with_hooks, with_gradients, tied):
        backend.graphs.clear()
        want = traced(f, make)
        assert traced(pellucid.compile(f, backend=backend, fullgraph=True), make) == want
        assert backend.count == 1


class SaysThatItIsCopied:
    def __deepcopy__(self, memo):
        print("copied")
        return copy.deepcopy([1, self.__class__], memo)


@pytest.mark.parametrize(
    "backend, make",
    [("aot_eager", net), ("aot_eager", tied), ("eager", lambda: [[2], SaysThatItIsCopied(), nn.Linear(3, 3)])],
    ids=["a net", "a net with tied weights", "an object that prints"],
)
def test_a_copy_with_a_break_within_is_made_for_real_as_a_whole(backend, make):
    """The memo of a copy is another one at each call, and it is known by its address: a region that begins in the
    middle of the copy would be compiled for each call."""
    given = make()
    model = given if isinstance(given, nn.Module) else given[2]

    def f(x):
        y = x.sin()
        twin = copy.deepcopy(given)
        copied = twin if isinstance(twin, nn.Module) else twin[2]
        with torch.no_grad():
            next(copied.parameters()).mul_(2)
        return y + copied(x) - model(x), twin

    counting = CountingOf(backend)
    compiled = pellucid.compile(f, backend=counting)
    for number in range(3):
        x = torch.full((2, 3), 1.0 + number)
        (got, got_twin), (want, want_twin) = compiled(x), f(x)
        assert torch.equal(got, want) and picture(got_twin) == picture(want_twin)
        gradients = [torch.autograd.grad(y.sum(), [next(model.parameters())])[0] for y in (got, want)]
        assert torch.equal(*gradients)
        assert counting.count == 2, "before the copy and behind it"


def test_other_contents_are_another_copy():
    """What was copied is guarded: an item more, another order, another class."""

    def f(given, x):
        return copy.deepcopy(given), x * 2

    backend = Counting()
    compiled = pellucid.compile(f, backend=backend)
    x = torch.ones(3)
    ordered = collections.OrderedDict(a=[1], b=2)
    for change in (
        lambda: None,
        lambda: ordered.move_to_end("a"),
        lambda: ordered.update(c=[3]),
        lambda: ordered["c"].append(4),
        lambda: with_attributes(ordered, more=1),
    ):
        change()
        assert picture(compiled(ordered, x)) == picture(f(ordered, x))
    assert backend.count >= 1


def test_a_copy_of_what_is_not_known_is_a_break():
    """A parameter says more of itself than a dict and slots: the copy is made for real, between two graphs."""

    def f(given, x):
        return copy.copy(given), x * 2 + given

    backend = Counting()
    compiled = pellucid.compile(f, backend=backend)
    given = nn.Parameter(torch.ones(3))
    for number in range(2):
        x = torch.full((3,), 1.0 + number)
        got, want = compiled(given, x), f(given, x)
        assert picture(got[0]) == picture(want[0]) and type(got[0]) is nn.Parameter
        assert got[0].data_ptr() == given.data_ptr() and torch.equal(got[1], want[1])
    assert backend.count >= 1


# ---- tensors


def of_a_tensor(x):
    y = copy.deepcopy(x)
    y.add_(1)
    return y, x * 2, y is x


def of_what_was_computed(x):
    y = (x.t() * 2)[:, 1:]
    z = copy.deepcopy(y)
    z.mul_(3)
    return z, y, z.stride()


def with_its_container(x):
    made = copy.deepcopy({"x": x, "again": [x, 1]})
    made["x"].add_(1)
    return made, made["x"] is made["again"][0], x.sin()


def of_two(x):
    a, b = copy.deepcopy((x.sin(), x.cos()))
    return a.add_(b), b


TENSORS = {
    "contiguous": lambda: torch.arange(6.0).reshape(2, 3),
    "transposed": lambda: torch.arange(6.0).reshape(3, 2).t(),
    "ints": lambda: torch.arange(6).reshape(2, 3),
}


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", [of_a_tensor, with_its_container, of_two], ids=lambda program: program.__name__)
@pytest.mark.parametrize("make", TENSORS.values(), ids=TENSORS)
def test_a_tensor_is_copied_by_a_node(make, program, backend):
    counting = Counting()
    compiled = pellucid.compile(program, backend=counting if backend == "eager" else backend, fullgraph=True)
    x, kept = make(), []
    for _ in range(3):
        if program is not with_its_container:
            x = make()  # a memo knows its objects by their addresses
        kept.append(x)
        y = x.clone()
        got, want = compiled(x), program(y)
        assert picture(got) == picture(want) and picture(x) == picture(y)
        for one, other in zip(*[torch.utils._pytree.tree_leaves(value) for value in (got, want)]):
            if torch.is_tensor(one):
                assert one.stride() == other.stride()
    if backend == "eager":
        assert counting.count == 1


def test_a_tensor_that_was_computed_is_copied(counting):
    compiled = pellucid.compile(of_what_was_computed, backend=counting, fullgraph=True)
    for size in (3, 4, 5):
        x = torch.arange(size * 4.0).reshape(size, 4)
        got, want = compiled(x), of_what_was_computed(x)
        assert picture(got) == picture(want) and got[0].stride() == want[0].stride()
    assert counting.count == 2


def test_memory_that_is_shared_stays_shared_and_what_a_tensor_holds_is_copied():
    """torch's own copy runs, behind the graph of what was before."""

    def f(x, y):
        a, b = copy.deepcopy([x, y])
        a.add_(1)
        return a, b, b.__dict__

    x = torch.zeros(2, 3)
    held = torch.zeros(3)
    held.names = ["a"]
    counting = Counting()
    compiled = pellucid.compile(f, backend=counting)
    for other in (torch.zeros(3), x.t(), x, held, torch.ones(1).expand(3), torch.arange(6.0)[::2]):
        got, want = compiled(x, other), f(x, other)
        assert picture(got) == picture(want)
        assert (got[0] is got[1]) == (want[0] is want[1]) and got[1].stride() == want[1].stride()
        assert got[2] is not other.__dict__
    assert counting.count >= 1


def parts_of_memory():
    base = torch.arange(12.0).view(6, 2)
    return [base.clone(), base[1:], base[2:4], base.t(), base[:, :1], base[0:0], base[:1].expand(6, 2), base[3]]


def memory_of(y):
    return y.tolist(), y.stride(), y.storage_offset(), torch.empty(0).set_(y.untyped_storage()).tolist()


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("take", [lambda x: x, lambda x: x[1:], lambda x: (x + 1)[1:], lambda x: x * 2])
def test_a_copy_has_all_memory_of_the_tensor(backend, take):
    """Of one compiled function, called with tensors that begin elsewhere in memory of other sizes."""

    def f(x):
        return copy.deepcopy(take(x))

    compiled = pellucid.compile(f, backend=backend, fullgraph=backend == "eager")
    for x in parts_of_memory():
        assert memory_of(compiled(x)) == memory_of(f(x))
    assert pellucid.counters()["ops"]
    if backend == "eager":
        assert compiled(x)._version == f(x)._version


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_copies_of_one_memory_share_theirs(backend):
    def f(given, x):
        return copy.deepcopy(given), x * 2

    compiled = pellucid.compile(f, backend=backend)
    for make in (
        lambda base: [base, torch.ones(2)],
        lambda base: [base, base[1:]],
        lambda base: [base[:3], base[3:]],
        lambda base: [base[1:3], base[1:3]],
    ):
        (one, other), _ = compiled(make(torch.arange(6.0)), torch.ones(3))
        (first, second), _ = f(make(torch.arange(6.0)), torch.ones(3))
        assert memory_of(one) == memory_of(first) and memory_of(other) == memory_of(second)
        shares = one.untyped_storage().data_ptr() == other.untyped_storage().data_ptr()
        assert shares == (first.untyped_storage().data_ptr() == second.untyped_storage().data_ptr())
    assert pellucid.counters()["graphs"]


def test_what_is_computed_is_copied_by_a_compiler_in_one_graph():
    """Its memory is the region's own, so a clone is the same. Of a slice it is not."""
    f = lambda x: copy.deepcopy(x * 2) + 1  # noqa: E731
    assert torch.equal(pellucid.compile(f, backend="aot_eager", fullgraph=True)(torch.ones(3)), f(torch.ones(3)))
    assert pellucid.counters()["graphs"] == 1
    part = pellucid.compile(lambda x: copy.deepcopy((x * 2)[1:]), backend="aot_eager", fullgraph=True)
    with pytest.raises(pellucid.errors.Unsupported, match="a part of its memory"):
        part(torch.ones(3))
