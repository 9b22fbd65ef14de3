"""The exact machine over all rows: finite Newton steps, conjugate gradients."""

from corevec.solvers.exact.ascent import Ascent
from corevec.solvers.exact.components import Components
from corevec.solvers.exact.gram import BlockGram, SquareGram, TiledGram
from corevec.solvers.exact.path import PathMatrix, PathPoint
from corevec.solvers.exact.preconditioner import Landmarks, Later, LowRank
from corevec.solvers.exact.solve import Exact
from corevec.solvers.exact.working_set import WorkingSet

__all__ = [
    "Ascent",
    "BlockGram",
    "Components",
    "Exact",
    "Landmarks",
    "Later",
    "LowRank",
    "PathMatrix",
    "PathPoint",
    "SquareGram",
    "TiledGram",
    "WorkingSet",
]
