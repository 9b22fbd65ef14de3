"""The compiled loop of the LIBSVM reader: bytes of text to the arrays of CSR rows.

Rules as in ``kernels.py``: arrays in, results written in place, ``nogil`` and ``cache``
on; the twin is scikit-learn's ``load_svmlight_file``, in
``tests/data/test_readers.py``.
What is not plainly a row with numbers that can be rounded here beyond doubt is left to
Python, which reads that line again, slowly, or says what is wrong with it.
"""

# mypy: ignore-errors
# Numba reads these functions, not Python: annotations would say nothing of use.

from typing import Any, NamedTuple

import numpy as np

from corevec.backend.loops.compiler import njit

# How a call of `parse_libsvm` ended.
ALL_READ, ROWS_FULL, ENTRIES_FULL, BY_HAND = range(4)
# Its state: the next byte, rows and entries written, newlines passed.
AT, ROWS, ENTRIES, LINES = range(4)
# Powers of ten from 10**-270 to 10**270: their products with 18 digits, and the
# rounding errors of these, stay clear of overflow and of subnormal numbers.
LARGEST_POWER = 270

_TAB, _NEWLINE, _RETURN, _SPACE = 9, 10, 13, 32
_HASH, _PLUS, _MINUS, _POINT, _ZERO, _COLON = 35, 43, 45, 46, 48, 58
_UPPER_E, _D, _LOWER_E, _I, _Q = 69, 100, 101, 105, 113
_LARGEST_INDEX = 2**31 - 1
_EXACT_POWER = 22  # 10**22 is the last power of ten that a float64 holds exactly
_EXACT_INTEGER = 2**53
_ROOM_FOR_A_DIGIT = 10**17  # 18 digits fit an int64; repr(float) writes 17 at most
_SPLITTER = 134217729.0  # 2**27 + 1
_DOUBT = 2.0**-100


@njit(nogil=True, cache=True)
def _scaled(mantissa, exponent, powers):
    """Return ``mantissa * 10**exponent`` rounded to nearest, or nan in doubt.

    An integer below 2**53 and a power up to 10**22 are exact, so that one operation
    rounds once (Clinger 1990). Otherwise the product is taken in pairs of float64
    (Dekker 1971), the power being ``powers[0] + powers[1]`` to 106 bits: the error is
    below 2**-102 of the result, and where both ends of that interval, taken four times
    too wide, round to the same float64, that is the right one.
    """
    if mantissa < _EXACT_INTEGER and -_EXACT_POWER <= exponent <= _EXACT_POWER:
        if exponent < 0:
            return mantissa / powers[0, LARGEST_POWER - exponent]
        return mantissa * powers[0, LARGEST_POWER + exponent]
    if exponent < -LARGEST_POWER or exponent > LARGEST_POWER:
        return np.nan
    high, low = powers[0, LARGEST_POWER + exponent], powers[1, LARGEST_POWER + exponent]
    top = np.float64(mantissa)
    rest = np.float64(mantissa - np.int64(top))
    product = top * high
    split = _SPLITTER * top
    top_1 = split - (split - top)
    top_2 = top - top_1
    split = _SPLITTER * high
    high_1 = split - (split - high)
    high_2 = high - high_1
    error = ((top_1 * high_1 - product) + top_1 * high_2 + top_2 * high_1) + (
        top_2 * high_2
    )
    error += top * low + rest * high
    doubt = _DOUBT * product
    below = product + (error - doubt)
    return below if below == product + (error + doubt) else np.nan


@njit(nogil=True, cache=True)
def _digits(text, at, number):
    """Append the decimal digits at `at` to `number`; -1 where they are too many."""
    while True:
        digit = np.int64(text[at]) - _ZERO
        if digit < 0 or digit > 9:
            return number, at
        if number >= _ROOM_FOR_A_DIGIT:
            return -1, at
        number = 10 * number + digit
        at += 1


@njit(nogil=True, cache=True)
def _exponent(text, at):
    """Return the exponent at `at`, the place behind it, and whether it is plain."""
    is_negative = text[at] == _MINUS
    if is_negative or text[at] == _PLUS:
        at += 1
    start = at
    written, at = _digits(text, at, 0)
    is_plain = written >= 0 and at > start
    return (-written if is_negative else written), at, is_plain


@njit(nogil=True, cache=True)
def _number(text, at, powers):
    """Return the number at `at` and the place behind it; nan where it is not plain."""
    negative = text[at] == _MINUS
    if negative or text[at] == _PLUS:
        at += 1
    start = at
    mantissa, at = _digits(text, at, 0)
    n_digits = at - start
    exponent = 0
    if mantissa >= 0 and text[at] == _POINT:
        start = at + 1
        mantissa, at = _digits(text, start, mantissa)
        n_digits += at - start
        exponent = start - at
    if mantissa < 0 or n_digits == 0:
        return np.nan, at
    if text[at] == _LOWER_E or text[at] == _UPPER_E:
        written, at, is_plain = _exponent(text, at + 1)
        if not is_plain:
            return np.nan, at
        exponent += written
    value = 0.0 if mantissa == 0 else _scaled(mantissa, exponent, powers)
    return -value if negative else value, at


@njit(nogil=True, cache=True)
def _behind_blanks(text, at):
    """Return the next place with something else than blanks (a newline is none)."""
    while text[at] == _SPACE or (_TAB <= text[at] <= _RETURN and text[at] != _NEWLINE):
        at += 1
    return at


@njit(nogil=True, cache=True)
def _behind_query(text, at):
    """Return the place behind ``qid:<whole number>``, which stands at `at`, or `at`."""
    # Each byte is looked at only where the one before is no newline: it is within.
    if text[at + 1] != _I or text[at + 2] != _D or text[at + 3] != _COLON:
        return at
    number, end = _digits(text, at + 4, 0)
    return at if number < 0 or end == at + 4 else end


class TextRows(NamedTuple):
    """Arrays that receive labels and CSR rows."""

    labels: Any
    indptr: Any
    indices: Any
    values: Any


class TextForm(NamedTuple):
    """What a line may hold.

    Indices count from `first` and must ascend within each row; a magnitude from `limit`
    on is refused. `powers` are the powers of ten that numbers are scaled by.
    """

    powers: Any
    first: int
    n_features: int
    limit: float


@njit(nogil=True, cache=True)
def _features(text, at, entry, rows, form):
    """Write the entries of one row from `at` on: how it ended, where, entries."""
    indices, values = rows.indices, rows.values
    powers, first, n_features, limit = form
    before = first - 1
    query_may_follow = True
    while True:
        start = at
        at = _behind_blanks(text, at)
        if text[at] == _NEWLINE or text[at] == _HASH:
            return ALL_READ, at, entry
        if at == start:
            return BY_HAND, at, entry
        if query_may_follow and text[at] == _Q:
            query_may_follow = False
            start = at
            at = _behind_query(text, at)
            if at == start:
                return BY_HAND, at, entry
            continue
        query_may_follow = False
        start = at
        index, at = _digits(text, at, 0)
        if at == start or text[at] != _COLON or index <= before:
            return BY_HAND, at, entry
        if index - first >= n_features or index > _LARGEST_INDEX:
            return BY_HAND, at, entry
        value, at = _number(text, at + 1, powers)
        if not abs(value) < limit:  # nan too
            return BY_HAND, at, entry
        if entry == len(values):
            return ENTRIES_FULL, at, entry
        indices[entry] = index - first
        values[entry] = value
        entry += 1
        before = index


@njit(nogil=True, cache=True)
def parse_libsvm(text, stop, state, rows, form):
    """Append the rows of ``text[state[AT]:stop]``, whole lines, to the arrays `rows`.

    ``text[stop - 1]`` is a newline; `form` is a `TextForm`. Stops before the line that
    has no room, and before the one to be read BY_HAND; `state` then stands at its
    beginning.
    """
    while state[AT] < stop:
        at = _behind_blanks(text, state[AT])
        entry = state[ENTRIES]
        is_row = text[at] != _NEWLINE and text[at] != _HASH
        if is_row:
            if state[ROWS] == len(rows.labels):
                return ROWS_FULL
            label, at = _number(text, at, form.powers)
            if label != label:
                return BY_HAND
            ending, at, entry = _features(text, at, entry, rows, form)
            if ending != ALL_READ:
                return ending
            rows.labels[state[ROWS]] = label
        while text[at] != _NEWLINE:
            at += 1
        if is_row:
            state[ROWS] += 1
            state[ENTRIES] = entry
            rows.indptr[state[ROWS]] = entry
        state[AT] = at + 1
        state[LINES] += 1
    return ALL_READ
