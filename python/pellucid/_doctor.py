"""What of this machine, torch, Python and the configuration will matter: `pellucid.doctor` and `python -m pellucid doctor`.

A line for each, from a function of its own in `_LINES`. None of them compiles anything of the program.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from pellucid import _core, config
from pellucid.takeover.switch import is_installed

__all__ = ["Finding", "Findings", "doctor"]

OK, NOTE, BAD = "ok", "note", "bad"


@dataclass(frozen=True)
class Finding:
    """One line: what is found, and what that means for whoever compiles here."""

    name: str
    state: str
    """"ok"; "note": it changes what happens; "bad": programs will not be compiled as they ask for."""
    found: str
    means: str

    def __str__(self) -> str:
        return f"{self.name:<12} {self.state:<4}  {self.found}: {self.means}"


@dataclass(frozen=True)
class Findings:
    """What `doctor` gives; `str()` is the report."""

    lines: tuple[Finding, ...]

    @property
    def is_bad(self) -> bool:
        """Whether something keeps programs from being compiled as they ask for."""
        return any(line.state == BAD for line in self.lines)

    def to_list(self) -> list[dict[str, str]]:
        """The lines as dicts, for JSON.

        Example:
            >>> pellucid.doctor().to_list()[0]["name"]
            'versions'
        """
        return [asdict(line) for line in self.lines]

    def __str__(self) -> str:
        return "\n".join(str(line) for line in self.lines)


def doctor() -> Findings:
    """Looks at this process and machine, and tells in ten lines what matters for compiling.

    Called in a program it tells of that process: options that it has set, whether torch._dynamo is imported, who traces.

    Example:
        >>> print(pellucid.doctor())
    """
    return Findings(tuple(Finding(name, *look()) for name, look in _LINES.items()))


_Found = tuple[str, str, str]


def _versions() -> _Found:
    found = f"{platform.python_implementation()} {platform.python_version()}, torch {torch.__version__}"
    if hasattr(sys, "gettotalrefcount"):
        return NOTE, f"{found}, Python is a debug build", "captures and calls take several times as long"
    if torch.version.debug:
        return NOTE, f"{found}, torch is a debug build", "graphs run slowly, whatever compiles them"
    if sys.flags.dev_mode:
        return NOTE, f"{found}, python -X dev", "the debug hooks of Python's allocator slow captures down"
    if torch.cuda.is_available():
        return (
            OK,
            f"{found}, {torch.cuda.device_count()} x {torch.cuda.get_device_name(0)}",
            "graphs can run on the GPU",
        )
    if torch.version.cuda is not None:
        return NOTE, f"{found} for CUDA {torch.version.cuda}, no GPU found", "graphs run on the CPU"
    return OK, f"{found}, no CUDA", "graphs run on the CPU"


def _core_build() -> _Found:
    build = _core.build()
    found = f"{Path(_core.__file__).name}, built by {build['compiler']}"
    if build["sanitized"]:
        return NOTE, f"{found} with sanitizers", "captures and calls take ten times as long: for tests of pellucid"
    if not build["optimized"]:
        return NOTE, f"{found} without optimization", "captures and calls take several times as long"
    return OK, found, "a release build"


_PROGRAM = "#include <omp.h>\n#include <Python.h>\nint main() { return omp_get_max_threads() > 0 ? 0 : 1; }\n"


def _compiler() -> _Found:
    wanted = os.environ.get("CXX", "clang++" if sys.platform == "darwin" else "g++")  # as Inductor chooses
    path = shutil.which(wanted)
    without = 'backend "inductor", the default, fails on the CPU; "aot_eager" and "eager" need none'
    if path is None:
        return BAD, f"no C++ compiler {wanted!r}", f"{without} (apt-get install g++, or set CXX)"
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "try.cpp")
        source.write_text(_PROGRAM)
        command = [path, "-fopenmp", "-fsyntax-only", f"-I{sysconfig.get_path('include')}", str(source)]
        try:
            tried = subprocess.run(command, capture_output=True, text=True, timeout=60)
            version = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=60).stdout
        except (OSError, subprocess.TimeoutExpired) as error:
            return BAD, f"{path} does not run ({error})", without
    found = f"{path} ({(version.splitlines() or ['unknown'])[0]})"
    if tried.returncode != 0:
        missing = next((line for line in tried.stderr.splitlines() if "error" in line), "it refuses a small program")
        return BAD, f"{found}: {missing}", f"{without} (headers of Python and OpenMP are missing?)"
    return OK, found, "Inductor can compile for the CPU"


def _processor() -> _Found:
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    threads = torch.get_num_threads()
    found = f"{usable} of {os.cpu_count()} cores, {threads} threads of torch"
    if threads > usable:
        return NOTE, found, "more threads than cores: graphs run slower than they could (torch.set_num_threads)"
    if threads < usable and "OMP_NUM_THREADS" in os.environ:
        means = f"OMP_NUM_THREADS={os.environ['OMP_NUM_THREADS']} keeps cores idle"
        return NOTE, found, means
    return OK, found, "no guard asks for the number of threads: set it before the first call"


def _memory() -> _Found:
    total, free = _memory_of_machine()
    limit = _memory_limit()
    if total is None or free is None:
        return OK, "unknown", "there is no /proc/meminfo"
    found = f"{free / 2**30:.1f} of {total / 2**30:.1f} GiB free"
    if limit is not None and limit < total:
        found += f", {limit / 2**30:.1f} GiB for this container"
        free = min(free, limit)
    if free < 2 * 2**30:
        return NOTE, found, "Inductor's compilers take about 1 GiB for each worker (TORCHINDUCTOR_COMPILE_THREADS=1)"
    return OK, found, "enough for Inductor's compilers"


def _memory_of_machine() -> tuple[int | None, int | None]:
    try:
        rows = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
        return tuple(int(rows[name].split()[0]) * 1024 for name in ("MemTotal", "MemAvailable"))  # type: ignore[return-value]
    except (OSError, ValueError, KeyError):
        return None, None


def _memory_limit() -> int | None:
    for file in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            return int(Path(file).read_text())
        except (OSError, ValueError):  # "max": none
            continue
    return None


_OFF = ("TORCHDYNAMO_DISABLE", "TORCH_COMPILE_DISABLE")
_PREFIXES = ("PELLUCID_", "TORCH_", "TORCHDYNAMO_", "TORCHINDUCTOR_", "AOT_")
_SLOW = ("TORCH_COMPILE_DEBUG", "TORCH_TRACE")


def _environment() -> _Found:
    switches = {name: value for name, value in sorted(os.environ.items()) if name.startswith(_PREFIXES)}
    if not switches:
        return OK, "no switches of pellucid or torch", "what programs say holds"
    found = ", ".join(f"{name}={value}" for name, value in switches.items())
    unknown = [name for name in switches if name.startswith("PELLUCID_") and name not in _variables()]
    if any(switches.get(name) == "1" for name in _OFF):
        return BAD, found, "torch.compile compiles nothing while pellucid is installed (pellucid.compile does)"
    if unknown:
        return NOTE, found, f"{', '.join(unknown)} is no option of pellucid (docs/config.md) and does nothing"
    if any(switches.get(name, "0") not in ("", "0") for name in _SLOW):
        return NOTE, found, "each compile writes files, which takes time"
    return NOTE, found, "they hold where a program says nothing else"


def _variables() -> set[str]:
    return {option.variable for option in config.options().values()}


def _options() -> _Found:
    changed = {
        name: getattr(config, name)
        for name, option in sorted(config.options().items())
        if getattr(config, name) != option.default
    }
    if not changed:
        return OK, "all options as by default", "docs/config.md lists them"
    return NOTE, ", ".join(f"{name}={value!r}" for name, value in changed.items()), "differs from the default"


def _others() -> _Found:
    installed = is_installed()
    here = "torch._dynamo is imported" if "torch._dynamo" in sys.modules else "torch._dynamo is not imported"
    if installed:
        return OK, f"{here}, pellucid is installed", "torch.compile is pellucid's, for all code of this process"
    return OK, here, "torch.compile is torch's own (pellucid.install(), or python -m pellucid run)"


def _tracing() -> _Found:
    tracers = [
        name
        for name, function in (
            ("sys.settrace", sys.gettrace()),
            ("threading.settrace", threading.gettrace()),
            ("sys.setprofile", sys.getprofile()),
            ("threading.setprofile", threading.getprofile()),
        )
        if function is not None
    ]
    if any("settrace" in name for name in tracers):
        found = f"{' and '.join(tracers)} set (a debugger, coverage)"
        return BAD, found, "compiled functions run eagerly meanwhile, so that every line is seen"
    if tracers:
        return NOTE, f"{' and '.join(tracers)} set", "each Python call is slower; compiled code has few of them"
    return OK, "nobody traces or profiles", "compiled functions run compiled"


def _caches() -> _Found:
    # Not torch's own function, which imports Inductor and makes the directory.
    from torch._inductor.runtime.cache_dir_utils import default_cache_dir

    folder = Path(os.environ.get("TORCHINDUCTOR_CACHE_DIR") or default_cache_dir())
    where = folder
    while not where.exists():
        where = where.parent
    try:
        with tempfile.TemporaryFile(dir=where):  # root may write where nothing can be written
            pass
    except OSError:
        return BAD, f"{folder} cannot be written", 'backend "inductor" fails (set TORCHINDUCTOR_CACHE_DIR)'
    free = shutil.disk_usage(where).free
    if free < 2**30:
        return NOTE, f"{folder}, {free / 2**20:.0f} MiB free", "Inductor may run out of space for what it compiles"
    return OK, f"{folder} can be written", "Inductor finds again what it has compiled before"


_LINES: dict[str, Callable[[], _Found]] = {
    "versions": _versions,
    "core": _core_build,
    "compiler": _compiler,
    "processor": _processor,
    "memory": _memory,
    "environment": _environment,
    "options": _options,
    "installed": _others,
    "tracing": _tracing,
    "caches": _caches,
}
