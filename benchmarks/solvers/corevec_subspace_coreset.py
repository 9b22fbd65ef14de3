"""Regression in the span of a core set's rows; the tube as corevec_subspace_regressor.

Vectors that were chosen by the core set, not moved: what is left of a second or two.
"""

from benchmarks.solvers._span import span_solver

SOLVER = span_solver(
    "corevec_subspace_coreset", {"basis": "coreset"}, imports="CoreVectorRegressor"
)
