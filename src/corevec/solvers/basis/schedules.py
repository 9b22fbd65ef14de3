"""How a basis grows, by its size: stages, steps, rows.

Chosen by measuring; ``pursuit.py`` says what is done with them.
"""

from __future__ import annotations

from typing import NamedTuple


class Plan(NamedTuple):
    """How a basis of some size grows."""

    stages: int = 4  # equal parts
    steps: int = 6  # of L-BFGS after each stage but the last
    least_steps: int = 2  # after the last
    most_steps: int = 100
    flat: float = 3e-4  # or until the objective falls by less than this share in a step
    # Of the first step, for each vector, in widths of the kernel; at least 1 for all.
    stride: float = 0.0
    far: float = 0.7  # rows that are right by more stay right, and are left out
    first_rows: int = 5000  # of the first stages, at least
    last_rows: int = 20_000  # of the last stage; more where steps are cheap
    candidates: int = 8  # rows that are looked at for each new vector
    least_candidates: int = 300
    # Steps of a round end where their products, rows x vectors x (columns + vectors x
    # (1 + problems)), reach this number: some twenty seconds on two cores.
    products: float = 1.1e12
    rounds: int = 1  # of the last stage, each over the rows that are near then
    most_moving: int = 10_000  # vectors; the others are rows where these leave errors


# Design.md, section 4: a quarter at a time, rows with {y f < 1.7}.
SOME = Plan()
# Few vectors are moved as one, and found on few rows. Adult, 5 vectors: 0.65 of the
# seconds that 5,000 and then all rows took, with the same accuracy (84.4 %, 8 seeds);
# ijcnn1, 5 vectors: a fifth of them, 96.5 % for 96.6 %. MNIST 0-vs-rest, 10 vectors:
# 99.7 % with 40 steps or more.
FEW = Plan(
    2, most_steps=40, flat=2e-3, first_rows=3000, last_rows=8000, least_candidates=200
)
# Moves of many are dear. MNIST 01234-vs-rest, 500 vectors: 98.72 % for 98.66 % with a
# first step of 1. 1000 vectors, validation rows: 98.72 and 98.84 % (two seeds) after 27
# steps, objective 5,680; after 76 steps 98.92 %, 4,900; after 38 and 38 more, over the
# rows that are near then, 98.88 %, 4,780, in 66 s.
MANY = Plan(2, stride=0.1, products=1.5e12, rounds=2)
# Where many vectors are shared by several problems there are few steps: long ones, over
# all rows at the margin. MNIST, ten classes, 1000 vectors, about the same seconds:
# 20,000 rows within 0.7, strides of 0.03: objective 38,400 over all rows (17,800 over
# those), 1.69 % errors; 28,000 rows within 0.25: 29,400 (29,000), 1.6 %. The first
# stage fits its few rows only: 2 steps. With 8 candidates the last stage starts at an
# objective of 47,400, with 5 at 49,400, and is as good at the end.
SHARED = Plan(2, 2, 4, stride=0.25, far=0.25, last_rows=60_000, candidates=5)
# Of very many vectors some are moved, and well: the others take what these leave.
# MNIST, 4000 vectors on two cores, validation rows: 1000 moved for 30 steps 1.54 % in
# 143 s, for 70 steps 1.48 % in 200 s, 2000 moved for 20 steps 1.49 % in 238 s; all of
# them on an H200, for 9 steps or more, 1.40 to 1.50 % (eight choices of C and gamma).
VAST = SHARED._replace(least_steps=70, most_moving=1000)
# Up to so many vectors; more than so many vectors x (1 + problems).
SMALL, LARGE, DEAR = 16, 400, 4000
# ... and more than so many vectors.
FEW_SHARED = 2000


def plan_for(size: int, n_problems: int) -> Plan:
    """Return how a basis of this size grows for so many problems."""
    if size <= SMALL:
        return FEW
    if size <= LARGE:
        return SOME
    if n_problems == 1 or size * (1 + n_problems) <= DEAR:
        return MANY
    return SHARED if size <= FEW_SHARED else VAST
