"""Regression in the span of a pursued basis; a tube of given width, as SVR's epsilon.

`tube` is in the units of y; `tube_sd` beside it says how many deviations that is.
"""

from benchmarks.solvers._span import span_solver

SOLVER = span_solver("corevec_subspace_regressor", imports="CoreVectorRegressor")
