"""A market whose price goes up or down, and whose rule changes twice, at once.

Eight columns, as of the electricity data that drift is usually shown on: the hour as
sine and cosine, the day of the week, demand, supply, transfer (all of them random walks
around the hour's mean) and two of noise. The label is whether a hidden price rises:
first demand against supply; then supply and transfer, the other way round; then a rule
that no plane separates, demand and supply on the same side of their means. A tenth of
the labels is wrong. The changes are at a third and two thirds of the rows.
"""

import numpy as np

from benchmarks.datasets._base import Dataset, signs

WRONG_SHARE, ROWS_A_DAY = 0.1, 48
MEMORY = 0.9  # of the walks, from row to row


def load(n, seed=0):
    rng = np.random.default_rng(seed)
    hour = 2 * np.pi * (np.arange(n) % ROWS_A_DAY) / ROWS_A_DAY
    day = (np.arange(n) // ROWS_A_DAY) % 7
    walks = np.zeros((n, 3))
    steps = rng.standard_normal((n, 3)) * np.sqrt(1 - MEMORY**2)
    for i in range(1, n):
        walks[i] = MEMORY * walks[i - 1] + steps[i]
    demand = 0.5 * np.sin(hour) + walks[:, 0]
    supply, transfer = 0.5 * np.cos(hour) + walks[:, 1], walks[:, 2]
    rules = (
        demand - supply,
        supply + transfer - 0.5 * demand,
        (demand - 0.5 * np.sin(hour)) * (supply - 0.5 * np.cos(hour)),
    )
    which = np.minimum(3 * np.arange(n) // n, 2)
    price = np.choose(which, rules)
    y = signs((price > 0) ^ (rng.random(n) < WRONG_SHARE))
    columns = [np.sin(hour), np.cos(hour), day, demand, supply, transfer]
    X = np.column_stack([*columns, rng.standard_normal((n, 2))])
    return Dataset(X, y, X[:0], y[:0], note="test_error is test-then-train")
