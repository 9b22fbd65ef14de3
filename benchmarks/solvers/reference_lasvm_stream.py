"""LASVM as a one-pass learner: linear, each row offered once, no finishing."""

from benchmarks.solvers._reference import reference_solver

SOLVER = reference_solver(
    "reference_lasvm_stream", "LASVM", {"kernel": "linear", "finishing": False}
)
