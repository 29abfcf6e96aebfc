"""Small programs in which numbers and sizes change between the calls: `table` says what a row is, a file is a theme."""

from corpus import (  # noqa: F401
    arithmetic,
    breaks,
    chance,
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
