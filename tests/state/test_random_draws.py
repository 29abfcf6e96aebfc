"""Random numbers of Python and numpy that a region draws by one call (rows A22, C19): the numbers of eager, and the
state of the generators that eager leaves, also where a graph raises."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch

import pellucid
from support import Counting, CountingOf, same

X = torch.arange(1.0, 4.0)
BACKENDS = {"runs_numbers": Counting, "aot_eager": lambda: CountingOf("aot_eager")}


def states(*generators):
    legacy = np.random.get_state(legacy=False)
    found = [random.getstate(), repr(legacy)]
    for generator in generators:
        if isinstance(generator, random.Random):
            found.append(generator.getstate())
        elif isinstance(generator, np.random.RandomState):
            found.append(repr(generator.get_state(legacy=False)))
        else:
            found.append(repr(generator.bit_generator.state))
    return found


def seed():
    random.seed(5)
    np.random.seed(5)


def both(make, *args, calls=4, backend=None, generators=lambda: ()):
    """The number of graphs and the breaks of a function that gives eager's results and states.

    Args:
        make: of new generators, the function.
        args: of the function, behind a tensor that is another one at each call.
        calls: how many there are.
        backend: which graphs go to; None: one that counts.
        generators: new ones, in the same state each time.
    """
    backend = backend or Counting()
    found = []
    for is_compiled in (False, True):
        seed()
        own = generators()
        function = make(*own)
        if is_compiled:
            function = pellucid.compile(function, backend=backend)
        found.append([(function(X + i, *args), states(*own)) for i in range(calls)])
    assert same(*found)
    return backend.count, len(pellucid.break_reasons(function))


def whole(make, *args, **options):
    """That is one graph without a break."""
    assert both(make, *args, **options) == (1, 0)


PYTHON = {
    "random": lambda r: r.random(),
    "uniform": lambda r: r.uniform(2, 3),
    "randint": lambda r: r.randint(2, 50),
    "randrange": lambda r: r.randrange(3, 40, 2),
    "randrange_to": lambda r: r.randrange(7),
    "getrandbits": lambda r: r.getrandbits(9),
    "triangular": lambda r: r.triangular(0, 1, 0.25),
    "normalvariate": lambda r: r.normalvariate(1.0, 2.0),
    "expovariate": lambda r: r.expovariate(0.5),
    "betavariate": lambda r: r.betavariate(1.0, 2.0),
}
LEGACY = {
    "rand": lambda r: r.rand(),
    "random": lambda r: r.random(),
    "random_sample": lambda r: r.random_sample(),
    "randn": lambda r: r.randn(),
    "standard_normal": lambda r: r.standard_normal(),
    "uniform": lambda r: r.uniform(-1.0, 2.0),
    "normal": lambda r: r.normal(3.0, 0.5),
    "exponential": lambda r: r.exponential(2.0),
    "randint": lambda r: r.randint(3, 9),
    "randint_to": lambda r: r.randint(9),
}
GENERATOR = {
    "random": lambda r: r.random(),
    "standard_normal": lambda r: r.standard_normal(),
    "uniform": lambda r: r.uniform(-1.0, 2.0),
    "normal": lambda r: r.normal(3.0, 0.5),
    "exponential": lambda r: r.exponential(2.0),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", PYTHON)
def test_A22_functions_of_the_module(name, backend):
    draw = PYTHON[name]

    def f(x):
        return x * draw(random) + draw(random)

    whole(lambda: f, backend=BACKENDS[backend]())


@pytest.mark.parametrize("name", PYTHON)
def test_A22_methods_of_a_generator(name):
    draw = PYTHON[name]

    def make(own):
        return lambda x: (x * draw(own), draw(own))

    whole(make, generators=lambda: (random.Random(9),))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", LEGACY)
def test_A22_functions_of_numpy(name, backend):
    draw = LEGACY[name]

    def f(x):
        return x * draw(np.random) + draw(np.random)

    whole(lambda: f, backend=BACKENDS[backend]())


@pytest.mark.parametrize("name", LEGACY)
def test_A22_methods_of_a_random_state(name):
    draw = LEGACY[name]

    def make(own):
        return lambda x: (x * draw(own), draw(own))

    whole(make, generators=lambda: (np.random.RandomState(3),))


@pytest.mark.parametrize("name", GENERATOR)
def test_A22_methods_of_a_numpy_generator(name):
    draw = GENERATOR[name]

    def make(own):
        return lambda x: (x * draw(own), draw(own))

    whole(make, generators=lambda: (np.random.default_rng(3),))


def test_A22_one_generated_call_for_all():
    def f(x):
        a = random.random()
        y = x * a
        b = random.uniform(1, 2)
        return y + b, random.randint(1, 6), a

    whole(lambda: f)
    code = pellucid.show(f)(X).regions[0].code
    assert code.count("__draw_all") == 1 and code.index("__draw_all") < code.index("__compiled_fn_")


def test_A22_draws_that_nobody_uses():
    def f(x):
        random.random()
        np.random.rand()
        return x + 1

    whole(lambda: f)


def test_A22_several_generators_in_turn():
    def make(one, other, third):
        def f(x):
            a, b, c = one.random(), other.random(), third.normal()
            return x * a + b, one.random() * c, other.uniform(1, 2), third.random()

        return f

    whole(make, generators=lambda: (random.Random(1), random.Random(2), np.random.default_rng(3)))


def test_A22_the_generator_of_the_call():
    def f(x, own):
        return x * own.random()

    compiled = pellucid.compile(f, backend=(backend := Counting()))
    for start in range(4):
        one, other = random.Random(start), random.Random(start)
        assert same(f(X, one), compiled(X, other)) and one.getstate() == other.getstate()
    assert backend.count == 1


def test_A22_two_names_for_one_generator():
    def f(x, a, b):
        return x * a.random() + b.random()

    compiled = pellucid.compile(f, backend=Counting())
    for start in range(4):
        one, other = random.Random(start), random.Random(start)
        shared = start % 2 == 1
        assert same(
            f(X, one, one if shared else random.Random(8)), compiled(X, other, other if shared else random.Random(8))
        )
        assert one.getstate() == other.getstate()


def test_A22_kept_in_objects():
    class Noise:
        def __init__(self):
            self.own = random.Random(4)
            self.last = 0.0
            self.all = []

        def step(self, x):
            self.last = self.own.random()
            self.all.append(self.own.randint(1, 9))
            return x + self.last

    one, other = Noise(), Noise()
    step = pellucid.compile(other.step, backend=(backend := Counting()))
    for i in range(4):
        assert same(one.step(X + i), step(X + i))
        assert one.last == other.last and one.all == other.all and one.own.getstate() == other.own.getstate()
    assert backend.count == 1 and not pellucid.break_reasons(step)


def test_A22_computed_with():
    def f(x):
        a = random.random()
        scale = (a + 1) * 2 - random.uniform(0, 1) / 4
        return x * scale, int(a * 10), f"{a:.3f}", [a, -a], {"a": a}

    whole(lambda: f)


def test_A22_bounds_that_change():
    def make():
        last = [0.0]

        def f(x):
            last[0] += 1.0
            return x * random.uniform(0.0, last[0])

        return f

    graphs, breaks = both(make, calls=6)
    assert breaks == 0 and graphs <= 2


@pytest.mark.parametrize("backend", BACKENDS)
def test_A22_what_the_program_goes_by(backend):
    def f(x):
        y = x + 1
        return y * 2 if random.random() < 0.5 else y.sin()

    graphs, breaks = both(lambda: f, calls=8, backend=BACKENDS[backend]())
    assert (graphs, breaks) == (3, 1)


def test_A22_reason_of_a_branch():
    def f(x):
        return x * 2 if random.random() < 0.5 else x

    with pytest.raises(pellucid.errors.Unsupported, match="PEL0207"):
        pellucid.compile(f, backend=Counting(), fullgraph=True)(X)


def test_A22_as_an_index_and_a_size():
    def f(x):
        n = random.randint(1, 3)
        return x[:n] * 2, [x, x + 1, x - 1][random.randrange(3)]

    both(lambda: f, calls=8)


STEPS = {
    "shuffle": lambda r: r.shuffle([1, 2, 3]),
    "sample": lambda r: r.sample(range(10), 3),
    "choices": lambda r: r.choices([1, 2, 3], k=2),
    "gauss": lambda r: r.gauss(0.0, 1.0),
    "choice": lambda r: r.choice("abc"),
    "seed": lambda r: r.seed(3),
    "getstate": lambda r: r.getstate(),
}


@pytest.mark.parametrize("name", STEPS)
def test_A22_steps_between_draws(name):
    step = STEPS[name]

    def f(x):
        a = random.random()
        between = step(random)
        return x * a + random.random(), between

    graphs, breaks = both(lambda: f, calls=3)
    assert graphs >= 1 and breaks == 1


def test_A22_state_that_the_program_puts_back():
    def f(x):
        before = random.getstate()
        a = random.random()
        random.setstate(before)
        return x * a, random.random() == a

    both(lambda: f)


def test_A22_numpy_seeds_and_states():
    def f(x, own):
        a = np.random.rand()
        np.random.seed(3)
        state = own.bit_generator.state
        b = own.random()
        return x * a + b, repr(state), repr(own.bit_generator.state)

    found = []
    for around in (lambda f: f, lambda f: pellucid.compile(f, backend=Counting())):
        seed()
        function, own = around(f), np.random.default_rng(2)
        found.append([(function(X, own), states(own)) for _ in range(3)])
    assert same(*found)


def test_C19_not_drawn_again_behind_a_break():
    seen = []

    def f(x):
        a = random.random()
        y = x * a
        seen.append(str(y[0] > 0.5))
        print(end="")
        return y * a + random.random(), a

    graphs, _breaks = both(lambda: f)
    assert graphs >= 2


def test_A22_a_graph_that_raises():
    def f(table, index):
        a = random.random()
        try:
            return table[index] * a + np.random.rand()
        except IndexError:
            return a, random.random()

    found = []
    for around in (lambda f: f, lambda f: pellucid.compile(f, backend=Counting())):
        seed()
        function = around(f)
        found.append([(function(X, torch.tensor([i])), states()) for i in (0, 1, 7, 2, 9, 1)])
    assert same(*found)


def test_A22_a_compiled_graph_that_raises_alone():
    def broken(gm, _inputs):
        def run(*args):
            raise RuntimeError("not this one")

        return run

    def f(x):
        return x * random.random()

    found = []
    for around in (lambda f: f, lambda f: pellucid.compile(f, backend=broken)):
        seed()
        function = around(f)
        found.append([(function(X + i), states()) for i in range(3)])
    assert same(*found)


def test_A22_a_custom_operator_that_draws():
    @torch.library.custom_op("pellucid_draws::noise", mutates_args=())
    def noise(x: torch.Tensor) -> torch.Tensor:
        return x * random.random()

    @noise.register_fake
    def _(x):
        return torch.empty_like(x)

    def f(x):
        a = random.random()
        y = noise(x)
        return y + a, random.random()

    graphs, breaks = both(lambda: f)
    assert graphs >= 1 and breaks == 1


def test_A22_a_checkpointed_body():
    def body(x):
        return (x * random.random()).sin()

    def f(x):
        return torch.utils.checkpoint.checkpoint(body, x, use_reentrant=False)

    both(lambda: f)


def test_A22_a_generator_of_another_class():
    class Mine(random.Random):
        def random(self):
            return 0.25

    def make(own):
        return lambda x: x * own.random() + own.uniform(0, 1)

    found = []
    for around in (lambda f: f, lambda f: pellucid.compile(f, backend=Counting())):
        function = around(make(Mine(3)))
        found.append([function(X) for _ in range(3)])
    assert same(*found)


def test_A22_a_replaced_function(monkeypatch):
    def f(x):
        return x * random.random()

    compiled = pellucid.compile(f, backend=Counting())
    seed()
    compiled(X)
    monkeypatch.setattr(random, "random", lambda: 0.5)
    assert same(compiled(X), X * 0.5)


def test_A22_in_the_graph_of_an_eager_backend():
    def f(x):
        return x * random.random() + random.randint(1, 6)

    seed()
    expected = [f(X) for _ in range(3)]
    seed()
    compiled = pellucid.compile(f, backend="eager")
    assert same(expected, [compiled(X) for _ in range(3)])
    assert not pellucid.break_reasons(compiled)
