"""Going forward and back through captures, instruction by instruction: `pellucid.step` and `python -m pellucid step`.

`record` keeps what the events of a real run say of each instruction, `steps` is what was kept, `walk` goes through it, `prompt` and
`page` let somebody do so.
"""

from pellucid._step.steps import Steps

__all__ = ["Steps"]
