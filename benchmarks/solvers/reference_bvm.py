"""The Ball Vector Machine; with `n_basis` it ends with as many core rows."""

from benchmarks.solvers._reference import reference_solver

SOLVER = reference_solver(
    "reference_bvm", "BallVectorMachine", renamed={"n_basis": "max_vectors"}
)
