"""LASVM, margin-based active selection and finishing, as in the CPSP paper.

With `n_basis` no more rows are picked when the expansion has as many.
"""

from benchmarks.solvers._reference import reference_solver

SOLVER = reference_solver(
    "reference_lasvm",
    "LASVM",
    {"selection": "margin"},
    renamed={"n_basis": "max_vectors"},
)
