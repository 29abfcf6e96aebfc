"""Numbers in the dicts of classes: open from the first change on, as attributes of objects are."""

from __future__ import annotations

import torch

import pellucid
from support import Counting, same


def check(make, calls, **options):
    """How many graphs the calls make; `make()` gives the program anew. The results are those of eager."""
    pellucid.reset()
    counting = Counting()
    eager, program = make(), make()
    compiled = pellucid.compile(program, backend=counting, **options)
    for arguments in calls:
        assert same(compiled(*arguments), eager(*arguments)), arguments
    return counting.count


X = torch.arange(3.0)


def test_a_counter():
    def make():
        class C:
            step = 0

        def f(x):
            C.step += 1
            return x * C.step, C.step

        return f

    assert check(make, [(X,)] * 12) == 2


def test_a_counter_that_instances_see():
    def make():
        class Base:
            step = 0
            rate = 0.5

            def scale(self, x):
                return x * self.step * self.rate

        class C(Base):
            pass

        def f(x):
            Base.step += 1
            Base.rate = Base.rate * 0.5
            return C().scale(x), Base.rate

        return f

    assert check(make, [(X,)] * 12) <= 3


def test_a_nearer_class_or_an_instance_that_gets_one_of_its_own():
    def make():
        class Base:
            step = 0

        class C(Base):
            pass

        c = C()

        def f(x, what):
            if what == "base":
                Base.step += 1
            elif what == "class":
                C.step = c.step + 10
            elif what == "instance":
                c.step = 100
            elif what == "gone":
                del C.step
            return x * c.step, c.step

        return f

    order = ["base"] * 5 + ["class"] * 3 + ["base"] * 3 + ["gone"] + ["base"] * 3 + ["instance"] + ["base"] * 3
    check(make, [(X, what) for what in order])


def test_a_number_that_becomes_something_else():
    def make():
        class C:
            value = 1

        def f(x, value):
            C.value = value
            return g(x)

        def g(x):
            return (x * float(C.value), C.value) if isinstance(C.value, (int, float)) else (x, C.value)

        return f

    values = [1, 2, 3, 2.5, 3.5, True, False, 7, 2**70, float("inf"), float("nan"), "text", None, 4, 5]
    pellucid.reset()
    eager, program = make(), make()
    compiled = pellucid.compile(program, backend="eager")
    for value in values:
        (got, number), (want, other) = compiled(X, value), eager(X, value)
        assert torch.equal(got.nan_to_num(), want.nan_to_num()) and repr(number) == repr(other), value


def test_a_number_from_outside_that_is_looked_at():
    def make():
        class C:
            step = 0

        def f(x):
            if C.step > 5:
                x = x + 1
            return x * C.step

        f.advance = lambda: setattr(C, "step", C.step + 1)
        return f

    pellucid.reset()
    counting = Counting()
    eager, program = make(), make()
    compiled = pellucid.compile(program, backend=counting)
    for _ in range(14):
        assert same(compiled(X), eager(X))
        eager.advance(), program.advance()
    assert counting.count == 3


def test_constants_of_a_class_are_not_opened():
    def make():
        class C:
            width, step = 4, 0

        def f(x):
            C.step += 1
            return x.new_ones(C.width) * C.step

        return f

    assert check(make, [(X,)] * 12) == 2


def test_a_loop_over_a_number_of_a_class_has_a_region_for_each():
    def make():
        class C:
            count = 0

        def f(x):
            C.count += 1
            for _ in range(C.count):
                x = x + 1
            return x

        return f

    assert check(make, [(X,)] * 6) == 6
