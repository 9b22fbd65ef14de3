"""The paper's NYSTROM: a uniform sample of the rows as basis, hinge, no bias."""

from benchmarks.solvers._span import HINGE, span_solver

SOLVER = span_solver("corevec_hinge_nystroem", {"basis": "nystroem"} | HINGE)
