"""The bytecode room: the opcode table against dis, and decode . assemble = identity over real code."""

import dis
import glob
import importlib.util
import marshal
import opcode
import os
import sysconfig
import types
import warnings

import pytest
import torch

import pellucid
from pellucid import _core

bytecode = _core._bytecode

# What the interpreter does and dis.stack_effect, which serves CPython's compiler, tells differently (see opcodes.def).
SPLIT_DIFFERENTLY = {"PRECALL", "CALL", "RETURN_GENERATOR"}


def test_every_opcode_has_a_row():
    expected = {name: (number, opcode._inline_cache_entries[number]) for name, number in opcode.opmap.items()}
    assert bytecode.opcodes() == expected


@pytest.mark.parametrize("name", sorted(set(opcode.opmap) - SPLIT_DIFFERENTLY))
def test_stack_effect_is_that_of_dis(name):
    number = opcode.opmap[name]
    for arg in range(1025) if number >= opcode.HAVE_ARGUMENT else (None,):
        if name == "BUILD_SLICE" and arg not in (2, 3):
            continue
        for jump in (False, True):
            assert bytecode.stack_effect(number, arg or 0, jump) == dis.stack_effect(number, arg, jump=jump), (
                arg,
                jump,
            )


def test_call_takes_what_precall_and_call_take_together():
    precall, call = opcode.opmap["PRECALL"], opcode.opmap["CALL"]
    for arg in range(1025):
        ours = bytecode.stack_effect(precall, arg, False) + bytecode.stack_effect(call, arg, False)
        assert ours == dis.stack_effect(precall, arg) + dis.stack_effect(call, arg)
    # The first send() pushes its None; the compiler counts it as there from the start instead.
    assert bytecode.stack_effect(opcode.opmap["RETURN_GENERATOR"], 0, False) == 1


def code_of_file(path):
    """The code object of a module: from its .pyc when that is up to date, else compiled."""
    try:
        cached = importlib.util.cache_from_source(path)
        with open(cached, "rb") as file:
            header = file.read(16)
            stat = os.stat(path)
            fresh = header[:4] == importlib.util.MAGIC_NUMBER and header[4:8] == b"\0\0\0\0"
            if fresh and int.from_bytes(header[8:12], "little") == int(stat.st_mtime) & 0xFFFFFFFF:
                return marshal.load(file)
    except (OSError, ValueError, EOFError):
        pass
    try:
        with open(path, "rb") as file, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return compile(file.read(), path, "exec", dont_inherit=True)
    except (SyntaxError, ValueError):  # test data of the standard library that is wrong on purpose
        return None


def check_identity(paths):
    total, differences = 0, []
    for path in paths:
        code = code_of_file(path)
        if code is not None:
            count, found = bytecode.roundtrip_differences(code)
            total += count
            differences += found
    assert differences == []
    return total


def python_files(root, without="site-packages"):
    return sorted(p for p in glob.glob(root + "/**/*.py", recursive=True) if f"{os.sep}{without}{os.sep}" not in p)


def test_identity_over_the_standard_library():
    assert check_identity(python_files(sysconfig.get_path("stdlib"))) > 20_000


def test_identity_over_site_packages():
    files = python_files(sysconfig.get_path("purelib"), without="no such folder")
    step = 1 if os.environ.get("PELLUCID_SWEEP") == "all" else 10
    assert check_identity(files[::step]) > 1_000


def walk(code):
    yield code
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield from walk(const)


def test_identity_shows_a_difference():
    """The comparison above can fail: a code object with an odd stack size is noticed."""
    code = (lambda a, b: a + b).__code__
    count, differences = bytecode.roundtrip_differences(code.replace(co_stacksize=1))
    assert count == 1 and len(differences) == 1 and differences[0].endswith("co_stacksize")


SAMPLE = """
def plain(a, b=1, *args, c, d=2, **kwargs):
    '''doc'''
    try:
        with a as x, b:
            for i in range(a):
                if i is None or a.b.c[1:2] in b:
                    continue
                yield (lambda: x + i)(*args, **kwargs)
    except (ValueError, TypeError) as e:
        raise RuntimeError(f"{e!r:>{c}} é") from e
    finally:
        d += 1
class C:
    x: int = 3
    def m(self): return super().m(a=1, *[2])
async def co(a):
    async with a as b:
        async for i in b: await i
    return [j async for j in a if await j]
match plain:
    case {"a": 1, **rest}: pass
    case C(x=3) | [1, *_]: pass
"""


def test_disassemble_is_dis():
    for code in walk(compile(SAMPLE, "sample", "exec")):
        expected = []
        for at in dis.get_instructions(code, adaptive=False):
            if at.opname != "EXTENDED_ARG":
                target = at.argval if at.opcode in dis.hasjrel else None
                expected.append((at.offset, at.opname, at.arg or 0, target))
        assert bytecode.disassemble(code) == expected
        table = [(e.start, e.end, e.target, e.depth, e.lasti) for e in dis._parse_exception_table(code)]
        assert bytecode.exception_table(code) == [(s, end, t, d, bool(lasti)) for s, end, t, d, lasti in table]


def test_long_jumps_and_many_constants():
    lines = ["def f(x):", "    for i in range(2):", "        if x:"]
    lines += [f"            x = x + {n}.5" for n in range(70_000)]
    lines += ["    return x"]
    code = compile("\n".join(lines), "long", "exec")
    assert bytecode.roundtrip_differences(code) == (2, [])
    assert max(row[2] for row in bytecode.disassemble(code.co_consts[0])) > 0xFFFF


def test_specialised_code_decodes_as_compiled():
    def hot(n):
        total = 0
        for i in range(n):
            total += i
        return total

    before = bytecode.disassemble(hot.__code__.replace())
    for _ in range(100):
        hot(10)
    assert any(
        at.opname != plain.opname
        for at, plain in zip(dis.get_instructions(hot, adaptive=True), dis.get_instructions(hot))
    )
    assert bytecode.disassemble(hot.__code__.replace()) == before
    assert bytecode.reassemble(hot.__code__)[0] == hot.__code__.co_code


def test_reassembled_code_runs():
    def compute(xs, *, scale=2):
        out = []
        try:
            for x in xs:
                out.append((x * scale) / (x - 3))
        except ZeroDivisionError as e:
            out.append(type(e).__name__)
        return out, {k: v for k, v in zip("abc", out)}

    code, lines, exceptions, depth = bytecode.reassemble(compute.__code__)
    code = compute.__code__.replace(co_code=code, co_linetable=lines, co_exceptiontable=exceptions, co_stacksize=depth)
    again = types.FunctionType(code, globals(), "again", None, None)
    again.__kwdefaults__ = {"scale": 2}
    for xs in ([], [1, 2], [1, 3, 4]):
        assert again(xs) == compute(xs)


def test_malformed_code_is_refused():
    def f(x):
        return x if x else None

    broken = f.__code__.replace(co_code=bytes([opcode.opmap["RESUME"], 0, opcode.opmap["JUMP_FORWARD"], 200]))
    with pytest.raises(ValueError, match="jump into the middle"):
        bytecode.disassemble(broken)
    with pytest.raises(ValueError, match="unknown opcode"):
        bytecode.disassemble(f.__code__.replace(co_code=bytes([255, 0])))
    with pytest.raises(ValueError, match="truncated exception table"):
        bytecode.disassemble(f.__code__.replace(co_exceptiontable=bytes([0x40])))
    with pytest.raises(ValueError, match="runs off the end"):
        bytecode.reassemble(f.__code__.replace(co_code=bytes([opcode.opmap["RESUME"], 0])))
    with pytest.raises(TypeError):
        bytecode.disassemble(f)


def odd(x):
    return x + 1


def test_code_that_no_compiler_made_runs_eagerly():
    """An exception range that begins inside an instruction: CPython runs it, the decoder refuses it."""
    start, length, target, depth = 0x80 | 3, 1, 1, 0
    odd.__code__ = odd.__code__.replace(co_exceptiontable=bytes([start, length, target, depth]))

    def calls(x):
        return odd(x * 2) - 3

    x = torch.ones(2)
    assert pellucid.compile(calls)(x).tolist() == calls(x).tolist()
    assert pellucid.compile(odd)(x).tolist() == odd(x).tolist()
    with pytest.raises(pellucid.errors.Unsupported, match="the bytecode of odd cannot be captured"):
        pellucid.compile(calls, fullgraph=True)(x)
