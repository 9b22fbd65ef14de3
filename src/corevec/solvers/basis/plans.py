"""How a basis of some size grows: in how many stages, steps and rows."""

from __future__ import annotations

from typing import NamedTuple


class Plan(NamedTuple):
    """How a basis of some size grows. Every number was chosen by measuring.

    Attributes
    ----------
    stages : int
        Equal parts in which the basis grows.
    steps : int
        Steps of L-BFGS after each stage but the last.
    least_steps, most_steps : int
        Steps after the last stage.
    flat : float
        Steps end where the objective falls by less than this share in one.
    stride : float
        Length of the first step for each vector, in widths of the kernel; at least 1
        for all of them.
    far : float
        Rows that are right by more than this stay right, and are left out.
    first_rows, last_rows : int
        Rows of the first stages at least, and of the last; more where steps are cheap.
    candidates, least_candidates : int
        Candidate rows for each new vector, and at least.
    products : float
        Steps of a round end where their products, rows x vectors x (columns + vectors x
        (1 + problems)), reach this number: some twenty seconds on two cores.
    rounds : int
        Of the last stage, each over the rows that are near the margin then.
    most_moving : int
        Vectors that move; the others are rows where these leave errors.
    """

    stages: int = 4
    steps: int = 6
    least_steps: int = 2
    most_steps: int = 100
    flat: float = 3e-4
    stride: float = 0.0
    far: float = 0.7
    first_rows: int = 5000
    last_rows: int = 20_000
    candidates: int = 8
    least_candidates: int = 300
    products: float = 1.1e12
    rounds: int = 1
    most_moving: int = 10_000


# A quarter of the vectors at a time, on rows with {y f < 1.7}.
MEDIUM_PLAN = Plan()
# Few vectors are moved as one, and found on few rows. Adult, 5 vectors: 0.65 of the
# seconds that 5,000 and then all rows took, with the same accuracy (84.4 %, 8 seeds);
# ijcnn1, 5 vectors: a fifth of them, 96.5 % for 96.6 %. MNIST 0-vs-rest, 10 vectors:
# 99.7 % with 40 steps or more.
SMALL_PLAN = Plan(
    2, most_steps=40, flat=2e-3, first_rows=3000, last_rows=8000, least_candidates=200
)
# Moves of many are expensive. MNIST 01234-vs-rest, 500 vectors: 98.72 % for 98.66 %
# with a first step of 1. 1000 vectors, validation rows: 98.72 and 98.84 % (two seeds)
# after 27 steps, objective 5,680; after 76 steps 98.92 %, 4,900; after 38 and 38 more,
# over the rows that are near then, 98.88 %, 4,780, in 66 s.
LARGE_PLAN = Plan(2, stride=0.1, products=1.5e12, rounds=2)
# Where many vectors are shared by several problems there are few steps: long ones, over
# all rows of the working set. MNIST, ten classes, 1000 vectors, about the same seconds:
# 20,000 rows within 0.7, strides of 0.03: objective 38,400 over all rows (17,800 over
# those), 1.69 % errors; 28,000 rows within 0.25: 29,400 (29,000), 1.6 %. The first
# stage fits its few rows only: 2 steps. With 8 candidates the last stage starts at an
# objective of 47,400, with 5 at 49,400, and is as good at the end.
SHARED_PLAN = Plan(2, 2, 4, stride=0.25, far=0.25, last_rows=60_000, candidates=5)
# Of very many vectors some are moved, and well: the others take what these leave.
# MNIST, 4000 vectors on two cores, validation rows: 1000 moved for 30 steps 1.54 % in
# 143 s, for 70 steps 1.48 % in 200 s, 2000 moved for 20 steps 1.49 % in 238 s; all of
# them on an H200, for 9 steps or more, 1.40 to 1.50 % (eight choices of C and gamma).
VAST_PLAN = SHARED_PLAN._replace(least_steps=70, most_moving=1000)
# Vectors of the small and the medium plan at most, of the shared one, and vectors x
# (1 + problems) from which on several problems need the shared plan.
MAX_SMALL, MAX_MEDIUM, MAX_SHARED, MAX_LARGE_PRODUCT = 16, 400, 2000, 4000


def plan_for(size: int, n_problems: int) -> Plan:
    """Return how a basis of this size grows for so many problems."""
    if size <= MAX_SMALL:
        return SMALL_PLAN
    if size <= MAX_MEDIUM:
        return MEDIUM_PLAN
    if n_problems == 1 or size * (1 + n_problems) <= MAX_LARGE_PRODUCT:
        return LARGE_PLAN
    return SHARED_PLAN if size <= MAX_SHARED else VAST_PLAN
