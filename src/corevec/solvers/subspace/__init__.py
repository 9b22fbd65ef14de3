"""Weights of all rows in the span of a basis."""

from corevec.solvers.subspace.iterative import ROUNDING_DECREASE, prove, solve
from corevec.solvers.subspace.low_rank import radius_sq
from corevec.solvers.subspace.result import certificates, expansion
from corevec.solvers.subspace.row_order import (
    RowOrder,
    weighted_rows,
    weighted_rows_on_host,
)
from corevec.solvers.subspace.rsvm import coefficients_of
from corevec.solvers.subspace.sample_newton import (
    draw_each,
    sample_size,
    solve_on_sample,
)
from corevec.solvers.subspace.state import SpanFit, SpanState
from corevec.solvers.subspace.task import SpanMethod, SpanTask
from corevec.solvers.subspace.working_set import rows_that_fit, view_that_fits

__all__ = [
    "ROUNDING_DECREASE",
    "RowOrder",
    "SpanFit",
    "SpanMethod",
    "SpanState",
    "SpanTask",
    "certificates",
    "coefficients_of",
    "draw_each",
    "expansion",
    "prove",
    "radius_sq",
    "rows_that_fit",
    "sample_size",
    "solve",
    "solve_on_sample",
    "view_that_fits",
    "weighted_rows",
    "weighted_rows_on_host",
]
