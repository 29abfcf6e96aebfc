"""Programs whose captures are recorded in one process and replayed in another: name -> (function, args, kwargs)."""

import contextlib
import functools
import random
import weakref

import numpy
import recorded_package
import torch
from recorded_package import parts


@torch.library.custom_op("recorded::doubled", mutates_args=())
def doubled(a: torch.Tensor) -> torch.Tensor:
    return a * 2


@doubled.register_fake
def doubled_fake(a):
    return torch.empty_like(a)


CONSTANT = 7
TABLE = {"a": 1, ("b", 2): [3.0, float("inf")], torch.float32: -1}
HANDLE = open("/dev/null")
LOCK = __import__("threading").Lock()
PROGRAMS = {}


def program(*args, **kwargs):
    def add(function):
        PROGRAMS[function.__name__] = (function, args, kwargs)
        return function

    return add


def x():
    return torch.ones(2, 3)


def closed_over(k):
    def inner(y):
        return y * k + CONSTANT

    return inner


INNER = closed_over(5)
PARTIAL = functools.partial(lambda k, a, *, by: parts.scaled(a) * k + by, 2, by=3)
WEAK = weakref.ref(parts.Base)
SCALED = torch.no_grad()(parts.scaled)


@program(x())
def uses_globals_modules_and_cells(a):
    return INNER(parts.scaled(a)) + recorded_package.SCALE + TABLE["a"] + TABLE[("b", 2)][0] + TABLE[torch.float32]


@program(x(), parts.Derived(2))
def methods_and_properties(a, thing):
    return thing.run(a) + parts.Derived.made(a) + thing.doubled(a) + isinstance(thing, parts.Base)


@program(parts.Block(parts.Options(3, names=["n"])), x(), deep=True)
def calls_a_module(block, a, *, deep):
    return block(a, deep=deep)


@program(x(), parts.Options(2), parts.Level.HIGH)
def dataclasses_tuples_and_enums(a, options, level):
    made = parts.Options(options.size + 1, parts.Kind.SMALL)
    pair = parts.Pair(a * made.size, level)
    return parts.Pair(pair.left + (made.kind is parts.Kind.SMALL), pair.right + level.value)


@program(x())
def imports_inside(a):
    from recorded_package import parts as p
    from recorded_package.parts import LIMITS

    return a * p.FACTOR + LIMITS["high"][0]


@program(x(), [1, 2], {"k": x()})
def changes_arguments(a, numbers, named):
    numbers.append(3)
    named["new"] = a + named["k"]
    return sum(numbers) * a


@program(x(), 1, 2, 3, named=4)
def stars(a, *numbers, **named):
    return a * sum(numbers) + named["named"]


@program(x())
def wrappers(a):
    return PARTIAL(a) + SCALED(a) + (WEAK() is parts.Base)


@program(x())
def generators_and_contexts(a):
    @contextlib.contextmanager
    def block():
        yield 2

    with block() as two, torch.no_grad():
        return sum(a * i for i in (k + two for k in range(3)))


@program(torch.ones(6).view(2, 3), torch.ones(3, requires_grad=True), torch.ones(2, requires_grad=True).exp())
def tensors_of_all_kinds(view, leaf, computed):
    view.add_(1)
    out = view * leaf
    return out.sum() + computed.sum(), leaf.grad, leaf.is_leaf, computed.is_leaf, view.stride()


@program(torch.ones(2, 3, dtype=torch.float16).t(), torch.ones(2, 2, dtype=torch.complex64).conj())
def layouts(a, b):
    return a.contiguous(), b.resolve_conj(), a.shape, b.is_conj()


@program(x())
def gradient_functions(a):
    return parts.Switched.apply(a) * 2


@program(torch.ones(3, requires_grad=True))
def gradient_functions_of_leaves(a):
    return parts.Switched.apply(a * 2) * 2


OPTIMIZED = parts.Block(parts.Options(3))
OPTIMIZER = torch.optim.Adam(OPTIMIZED.parameters())  # torch wraps Adam.step when the first one is made
SCHEDULE = torch.optim.lr_scheduler.StepLR(OPTIMIZER, 2)  # … and this one wraps it once more, in the object
HOOKED = torch.ones(3, requires_grad=True)
HOOKED.register_hook(lambda gradient: gradient * 2)
torch.distributions.Distribution.set_default_validate_args(False)


@program(x())
def trains(a):
    OPTIMIZER.zero_grad()
    loss = OPTIMIZED(a)["out"].sum()
    loss.backward()
    OPTIMIZER.step()
    return loss.detach()


@program(x())
def flags_of_libraries(a):
    return torch.distributions.Normal(a, a + 1).log_prob(a)


@program()
def hooks_of_tensors():
    (HOOKED * 3).sum().backward()
    return HOOKED.grad


@program(numpy.arange(6.0).reshape(2, 3), numpy.float32(2))
def arrays(a, b):
    return numpy.sin(a) * b


FUNCTIONS = parts.Functions()


@program(x())
def abstract_classes(a):
    return FUNCTIONS["double"](a) * len(FUNCTIONS) + ("double" in FUNCTIONS) + len(FUNCTIONS.title)


@program(x())
def operators_of_the_program(a):
    return torch.ops.recorded.doubled(a) + 1


@program(x())
def lambdas(a):
    return (lambda y, *, k=2: [y + i for i in range(k)])(a)


# ---- what fails


@program(x())
def prints_two_levels_down(a):
    def below(b):
        print(b)
        return b

    return below(a.sin()) + 1


@program(x())
def draws(a):
    return a * random.gauss(0.0, 1.0)


@program(x())
def draws_in_the_region(a):
    return a * random.random() + random.randint(1, 6)


@program(x())
def branches_on_data(a):
    if a.sum() > 1:
        return a + 1
    return a


@program(x())
def raises(a):
    raise parts.Failing(f"no {CONSTANT}")


@program(x())
def wrong_shapes(a):
    return a @ a


@program(x())
def misses_a_global(a):
    return a + NOT_THERE  # noqa: F821


@program(x())
def misses_an_attribute(a):
    return parts.Base(1).nothing + a


# ---- what has no form in a record


@program(x())
def passes_a_handle_on(a):
    things = [HANDLE, a + 1]
    return things[1]


@program(x())
def asks_a_handle(a):
    return a + HANDLE.fileno()


@program(x())
def asks_a_lock(a):
    return a + (1 if LOCK.locked() else 2)


# ---- code without source

exec("def made_by_exec(a):\n    y = a * 2\n    print(y)\n    return y\n", globals())
program(x())(made_by_exec)  # type: ignore[name-defined]  # noqa: F821


if __name__ == "__main__":
    import json
    import sys

    import pellucid

    told = {}
    for name, (function, args, kwargs) in PROGRAMS.items():
        made = pellucid.record(function, f"{sys.argv[1]}/{name}.rec")(*args, **kwargs)
        told[name] = {"summary": made.outcome.summary(), "missing": made.missing, "graphs": made.outcome.graphs}
    print(json.dumps(told))
