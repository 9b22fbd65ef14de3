"""SimpleSVM of Vishwanathan, Smola and Murty, as Loosli and Canu describe it."""

from benchmarks.solvers._reference import reference_solver

SOLVER = reference_solver("reference_simplesvm", "SimpleSVM")
