"""Programs for test_exception_fidelity.py, in a module of their own: pytest rewrites the assertions of test modules."""

from __future__ import annotations

import contextlib

import torch

BAD = torch.tensor([0, 9])


class Problem(Exception):
    """An exception with a state of its own."""

    def __init__(self, text, code, *, tensor=None):
        super().__init__(text)
        self.code, self.tensor = code, tensor

    def __str__(self):
        return f"{self.args[0]} ({self.code})"


class Quiet(BaseException):
    pass


class Swallow:
    def __init__(self, *types):
        self.types = types

    def __enter__(self):
        return self

    def __exit__(self, kind, value, tb):
        return kind is not None and issubclass(kind, self.types)


class Replace:
    """Raises another exception while one is on its way."""

    def __enter__(self):
        return self

    def __exit__(self, kind, value, tb):
        raise Problem("on the way out", 3)


class Thing:
    def __init__(self, value):
        if value is None:
            raise ValueError("no value")
        self.value = value

    @property
    def broken(self):
        return self.value["missing"]

    def __len__(self):
        return -1

    def __bool__(self):
        raise ZeroDivisionError("truth")

    def __add__(self, other):
        raise TypeError(f"cannot add {other!r}")

    def __getitem__(self, key):
        return self.value[key + 1]

    def __call__(self, x):
        return x[self.value]

    def __eq__(self, other):
        raise AssertionError("compared")

    __hash__ = None

    def __iter__(self):
        yield 1
        raise RuntimeError("half-way")

    def __contains__(self, item):
        raise LookupError(item)

    def __setattr__(self, name, value):
        if name == "locked":
            raise AttributeError("locked", name=name, obj=self)
        object.__setattr__(self, name, value)

    def __getattr__(self, name):
        raise AttributeError(f"no {name} here")

    def __format__(self, spec):
        raise ValueError(f"format {spec}")

    def __index__(self):
        raise OverflowError("index")


# ---- plain Python in the region


def raises_at_once(x):
    y = x + 1
    raise ValueError("text", y.shape[0])


def nested_functions(x):
    def inner(t, n):
        if n == 0:
            return {}["key"]
        return inner(t + 1, n - 1)

    return inner(x * 2, 3)


def raise_from(x):
    try:
        int("no number")
    except ValueError as error:
        raise Problem("outer", x.dim()) from error


def raise_from_none(x):
    try:
        (x + 1).missing
    except AttributeError:
        raise KeyError("hidden") from None


def chain_of_contexts(x):
    try:
        try:
            [][1]
        except IndexError:
            {}["k"]
    except KeyError:
        return x.nothing


def raise_in_finally(x):
    try:
        raise ValueError("first")
    finally:
        x = x * 2
        raise Problem("second", 2)


def finally_returns(x):
    try:
        raise ValueError("lost")
    finally:
        return x + 1


def bare_raise(x):
    try:
        [1, 2].index(3)
    except ValueError:
        x = x + 1
        raise


def raise_again_later(x):
    kept = None
    try:
        {}.popitem()
    except KeyError as error:
        kept = error
    x = x.sin()
    raise kept


def assertion(x):
    y = x.sum(0)
    assert y.shape == (4,), f"shape is {tuple(y.shape)}"


def assertion_without_text(x):
    assert x.dim() == 3


def exception_group(x):
    errors = []
    for n in range(3):
        try:
            (x[0], {}[n])
        except KeyError as error:
            errors.append(error)
    raise ExceptionGroup("several", [*errors, ValueError("one more")])


def except_star(x):
    try:
        raise ExceptionGroup("group", [ValueError("a"), TypeError("b"), ExceptionGroup("in", [ValueError("c")])])
    except* ValueError as group:
        x = x * len(group.exceptions)


def except_star_raises(x):
    try:
        raise ExceptionGroup("group", [ValueError("a"), TypeError("b")])
    except* ValueError:
        raise KeyError(x.dim())


def with_notes(x):
    error = ValueError("noted")
    error.add_note(f"{x.dim()} dimensions")
    raise error


def not_an_exception(x):
    raise x.shape


def class_without_call(x):
    raise (Problem if x.dim() == 1 else StopIteration)


def custom_with_tensor(x):
    raise Problem("tensor", 7, tensor=x + 1)


def wrong_constructor(x):
    raise Problem


def base_exception(x):
    x = x + 1
    raise Quiet("through everything")


def system_exit(x):
    raise SystemExit(x.shape[0])


def in_exit(x):
    with Replace():
        return x["no"]


def in_exit_without_error(x):
    with Replace():
        x = x + 1
    return x


def exit_swallows_and_later_raises(x):
    with Swallow(KeyError):
        {}["swallowed"]
    with Swallow(KeyError):
        [][0]


def suppressed(x):
    with contextlib.suppress(KeyError), contextlib.ExitStack() as stack:
        stack.enter_context(Swallow(ValueError))
        x = x * 2
        raise IndexError("not suppressed")


@contextlib.contextmanager
def managed(x):
    try:
        yield x + 1
    except ValueError as error:
        raise Problem("managed", 1) from error


def in_contextmanager(x):
    with managed(x) as y:
        raise ValueError(y.dim())


def contextmanager_passes_on(x):
    with managed(x) as y:
        return y.missing


def numbers(x, n):
    yield x + n
    yield 1 // n


def in_generator(x):
    return [y for y in numbers(x, 0)]


def in_generator_deep(x):
    def outer():
        yield from numbers(x, 0)

    return sum(y.sum() for y in outer())


def stop_iteration_in_generator(x):
    def bad():
        yield x
        next(iter(()))

    return list(bad())


def thrown_into_generator(x):
    gen = numbers(x, 1)
    next(gen)
    return gen.throw(Problem("thrown", 4))


def generator_ends(x):
    gen = numbers(x, 1)
    return [next(gen), next(gen), next(gen)]


def in_comprehension(x):
    return [x * (1 // n) for n in range(2, -1, -1)]


def in_dict_comprehension(x):
    return {k: x[k] for k in (0, 1, "bad")}


def in_lambda(x):
    return (lambda t, k: t + {"a": 1}[k])(x, "b")


def in_init(x):
    return x + Thing(None)


def in_property(x):
    return x + Thing({}).broken


def in_len(x):
    return x + len(Thing(1))


def in_truth(x):
    return x if Thing(1) else -x


def in_add(x):
    return Thing(1) + x.dim()


def in_getitem(x):
    return Thing([x])[0]


def in_call(x):
    return Thing("key")(x)


def in_eq(x):
    return x if Thing(1) == 2 else -x


def in_iteration(x):
    for n in Thing(1):
        x = x + n
    return x


def in_contains(x):
    return x if 3 in Thing(1) else -x


def in_setattr(x):
    thing = Thing(1)
    thing.other = x + 1
    thing.locked = x


def in_getattr(x):
    return x + Thing(1).absent


def in_format(x):
    return f"{x.dim()} {Thing(1):>7}"


def in_index(x):
    return [1, 2][Thing(1)]


def in_sort_key(x):
    return sorted([3, "a", 1], key=lambda v: v + x.dim())


def in_sort_compare(x):
    return sorted([x.dim(), "a"])


def in_map(x):
    return list(map(lambda n: x[n], [0, 1, "no"]))


def in_reduce(x):
    from functools import reduce

    return reduce(lambda a, b: a + [1][b], [0, 0, 5], x)


def in_max_key(x):
    return max([1, 2], key=lambda n: {}[n])


def in_decorated(x):
    def decorate(f):
        def wrapper(*args, **kwargs):
            try:
                return f(*args, **kwargs)
            except TypeError as error:
                raise Problem("wrapped", 9) from error

        return wrapper

    @decorate
    def g(t):
        return t + "text"[9:].missing if t is None else t + object

    return g(x)


def wrong_arguments(x):
    def g(a, *, b):
        return a

    return g(x, 1, c=2)


def unbound_local(x):
    if x.dim() == 1:
        y = x
    return y + 1


def unbound_name(x):
    return x + nothing_of_that_name  # noqa: F821


def unpacking(x):
    a, b, c = x.shape
    return a + b + c


def call_of_none(x):
    return None(x)


def zero_division(x):
    n = x.dim() - 2
    return x * (10 // n)


def import_error(x):
    from contextlib import nothing_here  # noqa: F401

    return x


def over_many_lines(x):
    return (
        x
        + x.sum(
            0
        ) * {
            "a": 1
        }["b"]
    )  # fmt: skip


def delete_missing(x):
    y = {"a": x}
    del y["b"]


def recursion_with_state(x, seen=()):
    if len(seen) == 4:
        raise Problem("deep", len(seen))
    try:
        recursion_with_state(x + 1, (*seen, x))
    except Problem as error:
        raise Problem("level", len(seen)) from error


# ---- operators


def op_index(x):
    y = x + 1
    return y[BAD]


def op_in_nested(x):
    def g(t):
        return t.index_select(0, BAD) + 1

    return g(x * 2)


def op_caught_and_raised(x):
    x = x.clone()
    x += 1
    try:
        x[0] = 5
        y = torch.linalg.inv(torch.zeros(2, 2) * x[0, 0])
    except torch.linalg.LinAlgError as error:
        x[1] = 7
        raise Problem("singular", 1, tensor=None) from error
    return y


def op_shape(x):
    return (x + 1) @ x


def op_type(x):
    return torch.sin("text") + x


def op_in_finally(x):
    try:
        return x.view(7)
    finally:
        x.index_select(0, BAD)


def op_in_generator(x):
    def rows():
        for n in (0, 5):
            yield x[torch.tensor([n])]

    return list(rows())


def op_in_module(x):
    return torch.nn.Linear(4, 2)(x)


def op_in_embedding(x):
    return torch.nn.functional.embedding(BAD, x)


def op_in_key(x):
    return sorted([0, 9], key=lambda n: x[torch.full((1,), n)])


# ---- behind a break


def after_break(x):
    y = x + 1
    print(end="")
    y = y * 2
    raise Problem("after", y.dim())


def break_in_try(x):
    try:
        y = x + 1
        print(end="")
        return y[BAD]
    except IndexError as error:
        raise Problem("caught", 1) from error


def break_in_except(x):
    try:
        {}["k"]
    except KeyError:
        x = x + 1
        print(end="")
        return x["in handler"]


def break_in_finally(x):
    try:
        raise ValueError("kept")
    finally:
        x = x + 1
        print(end="")
        x = x * 2


def break_in_callee(x):
    def g(t):
        t = t + 1
        print(end="")
        t = t * 2
        return t[BAD]

    def h(t):
        return g(t) + 1

    return h(x) * 2


def break_raises(x):
    def g(t):
        return open("/no/such/file/" + str(t.dim()))

    y = x + 1
    return g(y)


def break_in_generator(x):
    def rows():
        for n in range(3):
            print(end="")
            yield x[n]

    return sum(row.sum() for row in rows())


def break_in_with(x):
    with Replace():
        x = x + 1
        print(end="")
        return x + "text"


def item_after_break(x):
    if x.sum() > 0:
        return x + {}["data-dependent"]
    return x


PROGRAMS = [
    value
    for value in list(globals().values())
    if callable(value)
    and getattr(value, "__module__", None) == __name__
    and not isinstance(value, type)
    and value.__code__.co_varnames[:1] == ("x",)
    and value.__name__ not in ("managed", "numbers")
]
