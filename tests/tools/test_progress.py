"""The line on a terminal that tells what takes long to compile: there, and only there, and gone when it is done."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
import time

import pytest

ERASE = "\r\x1b[2K"

PROGRAM = """
import sys, threading, time
import torch, pellucid

def slow(gm, inputs):
    {work}
    return gm.forward

def f(x):
    return x.sin() + 1

{use}
"""
SLEEP = "time.sleep({})"
CALL = "pellucid.compile(f, backend=slow)(torch.ones(3))"


def on_terminal(program, stdout=None, **environment):
    """What the program writes to a terminal that is its standard error, controlling terminal and foreground."""
    child, terminal = pty.fork()
    if child == 0:
        os.environ.update({"TERM": "xterm", **environment})
        if stdout is not None:
            os.dup2(os.open(stdout, os.O_WRONLY | os.O_CREAT), 1)
        os.execv(sys.executable, [sys.executable, "-c", program])
    written = b""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        if select.select([terminal], [], [], 1)[0]:
            try:
                got = os.read(terminal, 65536)
            except OSError:  # the other end is closed
                break
            if not got:
                break
            written += got
    os.close(terminal)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0, written.decode(errors="replace")
    return written.decode()


def program(work=SLEEP.format(2.2), use=CALL):
    return PROGRAM.format(work=work, use=use)


def test_a_long_compile_is_told_and_the_line_goes():
    text = on_terminal(program())
    shown = [part for part in text.split(ERASE) if part.startswith("pellucid: ")]
    assert len(shown) > 2
    assert re.fullmatch(r"pellucid: 1 s, compiling f \(<string>:\d+\), backend slow, __compiled_fn_0", shown[0])
    assert any(part.startswith("pellucid: 2 s") for part in shown)
    assert text.endswith(ERASE)  # nothing is left on the line


def test_a_short_one_is_not():
    assert on_terminal(program(SLEEP.format(0.4))) == ""


@pytest.mark.parametrize(
    ("use", "environment"),
    [
        (CALL, {"PELLUCID_PROGRESS": "0"}),
        ("pellucid.config.progress = False\n" + CALL, {}),
        (CALL.replace("backend=slow", "backend=slow, config={'progress': False}"), {}),
        (CALL, {"TERM": "dumb"}),
        ("import io\nsys.stderr = io.StringIO()\n" + CALL, {}),
    ],
)
def test_off(use, environment):
    assert on_terminal(program(use=use), **environment) == ""


def test_nothing_in_pipes():
    done = subprocess.run([sys.executable, "-c", program()], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_while_python_does_not_let_go():
    """A backend, or a capture, that holds Python's lock: the line is written all the same."""
    text = on_terminal(
        program(work="import ctypes; ctypes.PyDLL(None).usleep(900000); ctypes.PyDLL(None).usleep(900000)")
    )
    assert "pellucid: 1 s" in text and text.endswith(ERASE)


def test_several_threads():
    use = """
def run(k):
    scope = {"torch": torch}
    exec("def f%d(x): return x.sin() + %d" % (k, k), scope)
    pellucid.compile(scope["f%d" % k], backend=slow)(torch.ones(3))

pellucid.compile(f, backend="eager")(torch.ones(3))
threads = [threading.Thread(target=run, args=(k,)) for k in range(3)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""
    text = on_terminal(program(use=use))
    assert re.search(r"pellucid: 1 s, the first of 3: compiling f\d", text) and text.endswith(ERASE)


def test_a_failing_backend_leaves_nothing():
    use = f"""
try:
    {CALL}
except pellucid.errors.BackendCompilerFailed:
    pass
"""
    text = on_terminal(program(work=SLEEP.format(1.5) + "; raise ValueError", use=use))
    assert "pellucid: 1 s" in text and text.endswith(ERASE)


def test_in_a_forked_child():
    use = f"""
import os
{CALL}
child = os.fork()
if child == 0:
    pellucid.reset()
    {CALL}
    os._exit(0)
_, status = os.waitpid(child, 0)
assert status == 0
"""
    text = on_terminal(program(work=SLEEP.format(1.5), use=use))
    assert text.count("pellucid: 1 s") >= 2 and text.endswith(ERASE)


def test_it_does_not_write_over_a_line_that_is_edited():
    """readline takes letters as they come: so does whoever debugs a backend."""
    work = """
    import tty, termios
    before = termios.tcgetattr(0)
    tty.setcbreak(0)
    time.sleep(1.8)
    termios.tcsetattr(0, termios.TCSANOW, before)"""
    assert "pellucid:" not in on_terminal(program(work=work.strip()))
