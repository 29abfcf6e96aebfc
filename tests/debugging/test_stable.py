"""What docs/stable.md promises: the names, signatures, rules of names and words of guards that tools rely on (L16, L17)."""

from __future__ import annotations

import functools
import inspect
import operator
import re
import sys
from pathlib import Path

import pytest
import torch

import pellucid
from support import same

PAGE = (Path(__file__).resolve().parents[2] / "docs/stable.md").read_text()


def section(title):
    return PAGE.partition(f"## {title}\n")[2].partition("\n## ")[0]


def rows(title):
    lines = [line for line in section(title).splitlines() if line.startswith("| ")][1:]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


def program(x):
    y = x.sin()
    pellucid.graph_break()
    return y + 1


X = torch.ones(3)


# ---- names


def signature_of(target):
    found = inspect.signature(target)
    parameters = [one.replace(annotation=inspect.Parameter.empty) for one in found.parameters.values()]
    return str(found.replace(parameters=parameters, return_annotation=inspect.Signature.empty))


@pytest.mark.parametrize(("name", "signature"), rows("Names"))
def test_L17_names_and_signatures_are_those_of_the_page(name, signature):
    target = operator.attrgetter(name.strip("`").removeprefix("pellucid."))(pellucid)
    assert signature_of(target) == signature.strip("`")


def test_L17_every_function_that_registers_a_hook_is_on_the_page():
    registering = {f"`pellucid.{name}`" for name in pellucid.__all__ if name.startswith("register_")}
    assert registering and registering <= {name for name, _ in rows("Names")}


def test_L17_rules_of_names():
    pellucid.reset()
    seen = []
    handle = pellucid.register_artifact_hook(seen.append)
    assert same(pellucid.compile(program, backend="aot_eager")(X), program(X))
    handle.remove()
    patterns = {example.strip("`"): pattern.strip("`") for _, pattern, example in rows("Rules of names")}
    assert all(re.fullmatch(pattern, example) for example, pattern in patterns.items())
    graph, resume, file, _ = patterns.values()
    names = list(dict.fromkeys(one.name for one in seen))
    assert re.fullmatch(graph, names[0]) and re.fullmatch(resume, names[1])
    assert all(re.fullmatch(file, one.file_name) for one in seen)
    first, second = (int(name.rpartition("_")[2]) for name in names)
    assert second == first + 1  # one counter


def test_L17_words_of_guards():
    (source,) = re.findall(r"<!-- program guarded.py -->\n```python\n(.*?)```", PAGE, re.S)
    expressions, told = re.findall(r"```text\n(.*?)```", section("Words of guards"), re.S)
    namespace = {}
    exec(compile(source, "guarded.py", "exec"), namespace)
    f = namespace["f"]
    arguments = (X, 3, True, {"w": 2.5})
    compiled = pellucid.compile(f, backend="eager")
    compiled(*arguments)
    (entry,) = pellucid.cache_entries(compiled)
    assert sorted(entry) == ["code", "function", "guards", "hits", "region", "scope"]
    assert [line for line in expressions.splitlines() if line not in entry["guards"]] == []
    guards = [f"{one.kind} {one.source} {one.text}" for one in pellucid.explain(f)(*arguments).out_guards]
    assert [line for line in told.splitlines() if line not in guards] == []


# ---- L16


def test_L16_the_users_function_through_any_number_of_wrappers():
    def f(x):
        return x + 1

    wrapped = f
    for wrap in (pellucid.disable, functools.partial(pellucid.compile, backend="eager"), pellucid.disable):
        wrapped = wrap(wrapped)
        assert pellucid.innermost_fn(wrapped) is f
        assert pellucid.innermost_fn(pellucid.compile(wrapped, backend="eager")) is f
    assert pellucid.innermost_fn(f) is f
    assert pellucid.innermost_fn(torch.compile(f, backend="eager")) is f
    assert pellucid.innermost_fn(pellucid.disable(torch.compile(pellucid.compile(f), backend="eager"))) is f


def test_L16_a_wrapper_of_the_user_is_the_users_function():
    def f(x):
        return x + 1

    @functools.wraps(f)
    def mine(x):
        return f(x)

    assert pellucid.innermost_fn(pellucid.compile(mine, backend="eager")) is mine
    for compiled in (torch.compile(f, backend="eager"), pellucid.disable(f), pellucid.compile(f, backend="eager")):
        around = functools.wraps(compiled)(lambda x, compiled=compiled: compiled(x))
        assert pellucid.innermost_fn(around) is around
    module = torch.nn.Linear(3, 3)
    assert pellucid.innermost_fn(pellucid.compile(module, backend="eager")) is module
    with pytest.raises(TypeError, match="innermost_fn needs a callable, not int"):
        pellucid.innermost_fn(3)


def test_L16_entries_of_the_innermost_function():
    def f(x, n):
        return x * n

    compiled = pellucid.compile(pellucid.compile(f, backend="eager"), backend="eager", dynamic=False)
    assert same(compiled(X, 2), f(X, 2))
    (entry,) = pellucid.cache_entries(pellucid.innermost_fn(compiled))
    assert entry["code"] is entry["function"].__code__ and entry["code"] is not f.__code__
    scope = {**entry["scope"], "L": {"x": X, "n": 2}}
    assert all(eval(guard, scope) for guard in entry["guards"])
    assert not all(eval(guard, scope | {"L": {"x": X, "n": 3}}) for guard in entry["guards"])


# ---- L17: the three points


@pytest.mark.parametrize(
    ("backend", "kinds"),
    [
        ("eager", {"captured"}),
        ("aot_eager", {"captured", "joint", "forward", "backward"}),
        ("inductor", {"captured", "joint", "forward", "backward", "post_grad", "kernel"}),
    ],
)
def test_L17_every_graph_and_kernel_passes_one_function(backend, kinds):
    pellucid.reset()
    torch._dynamo.reset()

    def f(x):
        return (x.sin() * 3).sum()

    seen = []
    handle = pellucid.register_artifact_hook(seen.append)
    x = torch.randn(7, requires_grad=True)
    with torch._inductor.config.patch(force_disable_caches=True):
        result = pellucid.compile(f, backend=backend)(x)
        result.backward()
    torch.testing.assert_close(result, f(x))  # Inductor sums in another order
    assert {one.kind for one in seen} == kinds
    assert len({one.name for one in seen}) == 1 and len({(one.kind, one.index) for one in seen}) == len(seen)
    assert all(one.text for one in seen)
    for one in seen:
        compile(one.text, one.file_name, "exec")
    count = len(seen)
    handle.remove()
    handle.remove()
    pellucid.reset()
    pellucid.compile(f, backend=backend)(x)
    assert len(seen) == count


@pytest.mark.parametrize("backend", ["eager", "aot_eager", lambda gm, example_inputs: gm.forward])
def test_L17_the_function_of_a_graph_runs_from_a_file(backend, tmp_path):
    pellucid.reset()
    given, ran = {}, []

    def to_file(name, text):
        given[name] = tmp_path / f"{name}.py"
        given[name].write_text(text)
        return given[name]

    def f(x):
        return noting(x * 2) + 1

    handle = pellucid.register_graph_code_hook(to_file)
    compiled = pellucid.compile(f, backend=backend)
    x = torch.ones(3, requires_grad=True)
    try:
        compiled(x)
        del ran[:]
        files.append(ran)
        result = compiled(x)
        assert same(result, f(x))
    finally:
        files.clear()
        handle.remove()
    assert given and all(re.fullmatch(r"__compiled_fn_\d+\.(captured|forward|backward)", name) for name in given)
    kind = "forward" if backend == "aot_eager" else "captured"
    (name,) = [name for name in given if name.endswith(kind)]
    assert str(given[name]) in ran


files: list[list[str]] = []


@torch.library.custom_op("pellucid_test_stable::noting", mutates_args=())
def noting(x: torch.Tensor) -> torch.Tensor:
    frame = inspect.currentframe()
    while frame is not None:
        for ran in files:
            ran.append(frame.f_code.co_filename)
        frame = frame.f_back
    return x.clone()


@noting.register_fake
def _(x):
    return torch.empty_like(x)


noting.register_autograd(lambda ctx, gradient: gradient)


def test_L17_kernels_are_loaded_from_another_file(tmp_path):
    pellucid.reset()
    torch._dynamo.reset()
    asked = []

    def loader(name, path):
        other = tmp_path / f"{name}_{len(asked)}.py"
        text = Path(path).read_text()
        other.write_text(
            text.replace("def call(", "LOADED_FROM_HERE = True\n\n\ndef call(", 1) if "\ndef call(" in text else text
        )
        asked.append(other)
        return other

    def f(x):
        return (x.cos() * 5).relu()

    handle = pellucid.register_kernel_loader(loader)
    x = torch.randn(9)
    with torch._inductor.config.patch(force_disable_caches=True):
        result = pellucid.compile(f, backend="inductor")(x)
    handle.remove()
    torch.testing.assert_close(result, f(x))
    assert asked and all(re.match(r"__(compiled_fn|resume_at)_", other.name) for other in asked)
    loaded = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
    assert any(str(other) in loaded for other in asked)


@pytest.mark.parametrize(
    "register", [pellucid.register_artifact_hook, pellucid.register_graph_code_hook, pellucid.register_kernel_loader]
)
def test_L17_hooks_that_fail_or_are_none(register, monkeypatch):
    pellucid.reset()
    told = []
    monkeypatch.setattr("sys.unraisablehook", lambda error: told.append(error.exc_type))

    def fails(*arguments):
        raise KeyError("hook")

    handle = register(fails)
    assert same(pellucid.compile(program, backend="aot_eager")(X), program(X))
    handle.remove()
    assert set(told) == (set() if register is pellucid.register_kernel_loader else {KeyError})
    with pytest.raises(TypeError, match="hook must be callable, not int"):
        register(3)
