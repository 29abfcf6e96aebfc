"""Options of pellucid.

    pellucid.config.recompile_limit = 16          # for the process
    with pellucid.config.patch(recompile_limit=1):  # for this thread (or asyncio task), inside the block
        ...
    pellucid.compile(f, config={"recompile_limit": 1})  # for calls of this compiled function, and for what they compile

At the start a process has the defaults, or what environment variables say: PELLUCID_RECOMPILE_LIMIT=16, PELLUCID_DYNAMIC_SHAPES=0.

`pellucid.config` is this module; an unknown option raises AttributeError. Process-wide values are set under a lock, patches live in a context
variable, so threads do not see each other's patches.
"""

from __future__ import annotations

import contextlib
import contextvars
import copy
import difflib
import itertools
import os
import sys
import threading
import types
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

__all__ = ["Option", "define", "options", "patch"]


@dataclass(frozen=True)
class Option:
    """One option: its name, the type of its values, its default and what it means."""

    name: str
    type: type
    default: Any
    """None: there is no value, and the option may be set to None."""
    meaning: str
    values: tuple[str | int, ...] = ()
    """What it may be; empty: anything of its type."""
    other_variable: str | None = None
    """torch's own environment variable of the same meaning, which counts where ours is not set."""

    @property
    def variable(self) -> str:
        """The environment variable that gives it at the start of the process."""
        return f"PELLUCID_{self.name.upper()}"


_OPTIONS: dict[str, Option] = {}
_VALUES: dict[str, Any] = {}
# Older names that torch._dynamo.config knows too.
_ALIASES = {
    "cache_size_limit": "recompile_limit",
    "accumulated_cache_size_limit": "accumulated_recompile_limit",
    "fail_on_cache_limit_hit": "fail_on_recompile_limit_hit",
}
_WRONG: list[str] = []  # what the environment says wrongly, for the command that will tell it
_LOCK = threading.Lock()
_PATCHES: contextvars.ContextVar[dict[str, Any] | None] = contextvars.ContextVar(
    "pellucid_config_patches", default=None
)


def define(
    name: str,
    type: type,
    default: Any,
    meaning: str,
    *,
    values: tuple[str | int, ...] = (),
    other_variable: str | None = None,
) -> None:
    """Adds an option. For the parts of pellucid that have options of their own.

    Args:
        name: of the option.
        type: of its values.
        default: its value at the start; with None it may be None later too.
        meaning: a sentence for docs/config.md.
        values: the texts or ints that it may be; empty: any.
        other_variable: an environment variable of torch that gives it too.

    Raises:
        ValueError: the name is taken, or its environment variable has a value that it cannot have.

    Example:
        >>> define("my_option", int, 3, "how many")
    """
    with _LOCK:
        if name in _OPTIONS:
            raise ValueError(f"pellucid.config already has an option {name!r}")
        _OPTIONS[name] = Option(name, type, default, meaning, values, other_variable)
        try:
            _VALUES[name] = _initial(name)
        except ValueError as error:
            if not _is_command():
                del _OPTIONS[name]
                raise
            _WRONG.append(str(error))
            _VALUES[name] = copy.copy(default)


def _is_command() -> bool:
    """Whether `python -m pellucid` is about to run: Python imports the package before the command can answer for itself."""
    if sys.argv[:1] != ["-m"]:  # which stands there until the module is found
        return False
    before = sys.orig_argv
    return any(flag[:1] == "-" and flag[-1:] == "m" and name == "pellucid" for flag, name in itertools.pairwise(before))


def wrong_environment() -> list[str]:
    """What the environment says wrongly of options, a sentence each. In a program that is an error when pellucid is imported.

    Example:
        >>> wrong_environment()
        []
    """
    return list(_WRONG)


def options() -> dict[str, Option]:
    """All options by name."""
    return dict(_OPTIONS)


def _canonical(name: str) -> str:
    name = _ALIASES.get(name, name)
    if name not in _OPTIONS:
        near = difflib.get_close_matches(name, [*_OPTIONS, *_ALIASES], n=1)
        more = f"; did you mean {near[0]!r}?" if near else f"; it has {', '.join(sorted(_OPTIONS))}"
        raise AttributeError(f"pellucid.config has no option {name!r}{more}")
    return name


def checked(changes: dict[str, Any]) -> dict[str, Any]:
    """The same options by their own names, for a `patch` or `compile(config=...)`.

    Raises:
        AttributeError: unknown option.
        TypeError, ValueError: a value that the option cannot have.

    Example:
        >>> checked({"cache_size_limit": 1})
        {'recompile_limit': 1}
    """
    wanted = {_canonical(name): value for name, value in changes.items()}
    return {name: _checked(name, value) for name, value in wanted.items()}


def _checked(name: str, value: Any) -> Any:
    option = _OPTIONS[name]
    if value is None and option.default is None:
        return value
    if option.type is float and type(value) is int:
        value = float(value)
    if not isinstance(value, option.type) or (option.type is int and isinstance(value, bool)):
        raise TypeError(f"pellucid.config.{name} must be {option.type.__name__}, not {type(value).__name__}")
    if isinstance(value, (int, float)) and value < 0:
        raise ValueError(f"pellucid.config.{name} must not be negative, got {value}")
    if option.values and value not in option.values:
        raise ValueError(f"pellucid.config.{name} must be {_choices(option)}, got {value!r}")
    return value


def _choices(option: Option) -> str:
    return " or ".join([*map(repr, option.values), *(["None"] if option.default is None else [])])


_TRUTHS = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}


def _initial(name: str) -> Any:
    """What the environment says, else the default."""
    option = _OPTIONS[name]
    variable = option.variable
    if variable not in os.environ and option.other_variable is not None:
        variable = option.other_variable
    text = os.environ.get(variable)
    if text is None:
        return copy.copy(option.default)  # a set may be changed in place
    wrong = f"the environment variable {variable} is {text!r}, but"
    if option.type is bool:
        if text.strip().lower() not in _TRUTHS:
            raise ValueError(f"{wrong} pellucid.config.{name} is true or false: 1, 0, true, false, yes, no, on or off")
        return _TRUTHS[text.strip().lower()]
    if option.type is str:
        if not text and option.default is None:
            return None
        if option.values and text not in option.values:
            raise ValueError(f"{wrong} pellucid.config.{name} is {_choices(option)}")
        return text
    if option.type not in (int, float):
        raise ValueError(f"{wrong} pellucid.config.{name} is a {option.type.__name__}, which only a program can set")
    try:
        value = option.type(text)
    except ValueError:
        raise ValueError(f"{wrong} pellucid.config.{name} is {_ARTICLES[option.type]}") from None
    if value < 0:
        raise ValueError(f"{wrong} pellucid.config.{name} must not be negative")
    if option.values and value not in option.values:
        raise ValueError(f"{wrong} pellucid.config.{name} is {_choices(option)}")
    return value


_ARTICLES = {int: "an int", float: "a float"}


def value_of(name: str) -> Any:
    """`config.name` where each capture asks: as an attribute, CPython looks for it in the module and makes an exception first.

    Args:
        name: of an option, not one of its other names.

    Raises:
        KeyError: unknown option.

    Example:
        >>> pellucid.config.value_of("recompile_limit")
        8
    """
    patches = _PATCHES.get()
    return patches[name] if patches and name in patches else _VALUES[name]


@contextlib.contextmanager
def patch(changes: dict[str, Any] | None = None, /, **more: Any) -> Iterator[None]:
    """Other values for the options named, inside a `with` block or a decorated function, for this thread only.

    Args:
        changes: name to value.
        more: the same as keywords.

    Raises:
        AttributeError: unknown option.
        TypeError, ValueError: a value that the option cannot have.

    Example:
        >>> with pellucid.config.patch(recompile_limit=1):
        ...     f(x)
    """
    wanted = checked({**(changes or {}), **more})
    token = _PATCHES.set({**(_PATCHES.get() or {}), **wanted})
    try:
        yield
    finally:
        _PATCHES.reset(token)


class _ConfigModule(types.ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return value_of(_canonical(name))

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("__"):
            super().__setattr__(name, value)
            return
        name = _canonical(name)
        with _LOCK:
            _VALUES[name] = _checked(name, value)

    def __delattr__(self, name: str) -> None:
        """Back to what it was at the start of the process."""
        name = _canonical(name)
        with _LOCK:
            _VALUES[name] = _initial(name)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *_OPTIONS, *_ALIASES]


define(
    "recompile_limit",
    int,
    8,
    "entries that one function has with one backend. At the limit, calls that fit none of them run eagerly (see"
    " recompile_patience), together with the functions that they call",
)
define(
    "recompile_patience",
    int,
    32,
    "calls that fit none of the entries of a function at its recompile_limit, after which the entry that was used longest"
    " ago gives way to a new one; twice as many each time that the newest entry has served fewer than 10 calls (1: the"
    " first such call; 0: never)",
)
define(
    "accumulated_recompile_limit",
    int,
    256,
    "how often one function may be compiled again in all, what lies behind its graph breaks included; from then on calls"
    " that fit no entry run eagerly",
)
define(
    "error_on_recompile",
    bool,
    False,
    "a call that would be compiled though the function has been compiled before raises RecompileError",
)
define(
    "region_limit",
    int,
    5_000_000,
    "instructions after which a region ends, a tensor operation counting as 50: what never ends must run (ten times as many with"
    " fullgraph=True)",
)
define(
    "graph_failure_limit",
    int,
    3,
    "calls in a row at which a backend's graph raises the same type of error while the graph as captured does not; from"
    " then on that one runs instead (0: never). As many calls in a row at which what a graph asserts of its values is not"
    " true, and its operators are not captured any more (unless fullgraph=True asks for them)",
)
define(
    "fail_on_recompile_limit_hit",
    bool,
    False,
    "a call beyond recompile_limit or accumulated_recompile_limit raises RecompileLimitExceeded",
)
define(
    "continue_after_break",
    bool,
    True,
    "what comes before and behind an unsupported step is compiled, and the step runs in real frames; otherwise a"
    " function with such a step runs eagerly as a whole",
)
define(
    "force_break_every",
    int,
    0,
    "for tests of pellucid: each region ends after so many instructions (0: where it must), which changes no result",
)
define(
    "force_break_at", int, 0, "for tests of pellucid: the first region of a call ends at its instruction of this number"
)

define(
    "dynamic_shapes",
    bool,
    True,
    "False: every number and size is a constant, as with compile(dynamic=False)",
)

define(
    "automatic_dynamic_shapes",
    bool,
    True,
    "False: a number or size that changes stays a constant, but for those that are marked (mark_dynamic)",
)

define(
    "assume_static_by_default",
    bool,
    True,
    "False: sizes and numbers of arguments are open at the first capture, as with compile(dynamic=True)",
)

define(
    "specialize_int",
    bool,
    False,
    "True: an int that changes stays a constant. Sizes of tensors may be open all the same",
)

define("specialize_float", bool, False, "True: a float that changes stays a constant")

define(
    "force_parameter_static_shapes",
    bool,
    True,
    "False: sizes of parameters that change are open, as those of other tensors",
)

define(
    "allow_ignore_mark_dynamic",
    bool,
    False,
    "True: a size that was marked (mark_dynamic, strict mark_unbacked) and has to be a constant becomes one without an error",
)

define(
    "capture_scalar_outputs",
    bool,
    False,
    "True: numbers that a program reads of tensors (item(), tolist(), int(), float()) are part of the graph, as"
    " torch._dynamo.config.capture_scalar_outputs asks for. With fullgraph=True they always are, and with backends that"
    " take numbers of Python, such as eager; what torch's optimizers ask always is",
)

define(
    "capture_dynamic_output_shape_ops",
    bool,
    True,
    "True: operators whose results have a size that depends on values (nonzero(), x[mask], unique(), "
    "repeat_interleave()) are part of the graph, as torch._dynamo.config.capture_dynamic_output_shape_ops asks for."
    " False: they end it, but with fullgraph=True and with backends that take numbers of Python, such as eager. Where a"
    " backend fails for such sizes they end it too",
)

define(
    "only_allow_pt2_compliant_ops",
    bool,
    False,
    "True: an operator of a library other than torch's own ends the graph unless it is tagged pt2_compliant_tag, as"
    " torch.library.custom_op tags its operators",
)

define(
    "force_open",
    int,
    0,
    "for tests of pellucid: 1 opens all sizes and numbers from the first capture on, which changes no result",
)

define(
    "suppress_errors",
    bool,
    False,
    "a backend that raises while it compiles (or an error of pellucid itself) is a warning, and the call runs eagerly;"
    " with fullgraph=True it is raised all the same",
)
define(
    "verbose",
    bool,
    os.environ.get("TORCHDYNAMO_VERBOSE", "0") == "1",
    "Unsupported, BackendCompilerFailed and the records of graph breaks carry the internal stack as well as that of the"
    " program: instructions, the line of pellucid that stopped, the backend's traceback. TORCHDYNAMO_VERBOSE=1 sets it too",
)
define(
    "verify_correctness",
    bool,
    False,
    "what a backend made of a graph runs once beside the graph as it was captured, on copies of the inputs; where results or"
    " written inputs differ, BackendCompilerFailed is raised. A backend may give None then: the graph runs as it is",
)
define(
    "repro_after",
    str,
    None,
    "a failure of a backend is written as a script that shows it in a fresh process and makes its graph smaller"
    ' (docs/minifier.md): "dynamo": of the graph as it was captured, for any backend. "aot": of the graphs of ATen'
    " operators that AOTAutograd makes, for Inductor and other compilers of these. None: nothing is written",
    values=("dynamo", "aot"),
    other_variable="TORCHDYNAMO_REPRO_AFTER",
)
define(
    "repro_level",
    int,
    2,
    "with repro_after, what is written when. 1: a failure as a script that shows it (repro.py). 2: a failure as a script that"
    " makes its graph smaller (minifier_launcher.py). 3: the same for each graph before it is compiled, whether it fails or"
    " not (a crash of the process leaves no time for it later). 4: as 2, and results that differ from the eager run are a"
    " failure, in the forward and the backward pass",
    values=(1, 2, 3, 4),
    other_variable="TORCHDYNAMO_REPRO_LEVEL",
)
define(
    "repro_tolerance",
    float,
    1e-3,
    "the relative and the absolute difference of floats that repro_level 4 lets pass",
)
define(
    "repro_ignore_non_fp",
    bool,
    False,
    "repro_level 4 does not compare ints and bools",
    other_variable="TORCHDYNAMO_REPRO_IGNORE_NON_FP",
)
define(
    "repro_forward_only",
    bool,
    False,
    "with repro_after the backward pass of a graph is not tried",
    other_variable="TORCHDYNAMO_REPRO_FORWARD_ONLY",
)
define(
    "base_dir",
    str,
    "pellucid_repro",
    "the folder that repro_after writes into; a relative one is below the current directory. A second failure gets a folder"
    " of its own in it (2, 3, …)",
)
define(
    "replay_record_enabled",
    bool,
    False,
    "what a failed capture reads (code, globals, attributes, tensors as metadata) is written into a file below base_dir, which"
    " the error names: `python -m pellucid replay FILE` captures it again in any process and on any machine (docs/replay.md)",
    other_variable="TORCH_COMPILE_REPLAY_RECORD",
)
define(
    "reorderable_logging_functions",
    set,
    set(),
    "functions whose calls may wait until the graph has run (print, methods of a logger, warnings.warn, functions of your"
    " own): they do not break the graph and give None. They happen in the order of the program with the values of the time of"
    " the call; arguments are tensors, numbers, texts, f-strings of these and lists, tuples and dicts of them",
)

define(
    "progress",
    bool,
    True,
    "a line on the terminal tells what is compiled when that takes longer than a second, and goes when it is done; nothing of it"
    " where standard error is no terminal (pipes, logs, notebooks)",
)
define(
    "bytecode_log_source",
    bool,
    False,
    "the log of bytecode (TORCH_LOGS=bytecode) also has the source of both: of the program's code decompiled, of what runs in its"
    " place as it is printed",
)

define(
    "capture_cache_dir",
    str,
    None,
    "a folder in which whole captures are kept for other processes, which then trace nothing (docs/capture-cache.md). It is"
    " made if it is not there, must belong to the user and be open to nobody else (mode 0700), or it is not used. None:"
    " nothing is kept",
)
define(
    "capture_cache_size",
    int,
    512,
    "how many MiB the files in capture_cache_dir may have: the oldest go",
)

sys.modules[__name__].__class__ = _ConfigModule
