"""LASVM with every row picked once, in random order, and finishing: one epoch."""

from benchmarks.solvers._reference import reference_solver

SOLVER = reference_solver("reference_lasvm_online", "LASVM")
