"""The captured graph as it is. Imports nothing of torch's compiler."""

from __future__ import annotations

import logging

log = logging.getLogger(__name__)


def eager(gm, example_inputs, **options):
    if options:
        log.warning("eager backend ignoring extra kwargs %s", options)
    return gm.forward
