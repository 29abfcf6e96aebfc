"""torch._dynamo is imported by whoever needs it: neither by pellucid nor by install()."""

import subprocess
import sys
import textwrap


def run(program):
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_neither_import_nor_install_nor_compile_import_it():
    run(
        """
        import sys, torch, pellucid
        pellucid.install()
        module = torch.nn.Linear(2, 2)
        compiled = torch.compile(module, backend="eager")
        function = torch.compiler.compile(backend="eager")(lambda x: x + 1)
        module.compile(backend="eager")
        compiled(torch.ones(1, 2)), function(torch.ones(2)), module(torch.ones(1, 2))
        torch.compiler.reset()
        assert not torch.compiler.is_compiling()
        assert isinstance(function, pellucid._core.CompiledFunction)
        assert "torch._dynamo" not in sys.modules
        pellucid.uninstall()
        assert "torch._dynamo" not in sys.modules
        """
    )


def test_it_is_taken_over_when_it_is_imported():
    run(
        """
        import inspect, sys, torch, pellucid
        original = torch.compile
        compiled = pellucid.compile(torch.nn.Linear(2, 2), backend="eager")
        pellucid.install()
        import torch._dynamo
        from pellucid.takeover import switch
        from pellucid.takeover.table import ROWS
        assert len(switch.replaced()) == sum(len(row.places) for row in ROWS)
        assert isinstance(torch._dynamo.optimize("eager")(lambda x: x), pellucid._core.CompiledFunction)
        assert isinstance(compiled, torch._dynamo.eval_frame.OptimizedModule)
        # The modules are as Python's own import leaves them.
        for name in ("torch._dynamo", "torch._dynamo.eval_frame"):
            module = sys.modules[name]
            assert type(module.__loader__).__module__ == "_frozen_importlib_external"
            assert module.__spec__.loader is module.__loader__ and inspect.getsource(module)
        assert not [f for f in sys.meta_path if type(f).__module__.startswith("pellucid")]
        pellucid.uninstall()
        assert torch.compile is original and not switch.replaced()
        assert not isinstance(torch._dynamo.optimize("eager")(lambda x: x), pellucid._core.CompiledFunction)
        """
    )


def test_nothing_is_taken_over_by_an_import_behind_uninstall():
    run(
        """
        import torch, pellucid
        pellucid.install()
        pellucid.uninstall()
        import torch._dynamo
        from pellucid.takeover import switch
        assert not switch.replaced()
        assert not isinstance(torch.compile(lambda x: x, backend="eager"), pellucid._core.CompiledFunction)
        """
    )
