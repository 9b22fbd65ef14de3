"""The hinge loss by cutting planes (CPSP), and structured outputs."""

from corevec.solvers.cutting_plane.fits import (
    HingeOutcome,
    HingeTask,
    solve_in,
    solve_in_basis,
    solve_pursuit,
)
from corevec.solvers.cutting_plane.loop import Rules, cutting_planes, line_search
from corevec.solvers.cutting_plane.master_qp import Cuts, solve_cuts
from corevec.solvers.cutting_plane.spaces import Growth, part_in_time, span_of

__all__ = [
    "Cuts",
    "Growth",
    "HingeOutcome",
    "HingeTask",
    "Rules",
    "cutting_planes",
    "line_search",
    "part_in_time",
    "solve_cuts",
    "solve_in",
    "solve_in_basis",
    "solve_pursuit",
    "span_of",
]
