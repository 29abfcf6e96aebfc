"""Functions written in C, called with what they do not expect and what they do: the result or the error is eager's."""

from __future__ import annotations

import gc
import itertools
import subprocess
import sys
import weakref

import pytest
import torch

import pellucid

X = torch.ones(2)


class Index:
    def __index__(self):
        return 1

    def __repr__(self):
        return "Index()"


class Liar:
    """Compares and hashes in Python."""

    def __eq__(self, other):
        return True

    def __hash__(self):
        return 7

    def __repr__(self):
        return "Liar()"


def pool():
    return [None, 0, -1, 2.5, "a", "", b"a", (1, 2), [3, 1, 2], {"a": 1}, {1, 2}, Index(), Liar()]


def plain(value):
    """A value that can be compared and printed without addresses."""
    if isinstance(value, (list, tuple, set, frozenset)):
        return type(value), [
            plain(item) for item in (sorted(value, key=repr) if isinstance(value, (set, frozenset)) else value)
        ]
    if isinstance(value, dict):
        return dict, [(plain(key), plain(item)) for key, item in value.items()]
    if value is None or isinstance(value, (int, float, complex, str, bytes)):
        return type(value), value
    return type(value)


def result_and_arguments(function, *args):
    """What a call gives, and what it leaves of its arguments."""
    try:
        result = plain(function(*args))
    except Exception as error:
        result = type(error), str(error)
    return result, [plain(arg) for arg in args]


def calling(name):
    """A function that calls the method `name` of its argument's type in the two ways there are."""
    space = {}
    text = (
        f"def by_method(self, *args): return self.{name}(*args)\ndef by_type(kind, *args): return kind.{name}(*args)\n"
    )
    exec(compile(text, f"<{name}>", "exec"), space)
    return space["by_method"], space["by_type"]


def sweep(kind, make):
    """All methods of a builtin type with none, one and two arguments."""
    differences = []
    for name in dir(kind):
        if name in ("__class__", "__new__", "__init_subclass__", "__subclasshook__", "__dir__", "__sizeof__"):
            continue
        by_method, by_type = calling(name)
        cases = [(by_type, lambda args: (kind, *args))] + [(by_method, lambda args: (make(), *args))]
        for function, with_self in cases:
            compiled = pellucid.compile(function, backend="eager")
            count = range(len(pool()))
            for chosen in itertools.chain([()], itertools.product(count), itertools.product(count, (1, 8))):
                want = result_and_arguments(function, *with_self([pool()[i] for i in chosen]))
                got = result_and_arguments(compiled, *with_self([pool()[i] for i in chosen]))
                if want != got:
                    differences.append((kind.__name__, name, chosen, want, got))
            pellucid.reset()
    return differences


KINDS = {
    "str": lambda: "a b",
    "bytes": lambda: b"a b",
    "int": lambda: 5,
    "float": lambda: 2.5,
    "complex": lambda: 1j,
    "list": lambda: [1, 2],
    "tuple": lambda: (1, 2),
    "dict": lambda: {"a": 1, 2: 3},
    "set": lambda: {1, 2},
    "frozenset": lambda: frozenset({1, 2}),
    "range": lambda: range(3),
    "slice": lambda: slice(1, 2),
    "bytearray": lambda: bytearray(b"ab"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_methods_of(kind):
    """In a process of its own: what is wrong here tends to crash."""
    code = (
        "import sys, warnings; warnings.simplefilter('ignore')\n"
        f"import builtins, {__name__} as tests\n"
        "import pellucid; pellucid.config.recompile_limit = 10000\n"
        f"found = tests.sweep(builtins.{kind}, tests.KINDS[{kind!r}])\n"
        "print(*found[:20], sep='\\n'); print(len(found), 'differences'); sys.exit(bool(found))"
    )
    run = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", code],
        capture_output=True,
        text=True,
        timeout=300,
        env=_environment(),
    )
    assert run.returncode == 0, run.stdout[-6000:] + run.stderr[-3000:]


def _environment():
    import os

    return os.environ | {"PYTHONPATH": ":".join(path for path in sys.path if path)}


def test_delattr_of_a_property():
    class C:
        def __init__(self):
            self.log = []

        def _delete(self):
            self.log.append("deleted")

        value = property(None, None, _delete)

    def f(x, c):
        return x + 1, delattr(c, "value"), c.log

    compiled = pellucid.compile(f, backend="eager", fullgraph=True)
    result = compiled(X, C())
    assert torch.equal(result[0], X + 1) and result[1:] == (None, ["deleted"])


def test_callbacks_of_weak_references_run_once():
    called = []

    class C:
        pass

    def f(x, refs):
        c = C()
        refs.append(weakref.ref(c, called.append))
        return x + len(refs)

    refs = []
    assert torch.equal(pellucid.compile(f, backend="eager")(X, refs), X + 1)
    gc.collect()
    assert len(called) == 1


@pytest.mark.parametrize("base", [int, str, tuple, frozenset])
def test_keys_that_hash_in_python(base):
    """A __hash__ written in Python is part of the program: it runs as often as eagerly."""
    log = []

    class Key(base):
        def __hash__(self):
            log.append("hash")
            return 5

    def f(x, table, key):
        return x + table.get(key, 3) + len({key})

    want, key = f(X, {}, Key()), Key()
    count = len(log)
    assert torch.equal(pellucid.compile(f, backend="eager")(X, {}, key), want)
    assert len(log) == 2 * count


def test_which_of_two_equal_elements_a_set_keeps():
    def f(x, ones):
        kept = [{1}.intersection({True, 2.5}), {1}.intersection([1.0, 2]), {1}.union({1.0}), {True}.difference({2})]
        return x + 1, [type(item) for group in kept for item in group], type(next(iter(ones & {1.0, 2})))

    result = pellucid.compile(f, backend="eager", fullgraph=True)(X, {1})
    assert result[1:] == f(X, {1})[1:]


def test_sets_of_what_generators_give():
    def f(x):
        s = {1, 2}
        s.update(n for n in range(3))
        s.difference_update(n for n in range(1))
        return x + len(s), s.union(n * 2 for n in range(3)), s.issubset(n for n in range(9))

    result = pellucid.compile(f, backend="eager", fullgraph=True)(X)
    assert result[1:] == f(X)[1:]


def test_dict_views_as_sets():
    def f(x):
        d = {1: 1}
        equal = [d.keys() == {1}, {1} == d.keys(), d.items() == {(1, 1)}, d.keys() == {2}, d.keys() <= {1, 2}]
        return x + 1, equal, d.keys() | {2}, d.keys() != [1], d.keys() == {1: 2}.keys()

    assert pellucid.compile(f, backend="eager", fullgraph=True)(X)[1:] == f(X)[1:]
