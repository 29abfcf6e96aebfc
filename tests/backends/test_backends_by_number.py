"""`backend="<=5:aot_eager;>5:inductor"`: which graph goes to which backend, and what is said of a choice that is wrong."""

from __future__ import annotations

import pytest
import torch

import pellucid
from pellucid import backends
from pellucid.backends.by_number import choice
from pellucid.errors import InvalidBackend
from support import same

X = torch.arange(3.0)


def numbers(text, upto=12):
    made = choice(text, lambda name: name)
    return [made.backend_for(number) for number in range(upto)]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("<=5:a;>5:b", "aaaaaabbbbbb"),
        ("<2:a; >=2:b", "aabbbbbbbbbb"),
        ("3:a;else:b", "bbbabbbbbbbb"),
        ("2-4,7:a;>=10:c;else:b", "bbaaabbabbcc"),
        (" 0 - 1 : a ; 1 : b ; else : c ;", "aacccccccccc"),
        ("else:a", "aaaaaaaaaaaa"),
        (">0:a;0:b", "baaaaaaaaaaa"),
    ],
)
def test_D_the_first_rule_counts(text, wanted):
    assert "".join(numbers(text)) == wanted


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("<=5:a", "graph 6 has no backend; a last rule 'else:eager'"),
        (">5:a", "graph 0 has no backend"),
        ("0-3:a;5:b;>=7:c", "graph 4 has no backend"),
        ("5-3:a;else:b", "the range '5-3' is empty"),
        ("<=x:a;else:b", "'<=x' is no graph number, range"),
        ("=<5:a;else:b", "'=<5' is no graph number"),
        ("-1:a;else:b", "'-1' is no graph number"),
        ("a;b", "'a' is not of the form numbers:backend"),
        (":a", "':a' is not of the form numbers:backend"),
        ("3:;else:b", "'3:' is not of the form"),
        ("<=5:a:>5:b", "has two colons; rules are separated by ';'"),
        (";", "graph 0 has no backend"),
        ("<0:a", "graph 0 has no backend"),
    ],
)
def test_D_what_is_wrong_with_a_choice(text, words):
    with pytest.raises(InvalidBackend) as caught:
        choice(text, lambda name: name)
    assert words in str(caught.value) and repr(text) in str(caught.value) and "<=5:aot_eager" in str(caught.value)


def test_D_an_unknown_backend_in_a_choice():
    with pytest.raises(InvalidBackend, match="Invalid backend: 'no_such'"):
        pellucid.compile(torch.sin, backend="<3:eager;else:no_such")
    with pytest.raises(InvalidBackend, match="graph 3 has no backend"):
        pellucid.compile(torch.sin, backend="<3:eager")


def noting(name, seen):
    def backend(gm, example_inputs, **options):
        seen.append((name, gm.meta["compiled_name"], options))
        return gm.forward

    return backend


def test_D_graphs_go_to_their_backend_by_their_name():
    seen = []
    for name in ("first_of_two", "second_of_two"):
        backends.register_backend(noting(name, seen), name=name)
    try:

        def f(x):
            x = x + 1
            pellucid.graph_break()
            x = x * 2
            pellucid.graph_break()
            return x - 1

        pellucid.compile(f, backend="else:first_of_two")(X)
        start = int(seen[0][1].rpartition("_")[2])
        count = int(seen[-1][1].rpartition("_")[2]) - start
        assert [name.startswith("__compiled_fn_") for _, name, _ in seen] == [True, False, False]
        first = start + count + 1
        seen.clear()
        g = pellucid.compile(f, backend=f"<={first}:first_of_two;else:second_of_two", options={"a": 1})
        assert same(g(X), f(X)) and same(g(X), f(X))
        assert [name for name, _, _ in seen] == ["first_of_two", "second_of_two", "second_of_two"]
        assert all(options == {"options": {"a": 1}} for _, _, options in seen)
    finally:
        for name in ("first_of_two", "second_of_two"):
            backends.unregister_backend(name)


def test_D_a_choice_trains_and_takes_other_sizes():
    g = pellucid.compile(lambda x: (x.sin() * x.shape[0]).sum(), backend="else:aot_eager")
    for size in (3, 4, 5):
        x = torch.ones(size, requires_grad=True)
        g(x).backward()
        assert torch.allclose(x.grad, torch.ones(size).cos() * size)
    assert len(pellucid.recompile_reasons(g)) == 1  # the second graph serves all sizes


def test_D_graphs_that_stay_eager():
    g = pellucid.compile(lambda x: x + 1, backend="else:skip")
    assert same(g(X), X + 1) and pellucid.cache_entries(g) == []
    assert [record.code for record in pellucid.break_reasons(g)] == ["PEL0904"]
