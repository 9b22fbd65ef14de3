"""Where rows live. `as_source` is the only isinstance ladder on user data."""

from corevec.sources.base import (
    DEFAULT_MEMORY_BUDGET,
    Source,
    Workers,
    row_statistics,
)
from corevec.sources.memory import CsrSource, DenseSource, as_source

__all__ = [
    "DEFAULT_MEMORY_BUDGET",
    "CsrSource",
    "DenseSource",
    "Source",
    "Workers",
    "as_source",
    "row_statistics",
]
