"""The squared hinge in the span of the basis that a case names."""

from benchmarks.solvers._span import span_solver

SOLVER = span_solver("corevec_subspace", {"loss": "squared_hinge"})
