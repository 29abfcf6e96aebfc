"""`pellucid.decompile`, `pellucid.Decompiled` and the command: what they take, what they say."""

from __future__ import annotations

import functools
import json

import pytest
import torch

import pellucid
from pellucid.__main__ import main
from support import name_of


class Block:
    def forward(self, x):
        return x + 1

    @staticmethod
    def make():
        return Block()

    @classmethod
    def named(cls, name):
        return cls, name

    @property
    def size(self):
        return 3

    @functools.cached_property
    def cached(self):
        return 4


def generate():
    yield 1


async def wait():
    return 1


def test_a_function():
    assert pellucid.decompile(Block.forward) == "def forward(self, x):\n    return x + 1\n"
    assert str(pellucid.Decompiled.of(Block.forward)) == pellucid.decompile(Block.forward)


@pytest.mark.parametrize(
    "thing, name",
    [
        (Block().forward, "forward"),
        (Block.make, "make"),
        (Block.named, "named"),
        (Block.__dict__["make"], "make"),
        (Block.__dict__["named"], "named"),
        (Block.size, "size"),
        (Block.__dict__["cached"], "cached"),
        (functools.partial(Block.forward, 1), "forward"),
        (functools.lru_cache(generate), "generate"),
        (generate(), "generate"),
        (generate.__code__, "generate"),
        (pellucid.compile(Block.forward, backend="eager"), "forward"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_what_wraps_a_function(thing, name):
    assert f"def {name}(" in pellucid.decompile(thing)


def test_coroutines_and_frames():
    waiting = wait()
    assert pellucid.decompile(waiting) == "async def wait():\n    return 1\n"
    waiting.close()


def test_a_lambda_and_a_comprehension_are_expressions():
    found = pellucid.Decompiled.of(lambda x, *, k: [y + k for y in x if y])
    assert found.text == "lambda x, *, k: [y + k for y in x if y]\n"
    assert found.verified == "equal"
    inner = (lambda x: [y for y in x]).__code__.co_consts[1]
    assert pellucid.decompile(inner) == "[y for y in iterable]\n"


def test_free_variables_are_in_the_module():
    k = 1

    def f(x):
        return x + k

    found = pellucid.Decompiled.of(f)
    assert found.text == "def f(x):\n    return x + k\n"
    assert found.module == "def __outer__():\n    k = None\n    def f(x):\n        return x + k\n"
    assert found.verified == "equal"


def test_a_compiled_forward():
    graphs = []

    def backend(gm, inputs):
        graphs.append(gm)
        return gm.forward

    f = pellucid.compile(lambda x, y: (x.sin() + y, x * 2), backend=backend)
    f(torch.ones(3), torch.ones(3))
    found = pellucid.Decompiled.of(graphs[0].forward)
    assert found.verified == "equal"
    assert "sin" in found.text


def test_without_verification():
    found = pellucid.Decompiled.of(Block.forward, verify=False)
    assert found.text == pellucid.decompile(Block.forward)
    assert found.verified == "unverified"


@pytest.mark.parametrize("thing", [len, 3, Block, "x", torch.sin], ids=name_of)
def test_nothing_to_decompile(thing):
    with pytest.raises(TypeError, match="no code object"):
        pellucid.decompile(thing)


def test_documentation_stands_in_lines():
    def f():
        """One.

        Two.
        """
        return 1

    assert pellucid.decompile(f) == 'def f():\n    """One.\n\n        Two.\n        """\n    return 1\n'


# ---- the command


def test_the_command(capsys):
    assert main(["decompile", "textwrap:dedent"]) == 0
    out, err = capsys.readouterr()
    assert "def dedent(text):\n" in out and "verified" in err


def test_the_command_finds_methods_and_files(capsys, tmp_path):
    (tmp_path / "some.py").write_text(
        "class A:\n    def f(self):\n        def g():\n            return 1\n        return g\n"
    )
    assert main(["decompile", f"{tmp_path}/some.py:A.f"]) == 0
    assert "def g():" in capsys.readouterr().out
    assert main(["decompile", f"{tmp_path}/some.py:A.f.g"]) == 0
    assert capsys.readouterr().out == "def g():\n    return 1\n"


def test_the_command_as_json(capsys):
    assert main(["decompile", "json:dumps", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found) == {"text", "module", "verified", "difference"} and found["verified"] == "equal"


@pytest.mark.parametrize(
    "target, words",
    [
        ("json", "is not of the form module:function"),
        ("no_such_module_at_all:f", "cannot be imported: ModuleNotFoundError"),
        ("no/such/file.py:f", "there is no file"),
        ("json:nope", "there is no 'nope' in json (functions there: detect_encoding"),
        ("math:sin", "is no function of Python but a builtin_function_or_method"),
    ],
)
def test_the_command_says_what_is_wrong(capsys, target, words):
    assert main(["decompile", target]) == 2
    out, err = capsys.readouterr()
    assert out == "" and words in err
