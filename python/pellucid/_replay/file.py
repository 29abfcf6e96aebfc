"""The file of a record: a zip of JSON and Python texts. It is read as data, with bounds on all sizes."""

from __future__ import annotations

import contextlib
import json
import re
import stat
import struct
import zipfile
import zlib
from pathlib import Path
from typing import Any

from pellucid._replay.errors import RecordError

FORMAT = "pellucid record"
VERSION = 1
_MOST_BYTES = 256 << 20
_MOST_TEXTS = 20_000
_MEMBER = re.compile(r"record\.json|code/(\d{1,5})\.py")


def write(path: Path, record: dict[str, Any], texts: list[str]) -> Path:
    """Writes a record into a new file and gives its path; where there is a file of this name a number is appended.

    Args:
        path: where it should be.
        record: what can be JSON.
        texts: of Python code.

    Raises:
        OSError: it cannot be written.

    Example:
        >>> write(Path("f.rec"), record, [])
        PosixPath('f.rec')
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    for number in range(1, 10_000):
        at = path if number == 1 else path.with_name(f"{path.stem}_{number}{path.suffix}")
        try:
            with open(at, "xb") as file:
                try:
                    _write_zip(file, record, texts)
                except BaseException:
                    with contextlib.suppress(OSError):
                        at.unlink()
                    raise
            return at
        except FileExistsError:
            continue
    raise FileExistsError(f"there are 10,000 records {path}")


def _write_zip(file: Any, record: dict[str, Any], texts: list[str]) -> None:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("record.json", json.dumps(record, separators=(",", ":")))
        for number, text in enumerate(texts):
            archive.writestr(f"code/{number}.py", text.encode("utf-8", "surrogatepass"))


def read(path: Path) -> tuple[dict[str, Any], list[str]]:
    """A record and its texts. No code of it runs, and nothing of it is written anywhere.

    Raises:
        RecordError: it is no record, damaged, or too large.
        OSError: there is no such file.

    Example:
        >>> record, texts = read(Path("f.rec"))
    """
    if not stat.S_ISREG(path.stat().st_mode):
        raise RecordError(f"{path} is no file")
    if path.stat().st_size > _MOST_BYTES:
        raise RecordError(f"{path} is larger than records are")
    try:
        with zipfile.ZipFile(path) as archive:
            members = {info.filename: info for info in archive.infolist()}
            if len(members) != len(archive.infolist()) or "record.json" not in members:
                raise RecordError(f"{path} is no record of pellucid")
            strange = next((name for name in members if _MEMBER.fullmatch(name) is None), None)
            if strange is not None:
                raise RecordError(f"{path} is no record of pellucid: it has a member {strange[:80]!r}")
            if len(members) > _MOST_TEXTS or sum(info.file_size for info in members.values()) > _MOST_BYTES:
                raise RecordError(f"{path} is larger than records are")
            left = _MOST_BYTES
            contents: dict[str, bytes] = {}
            for name, info in members.items():
                with archive.open(info) as member:
                    contents[name] = member.read(left + 1)
                left -= len(contents[name])
                if left < 0:
                    raise RecordError(f"{path} is larger than records are")
        record = json.loads(contents["record.json"].decode(), parse_constant=_refused)
        texts = [contents[f"code/{i}.py"].decode("utf-8", "surrogatepass") for i in range(len(members) - 1)]
    except RecordError:
        raise
    except (zipfile.BadZipFile, zlib.error, struct.error, EOFError, NotImplementedError) as error:
        raise RecordError(f"{path} is no record of pellucid, or only a part of one: {error}") from error
    except (ValueError, KeyError, RecursionError, RuntimeError, OverflowError) as error:
        raise RecordError(f"{path} is damaged: {type(error).__name__}: {error}") from error
    _check(path, record)
    return record, texts


def _refused(text: str) -> Any:
    raise ValueError(f"{text} is no JSON")


def _check(path: Path, record: Any) -> None:
    if not isinstance(record, dict) or record.get("format") != FORMAT:
        raise RecordError(f"{path} is no record of pellucid")
    if record.get("version") != VERSION:
        raise RecordError(f"{path} is a record of version {record.get('version')!r}; this pellucid reads {VERSION}")
    rows = record.get("rows")
    if not isinstance(rows, list) or not all(isinstance(row, list) and row and isinstance(row[0], str) for row in rows):
        raise RecordError(f"{path} is damaged: it has no rows")
