"""Scripts that show a failure in a fresh process: `write_repro`."""

from __future__ import annotations

import inspect
import os
import platform
import sys
import textwrap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch.fx import GraphModule

from pellucid import config
from pellucid.backends import builtin, registry
from pellucid.repro import standalone
from pellucid.repro.candidate import lifted
from pellucid.repro.definitions import definition_of
from pellucid.repro.errors import ReproRefused
from pellucid.repro.inputs import Inputs
from pellucid.repro.printer import ModuleText, folder_of, text_of
from pellucid.repro.trial import Setup

_ENVIRONMENT = (
    "TORCH",
    "PYTORCH",
    "TRITON",
    "INDUCTOR",
    "PELLUCID",
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "CUDA_VISIBLE",
)
_OURS = ("REPRO", "TORCH_LOGS", "TORCH_TRACE", "TORCH_COMPILE_DEBUG", "PELLUCID_BASE_DIR", "TORCHINDUCTOR_CACHE_DIR")
_CONFIGS = ("torch._inductor.config", "torch._functorch.config", "torch._dynamo.config")
_NOT_OF_A_SCRIPT = ("repro_", "base_dir", "suppress_errors", "verify_correctness")


@dataclass(frozen=True)
class Modes:
    """The modes of torch in which a graph runs."""

    grad: bool = True
    autocast: tuple[tuple[str, torch.dtype], ...] = ()

    @classmethod
    def now(cls) -> Modes:
        """Those of the calling thread."""
        devices = [device for device in ("cpu", "cuda") if torch.is_autocast_enabled(device)]
        return cls(torch.is_grad_enabled(), tuple((device, torch.get_autocast_dtype(device)) for device in devices))

    def line(self) -> str | None:
        """The `with` line; None: there is nothing to say."""
        parts = [f"torch.autocast({device!r}, dtype={dtype})" for device, dtype in self.autocast]
        parts += [] if self.grad else ["torch.no_grad()"]
        return f"with {', '.join(parts)}:" if parts else None


@dataclass
class Script:
    """All that a script says."""

    text: ModuleText
    inputs: Inputs
    setup: Setup
    modes: Modes = field(default_factory=Modes)
    title: str = ""
    """What fails, in a line or more."""
    command: str = "run"
    """What the script does when it is started without arguments."""
    backend_hint: str = ""
    """What stood in the place of a backend that no other process can look up."""
    state: dict[str, torch.Tensor] = field(default_factory=dict)
    """Parameters and buffers of modules that the graph calls."""
    settings: list[str] | None = None
    """Lines that set torch's configuration; None: as it is when the script is written."""

    def write(self, file: Path) -> Path:
        """Writes the script, and its inputs beside it (`repro.py`: `repro.pt`); gives its path back.

        Raises:
            OSError: the folder is not there.

        Example:
            >>> script.write(pathlib.Path("repro.py"))
            PosixPath('repro.py')
        """
        data = file.with_suffix(".pt") if file.stem != "minifier_launcher" else file.with_name("inputs.pt")
        saved = {**self.inputs.data, **{f"state:{name}": value for name, value in self.state.items()}}
        if saved:
            torch.save(saved, data)
        file.write_text(self.source(data.name if saved else None))
        return file

    def source(self, data: str | None) -> str:
        """The text of the script; `data`: the name of the file of inputs beside it."""
        backend = _Backend.of(self.setup.backend, self.backend_hint)
        imports = sorted({*self.text.imports, *backend.imports})
        of_backend = {folder for folder in map(folder_of, backend.imports) if folder is not None}
        folders = sorted({*self.text.folders, *backend.folders, *of_backend})
        settings = "\n".join(_setting_lines(imports, folders, self.settings))
        values = "\n".join([*backend.lines, "mod = Repro()"])
        parts = [settings, self.text.classes, self.inputs.load_args(), values, self._main(data)]
        return _head(self.title) + "\n\n" + "\n\n\n".join(parts) + "\n"

    def _main(self, data: str | None) -> str:
        inputs = "None"
        if data is not None:
            inputs = f"os.path.join(os.path.dirname(os.path.abspath(__file__)), {data!r})"
        options: list[tuple[str, Any, Any]] = [
            ("after", self.setup.after, "dynamo"),
            ("dynamic", self.setup.dynamic, None),
            ("accuracy", self.setup.accuracy, False),
            ("tolerance", self.setup.tolerance, 1e-3),
            ("ignores_integers", self.setup.ignores_integers, False),
            ("forward_only", self.setup.forward_only, False),
            ("config", self.setup.config, {}),
            ("command", self.command, "run"),
        ]
        given = "".join(f", {name}={value!r}" for name, value, default in options if value != default)
        call = f"run_repro(mod, load_args, backend=BACKEND, inputs={inputs}{given})"
        line = self.modes.line()
        without = textwrap.indent(_standalone_text(), " " * 8)
        lines = [
            'if __name__ == "__main__":',
            "    try:",
            "        from pellucid.repro import run_repro",
            "    except ImportError:  # by torch alone",
            without,
            *([f"    {line}", f"        {call}"] if line else [f"    {call}"]),
        ]
        return "\n".join(lines)


def _standalone_text() -> str:
    source = inspect.getsource(standalone)
    return source.partition("import torch\n")[2].strip("\n")


_USES = """\
python THIS_FILE            shows it
python THIS_FILE minify     makes the graph smaller as long as it fails so
python THIS_FILE analyze    names the first node that differs from eager"""


def _head(title: str) -> str:
    plain = title.replace("\\", "\\\\").replace('"', "'")
    told = "".join(f"    {line}\n" for line in plain.splitlines()[:8])
    comments = "\n".join(f"# {line}" for line in versions())
    return f'"""A failure of a compiler, in one file.\n\n{told}\n{_USES}\n"""\n\n{comments}'


def versions() -> list[str]:
    """What belongs to a report: versions of torch, CUDA, git, Python and pellucid, and the GPUs.

    Example:
        >>> versions()[0]
        'torch 2.13.0+cpu (git …), CUDA None'
    """
    import pellucid

    git = getattr(torch.version, "git_version", None)
    lines = [f"torch {torch.__version__} (git {git}), CUDA {torch.version.cuda}"]
    if torch.cuda.is_available():
        lines += [f"GPU {i}: {torch.cuda.get_device_name(i)}" for i in range(torch.cuda.device_count())]
    else:
        lines.append("no GPU")
    lines.append(f"pellucid {pellucid.__version__}, Python {platform.python_version()}, {platform.platform()}")
    return lines


def _setting_lines(imports: Sequence[str], folders: Sequence[str], settings: Sequence[str] | None) -> Iterable[str]:
    """Environment, imports and configuration of the failing process."""
    yield "import os"
    yield "import sys"
    yield ""
    for name, value in sorted(os.environ.items()):
        if name.startswith(_ENVIRONMENT) and not any(ours in name for ours in _OURS):
            yield f"os.environ[{name!r}] = {value!r}"
    for folder in folders:
        yield f"sys.path.append({folder!r})"
    yield ""
    yield "import torch"
    for name in imports:
        yield f"import {name}"
    for library in sorted(torch.ops.loaded_libraries):
        yield f"torch.ops.load_library({str(library)!r})"
    yield from config_lines() if settings is None else settings


def config_lines() -> Iterable[str]:
    """What is set in torch's configurations that are loaded, as lines of Python.

    Example:
        >>> list(config_lines())
        ['import torch._inductor.config', 'torch._inductor.config.cpp_wrapper = True']
    """
    for name in _CONFIGS:
        module: Any = sys.modules.get(name)
        if module is None:
            continue
        lines = [line for line in module.codegen_config().splitlines() if line and ".repro_" not in line]
        kept = [line for line in lines if not line.startswith("import ") and _is_python(line)]
        if kept:
            yield from (line for line in lines if line.startswith("import "))
            yield f"import {name}"
            yield from kept


def _is_python(line: str) -> bool:
    try:
        compile(line, "<config>", "exec")
    except SyntaxError:
        return False
    return True


def own_options() -> dict[str, Any]:
    """Options of pellucid that are not what they are at the start of a process, and that can be written as text.

    Example:
        >>> with pellucid.config.patch(dynamic_shapes=False):
        ...     own_options()
        {'dynamic_shapes': False}
    """
    found = {name: getattr(config, name) for name in config.options() if not name.startswith(_NOT_OF_A_SCRIPT)}
    plain = (bool, int, float, str)
    return {
        name: value
        for name, value in found.items()
        if isinstance(value, plain) and value != config.options()[name].default
    }


@dataclass
class _Backend:
    """The line `BACKEND = …`."""

    lines: list[str]
    imports: list[str] = field(default_factory=list)
    folders: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, backend: str | Callable | None, hint: str) -> _Backend:
        if isinstance(backend, str):
            module = _registered_in(backend)
            if module == "__main__":
                hint = f"{backend!r}, which the program registers itself"
                return cls.of_main(registry._REGISTERED[backend]) or cls([_asks_for_it(hint)])
            return cls([f"BACKEND = {backend!r}"], [] if module is None else [module])
        if callable(backend):
            module, name = getattr(backend, "__module__", None), getattr(backend, "__qualname__", "")
            if module in sys.modules and module != "__main__" and getattr(sys.modules[module], name, None) is backend:
                return cls([f"BACKEND = {module}.{name}"], [module])
            home = _variable_of_a_module(backend, module)
            if home is not None:
                return cls([f"BACKEND = {home[0]}.{home[1]}"], [home[0]])
            own = cls.of_main(backend)
            if own is not None:
                return own
            hint = hint or f"{module}.{name or type(backend).__qualname__}"
        return cls([_asks_for_it(hint)])

    @classmethod
    def of_main(cls, backend: Callable) -> _Backend | None:
        """What the main file defines is written with all that it is made of."""
        found = definition_of(backend)
        if found is None:
            return None
        folders = {folder for folder in map(folder_of, found.modules) if folder is not None}
        return cls([*found.statements, f"BACKEND = {found.name}"], folders=sorted(folders))


def _asks_for_it(hint: str) -> str:
    return f"BACKEND = None  # put the backend here; it was {hint or 'not said'}"


def _variable_of_a_module(backend: Callable, module: str | None) -> tuple[str, str] | None:
    """A module that is no part of torch or pellucid, and its global variable that holds the backend."""
    homes = [module] if module in sys.modules else []
    homes += [name for name, held in sys.modules.items() if folder_of(name) is not None and held is not None]
    for home in homes:
        if sys.modules[home] is sys.modules["__main__"] or home.partition(".")[0] in (
            "torch",
            "pellucid",
            "__mp_main__",
        ):
            continue
        for name, held in list(vars(sys.modules[home]).items()):
            if held is backend and name.isidentifier():
                return home, name
    return None


def _registered_in(name: str) -> str | None:
    """The module that has to be imported for a backend of this name to be there; None: none has."""
    if name in builtin.TABLE or name not in registry._REGISTERED:
        return None
    return registry._REGISTERED[name].__module__


def write_repro(
    gm: GraphModule,
    inputs: Sequence[Any],
    file: str | os.PathLike,
    *,
    backend: str | Callable | None = None,
    after: str = "dynamo",
    accuracy: bool = False,
    dynamic: bool | None = None,
    title: str = "",
    command: str = "run",
) -> Path:
    """Writes a graph and its inputs as a script that shows in a fresh process what a backend makes of it.

    The modes of the calling thread (gradients, autocast) become a `with` line; the values of the inputs are saved beside the
    script.

    Args:
        gm: the graph; a backend may write its own without changing it. Modules in it have to be those of torch.nn.
        inputs: its inputs, real tensors and numbers.
        file: the script; the folder has to be there. The inputs go into a file of the same name with ".pt".
        backend: a name, or a callable that a module defines. None and others: the script asks for it.
        after: "dynamo": the backend gets the graph as it is captured. "aot": it is a graph of ATen operators for "inductor" or a
            compiler of AOTAutograd's graphs.
        accuracy: what is wrong is the result, not an exception.
        dynamic: as in `pellucid.compile`.
        title: what fails, for the head of the script.
        command: what the script does without arguments: "run", "minify" or "analyze".

    Returns:
        The path of the script.

    Raises:
        ReproRefused: the graph or an input has no form as text. It names what.
        OSError: the folder is not there.
        ValueError: `after` or `command` is something else.

    Example:
        >>> pellucid.repro.write_repro(gm, [torch.ones(3)], "repro.py", backend="inductor")
        PosixPath('repro.py')
    """
    if after not in ("dynamo", "aot"):
        raise ValueError(f"after must be 'dynamo' or 'aot', not {after!r}")
    if command not in ("run", "minify", "analyze"):
        raise ValueError(f"command must be 'run', 'minify' or 'analyze', not {command!r}")
    setup = Setup(backend, after, accuracy, dynamic, config=own_options())
    return script_of(gm, inputs, setup, title=title, command=command).write(Path(file))


def script_of(
    gm: GraphModule, inputs: Sequence[Any], setup: Setup, *, title: str = "", command: str = "run", hint: str = ""
) -> Script:
    """The script of a graph as it is now; later changes of the graph and of its inputs do not count.

    Raises:
        ReproRefused: the graph or an input has no form as text. It names what.

    Example:
        >>> script_of(gm, [torch.ones(3)], Setup("inductor")).write(Path("repro.py"))
    """
    plain, values = lifted(gm, inputs)
    names = [node.name for node in plain.graph.find_nodes(op="placeholder")]
    if len(names) != len(values):
        raise ReproRefused(f"the graph has {len(names)} inputs, and there are values for {len(values)}")
    text = text_of(plain)
    return Script(text, Inputs.of(names, values), setup, Modes.now(), title, command, hint, state_of(plain))


def state_of(gm: GraphModule) -> dict[str, torch.Tensor]:
    """Parameters and buffers of the modules that the graph calls, as copies."""
    called = {str(node.target) for node in gm.graph.nodes if node.op in ("call_module", "get_attr")}
    modules = {name: gm.get_submodule(name) for name in sorted(called)}
    return {
        f"{name}.{key}": value.detach().clone()
        for name, module in modules.items()
        for key, value in module.state_dict().items()
    }
