"""The captured graph as it is. Imports nothing of torch's compiler."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch.fx import GraphModule

log = logging.getLogger(__name__)


def eager(gm: GraphModule, example_inputs: Sequence[Any], **options: Any) -> Callable:
    if options:
        log.warning("eager backend ignoring extra kwargs %s", options)
    return gm.forward
