"""SMO for the squared hinge: the L2-SVM of the CVM paper's comparison."""

from benchmarks.solvers._reference import reference_solver

SOLVER = reference_solver("reference_smo_l2", "SMO", {"loss": "squared_hinge"})
