"""SMO as LIBSVM does it, from the paper: hinge, free bias, shrinking."""

from benchmarks.solvers._reference import reference_solver

SOLVER = reference_solver("reference_smo", "SMO")
