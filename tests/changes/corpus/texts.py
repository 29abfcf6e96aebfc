"""Numbers that become text, are printed or logged; and texts, bytes, flags and enums that are only moved."""

from __future__ import annotations

import enum
import logging

from corpus.table import program, ramp
from support import Plain

logger = logging.getLogger("corpus of programs")
logger.propagate = False


class Lines(logging.Handler):
    """A handler that keeps what is logged."""

    def __init__(self):
        super().__init__()
        self.lines = []

    def emit(self, record):
        self.lines.append(self.format(record))


class Logged:
    """What is logged in a block."""

    def __init__(self, lines, level=logging.INFO):
        self.handler, self.level = Lines(), level
        self.handler.lines = lines

    def __enter__(self):
        logger.addHandler(self.handler)
        logger.setLevel(self.level)

    def __exit__(self, *_):
        logger.removeHandler(self.handler)


@program(1, now=1)
def printed_step():
    def f(x, step):
        y = x * 2
        print("step", step)
        return y

    for step in range(10):
        yield f, ramp(3), step


@program(1, now=1)
def printed_with_an_f_string():
    def f(x, step, loss):
        print(f"step {step:>4}: loss {loss:.3f} ({loss!r}, {step * 2})", end="\n\n")
        return x.sin()

    for step in range(10):
        yield f, ramp(3), step, 4.0 / (step + 1)


@program(2, now=2)
def printed_size():
    def f(x):
        print(x.shape, x.size(0), len(x))
        return x * 2

    for n in (3, 5, 4, 6, 8, 2, 7):
        yield f, ramp(n, 2)


@program(1, now=1)
def logged_step():
    lines = []

    def f(x, step, loss):
        logger.info("step %d: loss %.4f", step, loss)
        return x.sin()

    with Logged(lines):
        for step in range(10):
            yield f, ramp(3), step, 4.0 / (step + 1)


@program(2, now=2)
def logging_that_is_off():
    lines = []

    def f(x, step):
        logger.debug("step %d", step)
        return x * step

    with Logged(lines):
        for step in range(10):
            yield f, ramp(3), step


@program(2, now=2)
def text_of_an_int():
    def f(x, n):
        return x + 1, str(n), repr(n), f"{n}", f"{n:05d}", format(n, "x"), "%d" % n, f"{n:>6}"

    for n in (1, 20, -3, 4000, 5, 10**20, 7, 0):
        yield f, ramp(3), n


@program(1, now=1)
def text_of_a_float():
    def f(x, a):
        return x * 2, str(a), f"{a:.3f}", f"{a:e}", format(a, ".1%"), "%g" % a, f"{a!r:>8}"

    for a in (1.5, 0.1, -2.25, 1e22, 1e-7, 3.0, -0.0, 123456.789):
        yield f, ramp(3), a


@program(2, now=2)
def message_kept_in_a_list():
    messages = []

    def f(x, step):
        messages.append(f"step {step}")
        return x + step

    for step in range(10):
        yield f, ramp(3), step


@program(2, now=2)
def message_of_an_exception():
    def f(x, n):
        y = x.sin()
        if n >= 0:
            raise ValueError(f"bad number {n} for {y.dim()} dimensions")
        return y

    for n in range(8):
        yield f, ramp(3), n


@program(4, now=4, why="the text is a key: it is known")
def text_as_a_key():
    def f(x, n, table):
        return x * table[f"k{n}"]

    for n in (1, 2, 3, 4, 1, 2, 3, 4):
        yield f, ramp(3), n, {"k1": 1, "k2": 4, "k3": 9, "k4": 16}


@program(8, now=8, why="a text is a value")
def number_out_of_a_text():
    def f(x, text):
        return x + 1, int(text) * 2

    for i in range(8):
        yield f, ramp(3), str(i * 7)


@program(1, now=1)
def texts_only_moved():
    state = Plain(name="", names=[])

    def f(x, name):
        state.name = name
        state.names.append(name)
        return x.sin(), name

    for i in range(10):
        yield f, ramp(3), f"batch {i}"


@program(1, now=1)
def bytes_only_moved():
    table = {}

    def f(x, key):
        table["last"] = key
        return x.sin(), [key]

    for i in range(10):
        yield f, ramp(3), bytes([i, i + 1])


@program(4, now=4, why="each mode has a graph of its own")
def text_that_chooses():
    def f(x, mode):
        if mode == "mean":
            return x.mean()
        if mode == "sum":
            return x.sum()
        return getattr(x, mode)()

    for mode in ("mean", "sum", "prod", "amax", "mean", "sum", "prod", "amax"):
        yield f, ramp(3), mode


@program(2, now=2)
def enum_that_chooses():
    class Mode(enum.Enum):
        TRAIN = 1
        TEST = 2

    def f(x, mode):
        return x * 2 if mode is Mode.TRAIN else x.neg()

    for i in range(8):
        yield f, ramp(3), (Mode.TRAIN, Mode.TEST)[i % 2]


@program(3, now=3, why="an enum is a value")
def int_enum_in_arithmetic():
    class Level(enum.IntEnum):
        LOW = 1
        MIDDLE = 5
        HIGH = 9

    def f(x, level):
        return x * level, level + 1

    for i in range(9):
        yield f, ramp(3), list(Level)[i % 3]


@program(4, now=4, why="a flag is a value")
def flags():
    class Part(enum.Flag):
        SCALE = 1
        SHIFT = 2

    def f(x, parts):
        if Part.SCALE in parts:
            x = x * 2
        if parts & Part.SHIFT:
            x = x + 1
        return x.sin()

    for i in range(8):
        yield f, ramp(3), Part(i % 4)


@program(2, now=2)
def bool_flag():
    def f(x, training):
        return x * 2 if training else x.neg()

    for i in range(8):
        yield f, ramp(3), i % 2 == 0


@program(2, now=2)
def bool_in_arithmetic():
    def f(x, flag):
        return x * flag, flag + 1, flag

    for i in range(8):
        yield f, ramp(3), i % 3 == 0


@program(2, now=2)
def bool_of_a_changing_number():
    def f(x, step, start):
        return x + 1, step >= start

    for step in range(8):
        yield f, ramp(3), step, 20


@program(2, now=2)
def table_of_results_as_text():
    def f(x, rows):
        return x + 1, "\n".join(f"{name:<8}{value:8.2f}" for name, value in rows)

    for i in range(8):
        yield f, ramp(3), [("loss", 4.0 - i / 4), ("rate", 0.1 * 0.9**i)]
