"""Uses of torch's operators, one each, by families: each is called with several sizes."""

from __future__ import annotations

from uses import arrange, compute, network, pinned, transform  # noqa: F401
from uses.table import SIZES, USES, Use

__all__ = ["SIZES", "USES", "Use"]
