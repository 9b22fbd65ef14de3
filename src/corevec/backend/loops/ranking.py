"""The compiled loop of the ranker: sums over the pairs of each query.

Rules as in ``kernels.py``: arrays in, results written in place, ``nogil`` and ``cache``
on; the NumPy twin, with every pair written out, is in
``tests/solvers/ranking/test_ranker.py``.
"""

# mypy: ignore-errors
# Numba reads these functions, not Python: annotations would say nothing of use.

from typing import Any, NamedTuple

import numpy as np

from corevec.backend.loops.compiler import njit


class Queries(NamedTuple):
    """Rows of query g are ``starts[g]`` up to ``starts[g + 1]``, by ascending level."""

    starts: Any
    order: Any  # the rows of each query in the order of f
    level: Any
    weight: Any
    scale: Any  # one per query


class Values(NamedTuple):
    """What is summed over pairs: f inside the margin, and the columns of p."""

    f: Any
    p: Any
    margin: float


class Sums(NamedTuple):
    """Arrays that receive the sums."""

    pull: Any
    bend: Any
    totals: Any


@njit(nogil=True, cache=True)
def pair_sums(queries, values, one_by_one, sums):
    """Sum over the pairs (i, j) of a query, ``level_i > level_j``, inside the margin.

    With ``t_ij = margin - (f_i - f_j)`` and ``c_ij = scale s_i s_j`` where t_ij > 0:
    ``pull_i = sum_j c_ij t_ij - sum_j c_ji t_ji``, ``bend = A p`` for the Laplacian A
    of the c_ij and the columns of p, and ``totals`` of each query the sums of c t, of
    c t^2, of c, and of the terms that may have cancelled in the first two. Queries of
    up to `one_by_one` rows are summed pair by pair, without the cancellation of sums
    of squares.
    """
    starts, scale = queries.starts, queries.scale
    pull, bend, totals = sums
    pull[:] = 0.0
    bend[:] = 0.0
    totals[:] = 0.0
    for g in range(len(starts) - 1):
        low, high = starts[g], starts[g + 1]
        if high - low <= one_by_one:
            _one_by_one(low, high, queries, values, sums, totals[g])
        else:
            _by_tree(low, high, queries, values, sums, totals[g])
        for i in range(low, high):
            pull[i] *= scale[g]
            bend[i] *= scale[g]  # a row of them
        for t in range(totals.shape[1]):
            totals[g, t] *= scale[g]


@njit(nogil=True, cache=True)
def _one_by_one(low, high, queries, values, sums, total):
    level, weight = queries.level, queries.weight
    f, p, margin = values
    pull, bend = sums.pull, sums.bend
    for i in range(low, high):
        for j in range(low, i):
            if level[j] == level[i]:
                break
            slack = margin - (f[i] - f[j])
            if slack > 0.0:
                c = weight[i] * weight[j]
                pull[i] += c * slack
                pull[j] -= c * slack
                for t in range(p.shape[1]):
                    bend[i, t] += c * (p[i, t] - p[j, t])
                    bend[j, t] += c * (p[j, t] - p[i, t])
                total[0] += c * slack
                total[1] += c * slack * slack
                total[2] += c


@njit(nogil=True, cache=True)
def _by_tree(low, high, queries, values, sums, total):
    """Two sweeps over the values, with a Fenwick tree over the levels.

    From the largest value down, the tree holds the rows above ``f_i - margin``; what a
    row i needs of those on lower levels is a prefix: O(m log levels) in all.
    """
    _, order, level, weight, _ = queries
    (f, p, margin), (pull, bend, _) = values, sums
    n_levels = level[high - 1] + 1
    middle = 0.0  # taken off every value: smaller numbers to square
    for i in range(low, high):
        middle += f[i] / (high - low)
    tree = np.zeros((n_levels + 1, 3 + p.shape[1]))  # sums of s, s f, s f^2, s p
    found = np.zeros(3 + p.shape[1])
    entered = high - 1
    for position in range(high - 1, low - 1, -1):
        i = order[position]
        while entered >= low and f[order[entered]] > f[i] - margin:
            j = order[entered]
            _add(tree, level[j], weight[j], f[j] - middle, p[j])
            entered -= 1
        _prefix(tree, level[i], found)
        away = margin - (f[i] - middle)
        pull[i] += weight[i] * (found[0] * away + found[1])
        for t in range(p.shape[1]):
            bend[i, t] += weight[i] * (found[0] * p[i, t] - found[3 + t])
        total[0] += weight[i] * (found[0] * away + found[1])
        square = found[0] * away * away + 2.0 * away * found[1] + found[2]
        total[1] += weight[i] * max(square, 0.0)
        total[2] += weight[i] * found[0]
        # |f| has a mean of at most its root mean square.
        size = found[0] * abs(away) + np.sqrt(found[0] * found[2])
        total[3] += weight[i] * size
        total[4] += weight[i] * 2.0 * (found[0] * away * away + found[2])
    tree[:] = 0.0
    entered = low
    for j in order[low:high]:
        while entered < high and f[order[entered]] < f[j] + margin:
            i = order[entered]
            _add(tree, n_levels - 1 - level[i], weight[i], f[i] - middle, p[i])
            entered += 1
        _prefix(tree, n_levels - 1 - level[j], found)
        away = margin + (f[j] - middle)
        pull[j] -= weight[j] * (found[0] * away - found[1])
        for t in range(p.shape[1]):
            bend[j, t] += weight[j] * (found[0] * p[j, t] - found[3 + t])


@njit(nogil=True, cache=True)
def _add(tree, level, weight, value, other):
    k = level + 1
    while k < len(tree):
        tree[k, 0] += weight
        tree[k, 1] += weight * value
        tree[k, 2] += weight * value * value
        for t in range(len(other)):
            tree[k, 3 + t] += weight * other[t]
        k += k & -k


@njit(nogil=True, cache=True)
def _prefix(tree, level, found):
    """Write the sums over the levels below `level`."""
    found[:] = 0.0
    k = level
    while k > 0:
        for t in range(len(found)):
            found[t] += tree[k, t]
        k -= k & -k


@njit(nogil=True, cache=True)
def lower_weight(starts, level, weight):
    """Return the weight of the rows of lower grade in each row's query.

    Query by query: of sums over all rows a difference would lose a light query beside a
    heavy one.
    """
    out = np.zeros(len(weight))
    for q in range(len(starts) - 1):
        below = same = 0.0
        for i in range(starts[q], starts[q + 1]):
            if i > starts[q] and level[i] != level[i - 1]:
                below += same
                same = 0.0
            out[i] = below
            same += weight[i]
    return out
