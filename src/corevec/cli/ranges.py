"""The range files of svm-scale, and scaling by them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from corevec._runtime.types import Array
from corevec.cli.data import Table
from corevec.cli.errors import data_error

# Values of a block of dense rows: 32 MB.
_BLOCK_VALUES = 1 << 22


@dataclass(frozen=True)
class Interval:
    """Numbers between `low` and `high`, to be mapped to `lower` .. `upper`."""

    lower: float
    upper: float
    low: Any
    high: Any

    def scaled(self, values: Any) -> Any:
        """Return values mapped linearly; the ends exactly."""
        share = (values - self.low) / (self.high - self.low)
        inside = self.lower + (self.upper - self.lower) * share
        ends = [values == self.low, values == self.high]
        return np.select(ends, [self.lower, self.upper], inside)


@dataclass(frozen=True)
class Ranges:
    """What svm-scale saves: the interval of each column that varies, and of the labels.

    `columns` are the indices of LIBSVM's text, from 1.
    """

    columns: Array
    features: Interval
    labels: Interval | None

    @staticmethod
    def of(
        table: Table, lower: float, upper: float, y: tuple[float, float] | None
    ) -> Ranges:
        """Return the ranges of the columns of a table; what is absent is 0."""
        low, high = (_row(getattr(table.X, end)(axis=0)) for end in ("min", "max"))
        varies = np.flatnonzero(low < high)
        features = Interval(lower, upper, low[varies], high[varies])
        labels = None if y is None else Interval(*y, table.y.min(), table.y.max())
        return Ranges(varies + 1, features, labels)

    def text(self) -> str:
        """Return the file, as svm-scale writes it."""
        lines = []
        for name, part in (("y", self.labels), ("x", self.features)):
            if part is not None:
                lines += [name, f"{part.lower:.17g} {part.upper:.17g}"]
        if self.labels is not None:
            lines.insert(2, f"{self.labels.low:.17g} {self.labels.high:.17g}")
        ends = zip(self.columns, self.features.low, self.features.high, strict=True)
        lines += [f"{column} {low:.17g} {high:.17g}" for column, low, high in ends]
        return "\n".join(lines) + "\n"

    @staticmethod
    def read(path: Path) -> Ranges:
        """Return the ranges in a file of svm-scale's or ours."""
        try:
            rows = [line.split() for line in path.read_text().splitlines() if line]
            labels = None
            if rows[0] == ["y"]:
                labels = Interval(*map(float, rows[1]), *map(float, rows[2]))
                del rows[:3]
            if rows[0] != ["x"]:
                raise ValueError(f"expected 'x', found {' '.join(rows[0])!r}")
            lower, upper = map(float, rows[1])
            ends = np.array(rows[2:], dtype=np.float64).reshape(-1, 3)
            columns = ends[:, 0].astype(np.int64)
            if (columns != ends[:, 0]).any() or (np.diff(columns, prepend=0) < 1).any():
                raise ValueError("expected ascending indices of columns, from 1")
        except (ValueError, TypeError, IndexError) as error:
            raise data_error(f"{path}: no range file of svm-scale ({error}).") from None
        return Ranges(columns, Interval(lower, upper, *ends[:, 1:].T), labels)

    def applied(self, table: Table) -> Iterator[tuple[Any, Array]]:
        """Yield blocks of scaled rows and labels; other columns are left out."""
        n_columns = int(self.columns.max(initial=1))
        kept = self.columns[self.columns <= table.X.shape[1]]
        y = table.y if self.labels is None else self.labels.scaled(table.y)
        step = max(1, _BLOCK_VALUES // n_columns)
        for start in range(0, table.X.shape[0], step):
            X = table.X[start : start + step]
            given = np.zeros((X.shape[0], len(self.columns)))
            part = X[:, kept - 1]
            given[:, : len(kept)] = part.toarray() if table.is_sparse else part
            rows = np.zeros((X.shape[0], n_columns))
            rows[:, self.columns - 1] = self.features.scaled(given)
            yield rows, y[start : start + step]


def _row(ends: Any) -> Array:
    dense = ends.toarray() if hasattr(ends, "toarray") else ends
    return np.asarray(dense, dtype=np.float64).ravel()
