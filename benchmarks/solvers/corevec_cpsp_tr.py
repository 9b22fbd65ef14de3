"""CPSP(tr) of the same paper: its basis vectors are training rows, the best of 59."""

from benchmarks.solvers._span import HINGE, span_solver

SOLVER = span_solver("corevec_cpsp_tr", {"basis": "train"} | HINGE)
