"""An import that fails is looked for at each call: the module may be there the next time."""

import importlib
import sys

import torch

import pellucid


def test_module_that_comes_later(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    graphs = []

    @pellucid.compile(backend=lambda gm, inputs: graphs.append(gm) or gm.forward)
    def f(x):
        y = torch.relu(x)
        try:
            import comes_later_to_missing_modules  # noqa: F401
        except ImportError:
            return y * 3
        return y * 2

    x = torch.ones(2)
    try:
        assert torch.equal(f(x), x * 3)
        assert torch.equal(f(x), x * 3)
        (tmp_path / "comes_later_to_missing_modules.py").write_text("")
        importlib.invalidate_caches()
        assert torch.equal(f(x), x * 2)
        assert torch.equal(f(x), x * 2)
        assert graphs
    finally:
        sys.modules.pop("comes_later_to_missing_modules", None)
