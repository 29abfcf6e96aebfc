"""The files of captures that outlive a process: where they are, what they are named after, and what became of each function.

A file is data. Its name says nothing that is trusted, and what is in it is checked by `_core` against the objects of this
process before it is used (docs/capture-cache.md).
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import itertools
import marshal
import os
import platform
import stat
import sys
import threading
import types
from _abc import _get_dump  # type: ignore[import-not-found]
from collections import deque
from dataclasses import dataclass
from typing import Any

import torch

from pellucid import config

_MAGIC = b"pellucid capture 1\n"
_DIGEST = 16
_LARGEST = 64 << 20
_VARIANTS = 8  # of one function and kind of call: what tells them apart is in the guards


@dataclass(frozen=True)
class CaptureCacheRecord:
    """What became of one function in `config.capture_cache_dir`."""

    function: str
    """Its name and place."""
    outcome: str
    """"loaded": a kept capture was used, and nothing traced. "missed": one was there and did not hold. "kept": a capture was
    written. "not kept": it was not."""
    reason: str
    """Of "missed" and "not kept"."""

    def __str__(self) -> str:
        return f"{self.function}: {self.outcome}" + (f": {self.reason}" if self.reason else "")


_records: deque[CaptureCacheRecord] = deque(maxlen=10_000)
_refused: set[tuple[str, str]] = set()


def capture_cache_report() -> list[CaptureCacheRecord]:
    """What became of the functions that this process has compiled, oldest first, as far as `config.capture_cache_dir` was set.

    Example:
        >>> import pellucid
        >>> [str(record) for record in pellucid.capture_cache_report()]
        []
    """
    return list(_records)


def _note(function: types.FunctionType, instance: Any, outcome: str, reason: str) -> None:
    shown: Any = function
    if isinstance(instance, torch.nn.Module) and isinstance(type(instance).forward, types.FunctionType):
        shown = type(instance).forward  # what is compiled is the call of any module
    code = shown.__code__
    place = f"{shown.__qualname__} ({code.co_filename}:{code.co_firstlineno})"
    _records.append(CaptureCacheRecord(place, outcome, reason))


# ---- the folder


def _folder() -> str | None:
    """The folder, if there is one that may be used."""
    where = config.capture_cache_dir  # type: ignore[attr-defined]
    if not where:
        return None
    where = os.path.abspath(where)
    try:
        with contextlib.suppress(FileExistsError):
            os.makedirs(where, mode=0o700)
        reason = _objection(where)
    except OSError as error:
        reason = str(error)
    if not reason:
        return where
    if (where, reason) not in _refused:
        _refused.add((where, reason))
        _records.append(CaptureCacheRecord(where, "not kept", reason))
    return None


def _objection(where: str) -> str:
    """Why a folder is not to be trusted; "" when it is."""
    found = os.lstat(where)
    if not stat.S_ISDIR(found.st_mode):
        return "capture_cache_dir is no folder"
    if found.st_uid != os.getuid():
        return "capture_cache_dir belongs to another user"
    if found.st_mode & 0o077:
        return f"capture_cache_dir is open to others (mode {stat.S_IMODE(found.st_mode):o}, not 700)"
    return ""


# ---- names


@functools.lru_cache(maxsize=1)
def _world() -> str:
    """What captures may depend on and no guard looks at: versions, and what the machine answers to torch."""
    from pellucid import _core

    try:
        import numpy
    except ImportError:
        version = ""
    else:
        version = numpy.__version__

    core = os.stat(_core.__file__)
    cuda = [torch.cuda.get_device_properties(i) for i in range(torch.cuda.device_count())]
    facts = (
        (sys.version, sys.implementation.cache_tag, sys.flags.optimize, platform.machine()),
        (core.st_size, core.st_mtime_ns),
        (torch.__version__, torch.version.git_version, version),
        (torch.backends.cpu.get_cpu_capability(), [str(device) for device in cuda]),
    )
    return repr(facts)


def _versions() -> str:
    """Of torch as it says now: a test may say otherwise."""
    return f"{torch.__version__} {sys.version}"


def _options() -> str:
    values = {name: getattr(config, name) for name in config.options() if not name.startswith("capture_cache_")}
    return repr(sorted(values.items()))


def _key(
    where: str,
    function: types.FunctionType,
    backend: Any,
    digest: bytes,
    words: bytes,
    fullgraph: bool,
    instance: object,
) -> tuple[str, str] | None:
    """The folder of a function and a kind of call in `where`. Everything that it says is one more reason not to look at a file."""
    cls = type(instance)
    parts = (
        _world(),
        _versions(),
        _options(),
        function.__module__,
        function.__qualname__,
        digest.hex(),
        (backend.name, backend.static, backend.dynamic, backend.takes_numbers, backend.takes_symbols),
        fullgraph,
        (cls.__module__, cls.__qualname__),
        words,
    )
    return where, hashlib.blake2b(repr(parts).encode("utf-8", "surrogateescape"), digest_size=20).hexdigest()


def _registered_with(cls: type) -> str:
    """What is registered as a subclass of an abstract class and of those below it, and which of these say so in code.

    "": code of the program says so, which may look at anything."""
    found = []
    seen = {cls}
    waiting = [cls]
    while waiting:
        at = waiting.pop()
        found += [f"{_name(at)}: {_name(known)}" for known in map(_referent, _get_dump(at)[0]) if known is not None]
        code = getattr(getattr(at.__subclasshook__, "__func__", None), "__code__", None)
        if code is not None:  # of the class itself too: C code has asked it, and no guard knows what it says
            module = at.__subclasshook__.__module__.partition(".")[0]
            if module not in sys.stdlib_module_names and module != "torch":
                return ""
            found.append(f"{_name(at)} asks {hashlib.sha256(marshal.dumps(code, 2)).hexdigest()}")
        below: list[type] = type.__subclasses__(at)
        for each in below:
            if each not in seen:
                seen.add(each)
                waiting.append(each)
    found.sort()
    return hashlib.sha256("\n".join(found).encode()).hexdigest()


def _name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def _referent(reference: Any) -> Any:
    return reference()


# ---- files


def _read(key: tuple[str, str]) -> list[bytes]:
    """What is kept under a key, the newest first."""
    folder = os.path.join(*key)
    try:
        if _objection(folder):
            return []
        names = [entry.name for entry in os.scandir(folder) if entry.name.endswith(".capture")]
    except OSError:
        return []
    found = []
    for name in names[: 2 * _VARIANTS]:
        with contextlib.suppress(OSError):
            written, content = _content(os.path.join(folder, name))
            if content is not None:
                found.append((written, content))
    return [content for _, content in sorted(found, key=lambda pair: pair[0], reverse=True)]


def _content(path: str) -> tuple[int, bytes | None]:
    file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        about = os.fstat(file)
        is_ours = stat.S_ISREG(about.st_mode) and about.st_uid == os.getuid() and about.st_size <= _LARGEST
        if not is_ours:
            return 0, None
        with os.fdopen(file, "rb", closefd=False) as stream:
            content = stream.read(_LARGEST + 1)
    finally:
        os.close(file)
    start = len(_MAGIC) + _DIGEST
    body = content[start:]
    if content[: len(_MAGIC)] != _MAGIC or content[len(_MAGIC) : start] != _checksum(body):
        return 0, None
    return about.st_mtime_ns, body


def _checksum(body: bytes) -> bytes:
    """Tells a file that was damaged. Who may write into the folder can write this as well."""
    return hashlib.blake2b(body, digest_size=_DIGEST).digest()


_numbers = itertools.count()


def _write(key: tuple[str, str], body: bytes) -> str:
    """Keeps a capture; why it could not, or ""."""
    if len(body) > _LARGEST:
        return f"it has {len(body)} bytes, more than {_LARGEST}"
    folder = os.path.join(*key)
    content = _MAGIC + _checksum(body) + body
    path = os.path.join(folder, hashlib.blake2b(body, digest_size=12).hexdigest() + ".capture")
    unfinished = os.path.join(folder, f".{os.getpid()}.{threading.get_ident()}.{next(_numbers)}")
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        file = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(file, "wb") as stream:
                stream.write(content)
            os.replace(unfinished, path)  # whoever reads sees all of it or nothing
        except OSError:
            os.unlink(unfinished)
            raise
        _make_room(key[0], folder, path)
    except OSError as error:
        return str(error)
    return ""


def _make_room(where: str, folder: str, newest: str) -> None:
    files: list[tuple[int, int, str, str]] = []
    for of_key in os.scandir(where):
        if not of_key.is_dir(follow_symlinks=False):
            continue
        with contextlib.suppress(OSError):
            for entry in os.scandir(of_key.path):
                about = entry.stat(follow_symlinks=False)
                files.append((about.st_mtime_ns, about.st_size, entry.path, of_key.path))
    files.sort()
    limit = config.capture_cache_size << 20  # type: ignore[attr-defined]
    total = sum(size for _, size, _, _ in files)
    here = sum(of == folder for *_, of in files)
    for _, size, path, of in files:
        if path == newest or not (total > limit or (of == folder and here > _VARIANTS)):
            continue
        with contextlib.suppress(OSError):  # another process may have done the same
            os.unlink(path)
        total -= size
        here -= of == folder
