"""The exact machine over all rows: finite Newton steps, conjugate gradients."""

from corevec.solvers.exact.ascent import Ascent
from corevec.solvers.exact.gram import SquareGram, TiledGram
from corevec.solvers.exact.path import PathMatrix, PathPoint
from corevec.solvers.exact.preconditioner import Landmarks, LowRank
from corevec.solvers.exact.solve import Exact

__all__ = [
    "Ascent",
    "Exact",
    "Landmarks",
    "LowRank",
    "PathMatrix",
    "PathPoint",
    "SquareGram",
    "TiledGram",
]
