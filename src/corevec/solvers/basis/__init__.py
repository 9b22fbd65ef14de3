"""Which vectors span the space: chosen, pursued, moved."""

from corevec.solvers.basis.by_multipliers import ByMultipliers, basis_size, choose_basis
from corevec.solvers.basis.choose import (
    BasisTask,
    Vectors,
    Wanted,
    basis_of_vectors,
    check_definite,
    choose,
    is_streamed,
    no_space,
    wanted_vectors,
)
from corevec.solvers.basis.matching_pursuit import best_candidates, draw_candidates
from corevec.solvers.basis.moves import (
    bytes_of_moves,
    move,
    past_steps,
    rows_to_move_for,
)
from corevec.solvers.basis.plans import (
    LARGE_PLAN,
    MEDIUM_PLAN,
    SHARED_PLAN,
    SMALL_PLAN,
    VAST_PLAN,
    plan_for,
)
from corevec.solvers.basis.preimages import Residual, best_training_row, preimage
from corevec.solvers.basis.pursuit import (
    MIN_MOVING,
    NEAREST_BAND,
    PursuitTask,
    as_vectors,
    grow,
    last_steps,
    moving_in_time,
    nearest_rows,
    plan_that_fits,
    rows_that_fit,
)
from corevec.solvers.basis.select import (
    BY_NAME,
    Pool,
    incomplete_cholesky,
    kmeans,
    randomly_pivoted_cholesky,
    uniform,
)
from corevec.solvers.basis.variable_projection import NEWTON, part_of

__all__ = [
    "BY_NAME",
    "LARGE_PLAN",
    "MEDIUM_PLAN",
    "MIN_MOVING",
    "NEAREST_BAND",
    "NEWTON",
    "SHARED_PLAN",
    "SMALL_PLAN",
    "VAST_PLAN",
    "BasisTask",
    "ByMultipliers",
    "Pool",
    "PursuitTask",
    "Residual",
    "Vectors",
    "Wanted",
    "as_vectors",
    "basis_of_vectors",
    "basis_size",
    "best_candidates",
    "best_training_row",
    "bytes_of_moves",
    "check_definite",
    "choose",
    "choose_basis",
    "draw_candidates",
    "grow",
    "incomplete_cholesky",
    "is_streamed",
    "kmeans",
    "last_steps",
    "move",
    "moving_in_time",
    "nearest_rows",
    "no_space",
    "part_of",
    "past_steps",
    "plan_for",
    "plan_that_fits",
    "preimage",
    "randomly_pivoted_cholesky",
    "rows_that_fit",
    "rows_to_move_for",
    "uniform",
    "wanted_vectors",
]
