"""PYTEST_DONT_REWRITE: programs contain `assert`.

Python's constructs inside a region: value, effects on objects that existed before and their identity equal eager's, call after call.

Every program takes a State and a tensor. It is called three times, so that later calls see what earlier ones left behind. All programs are
one graph (fullgraph=True) except those marked `breaks`, which still have to give eager's results.
"""

import collections
import contextlib
import copy
import dataclasses
import enum
import functools
import itertools
import math
import operator

import pytest
import torch
from language_common import is_constant

import pellucid

PROGRAMS = []
LEVEL = 0


def program(f):
    PROGRAMS.append(f)
    return f


def breaks(f):
    f.breaks = True
    return program(f)


class State:
    def __init__(self):
        self.n = 0
        self.items = [1, 2]
        self.same = self.items
        self.table = {"a": 1}
        self.seen = {1}
        self.queue = collections.deque([1], maxlen=3)
        self.order = collections.OrderedDict(a=1, b=2)
        self.nested = {"list": [self.items], "self": self.table}
        self.log = []
        cell = 0

        def bump(by=1):
            nonlocal cell
            cell += by
            return cell

        self.bump = bump


def picture(value, seen=None):
    """A value's content and the sharing in it, comparable between two runs."""
    seen = {} if seen is None else seen
    if isinstance(value, torch.Tensor):
        return ("tensor", value.dtype, value.requires_grad, tuple(value.shape), repr(value.tolist()))
    if isinstance(value, (int, float, str, bool, type(None), type, enum.Enum)) or callable(value):
        return (type(value).__name__, getattr(value, "__name__", repr(value)))
    if is_constant(value):
        return ("tuple", [picture(item, seen) for item in value])  # equal ones may be one object
    if id(value) in seen:
        return ("again", seen[id(value)])
    seen[id(value)] = len(seen)
    if isinstance(value, dict):
        return (type(value).__name__, [(picture(k, seen), picture(v, seen)) for k, v in value.items()])
    if isinstance(value, (set, frozenset)):
        return (type(value).__name__, sorted(map(repr, value)))
    if isinstance(value, (list, tuple, collections.deque)):
        return (type(value).__name__, [picture(v, seen) for v in value])
    return (type(value).__name__, picture(getattr(value, "__dict__", repr(type(value))), seen))


def run(f, state, x):
    try:
        value = f(state, x)
    except Exception as error:
        value = (
            "raises",
            type(error).__name__,
            str(error),
            type(error.__cause__).__name__,
            type(error.__context__).__name__,
        )
    cell = state.bump.__closure__[0].cell_contents
    return picture(
        [
            value,
            vars(state),
            cell,
            LEVEL,
            torch.is_grad_enabled(),
            torch.is_inference_mode_enabled(),
            torch.is_autocast_enabled("cpu"),
        ]
    )


# ---- calls


def takes(a, b=2, /, c=3, *rest, d=4, **others):
    return a * b + c + sum(rest) + d + sum(others.values())


@program
def call_forms(s, x):
    return (
        takes(x),
        takes(x, 1),
        takes(x, 1, c=5, d=6),
        takes(x, 1, 2, 3, 4, d=1, e=2),
        takes(*(x, 1), c=2, z=1),
        takes(*[x], *(1, 2), d=9),
    )


@program
def wrong_calls(s, x):
    out = []
    for call in (
        lambda: takes(),
        lambda: takes(x, b=1),
        lambda: takes(x, c=1, **{"c": 2}),
        lambda: len(),
        lambda: s.n(2),
    ):
        try:
            out.append(call())
        except TypeError as error:
            out.append(str(error)[-12:])
    return out, x + 1


@program
def closures_and_lambdas(s, x):
    total = 0

    def add(v):
        nonlocal total
        total = total + v
        return total

    adders = [lambda v, i=i: v + i for i in range(3)]
    late = [lambda v: v + i for i in range(3)]
    add(x)
    add(1)
    return total, [a(x) for a in adders], [f(x) for f in late]


@program
def partials_and_operators(s, x):
    p = functools.partial(takes, x, d=1)
    q = functools.partial(p, 5, d=2)
    return p(), q(c=1), p.args, q.keywords, operator.add(x, 1), functools.reduce(operator.mul, [x, 2, 3])


def logged(f):
    @functools.wraps(f)
    def wrapper(s, *args, **kwargs):
        s.log.append(f.__name__)
        return f(s, *args, **kwargs)

    return wrapper


@logged
def decorated_helper(s, x, by=2):
    return x * by


@program
def decorators(s, x):
    return decorated_helper(s, x) + decorated_helper(s, x, by=3)


@program
def recursion(s, x):
    def walk(v, depth):
        return v if depth == 0 else walk(v + depth, depth - 1)

    def even(n):
        return True if n == 0 else not even(n - 1)

    return walk(x, 30), even(7)


@program
def nonlocal_of_the_caller(s, x):
    return x * s.bump() + s.bump(2)


@program
def globals_changed(s, x):
    global LEVEL
    LEVEL = (LEVEL + 1) % 5
    return x + LEVEL


# ---- comprehensions, generators, unpacking


@program
def comprehensions(s, x):
    pairs = [(i, j) for i in range(3) if i for j in range(i)]
    return (
        [x * i for i, _ in pairs],
        {i: x + i for i in s.items},
        {i % 2 for i in range(5)},
        sum(x * i for i in range(3)),
        [[y for y in range(z)] for z in range(3)],
    )


@program
def generators(s, x):
    def numbers(n):
        s.log.append("start")
        try:
            for i in range(n):
                got = yield x + i
                if got:
                    s.log.append(got)
        finally:
            s.log.append("end")
        return n

    def outer():
        n = yield from numbers(2)
        yield x * n

    g = numbers(3)
    first = next(g)
    second = g.send("hello")
    g.close()
    return first, second, list(outer()), next(numbers(0), None)


@program
def generator_methods(s, x):
    def g():
        while True:
            try:
                yield x
            except ValueError as error:
                s.log.append(str(error))
                yield x + 1

    it = g()
    next(it)
    return it.throw(ValueError("told")), next(it)


@program
def unpacking(s, x):
    a, (b, *c), d = 1, (2, 3, 4), x
    *e, f = s.items
    (g, h), i = (x, 2), [3]
    a, b = b, a
    first, *_ = "xyz"
    return a, b, c, d, e, f, g, h, i, first, [*s.items, *c], {**s.table, "z": 1}, (*s.seen,)


@program
def wrong_unpacking(s, x):
    out = []
    for values in ([1], [1, 2, 3], 5):
        try:
            a, b = values
            out.append(a + b)
        except (TypeError, ValueError) as error:
            out.append(str(error))
    return x, out


@program
def walrus_and_conditions(s, x):
    if (n := len(s.items)) > 1 and not (m := s.table.get("no")):
        x = x + n
    y = x if m is None else 0
    return y, 1 < n <= 5 != 4, n or 3, n and 0, m is not None


@program
def loops(s, x):
    for i in range(5):
        if i == 1:
            continue
        if i == 3:
            break
        x = x + i
    else:
        x = x * 100
    while s.n < 3:
        s.n += 1
    else:
        x = x + s.n
    for k, (i, v) in zip("ab", enumerate(s.items), strict=False):
        x = x + i * v + len(k)
    return x


@program
def iterator_tools(s, x):
    return (
        [x + a * b for a, b in itertools.product([1, 2], repeat=2)],
        list(itertools.chain([1], (2,), s.items)),
        list(itertools.islice(itertools.count(3), 2)),
        list(itertools.accumulate([1, 2, 3])),
        list(itertools.zip_longest([1], [1, 2], fillvalue=0)),
        list(map(lambda a, b: a + b, [1, 2], [3, 4])),
        list(filter(None, [0, 1, 2])),
        sorted([3, 1, 2], key=lambda v: -v, reverse=True),
        list(reversed(s.items)),
        max([1, 3], key=lambda v: -v),
        min(2, 1),
        any(v > 1 for v in s.items),
        all([]),
    )


# ---- classes


class Scale:
    def __init__(self, name):
        self.name = name

    def __set_name__(self, owner, name):
        self.public = name

    def __get__(self, obj, owner):
        return self if obj is None else obj.__dict__.get(self.name, 1) * 2

    def __set__(self, obj, value):
        obj.__dict__[self.name] = value
        obj.log.append(self.public)


class Animal:
    kind = "animal"
    scale = Scale("_scale")
    __slots_like__ = ()

    def __init__(self, x, log=None):
        self.x = x
        self.log = [] if log is None else log

    @property
    def double(self):
        return self.x * 2

    @double.setter
    def double(self, value):
        self.x = value / 2

    @double.deleter
    def double(self):
        del self.x

    @classmethod
    def make(cls, x):
        return cls(x)

    @staticmethod
    def plus(a, b):
        return a + b

    def speak(self, x):
        return x + 1

    def __call__(self, x):
        return self.speak(x)

    def __add__(self, other):
        return type(self)(self.x + getattr(other, "x", other))

    __radd__ = __add__

    def __iadd__(self, other):
        self.x = self.x + other
        return self

    def __getitem__(self, key):
        return self.x * key

    def __setitem__(self, key, value):
        self.log.append((key, value))

    def __contains__(self, key):
        return key == 1

    def __len__(self):
        return 3

    def __iter__(self):
        yield from (self.x, 1)

    def __eq__(self, other):
        return isinstance(other, Animal) and self.kind == other.kind

    __hash__ = object.__hash__

    def __repr__(self):
        return f"<{self.kind}>"


class Dog(Animal):
    kind = "dog"

    def speak(self, x):
        return super().speak(x) * 2

    def __getattr__(self, name):
        if name.startswith("get_"):
            return name[4:]
        raise AttributeError(name)


class Slotted:
    __slots__ = ("a", "b")

    def __init__(self, a):
        self.a = a


@program
def classes(s, x):
    d = Dog.make(x)
    a = Animal(x, s.log)
    a.double = x * 8
    a.scale = 3
    a[1] = 2
    both = d + a
    d += 1
    return (d.double, d(x), d.speak(x), a.x, a.scale, both.x, (1 + d).x, d[3], 1 in d, len(d), [v for v in d], a == d, Dog.plus(x, 1), f"{d!r}", d.get_name,
            hasattr(d, "other"), isinstance(d, Animal), issubclass(Dog, Animal), type(d).__name__, a.log)  # fmt: skip


@program
def deleting_a_property(s, x):
    a = Animal(x)
    del a.double
    try:
        return a.double, x
    except AttributeError as error:
        return str(error), x + 1


@program
def slots(s, x):
    v = Slotted(x)
    try:
        v.b
    except AttributeError as error:
        s.log.append(str(error))
    v.b = 2
    v.a = v.a + v.b
    del v.b
    return v.a, hasattr(v, "b")


@dataclasses.dataclass
class Point:
    a: object
    b: int = 2
    c: list = dataclasses.field(default_factory=list)

    def __post_init__(self):
        self.c.append(self.b)


@dataclasses.dataclass(frozen=True)
class Frozen:
    a: object


Pair = collections.namedtuple("Pair", "a b", defaults=[5])


class Mode(enum.Enum):
    A = 1
    B = "b"

    @property
    def lower(self):
        return self.name.lower()


class Flag(enum.IntFlag):
    X = 1
    Y = 2


@program
def dataclasses_(s, x):
    p = Point(x)
    q = dataclasses.replace(p, b=4)
    return p, q.b, q.c, [f.name for f in dataclasses.fields(p)], Frozen(x).a


@program
def namedtuples(s, x):
    p = Pair(x)
    a, b = p
    return p, p.a, b, p._replace(b=7), p._asdict(), p._fields, Pair._make([x, 1])


@program
def enums(s, x):
    mode = Mode("b")
    return (
        Mode.A.value,
        mode.name,
        mode is Mode.B,
        Mode["A"].lower,
        [m.name for m in Mode],
        mode in (Mode.A,),
        Flag.X < 2,
        int(Flag.Y),
        x,
    )


@breaks
def class_body(s, x):
    class Local:
        n = 3

        def work(self, v):
            return v * self.n

    return Local().work(x)


# ---- containers


@program
def lists(s, x):
    v = s.items
    v.append(3)
    v.insert(0, 9)
    v.extend(i for i in (4, 5))
    v[1:2] = [7, 8]
    v.sort()
    v.reverse()
    v.remove(9)
    del v[0]
    v += [6]
    popped = v.pop(), v.pop(0)
    return (
        popped,
        v.index(7),
        v.count(3),
        v[::-1],
        v[-1],
        v * 2,
        v + [1],
        v == s.same,
        v is s.same,
        v.copy(),
        x * len(v),
    )


@program
def dicts(s, x):
    d = s.table
    d["b"] = d.get("a", 0) + 1
    d.update(c=3)
    d.setdefault("d", []).append(1)
    d |= {"e": x}
    gone = d.pop("a", None), d.pop("zz", 5)
    last = d.popitem()
    del d["c"]
    return (
        gone,
        last,
        list(d),
        list(d.items())[0],
        "b" in d,
        {**d},
        d is s.nested["self"],
        dict(zip("ab", [1, 2], strict=True)),
        dict.fromkeys("ab", x),
    )


@program
def sets(s, x):
    s.seen.add(s.n + 5)
    s.seen.discard(1)
    s.seen |= {7}
    s.seen.update([8])
    return sorted(s.seen), 5 in s.seen, s.seen & {5}, s.seen - {5}, s.seen ^ {5}, {1} <= {1, 2}, frozenset([1]) | {2}, x


@program
def deques(s, x):
    s.queue.append(s.n)
    s.queue.appendleft(4)
    s.queue.rotate(1)
    s.n += 1
    return list(s.queue), s.queue[0], len(s.queue), s.queue.maxlen, x + s.queue[-1]


@breaks
def ordered_dicts(s, x):
    s.order.move_to_end("a")
    s.order["c"] = x
    return list(s.order)


@program
def fresh_collections(s, x):
    d = collections.defaultdict(list)
    d["a"].append(x)
    o = collections.OrderedDict(b=1, a=2)
    o.move_to_end("b")
    q = collections.deque([1, 2, 3], maxlen=2)
    q.append(4)
    return dict(d), list(o), list(q), sorted({"b": 1, "a": 2}.items())


@program
def numbers_and_texts(s, x):
    n = len(s.items)
    return (f"{n:03d} {3.14159:.2f} {n!r:>5} {'a':<3}|", "%s-%d" % ("a", n), "a,b".split(","), "-".join(str(i) for i in range(3)), "abc"[::-1], "abc".replace("b", "x").upper(),
            7 // 2, -7 % 3, 2**10, 7 / 2, divmod(7, 3), round(2.567, 1), abs(-3), 1 << 4 | 1, ~5, int("12"), float("1.5"), bool([]), math.sqrt(4), math.floor(-1.5),
            (5).bit_length(), 1.0.is_integer(), complex(1, 2).imag, bytes([1, 2])[0], range(10)[2:8:3], slice(1, 5).indices(3), "é".encode(), x * n)  # fmt: skip


@program
def aliases_stay_aliases(s, x):
    s.nested["list"][0].append(5)
    s.same.append(6)
    new = [x]
    s.nested["new"] = new
    s.log = new
    new.append(s.items)
    return new, s.items is s.same


@program
def attributes_changed(s, x):
    s.n += 1
    s.fresh = x
    setattr(s, "m", getattr(s, "m", 0) + 1)
    if hasattr(s, "temp"):
        del s.temp
    else:
        s.temp = 1
    s.log.append(s.m)
    return vars(s)["n"], x + s.n


# ---- with, try


class Manager:
    def __init__(self, log, swallow=False):
        self.log, self.swallow = log, swallow

    def __enter__(self):
        self.log.append("enter")
        return self

    def __exit__(self, kind, error, trace):
        self.log.append(getattr(kind, "__name__", None))
        return self.swallow


@contextlib.contextmanager
def managed(log):
    log.append("in")
    try:
        yield 5
    except KeyError:
        log.append("caught")
    finally:
        log.append("out")


@program
def with_blocks(s, x):
    with Manager(s.log) as m, managed(s.log) as five:
        x = x + five
    with Manager(s.log, swallow=True):
        raise ValueError("gone")
    with managed(s.log):
        raise KeyError("k")
    with contextlib.suppress(ZeroDivisionError):
        x = x + 1 / 0
    with contextlib.nullcontext(3) as three:
        x = x * three
    return x, m.swallow


@program
def with_that_raises(s, x):
    try:
        with Manager(s.log):
            s.items.append(4)
            raise ValueError("up")
    except ValueError as error:
        s.log.append(str(error))
    return x


@program
def with_return(s, x):
    for _ in range(2):
        with Manager(s.log):
            return x + 1
    return x


@breaks
def grad_modes(s, x):
    w = torch.ones(3, requires_grad=True)
    with torch.no_grad():
        a = w * x
        with torch.enable_grad():
            b = w * x
    with torch.set_grad_enabled(False):
        c = w * 2
    return a, b, c, w * 3, torch.is_grad_enabled()


@program
def autocast(s, x):
    m = torch.ones(3, 3)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        a = m @ m
        with torch.autocast("cpu", enabled=False):
            b = m @ m
    return a, b, m @ m


@breaks
def inference_mode(s, x):
    with torch.inference_mode():
        y = x * 2
    return y + 1


@torch.no_grad()
def without_grad(w):
    return w * 2


@breaks
def no_grad_as_a_decorator(s, x):
    w = torch.ones(3, requires_grad=True)
    return without_grad(w), w * x


@program
def exceptions(s, x):
    out = []
    for kind in range(4):
        try:
            if kind == 0:
                raise ValueError("v")
            if kind == 1:
                {}["k"]
            if kind == 2:
                [][1]
        except ValueError as error:
            out.append(error.args)
        except (KeyError, IndexError) as error:
            out.append(type(error).__name__)
        else:
            out.append("else")
        finally:
            out.append(kind)
    return out, x + 1


class Custom(Exception):
    def __init__(self, code):
        super().__init__(f"code {code}")
        self.code = code


@program
def nested_exceptions(s, x):
    def fails():
        try:
            raise Custom(3)
        finally:
            s.log.append("cleaned")

    try:
        try:
            fails()
        except Custom as error:
            raise RuntimeError("outer") from error
    except RuntimeError as error:
        return error.__cause__.code, str(error.__cause__), x


@program
def reraise(s, x):
    try:
        try:
            assert len(s.items) > 100, "too few"
        except AssertionError:
            s.log.append("seen")
            raise
    except AssertionError as error:
        return str(error), x


@program
def finally_returns(s, x):
    def f():
        try:
            return 1
        finally:
            s.log.append("f")

    def g():
        for i in range(3):
            try:
                continue
            finally:
                s.log.append(i)
        return 2

    return f(), g(), x


@breaks
def raises_out(s, x):
    s.items.append(x)
    s.n += 1
    raise Custom(s.n)


@breaks
def raises_half_way(s, x):
    y = x + 1
    s.log.append(1)
    s.table["t"] = y
    return y + s.missing


@breaks
def match_statement(s, x):
    match s.items:
        case [a, b]:
            return x * a + b
        case [a, *rest]:
            return x * a + len(rest)


class Truthy:
    def __init__(self, n):
        self.n = n

    def __bool__(self):
        return self.n > 0


@program
def truth_of_objects(s, x):
    a, b = Truthy(1), Truthy(0)
    if a and not b:
        x = x + 1
    return (
        x if b else x * 2,
        (a and b) is b,
        (a or b) is a,
        (b and a) is b,
        (b or a) is a,
        bool(a),
        not a,
        [v.n for v in (a, b) if v],
        all([a, b]),
        any([a, b]),
    )


class ContextFlag:
    value = 3


@program
def star_imports_and_names(s, x):
    import math as m
    from operator import mul

    return mul(x, m.floor(2.5)), __name__


@program
def tensors_in_containers(s, x):
    parts = {"a": [x, x + 1], "b": (x * 2,)}
    parts["a"].append(parts["b"][0])
    parts["c"] = torch.stack(parts["a"])
    values, indices = torch.sort(x)
    q, *rest = x.unbind()
    return (
        parts,
        values,
        indices,
        q,
        rest,
        x.shape,
        x.shape[0],
        x.size(),
        x.dtype,
        x.device,
        len(x),
        x.dim(),
        list(x.shape),
    )


@program
def tensors_changed_in_place(s, x):
    y = x.clone()
    view = y[1:]
    view += 1
    y[0] = 7
    y.mul_(2)
    return y, view, y is x


@program
def inputs_changed_in_place(s, x):
    x.add_(1)
    x[0] = x[1] * 2
    s.log.append(x)
    return x, x + 1


@breaks
def wrong_call_of_a_tensor_method(s, x):
    try:
        return x.add()
    except TypeError:
        return x + 1


@breaks
def converted_and_formatted(s, x):
    return f"{Dog(x)!r:>9}", x + 1


@program
def containers_changed_while_iterated(s, x):
    out = []
    for make in (lambda: s.table, lambda: s.queue):
        values = make()
        try:
            for v in values:
                values.update({"new": 1}) if values is s.table else values.append(v)
        except RuntimeError as error:
            out.append(str(error))
    return out, x


@program
def copies(s, x):
    a = copy.copy(s.items)
    b = copy.deepcopy(s.table)
    a.append(1)
    b["z"] = 1
    return a, b, x


@pytest.mark.parametrize("f", PROGRAMS, ids=[f.__name__ for f in PROGRAMS])
def test_same_as_eager(f, counting):
    global LEVEL
    broken = getattr(f, "breaks", False)
    compiled = pellucid.compile(f, backend=counting, fullgraph=not broken)
    traces = []
    for g in (f, compiled):
        LEVEL = 0
        state = State()
        traces.append([run(g, state, x) for x in (torch.arange(1.0, 4.0), torch.arange(2.0, 5.0), torch.ones(4))])
        assert state.items is state.same and state.nested["self"] is state.table
    for i, (want, got) in enumerate(zip(*traces, strict=True)):
        assert got == want, i
