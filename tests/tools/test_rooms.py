"""tools/check_rooms.py: the project obeys it, and it notices what it should."""

import importlib.util
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
spec = importlib.util.spec_from_file_location("check_rooms", ROOT / "tools/check_rooms.py")
check_rooms = importlib.util.module_from_spec(spec)
spec.loader.exec_module(check_rooms)


def test_the_project_obeys():
    assert check_rooms.check(ROOT) == []


@pytest.fixture
def tree(tmp_path):
    (tmp_path / "cmake").mkdir()
    shutil.copy(ROOT / "cmake/rooms.cmake", tmp_path / "cmake")
    shutil.copy(ROOT / "CMakeLists.txt", tmp_path)
    for name in ("base/a.h", "py/a.h", "guards/a.h", "aten/a.h"):
        (tmp_path / "src" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "src" / name).touch()
    return tmp_path


@pytest.mark.parametrize(
    "file, include",
    [
        ("base/a.cpp", '"py/a.h"'),
        ("py/a.cpp", '"guards/a.h"'),
        ("guards/a.cpp", "<torch/torch.h>"),
        ("guards/a.cpp", "<c10/core/Device.h>"),
        ("guards/a.cpp", "<internal/pycore_dict.h>"),
        ("py/a.cpp", "<nanobind/nanobind.h>"),
        ("guards/a.cpp", '"a.h"'),
        ("nowhere/a.cpp", "<vector>"),
    ],
)
def test_a_forbidden_include_is_noticed(tree, file, include):
    path = tree / "src" / file
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"// text\n#include {include}\n")
    assert len(check_rooms.check(tree)) == 1


def test_a_header_with_fenced_includes_is_private_to_its_room(tree):
    (tree / "src/aten/a.h").write_text("#include <ATen/ATen.h>\n")
    (tree / "src/aten/b.h").write_text('#include "aten/a.h"\n')
    (tree / "src/aten/b.cpp").write_text('#include "aten/b.h"\n')
    assert check_rooms.check(tree) == []
    (tree / "src/guards/a.cpp").write_text('#include "aten/b.h"\n')
    assert len(check_rooms.check(tree)) == 1


def test_allowed_includes_pass(tree):
    (tree / "src/guards/a.cpp").write_text(
        '#include <vector>\n#include "base/a.h"\n#include "guards/a.h"\n#include "aten/a.h"\n'
    )
    (tree / "src/aten/a.cpp").write_text("#include <ATen/core/TensorBase.h>\n")
    (tree / "src/py/a.cpp").write_text('#include <internal/pycore_dict.h>\n#include "base/a.h"\n')
    assert check_rooms.check(tree) == []


def test_a_forbidden_edge_in_cmake_is_noticed(tree):
    text = (
        (tree / "CMakeLists.txt")
        .read_text()
        .replace("pellucid_room(py       USES base)", "pellucid_room(py USES base guards)")
    )
    (tree / "CMakeLists.txt").write_text(text)
    with pytest.raises(SystemExit, match="may not use room 'guards'"):
        check_rooms.check(tree)
