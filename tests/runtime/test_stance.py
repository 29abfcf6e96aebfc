"""pellucid.set_stance in all its forms, and the stance of torch.compiler.set_stance."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import threading

import pytest
import torch

import pellucid
from support import Counting, same

X = torch.arange(1.0, 4.0)


def words(x, word):
    return x + len(word)


@pytest.fixture(autouse=True)
def default_stance():
    yield
    pellucid.set_stance("default")


# ---- the forms


def test_as_a_function(counting):
    f = pellucid.compile(words, backend=counting)
    pellucid.set_stance("force_eager")
    assert same(f(X, "a"), words(X, "a")) and counting.count == 0
    pellucid.set_stance("default")
    assert same(f(X, "a"), words(X, "a")) and counting.count == 1


def test_as_a_context_manager(counting):
    f = pellucid.compile(words, backend=counting)
    with pellucid.set_stance("force_eager"):
        f(X, "a")
        with pellucid.set_stance("default"):
            f(X, "a")
            assert counting.count == 1
        f(X, "bb")
    assert counting.count == 1
    f(X, "bb")
    assert counting.count == 2


def test_as_a_decorator(counting):
    f = pellucid.compile(words, backend=counting)

    @pellucid.set_stance("force_eager")
    def quiet(x):
        return f(x, "a")

    f(X, "")
    assert counting.count == 1
    assert same(quiet(X), X + 1) and counting.count == 1
    f(X, "a")
    assert counting.count == 2 and quiet.__name__ == "quiet"


def test_it_is_restored_after_an_exception(counting):
    f = pellucid.compile(words, backend=counting)
    with pytest.raises(KeyError), pellucid.set_stance("force_eager"):
        raise KeyError
    f(X, "a")
    assert counting.count == 1


def test_it_holds_for_all_threads(counting):
    f = pellucid.compile(words, backend=counting)
    with pellucid.set_stance("force_eager"):
        thread = threading.Thread(target=f, args=(X, "a"))
        thread.start()
        thread.join()
    assert counting.count == 0


def test_wrong_arguments():
    for arguments, error in [
        ({"stance": "eager"}, ValueError),
        ({"stance": 3}, TypeError),
        ({"skip_guard_eval_unsafe": 1}, TypeError),
        ({"stance": "force_eager", "force_backend": "eager"}, ValueError),
        ({"force_backend": "no such backend"}, pellucid.errors.InvalidBackend),
        ({"force_backend": 3}, TypeError),
    ]:
        with pytest.raises(error):
            pellucid.set_stance(**arguments)
    counting = Counting()
    pellucid.compile(words, backend=counting)(X, "a")  # nothing was set
    assert counting.count == 1


# ---- the stances


def test_force_eager_is_eager_also_where_there_is_an_entry(counting):
    f = pellucid.compile(words, backend=counting)
    f(X, "a"), f(X, "a")
    with pellucid.set_stance("force_eager"):
        for _ in range(3):
            assert same(f(X, "a"), X + 1)
    assert counting.count == 1
    assert pellucid.cache_entries(f)[0]["hits"] == 1


def test_force_eager_compiles_nothing_that_is_called(counting):
    def inner(x):
        return x * 2

    def f(x):
        return inner(x) + 1

    module = torch.nn.Linear(3, 3)
    compiled, other = pellucid.compile(f, backend=counting), pellucid.compile(module, backend=counting)
    with pellucid.set_stance("force_eager"):
        assert same(compiled(X), f(X)) and same(other(X), module(X))
    assert counting.count == 0 and pellucid.cache_entries(inner) == []


def test_eager_on_recompile(counting):
    f = pellucid.compile(words, backend=counting)
    f(X, "a")
    with pellucid.set_stance("eager_on_recompile"):
        for word in ("a", "bb", "", "a"):
            assert same(f(X, word), words(X, word))
        g = pellucid.compile(lambda x: x - 1, backend=counting)
        assert same(g(X), X - 1)
    assert counting.count == 1
    assert pellucid.cache_entries(f)[0]["hits"] == 2


def test_eager_on_recompile_behind_a_break(counting):
    def f(x, words):
        y = x * 2
        sys.stdout.write("")
        return y + len(words[0])

    compiled = pellucid.compile(f, backend=counting)
    compiled(X, [""])
    made = counting.count
    with pellucid.set_stance("eager_on_recompile"):
        assert same(compiled(X, ["a"]), f(X, ["a"]))
    assert counting.count == made == 2
    with (
        pellucid.set_stance("fail_on_recompile"),
        pytest.raises(pellucid.errors.RecompileError, match="fail_on_recompile"),
    ):
        compiled(X, ["a"])


def test_fail_on_recompile(counting):
    f = pellucid.compile(words, backend=counting)
    f(X, "a")
    with pellucid.set_stance("fail_on_recompile"):
        assert same(f(X, "a"), X + 1)
        with pytest.raises(RuntimeError, match=r"'words'.*fail_on_recompile(.|\n)*EQUALS_MATCH word"):
            f(X, "bb")
        with pytest.raises(pellucid.errors.RecompileError):
            pellucid.compile(lambda x: x - 1, backend=counting)(X)
    f(X, "bb")
    assert counting.count == 2


def test_eager_then_compile_learns_what_changes(counting):
    eager = []

    def f(x, n):
        if not pellucid.is_compiling():
            eager.append(n)
        return x * n + x.shape[0]

    compiled = pellucid.compile(f, backend=counting)
    with pellucid.set_stance("eager_then_compile"):
        for size, n in [(3, 2), (4, 5), (7, 9), (9, 1)]:
            x = torch.ones(size)
            assert same(compiled(x, n), x * n + size)
    assert eager == [2] and counting.count == 1
    (entry,) = pellucid.cache_entries(compiled)
    assert entry["hits"] == 2


def test_aot_eager_then_compile(counting):
    def f(x):
        return (x * 2).sum() + x.shape[0]

    compiled = pellucid.compile(f, backend=counting)
    with pellucid.set_stance("aot_eager_then_compile"):
        for size in (3, 4, 7, 9):
            x = torch.ones(size, requires_grad=True)
            got, want = compiled(x), f(x)
            assert same(got, want)
            assert torch.equal(torch.autograd.grad(got, x)[0], torch.autograd.grad(want, x)[0])
    assert counting.count == 1
    assert sorted(entry["hits"] for entry in pellucid.cache_entries(f)) == [0, 2]


def test_force_backend():
    own, forced = Counting(), Counting()
    f = pellucid.compile(words, backend=own)
    model = torch.nn.Linear(3, 3)
    g = pellucid.compile(model, backend=own)
    with pellucid.set_stance(force_backend=forced):
        for _ in range(3):
            assert same(f(X, "a"), X + 1) and same(g(X), model(X))
    assert (own.count, forced.count) == (0, 2)
    assert same(f(X, "a"), X + 1)
    assert (own.count, forced.count) == (1, 2)
    with pellucid.set_stance(force_backend=forced):
        assert same(f(X, "a"), X + 1)
    assert (own.count, forced.count) == (1, 2)
    with pellucid.set_stance(force_backend="eager"):
        assert same(f(X, "a"), X + 1)


def test_force_backend_keeps_what_dynamic_says():
    forced = Counting()
    f = pellucid.compile(lambda x: x * 2, backend="eager", dynamic=False)
    with pellucid.set_stance(force_backend=forced):
        for size in (2, 3, 4):
            f(torch.ones(size))
    assert forced.count == 3


def test_skip_guard_eval_unsafe_asks_what_told_entries_apart(counting):
    """What never differed is not looked at, here the dtype."""
    f = pellucid.compile(words, backend=counting)
    for word in ("", "a", "bb"):
        f(X, word)
    with pellucid.set_stance(skip_guard_eval_unsafe=True):
        for word in ("", "a", "bb", "a"):
            assert same(f(X, word), words(X, word))
        assert same(f(X.double(), "a"), X.double() + 1)
        assert counting.count == 3
        assert same(f(X, "dddd"), words(X, "dddd"))  # fits none
    assert counting.count == 4
    assert same(f(X.double(), "a"), X.double() + 1)
    assert counting.count == 5


def test_a_stance_set_by_the_program_holds_from_there_on(counting):
    inner = pellucid.compile(words, backend=counting)

    def f(x):
        y = inner(x, "a")
        with pellucid.set_stance("force_eager"):
            y = inner(y, "bb")
        return y

    assert same(f(X), X + 3) and counting.count == 1
    compiled = pellucid.compile(f, backend=counting)
    assert same(compiled(X), X + 3)


# ---- torch.compiler.set_stance


def test_the_stance_of_torch(counting):
    f = pellucid.compile(words, backend=counting)
    with torch.compiler.set_stance("force_eager"):
        f(X, "a")
        assert counting.count == 0
        with pellucid.set_stance("eager_on_recompile"):  # ours comes first
            f(X, "a")
        assert counting.count == 0
    f(X, "a")
    assert counting.count == 1
    with torch.compiler.set_stance("fail_on_recompile"), pytest.raises(RuntimeError, match="fail_on_recompile"):
        f(X, "bb")
    forced = Counting()
    with torch.compiler.set_stance(force_backend=forced):
        f(X, "a")
    assert forced.count == 1
    f(X, "bb")
    assert counting.count == 2


def test_the_stance_of_torch_is_not_imported_for():
    """It is noticed when somebody else imports torch._dynamo later."""
    program = """
        import sys, torch, pellucid
        count = 0
        def backend(gm, inputs):
            global count
            count += 1
            return gm.forward
        f = pellucid.compile(lambda x, word: x + len(word), backend=backend)
        f(torch.ones(2), "")
        f(torch.ones(2), "")
        assert count == 1 and "torch._dynamo" not in sys.modules
        torch.compiler.set_stance("force_eager")
        assert "torch._dynamo" in sys.modules
        f(torch.ones(2), "a")
        assert count == 1
        torch.compiler.set_stance("default")
        f(torch.ones(2), "a")
        assert count == 2
        print("fine")
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=150)
    assert done.stdout.strip() == "fine", done.stderr[-2000:]


def test_what_an_equal_module_has_compiled_is_no_recompile(counting):
    first, second = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)
    compiled = [pellucid.compile(module, backend=counting) for module in (first, second)]
    compiled[0](X)
    with pellucid.set_stance("fail_on_recompile"):
        assert same(compiled[1](X), second(X))
    assert counting.count == 1
