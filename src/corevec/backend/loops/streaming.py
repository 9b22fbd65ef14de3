"""Every compiled loop of the streaming balls, and nothing else.

One pass over a block of rows: a row inside a ball costs one scan of its entries and
changes nothing; a row outside stops the pass, or, where there is one ball only, moves
it there and then. The rules are those of ``kernels.py``; the twin of all of it is
``tests/solvers/streaming/test_streaming_balls.py::Twin``, in lifted coordinates that
are written out.
"""

# mypy: ignore-errors
# Numba reads these functions, not Python: annotations would say nothing of use.

from typing import Any, NamedTuple

import numpy as np

from corevec.backend.loops.compiler import njit

# "reassoc" and "nsz" let LLVM sum in vector lanes; NaN and infinity keep their meaning,
# because a norm that is neither finite nor below `_LARGEST` is how a bad row shows.
_SUMS = {"error_model": "numpy", "fastmath": {"contract", "reassoc", "nsz"}}
# Squared norms above this may overflow in a squared distance, which is 4 of them.
_LARGEST = 1e300
# A squared distance below this share of the squared norms is summed by differences:
# |x|^2 - 2 x.c + |c|^2 would have lost more than four digits.
_CANCELLED = 1e-4

# Places in `numbers`: what the balls share, and the only one has besides its table row.
ETA, POWER, DEFICIT, IS_ROW, UPDATES = range(5)
# Places in a row of `table`, one row per ball: squared norm of its centre, slack, what
# a row inside has at least as its value, squared width.
NORM, SLACK, LEAST, WIDTH = range(4)


class RowSigns(NamedTuple):
    """Labels and slack of rows: one entry per row, or one for all."""

    codes: Any
    positive: Any  # the code of the rows of sign +1
    inverse: Any  # squared slack coordinate; infinite where a row has no weight


class Balls(NamedTuple):
    """The balls of a pass, which is a view of their arrays.

    `bias` is the value of the bias column; `plain` says that the ball is that of the
    rows themselves, `alone` to move the only ball and go on. `row` receives the row
    outside, signed, with its bias.
    """

    centres: Any
    table: Any
    numbers: Any
    row: Any
    bias: float
    plain: bool
    alone: bool


@njit(nogil=True, cache=True, **_SUMS)
def _take_in(centre, row, inverse, numbers, ball, plain):
    """Move the only ball so that it holds `row` too (``solvers.streaming``)."""
    apart, own = 0.0, 0.0
    for j in range(centre.shape[0]):
        step = row[j] - centre[j]
        apart += step * step
        own += row[j] * row[j]
    own = inverse if plain else own + inverse
    h_sq = apart + ball[SLACK] + inverse
    h, width = np.sqrt(h_sq), np.sqrt(ball[WIDTH])
    weight = 0.0
    if h > 0.0:
        # Squared height and radius both hold eta, which may be far larger than what
        # is left of their difference: it is cancelled here, not in the numbers.
        weight = (h_sq - own + numbers[POWER]) / (2.0 * h * (h + width))
        weight = min(max(weight, 0.0), 1.0)
    kept = 1.0 - weight
    near, far = weight * h, kept * h
    power = numbers[POWER] - 2.0 * near * width - near * near
    mean = kept * (numbers[DEFICIT] - near * near) + weight * (own - far * far)
    width = max(width + near, far)
    numbers[POWER] = min(power, own - far * far)
    numbers[DEFICIT] = mean
    numbers[IS_ROW] = 0.0
    numbers[UPDATES] += 1.0
    norm = 0.0
    for j in range(centre.shape[0]):
        centre[j] = kept * centre[j] + weight * row[j]
        norm += centre[j] * centre[j]
    ball[NORM], ball[WIDTH] = norm, width * width
    ball[SLACK] = kept * kept * ball[SLACK] + weight * weight * inverse
    ball[LEAST] = ball[SLACK] + numbers[POWER]
    if not plain:
        ball[LEAST] = 0.5 * (ball[LEAST] + norm)


@njit(nogil=True, cache=True, **_SUMS)
def _holds(value, norm, ball, plain):
    """Whether a ball holds a row; its width then covers the row too.

    Its image only: no centre will ever move along the row's own slack coordinate.
    """
    if value < ball[LEAST]:
        return False
    apart_sq = ball[SLACK]
    apart_sq += -value if plain else norm + ball[NORM] - 2.0 * value
    if apart_sq > ball[WIDTH]:
        ball[WIDTH] = apart_sq
    return True


@njit(nogil=True, cache=True)
def _step(entries):
    """Return 1 where there is an entry per row, 0 where one serves all."""
    return 1 if entries.shape[0] > 1 else 0


@njit(nogil=True, cache=True, **_SUMS)
def _dense_products(x, centre, plain):
    """Return (squared norm, inner product), or squared distance twice if `plain`."""
    first, second = 0.0, 0.0
    if plain:
        for j in range(x.shape[0]):
            step = np.float64(x[j]) - centre[j]
            first += step * step
        return first, first
    for j in range(x.shape[0]):
        value = np.float64(x[j])
        first += value * value
        second += value * centre[j]
    return first, second


@njit(nogil=True, cache=True)
def _sign_and_slack(rows, i):
    """Return the sign of row i, and its squared slack coordinate."""
    label = rows.codes[i * _step(rows.codes)]
    sign = 1.0 if label == rows.positive else -1.0
    return sign, rows.inverse[i * _step(rows.inverse)]


@njit(nogil=True, cache=True)
def _stops_at(row, sign, bias, own, balls):
    """Whether the pass ends at a row outside; otherwise the only ball is moved."""
    row[-1] = sign * bias
    if balls.alone:
        centre = balls.centres[0]
        _take_in(centre, row, own, balls.numbers, balls.table[0], balls.plain)
    return not balls.alone


@njit(nogil=True, cache=True, **_SUMS)
def dense_pass(X, start, rows, balls):
    """Go through rows of `X` from `start` on; return the first one outside all balls.

    ``len(X)`` if there is none, ``-1 - i`` if row i is not finite or too large. `rows`
    is a `RowSigns`, `balls` a `Balls`, whose numbers and widths are brought up to date.
    """
    d, bias, plain = X.shape[1], balls.bias, balls.plain
    centres, table, numbers, row = balls.centres, balls.table, balls.numbers, balls.row
    for i in range(start, X.shape[0]):
        x = X[i]
        norm, product = _dense_products(x, centres[0], plain)
        if not norm < _LARGEST:
            return -1 - i
        sign, own = _sign_and_slack(rows, i)
        if own == np.inf:
            continue
        image = norm + bias * bias
        numbers[ETA] = max(numbers[ETA], own if plain else image + own)
        value = -product if plain else sign * (product + bias * centres[0, d])
        held = _holds(value, image, table[0], plain)
        k = 1
        while not held and k < centres.shape[0]:
            product = _dense_products(x, centres[k], plain)[1]
            value = -product if plain else sign * (product + bias * centres[k, d])
            held = _holds(value, image, table[k], plain)
            k += 1
        if not held:
            for j in range(d):
                row[j] = sign * x[j]
            if _stops_at(row, sign, bias, own, balls):
                return i
    return X.shape[0]


@njit(nogil=True, cache=True, **_SUMS)
def _sparse_products(entries, centre):
    """Return squared norm, inner product, and whether indices ascend."""
    data, indices, first, last = entries
    norm, product, last_index, ascend = 0.0, 0.0, -1, True
    for e in range(first, last):
        value, index = np.float64(data[e]), indices[e]
        norm += value * value
        product += value * centre[index]
        ascend &= index > last_index
        last_index = index
    return norm, product, ascend


@njit(nogil=True, cache=True, **_SUMS)
def _sparse_distance(entries, centre):
    """Squared distance by differences, over all columns; indices are sorted."""
    data, indices, first, last = entries
    total, e = 0.0, first
    for j in range(centre.shape[0]):
        step = centre[j]
        if e < last and indices[e] == j:
            step -= np.float64(data[e])
            e += 1
        total += step * step
    return total


@njit(nogil=True, cache=True, **_SUMS)
def _minus_distance(entries, norm, product, centre, ball):
    """Minus the squared distance of a row to a centre; by differences if it cancels."""
    value = 2.0 * product - ball[NORM] - norm
    if -value < _CANCELLED * (ball[NORM] + norm):
        value = -_sparse_distance(entries, centre)
    return value


@njit(nogil=True, cache=True, **_SUMS)
def csr_pass(X, start, rows, balls):
    """`dense_pass` for the rows of a CSR matrix, ``X = (data, indices, indptr)``.

    ``-1 - n - i`` if the indices of row i (of n) do not ascend: a column twice would
    be squared apart.
    """
    data, indices, indptr = X
    n, bias, plain = indptr.shape[0] - 1, balls.bias, balls.plain
    centres, table, numbers, row = balls.centres, balls.table, balls.numbers, balls.row
    for i in range(start, n):
        entries = data, indices, indptr[i], indptr[i + 1]
        norm, product, ascend = _sparse_products(entries, centres[0])
        if not ascend:
            return -1 - n - i
        if not norm < _LARGEST:
            return -1 - i
        sign, own = _sign_and_slack(rows, i)
        if own == np.inf:
            continue
        image = norm + bias * bias
        numbers[ETA] = max(numbers[ETA], own if plain else image + own)
        held, k = False, 0
        while not held and k < centres.shape[0]:
            if k > 0:
                product = _sparse_products(entries, centres[k])[1]
            if plain:
                value = _minus_distance(entries, norm, product, centres[k], table[k])
            else:
                value = sign * (product + bias * centres[k, -1])
            held = _holds(value, image, table[k], plain)
            k += 1
        if not held:
            row[:] = 0.0
            for e in range(indptr[i], indptr[i + 1]):
                row[indices[e]] = sign * data[e]
            if _stops_at(row, sign, bias, own, balls):
                return i
    return n
