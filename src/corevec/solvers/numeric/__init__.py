"""Small dense solvers: quadratic programmes, Newton steps, design matrices."""

from corevec.solvers.numeric.conjugate_gradients import Systems
from corevec.solvers.numeric.deadline import Deadline, OutOfTime
from corevec.solvers.numeric.design import (
    BasisDesign,
    Design,
    capacity,
    row_budget,
    size_of,
    slices,
)
from corevec.solvers.numeric.dual_qp import (
    DualProblem,
    SmoRule,
    Solution,
    balance,
    line_minimum,
    newton,
    smo,
)
from corevec.solvers.numeric.jitter import with_jitter
from corevec.solvers.numeric.partial_cholesky import PartialFactor
from corevec.solvers.numeric.primal_newton import (
    Minimum,
    NewtonSettings,
    minimise,
    minimise_each,
    newton_target,
)

__all__ = [
    "BasisDesign",
    "Deadline",
    "Design",
    "DualProblem",
    "Minimum",
    "NewtonSettings",
    "OutOfTime",
    "PartialFactor",
    "SmoRule",
    "Solution",
    "Systems",
    "balance",
    "capacity",
    "line_minimum",
    "minimise",
    "minimise_each",
    "newton",
    "newton_target",
    "row_budget",
    "size_of",
    "slices",
    "smo",
    "with_jitter",
]
