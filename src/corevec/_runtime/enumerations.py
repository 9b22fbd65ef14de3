"""The words of a certificate: what ended a fit, and which kind of problem it is.

Members are strings, so that they compare, hash and print as the public words do.
"""

from __future__ import annotations

from enum import StrEnum


class StopReason(StrEnum):
    """What ended a fit; the values are those of ``certificate_.stopped_by``."""

    TOL = "tol"  # the relative gap asked for was reached
    BALL_EPSILON = "ball_epsilon"  # the stopping criterion of the paper was met
    MAX_VECTORS = "max_vectors"  # the core set, or the basis, has its largest size
    N_VECTORS = "n_vectors"  # as many vectors as allowed, and their weights are solved
    MEMORY_BUDGET = "memory_budget"  # only the rows that fit decided the weights
    MAX_ITER = "max_iter"
    MAX_TIME = "max_time"
    INTERRUPT = "interrupt"  # Ctrl-C, or a callback that asked for it
    STALL = "stall"  # no further progress was possible
    SAMPLE = "sample"  # the stopping criterion was met on a sample of the rows
    ONE_PASS = "one pass"  # a method of one pass, which no tolerance stops
    CELLS = "cells"  # every cell was solved


class ProblemKind(StrEnum):
    """What kind of problem was certified; the values are those of ``kind``."""

    MACHINE = "machine"  # a function that may be rescaled
    BALL = "ball"  # an enclosing ball, which may not
    CELLS = "cells"  # one problem per cell, each certified by itself


__all__ = ["ProblemKind", "StopReason"]
