"""Rows of LIBSVM text: the rules of a line, the buffer of a block, the slow path."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
from scipy import sparse

from corevec._runtime.checks import check_flag
from corevec._runtime.types import Array
from corevec.backend.loops.text import (
    AT,
    ENTRIES,
    ENTRIES_FULL,
    LARGEST_POWER,
    LINES,
    ROWS,
    TextForm,
    TextRows,
    parse_libsvm,
)
from corevec.data.readers.base import (
    Argument,
    BadRecordError,
    Block,
    check_count,
    finite_number,
    shown,
)
from corevec.data.readers.text import WholeLines
from corevec.exceptions import InvalidInputError

Row = tuple[float, list[int], list[float]]

_QUERY = re.compile(rb"qid:\d+")
_FEATURE = re.compile(rb"([+-]?\d+):(.*)", re.DOTALL)
MOST_FEATURES = 2**31 - 1  # SciPy's int32 indices
_ENTRY_BYTES = 12  # an int32 index and a float64 value
_FIRST_ENTRIES = 1 << 16
# The first magnitude that rounds to infinity, for each type of value.
_LIMITS = {np.dtype(np.float64): np.inf, np.dtype(np.float32): 2.0**128 - 2.0**103}


@dataclass(frozen=True)
class Rules:
    """The rules of a line: first index, number of columns, type of values."""

    first: int
    n_features: int
    dtype: Any

    @staticmethod
    def checked(who: str, n_features: Any, zero_based: Any, dtype: Any) -> Rules:
        """Return the rules that a user asked for."""
        check_count(who, "n_features", n_features)
        if n_features > MOST_FEATURES:
            raise InvalidInputError(
                f"{who}: n_features={n_features!r} is beyond {MOST_FEATURES}, the "
                "largest index of SciPy's CSR rows. Hash the columns to fewer."
            )
        if isinstance(zero_based, str) and zero_based == "auto":
            raise InvalidInputError(
                f"{who}: zero_based='auto', but it cannot be known before the end of "
                "a pass. Give True or False, or scan_libsvm(path).zero_based."
            )
        check_flag(who, "zero_based", zero_based)
        if np.dtype(dtype) not in _LIMITS:
            raise InvalidInputError(
                f"{who}: dtype={dtype!r} must be float64 or float32."
            )
        return Rules(0 if zero_based else 1, int(n_features), np.dtype(dtype))

    @property
    def limit(self) -> float:
        """The smallest magnitude that is out of range."""
        return _LIMITS[self.dtype]


class RowBuffer:
    """The buffer of the rows of one block; its arrays are reused for every block."""

    def __init__(self, rules: Rules, block_rows: int, memory_budget: int):
        self.rules = rules
        self.most_entries = max(1, memory_budget // _ENTRY_BYTES)
        self.labels = np.empty(block_rows)
        self.indptr = np.zeros(block_rows + 1, dtype=np.int64)
        self.state = np.zeros(4, dtype=np.int64)
        size = min(_FIRST_ENTRIES, self.most_entries)
        self.indices = np.empty(size, dtype=np.int32)
        self.values = np.empty(size)

    @property
    def n_rows(self) -> int:
        """Rows in the buffer."""
        return int(self.state[ROWS])

    @property
    def n_entries(self) -> int:
        """Values of these rows."""
        return int(self.state[ENTRIES])

    @property
    def most_rows(self) -> int:
        """Rows of a block: a row beyond the budget is alone in its block."""
        return len(self.labels) if len(self.values) <= self.most_entries else 1

    def parse(self, lines: WholeLines) -> int:
        """Append rows until no line is left, the block is full, or Python is needed."""
        self.state[AT] = lines.start
        self.state[LINES] = lines.line
        ending: int = parse_libsvm(
            lines.text,
            lines.stop,
            self.state,
            TextRows(
                self.labels[: self.most_rows], self.indptr, self.indices, self.values
            ),
            TextForm(
                _powers_of_ten(),
                self.rules.first,
                self.rules.n_features,
                self.rules.limit,
            ),
        )
        lines.start = int(self.state[AT])
        lines.line = int(self.state[LINES])
        return ending

    def grow(self, ending: int) -> bool:
        """Grow the buffer for the next row; return False if the block is full."""
        return ending == ENTRIES_FULL and self._has_grown_for(len(self.values) + 1)

    def has_room_for(self, row: Row) -> bool:
        """Grow the buffer for this row; return False if the block is full."""
        if self.n_rows >= self.most_rows:
            return False
        needed = self.n_entries + len(row[1])
        return needed <= len(self.values) or self._has_grown_for(needed)

    def append(self, row: Row) -> None:
        """Append a row; a row alone in its block may be of any length."""
        label, indices, values = row
        start, end = self.n_entries, self.n_entries + len(indices)
        if end > len(self.values):
            self._make_room(end)
        self.indices[start:end] = indices
        self.values[start:end] = values
        self.labels[self.n_rows] = label
        self.indptr[self.n_rows + 1] = end
        self.state[ROWS] += 1
        self.state[ENTRIES] = end

    def take_block(self) -> Block:
        """Return copies of the rows, and empty the buffer."""
        rows, entries = self.n_rows, self.n_entries
        index = np.int32 if entries <= MOST_FEATURES else np.int64
        X = sparse.csr_matrix(
            (
                self.values[:entries].astype(self.rules.dtype),
                self.indices[:entries].astype(index),
                self.indptr[: rows + 1].astype(index),
            ),
            shape=(rows, self.rules.n_features),
        )
        # The parser has checked that indices ascend: SciPy need not check again.
        X.has_sorted_indices = X.has_canonical_format = True
        labels = self.labels[:rows].copy()
        self.state[ROWS] = self.state[ENTRIES] = 0
        if len(self.values) > self.most_entries:
            self._make_room(self.most_entries)
        return X, labels

    def _has_grown_for(self, entries: int) -> bool:
        """Grow to hold this number of entries, within the budget unless it is empty."""
        if entries > self.most_entries and self.n_rows:
            return False
        alone = entries > self.most_entries
        doubled = min(2 * len(self.values), self.most_entries)
        self._make_room(2 * entries if alone else max(entries, doubled))
        return True

    def _make_room(self, size: int) -> None:
        kept = self.n_entries
        indices = np.empty(size, dtype=np.int32)
        values = np.empty(size)
        indices[:kept] = self.indices[:kept]
        values[:kept] = self.values[:kept]
        self.indices, self.values = indices, values


def row_of(line: bytes, rules: Rules) -> Row:
    """Return label, indices and values of a line; raise the reason if it is bad.

    The Python twin of the compiled loop, for the lines that the loop does not parse.
    """
    tokens = line.split(b"#", 1)[0].split()
    label = finite_number(tokens[0], "as the label")
    features = tokens[1:]
    if features and _QUERY.fullmatch(features[0]):
        del features[0]
    indices: list[int] = []
    values: list[float] = []
    for token in features:
        parts = _FEATURE.fullmatch(token)
        if parts is None:
            raise BadRecordError(f"expected '<index>:<value>', got {shown(token)}")
        index = int(parts[1]) - rules.first
        _check_index(index, indices[-1] if indices else -1, rules)
        indices.append(index)
        place = f"after '{int(parts[1])}:'"
        values.append(finite_number(parts[2], place, rules.limit))
    return label, indices, values


def _check_index(index: int, before: int, rules: Rules) -> None:
    written = index + rules.first
    if index == -1 and rules.first == 1:
        raise BadRecordError(
            "index 0, but the first index of the format is 1; if the columns of this "
            "file are counted from 0, give ",
            Argument("zero_based", True),
        )
    if index < 0:
        raise BadRecordError(f"index {written} is below the first, {rules.first}")
    if index >= rules.n_features:
        raise BadRecordError(
            f"index {written} is beyond the {rules.n_features} columns expected (see ",
            *(Argument("n_features"), ")"),
        )
    if index <= before:
        raise BadRecordError(
            f"index {written} comes after {before + rules.first}; expected ascending "
            "indices, each once"
        )


@cache
def _powers_of_ten() -> Array:
    """Return 10**k, k = -270 .. 270, as sums of two float64: 106 bits."""
    exact = [Fraction(10) ** k for k in range(-LARGEST_POWER, LARGEST_POWER + 1)]
    high = [float(power) for power in exact]
    low = [float(power - Fraction(h)) for power, h in zip(exact, high, strict=True)]
    return np.array([high, low])
