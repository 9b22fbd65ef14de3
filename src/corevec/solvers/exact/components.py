"""Components: groups of rows between which a distance kernel is zero to rounding.

Where the values of a column (one-hot, categorical, integers) lie far apart, as seen by
the kernel, the matrix falls apart into blocks, and only the bias couples them: covtype
at gamma = 32 has 75 components with 7 % of the pairs, and 10 of its 54 columns vary
inside one. What is dropped is no larger than the rounding of a kernel value, and is
added to the errors that a certificate allows for (docs/mathematics.md, 5).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from corevec._runtime.types import Array
from corevec.backend.arrays import to_device_of, to_numpy
from corevec.data.sources import Source
from corevec.kernels import AnyKernel, Kernel, Rows
from corevec.models.expansion import KernelExpansion

# Rows of the sample that says whether a split is worth a pass over all rows. A column
# may split where it has few distinct values there, and these are so far apart that the
# kernel between any two of them is small.
SAMPLE_ROWS, MOST_DISTINCT, LARGEST_VALUE = 2000, 64, 0.1
# Combinations of such values, whose distances are all compared; those of the sample are
# compared in every fit, and where nearly every row has one of its own nothing splits.
MOST_COMBINATIONS, MOST_OF_SAMPLE = 3000, 500
# A split pays where at most this share of the pairs of rows is left: products of small
# blocks are slower by value, and each block has a preconditioner of its own.
MOST_PAIRS = 0.5


@dataclass(frozen=True)
class Components:
    """A partition of the rows of a source.

    Attributes
    ----------
    numbers, labels : ndarray
        The row numbers of the source, sorted, and the component of each row.
    columns : list of ndarray
        The columns that vary inside each component.
    kernels : list of Kernel
        The kernel on these columns.
    dropped : float
        The largest kernel value between rows of two components.
    """

    numbers: Array
    labels: Array
    columns: list[Array]
    kernels: list[Kernel]
    dropped: float

    @staticmethod
    def of(source: Source, kernel: AnyKernel) -> Components | None:
        """Return the components of the rows; None where a split does not pay."""
        plain = isinstance(kernel, Kernel) and kernel.uses_distance
        if not plain or not source.draws_cheaply:
            return None
        assert isinstance(kernel, Kernel)
        rng = np.random.default_rng(0)
        values = _dense(source.take(source.draw(rng, SAMPLE_ROWS)).values)
        columns = range(values.shape[1])
        split = np.array([j for j in columns if _separates(kernel, j, values[:, j])])
        if len(split) == 0:
            return None
        search = _Search(source, kernel, split)
        share = search.pair_share(values[:, split])
        return search.components() if share <= MOST_PAIRS else None

    @property
    def sizes(self) -> Array:
        """The number of rows of each component."""
        return np.bincount(self.labels, minlength=len(self.columns))

    @property
    def pair_share(self) -> float:
        """The share of all pairs of rows that lie in one component."""
        return _pair_share(self.sizes)

    def positions(self, numbers: Array) -> list[Array]:
        """Return where the rows of each component stand among some rows."""
        labels = self.labels[np.searchsorted(self.numbers, numbers)]
        order = np.argsort(labels, kind="stable")
        ends = np.cumsum(np.bincount(labels, minlength=len(self.columns)))
        return np.split(order, ends[:-1])

    def rows(self, c: int, rows: Rows) -> Rows:
        """Return rows of a component with the columns that vary there."""
        return Rows(select_columns(rows.values, self.columns[c]), rows.index)

    def part(self, rows: Rows, positions: Array, c: int) -> Rows:
        """Return the rows at some positions, which are of component `c`."""
        at = to_device_of(positions, rows.values)
        return self.rows(c, Rows(rows.values[at], rows.index[positions]))

    def evaluate(
        self, functions: KernelExpansion, view: Source, numbers: Array, dtype: Any
    ) -> Array:
        """Return values of the functions on some rows, component by component."""
        out = np.tile(functions.intercept, (len(numbers), 1))
        own = self.positions(functions.basis.index)
        for c, where in enumerate(self.positions(numbers)):
            if len(where) == 0 or len(own[c]) == 0:
                continue
            basis = self.part(functions.basis, own[c], c)
            coef = functions.coef[own[c]]
            given = self.kernels[c], basis, coef, np.zeros(coef.shape[1])
            ready = KernelExpansion(*given).ready(dtype)

            def score(rows: Rows, c: int = c, ready: Any = ready) -> Any:
                return ready(self.rows(c, rows))

            parts = view.map_rows(score, numbers[where], view.block_rows)
            out[where] += np.concatenate([to_numpy(part) for part in parts])
        return out


class Partition:
    """Which part each of some positions is in, and where it stands there."""

    def __init__(self, parts: list[Array]):
        n = sum(len(where) for where in parts)
        self.n_parts = len(parts)
        # Of few bits: NumPy then sorts in one pass over each byte.
        self.part = np.empty(n, dtype=np.min_scalar_type(max(len(parts) - 1, 0)))
        self.place = np.empty(n, dtype=np.int64)
        for c, where in enumerate(parts):
            self.part[where], self.place[where] = c, np.arange(len(where))

    def split(self, few: Array) -> list[tuple[Array, Array]]:
        """Return which of some positions each part has, and where they stand in it."""
        own = self.part[few]
        order = np.argsort(own, kind="stable")
        ends = np.cumsum(np.bincount(own, minlength=self.n_parts))
        found = np.split(order, ends[:-1])
        return [(at, self.place[few[at]]) for at in found]


@dataclass(frozen=True)
class _Search:
    """A search for components by the values of some columns."""

    source: Source
    kernel: Kernel
    split: Array

    def pair_share(self, values: Array) -> float:
        """Return the share of the pairs that is left of rows with these values."""
        _, first, combination = np.unique(
            _hashes(values), return_index=True, return_inverse=True
        )
        if len(first) > MOST_OF_SAMPLE:
            return 1.0
        joined, _ = self._join(values[first])
        return _pair_share(np.bincount(joined[combination]))

    def components(self) -> Components | None:
        """Return the components of all rows; None where they do not pay."""
        source = self.source
        numbers = source.numbers
        found = source.map(lambda rows: _hashes(self._values(rows)))
        _, first, combination = np.unique(found, return_index=True, return_inverse=True)
        if len(first) > MOST_COMBINATIONS:
            return None
        own = self._values(source.take(numbers[first]))

        def differs(rows: Rows) -> Array:
            at = combination[np.searchsorted(numbers, to_numpy(rows.index))]
            return (self._values(rows) != own[at]).any(axis=1)

        if source.map(differs).any():  # two combinations share a hash
            return None
        joined, dropped = self._join(own)
        labels = joined[combination]
        if _pair_share(np.bincount(labels)) > MOST_PAIRS:
            return None
        others = np.setdiff1d(np.arange(source.n_features), self.split)
        columns = []
        for c in range(labels.max() + 1):
            inside = own[joined == c]
            varies = (inside != inside[0]).any(axis=0)
            columns.append(np.sort(np.concatenate([others, self.split[varies]])))
        kernels = [self.kernel.on_columns(few) for few in columns]
        return Components(numbers, labels, columns, kernels, dropped)

    def _values(self, rows: Rows) -> Array:
        return _dense(select_columns(rows.values, self.split))

    def _join(self, values: Array) -> tuple[Array, float]:
        """Return the component of each combination, and the largest value dropped."""
        kernel = self.kernel.on_columns(self.split)
        points = kernel.prepare(Rows(values, np.arange(len(values))), np.float64)
        K = kernel.block(points, points)
        # What is dropped adds no more than rounding does already.
        is_near = self.kernel.rounding(self.source.n_features) < K
        _, joined = connected_components(sparse.csr_array(is_near), directed=False)
        is_apart = joined[:, None] != joined[None, :]
        return joined, float(K[is_apart].max(initial=0.0))


def _separates(kernel: Kernel, column: int, values: Array) -> bool:
    """Whether the values of a column are few, and far apart."""
    distinct = np.unique(values)
    if len(distinct) > MOST_DISTINCT:
        return False
    rows = Rows(distinct[:, None], np.arange(len(distinct)))
    points = kernel.on_columns(np.array([column])).prepare(rows, np.float64)
    between = np.diagonal(kernel.block(points, points), offset=1)
    return bool(between.max(initial=0.0) <= LARGEST_VALUE)


def _hashes(values: Array) -> Array:
    """Return a number for each row that equal rows share."""
    values = np.ascontiguousarray(values + 0.0)  # -0.0 is 0.0
    drawn = np.random.default_rng(0).integers(0, 2**63, values.shape[1], np.uint64)
    bits = values.view(np.uint64)
    bits = bits ^ (bits >> np.uint64(29))
    odd = drawn * np.uint64(2) + np.uint64(1)
    return np.asarray((bits * odd).sum(axis=1, dtype=np.uint64))


def _pair_share(sizes: Array) -> float:
    shares = sizes / sizes.sum()
    return float(shares @ shares)


def select_columns(values: Any, columns: Array) -> Any:
    """Return some columns of rows of any kind."""
    if sparse.issparse(values):
        return values[:, columns]
    return values[:, to_device_of(columns, values)]


def _dense(values: Any) -> Array:
    values = values.toarray() if sparse.issparse(values) else values
    return np.asarray(to_numpy(values), dtype=np.float64)
