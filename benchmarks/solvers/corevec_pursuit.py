"""Our pursuit: basis by the functional gradient, moved, squared hinge, Newton.

The fit has the cheap bound only; the full certificate is a pass of `certify`, timed
apart (`certify_seconds`), and `gap` is that pass's.
"""

from benchmarks.solvers._span import span_solver

PURSUIT = {"basis": "pursuit", "loss": "squared_hinge", "certificate": "projection"}
SOLVER = span_solver("corevec_pursuit", PURSUIT, apart=True)
