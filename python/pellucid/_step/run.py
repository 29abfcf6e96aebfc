"""`pellucid.step`: a call, recorded."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from pellucid._step.record import Recorder
from pellucid._step.steps import Steps
from pellucid.backends.eager import eager


class Plain:
    """The backend of what is recorded: graphs run as they are. By it these captures are told from those of the program's own compiled
    functions."""

    takes_numbers = True
    __name__ = "step"

    def __call__(self, gm: Any, example_inputs: Sequence[Any]) -> Callable:
        return eager(gm, example_inputs)


def step(fn: Callable, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Steps:
    """Compiles the function anew, calls it and gives what was recorded."""
    from pellucid import api

    if not callable(fn):
        raise TypeError(f"pellucid.step needs a callable, not {type(fn).__name__}")
    backend = Plain()
    recorder = Recorder(lambda started: started.backend_function is backend)
    compiled = api.Settings(backend=backend)(fn) if inspect.isclass(fn) else api.compile(fn, backend=backend)
    with recorder.listening() as steps:
        steps.result = compiled(*args, **kwargs)
    return steps
