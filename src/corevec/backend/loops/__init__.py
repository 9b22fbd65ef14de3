"""Every Numba function, and nothing else."""
