"""The paper's INCCHOL: the pivots of an incomplete Cholesky, hinge, no bias."""

from benchmarks.solvers._span import HINGE, span_solver

SOLVER = span_solver("corevec_hinge_cholesky", {"basis": "cholesky"} | HINGE)
