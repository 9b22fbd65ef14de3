"""Many vectors replaced by few."""

from corevec.solvers.compression.moments import ARRAYS, Moments, moments_of
from corevec.solvers.compression.reduced_set import (
    Budget,
    Reduced,
    moving,
    reduce_expansion,
)

__all__ = [
    "ARRAYS",
    "Budget",
    "Moments",
    "Reduced",
    "moments_of",
    "moving",
    "reduce_expansion",
]
