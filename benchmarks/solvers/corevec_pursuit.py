"""Our pursuit: basis by the functional gradient, moved, squared hinge, Newton."""

from benchmarks.solvers._span import span_solver

PURSUIT = {"basis": "pursuit", "loss": "squared_hinge"}
SOLVER = span_solver("corevec_pursuit", PURSUIT)
