"""The CPSP of Joachims and Yu: cutting planes, pre-images as basis, hinge, no bias."""

from benchmarks.solvers._span import HINGE, span_solver

SOLVER = span_solver("corevec_cpsp", {"basis": "pursuit"} | HINGE)
