"""What the first compile of a process imports registers classes, and spoils no capture that has asked abstract ones."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

PROGRAM = """
    import collections.abc
    import torch, pellucid

    def asks(x, given={}):
        return x + 1 if isinstance(given, collections.abc.Mapping) else x - 1

    given = {}
    x = torch.ones(2, requires_grad=with_gradients)
    compiled = pellucid.compile(asks, backend=backend)
    for _ in range(3):
        assert torch.equal(compiled(x, given), asks(x, given))
    print(pellucid.counters()["graphs"])

    class Mine:
        pass

    assert compiled(x, Mine()).tolist() == [0.0, 0.0]
    collections.abc.Mapping.register(Mine)
    assert compiled(x, Mine()).tolist() == [2.0, 2.0]
"""


@pytest.mark.parametrize("with_gradients", [False, True])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_one_graph_though_the_backend_is_loaded_by_its_first_compile(backend, with_gradients):
    head = f"backend, with_gradients = {backend!r}, {with_gradients!r}\n"
    done = subprocess.run(
        [sys.executable, "-c", head + textwrap.dedent(PROGRAM)], capture_output=True, text=True, timeout=300
    )
    assert (done.returncode, done.stdout.split()) == (0, ["1"]), done.stderr


OPEN_SIZES = """
    import collections.abc
    import torch, pellucid

    def asks(x, given={}):
        return x + 1 if isinstance(given, collections.abc.Mapping) else x - 1

    compiled = pellucid.compile(asks, backend=lambda module, inputs: module.forward)
    for size in range(2, 6):
        x = torch.ones(size)
        assert torch.equal(compiled(x), asks(x))
    print(pellucid.counters()["graphs"])
"""


def test_one_graph_for_all_sizes_though_what_describes_them_is_loaded_behind_the_first_capture():
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(OPEN_SIZES)], capture_output=True, text=True, timeout=300
    )
    assert (done.returncode, done.stdout.split()) == (0, ["2"]), done.stderr
