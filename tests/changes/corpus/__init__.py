"""Small programs in which numbers and sizes change between the calls: `table` has the rows, the other files one theme each."""

from corpus import (  # noqa: F401
    arithmetic,
    breaks,
    counters,
    decoding,
    known,
    metrics,
    operators,
    passed,
    sampling,
    schedules,
    sizes,
    texts,
    training,
)
from corpus.table import PROGRAMS, run

__all__ = ["PROGRAMS", "run"]
