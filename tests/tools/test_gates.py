"""tools/gates (run by `make lint`): each notices a planted fault and nothing beside it."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
GATES = ROOT / "tools/gates"


def load(name):
    spec = importlib.util.spec_from_file_location(f"gates_{name}", GATES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(autouse=True)
def gates_on_the_path(monkeypatch):
    monkeypatch.syspath_prepend(str(GATES))


@pytest.fixture
def tree(tmp_path):
    def write(files):
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return tmp_path

    return write


def findings(gate, root):
    return dict(+load(gate).check(root))


METHODS = "".join(f"  int method{i}(int x) const {{ return x; }}\n" for i in range(31))


def test_a_class_of_31_methods(tree):
    few = "class Few {\n  int a_ = f(1);  // int g();\n  using T = int(int);\n  void h() { int x(3); }\n};\n"
    root = tree({"src/base/a.h": f"class Many final : public Base {{\n public:\n{METHODS}}};\n{few}"})
    assert findings("class_size", root) == {"src/base/a.h: class Many has more than 30 methods": 1}


def test_a_function_without_a_caller(tree):
    root = tree(
        {
            "src/base/a.h": "int used(int x);\nint unused(int x);\nPyObject* only_tests(int x);\n#define ROW(n) do_##n\n",
            "src/base/a.cpp": 'int used(int x) { return x; }  // unused(1)\nint unused(int x) { return used(x); }\nauto t = "unused(";\n'
            "int do_ADD(int x) { return x; }\nvoid of_the_base(int x) override {}\n",
            "src/base/b.cpp": "void f() {\n  const Guard guard(f);\n}\n",
            "tests/hooks/a.cpp": "int g() { return only_tests(1); }\n",
            "tests/unit/a.cpp": "int h() { return unused(1); }\n",
            "python/p/a.py": "def called():\n    pass\n\n\ndef forgotten():  # forgotten\n    called()\n",
        }
    )
    words = "has no caller outside of the tests"
    assert findings("unused", root) == {
        f"src/base/a.cpp: unused {words}": 1,
        f"src/base/a.h: only_tests {words}": 1,
        f"python/p/a.py: forgotten {words}": 1,
    }


def test_a_method_away_from_its_class(tree):
    root = tree(
        {
            "src/base/a.h": "class A {\n  int f();\n  int g();\n};\n",
            "src/base/a.cpp": "int A::f() { return 1; }\n",
            "src/py/b.cpp": "namespace p {\nint A::g() {\n  return A::f();\n}\nint h() { return base::A::f(); }\n}\n",
        }
    )
    assert findings("method_room", root) == {"src/py/b.cpp: A::g belongs to room base": 1}


def test_wide_prose(tree):
    wide = "word " * 30
    root = tree(
        {
            "a.md": f"{wide}\n\n```\n{wide}\n```\n\n| {wide} |\n\nhttps://{wide}\n",
            "b.cpp": f"// {wide}\nint x = 1;  // {wide}\n",
            "c.py": f"    # {wide}\nx = '{wide}'\n",
        }
    )
    assert findings("prose", root) == {f"{name}: prose over 120 columns": 1 for name in ("a.md", "b.cpp", "c.py")}


def test_what_is_particular_to_a_version(tree):
    text = "#include <internal/pycore_dict.h>\nint f(PyDictObject* d) { return d->ma_version_tag; }\n"
    root = tree({"src/py/a.cpp": text, "src/py/a311.cpp": text, "src/py/b.cpp": "// _PyInterpreterFrame\nint g();\n"})
    assert findings("version", root) == {
        "src/py/a.cpp: particular to CPython 3.11, in a file not named after it": 2,
    }


def test_known_findings_pass_and_only_shrink(tree, monkeypatch, capsys):
    calls = "".join(f"int y{i} = x.method{i}(1);\n" for i in range(31))
    many = f"class Many {{\n{METHODS}{METHODS}}};\n"
    root = tree({"src/base/a.h": many, "src/base/b.cpp": calls, "known.txt": "# head\n"})
    main = load("__main__")
    monkeypatch.setattr(main, "KNOWN", root / "known.txt")

    def run(*options):
        monkeypatch.setattr(sys, "argv", ["gates", str(root), *options])
        return main.main(), capsys.readouterr().out

    row = "class_size: src/base/a.h: class Many has more than 30 methods"
    status, out = run()
    assert (status, f"{row} (32)" in out) == (1, True)
    status, _ = run("--shrink")
    assert (status, (root / "known.txt").read_text()) == (1, "# head\n")  # what is new is never written
    (root / "known.txt").write_text(f"# head\n40 {row}\n")
    status, out = run()
    assert (status, "better than they say" in out) == (1, True)
    assert run("--shrink")[0] == 0
    assert (root / "known.txt").read_text() == f"# head\n32 {row}\n"
    assert run()[0] == 0


def test_from_a_shell():
    done = subprocess.run([sys.executable, GATES, "--help"], capture_output=True, text=True)
    assert done.returncode == 0
    assert "--shrink" in done.stdout
