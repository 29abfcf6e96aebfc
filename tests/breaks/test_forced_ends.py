"""Regions that end after every so many instructions, as `--force-break-every` makes them: sets, groups of exceptions, lists, blocks in parts."""

from __future__ import annotations

import itertools
import random

import pytest
import torch

import pellucid
from pellucid import _core
from support import assert_as_eager, outcome, same

X = torch.arange(3.0)


def check_in_parts(f, *calls):
    """Eager and compiled, without and with forced breaks."""
    wants = [outcome(f, *args) for args in calls]
    for every in (0, *range(2, 20)):
        with pellucid.config.patch(force_break_every=every, recompile_limit=1000):
            compiled = pellucid.compile(f, backend="eager")
            for args, want in zip(calls, wants, strict=True):
                got = outcome(compiled, *args)
                assert got[0] == want[0] and same(got[1:], want[1:]), (every, got, want)


class Truthy:
    def __init__(self, n):
        self.n = n

    def __bool__(self):
        return self.n > 0


def test_and_with_the_answer_of_a_user_object():
    def f(x):
        a, b = Truthy(1), Truthy(0)
        return x + 1, (a and b) is b, (a or b) is a, (b and a) is b, (b or a) is a

    check_in_parts(f, (X,))


class Absent:
    def __getattr__(self, name):
        raise AttributeError(f"no {name}")


class Wrong:
    @property
    def wrong(self):
        raise AttributeError("from the property")


class Both(Absent, Wrong):
    pass


class Named(Absent):
    def __getattr__(self, name):
        raise AttributeError("told", name="mine", obj=1)


class Meta(type):
    def __getattr__(cls, name):
        raise AttributeError(f"no {name}")


class OfMeta(metaclass=Meta):
    pass


@pytest.mark.parametrize(
    "make", [Absent, Wrong, Both, Named, lambda: OfMeta], ids=["hook", "property", "both", "told", "meta"]
)
def test_attribute_errors_of_python_code_say_of_what(make):
    def f(x):
        thing, told = make(), []
        for read in (lambda: thing.wrong, lambda: thing.wrong(), lambda: getattr(thing, "wrong")):
            try:
                read()
            except AttributeError as error:
                told.append((error.name, error.obj is thing, str(error)))
        return x + 1, told

    check_in_parts(f, (X,))


def test_members_of_a_set_from_arguments():
    class Key:
        pass

    a, b = Key(), Key()

    def display(k, q, x):
        return x * len({k, q})

    def constructed(k, q, x):
        return x * len(set([k, q]))

    def of_tuples(k, q, x):
        return x * len({(1, k), (1, q)})

    def dicts(k, q, x):
        return x * len({k: 1, q: 2})

    for f in (display, constructed, of_tuples, dicts):
        check_in_parts(f, (a, b, X), (a, a, X), (b, a, X))


def test_sorting_in_parts():
    def f(x, reverse):
        seen = []

        def key(pair):
            seen.append(pair[1])
            return pair[0]

        return x + 1, sorted([(2, "a"), (1, "b"), (2, "c"), (0, "d")], key=key, reverse=reverse), seen

    check_in_parts(f, (X, False), (X, True))


class Three:
    def __index__(self):
        return 3


def test_start_of_enumerate():
    def f(x, start):
        try:
            made = enumerate(iter("ab"), start)
        except TypeError as error:
            return x, str(error)
        return x, list(made)

    check_in_parts(f, (X, 2.5), (X, 2), (X, Three()), (X, None))


def test_types_of_lazy_iterators():
    def f(x):
        made = [itertools.chain([1], [2]), map(lambda v: v, [1]), enumerate("ab"), zip([1], [2])]
        return x + 1, [type(one).__name__ for one in made], [list(one) for one in made]

    check_in_parts(f, (X,))


def test_exceptions_of_a_group_stay_the_same_objects():
    def f(x):
        inner = ExceptionGroup("h", [TypeError(2), ValueError(3)])
        group = ExceptionGroup("g", [inner])
        match, rest = group.split(ValueError)
        again = group.subgroup((TypeError, KeyError))
        first = inner.exceptions[0]
        return x + 1, rest.exceptions[0].exceptions[0] is first, again.exceptions[0].exceptions[0] is first, str(match)

    def wrong(x):
        return ExceptionGroup("g", [ValueError(1)]).split(int)

    check_in_parts(f, (X,))
    check_in_parts(wrong, (X,))


def test_exceptions_from_outside_are_read_under_guards():
    def printed(x, error):
        return x + 1, str(error), f"{error}"

    def parted(x, group):
        try:
            raise group
        except* ValueError:
            x = x + 1
        return x

    errors = [
        TypeError("one"),
        TypeError("two"),
        KeyError("one"),
        KeyError("two"),
        OSError(2, "gone"),
        OSError(3, "gone"),
    ]
    check_in_parts(printed, *((X, error) for error in errors))
    first, second = ExceptionGroup("g", [ValueError(1)]), ExceptionGroup("g", [ValueError(1), TypeError(2)])
    compiled = pellucid.compile(parted, backend="eager")
    for group in (first, second, first):
        assert_as_eager(compiled, parted, X, group)


def test_except_star_in_parts():
    def f(x):
        try:
            try:
                raise ExceptionGroup("g", [ValueError("a"), TypeError("b")])
            except* ValueError:
                x = x + 1
        except ExceptionGroup as rest:
            return x, str(rest), [str(error) for error in rest.exceptions]

    def wrong(x):
        out = []
        for call in (lambda: len(), lambda: int("a", 5, 6), lambda: None + 1):
            try:
                call()
            except TypeError as error:
                out.append(str(error))
        return x + 1, out

    check_in_parts(f, (X,))
    check_in_parts(wrong, (X,))


class Problem(Exception):
    def __init__(self, text, code):
        super().__init__(text)
        self.code = code

    def __str__(self):
        return f"{self.args[0]} ({self.code})"


def test_an_exception_whose_text_is_python_code_and_not_ready():
    def numbers(x):
        yield x + 1
        yield x + 2

    def f(x):
        given = numbers(x)
        next(given)
        return given.throw(Problem("thrown", 4))

    check_in_parts(f, (X,))


def test_a_group_of_a_list_that_grew():
    def f(x):
        errors = []
        for n in range(2):
            try:
                {}[n]
            except KeyError as error:
                errors.append(error)
        try:
            raise ExceptionGroup("several", [*errors, ValueError("more")])
        except ExceptionGroup as group:
            return x + 1, str(group), len(group.exceptions), len(group.args[1])

    check_in_parts(f, (X,))


def test_nested_lists_that_torch_reads():
    def tensor(data, x):
        return x + torch.tensor(data), torch.as_tensor(data)

    def filled(data, x):
        data[0][0] += 1
        return x + torch.tensor(data)

    for f in (tensor, filled):
        data, other = [[3, 1.0, 2], [3, 4, 5]], [[3, 1.0, 2], [3, 4, 5]]
        compiled = pellucid.compile(f, backend="eager")
        for change in (0, 0, 4, 1):
            data[0][0] += change
            other[0][0] += change
            assert same(compiled(data, X), f(other, X)) and data == other


def test_a_list_that_is_sorted_in_parts():
    def f(x):
        items = [2, 3, 1]
        items.sort(key=lambda item: -item)
        return x + 1, items

    check_in_parts(f, (X,))


def test_a_callable_iterator_ends_with_stop_iteration():
    def f(x):
        given = iter([1, 2])
        return x + 1, [value for value in iter(lambda: next(given), 5)]

    check_in_parts(f, (X,))


def test_an_error_behind_a_break_leaves_the_programs_blocks():
    left = []

    class Block:
        def __enter__(self):
            pass

        def __exit__(self, *error):
            left.append(error[0])

    def f(x):
        with Block():
            print("allowed")
            y = x + 1
            with pellucid.error_on_graph_break(True):
                print(y)
        return y

    with pytest.raises(pellucid.errors.Unsupported):
        pellucid.compile(f, backend="eager")(X)
    assert len(left) == 1 and issubclass(left[0], pellucid.errors.Unsupported)


def test_an_end_is_put_off_until_what_is_alive_can_leave():
    class Base:
        def scale(self):
            return 2

    class Scaled(Base):
        def scale(self):
            return super().scale() + 1

    def f(x):
        return x * Scaled().scale() + 1

    check_in_parts(f, (X,))
    for every in range(2, 12):
        first = _core.next_event()
        with pellucid.config.patch(force_break_every=every):
            pellucid.compile(f, backend="eager")(X)
        assert any(event["kind"] == "forced_end" for event in _core.events(first)), every


def test_a_set_display_that_is_filled_behind_a_break_keeps_its_order(monkeypatch):
    """SET_UPDATE of an empty set copies the constant's table or fills a new one; either is what a set from before is given."""
    numbers = random.Random(4)
    for _ in range(60):
        values = numbers.sample([-1, -2, *range(0, 200, 8), *range(7)], numbers.randint(3, 9))
        space = {}
        exec(
            f"def f(x):\n    s = {{{', '.join(map(str, values))}}}\n    y = x + 1\n    return y, list(s), list(s | {{981, 8}})",
            space,
        )
        monkeypatch.setattr(pellucid.config, "force_break_every", 3)
        compiled = pellucid.compile(space["f"], backend="eager")
        for _ in range(2):
            assert compiled(torch.ones(1))[1:] == space["f"](torch.ones(1))[1:], values
