"""The rows, targets and weights of a fit.

In memory they are validated arrays. Remote rows (files, Dask, a device) are summarised
by a pass: nothing of the length of the data is copied to the host.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from corevec._runtime.types import Array
from corevec.backend.arrays import (
    cast,
    full,
    is_finite,
    is_tensor,
    masses_of,
    namespace,
    to_device_of,
    to_numpy,
)
from corevec.data.sources import (
    TARGET,
    WEIGHT,
    CarriedColumn,
    Coded,
    Column,
    Recoded,
    Source,
    Standardised,
    check_values,
    of_rows,
)
from corevec.exceptions import InvalidInputError
from corevec.kernels import Rows

# Labels of more kinds than this are taken for the target of a regression.
MOST_CLASSES = 10_000
# Targets whose squares, and sums of them, keep all digits of a float64.
TINY, HUGE = 1e-100, 1e100


@dataclass
class Dataset:
    """Rows in memory: X an array or CSR matrix, y and weights arrays or None."""

    who: str
    X: Any
    y: Any = None
    weights: Column | None = None

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return int(self.X.shape[0])

    @property
    def mass(self) -> float:
        """The sum of the weights of all rows."""
        if self.weights is None:
            return float(self.n_rows)
        assert isinstance(self.weights, np.ndarray)
        return float(self.weights.sum())

    def classes(self) -> Array:
        """Return the different labels of the rows of positive weight, sorted."""
        return np.unique(self.y if self.weights is None else self.y[self._counted])

    def codes(self, classes: Array) -> Column:
        """Return class codes in the smallest integer type, block by block."""
        y = column_or_1d(self.y)
        dtype = np.int8 if len(classes) < 127 else np.int32
        codes = np.empty(len(y), dtype=dtype)
        for start in range(0, len(y), 1 << 20):
            part = np.asarray(y[start : start + (1 << 20)])
            # Labels of absent classes get some code: their rows weigh nothing.
            found = np.searchsorted(classes, part)
            codes[start : start + len(part)] = np.minimum(found, len(classes) - 1)
        return codes

    def check_classes(self, y: Any) -> None:
        """Raise where the labels that were given are not those of classes."""
        check_classification_targets(y)

    def check_labels(self) -> None:
        """Make the labels one column; raise where there is not one for each row."""
        self.y = column_or_1d(self.y)
        if len(self.y) != self.n_rows:
            raise InvalidInputError(
                f"{self.who}: X has {self.n_rows} rows, y {len(self.y)} labels."
            )

    def mass_of_classes(self, classes: Array) -> Array:
        """Return the sum of the weights of each class's rows."""
        codes: Any = self.codes(classes)
        weights: Any = self.weights
        return np.bincount(codes, weights, minlength=len(classes)).astype(np.float64)

    def labels_of(self, rows: Array) -> Array:
        """Return the labels of a few rows."""
        return np.asarray(column_or_1d(self.y)[rows])

    def target_moments(self, centred: bool) -> tuple[Array, Array]:
        """Return mean and deviation of each target, by weight.

        Where not `centred`, the mean is zero and the deviation is taken from there.
        """
        y: Any = self.y
        weights: Any = self.weights
        size = np.abs(y).max(axis=0)
        size = np.where(size > 0, size, 1.0)
        u = y / size  # squares of 1e-200 or 1e200 are out of range
        mean = np.zeros(y.shape[1])
        if centred:
            mean = np.average(u, axis=0, weights=weights)
        scale = np.sqrt(np.average((u - mean) ** 2, axis=0, weights=weights))
        if centred:
            # A constant column has a deviation of a rounding error: none.
            present = u if weights is None else u[self._counted]
            constant = present.min(axis=0) == present.max(axis=0)
            mean = np.where(constant, present[0], mean)
            scale = np.where(constant, 0.0, scale)
        return mean * size, np.where(scale > 0, scale * size, 1.0)

    def standardised(self, mean: Array, scale: Array) -> list[Column]:
        """Return the targets, one column each, as ``(y - mean) / scale``."""
        z = (self.y - mean) / scale
        return [np.ascontiguousarray(z[:, t]) for t in range(z.shape[1])]

    def sample(self, rng: np.random.Generator, size: int) -> Dataset:
        """Return so many random rows, in memory."""
        rows = np.sort(rng.permutation(self.n_rows)[:size])
        weights = self.weights
        part = None if weights is None else np.asarray(weights)[rows]
        return Dataset(self.who, self.X[rows], None, part)

    @property
    def _counted(self) -> Array:
        assert isinstance(self.weights, np.ndarray)
        return np.asarray(self.weights > 0)


@dataclass(frozen=True)
class _Seen:
    """What one pass says about targets and weights."""

    n_rows: int
    mass: float
    all_one: bool
    labels: Array  # different ones, and the mass of each
    masses: Array
    # Of the targets of positive weight, in units of some size: least, most, mean and
    # variance.
    low: Array
    high: Array
    mean: Array
    variance: Array


class RemoteDataset(Dataset):
    """Remote rows, whose blocks carry their targets and weights."""

    _seen: _Seen

    def __init__(self, who: str, source: Source, task: str, kinds: Array | None = None):
        """Scan all rows once; `task` is "classes", "numbers" or "none".

        Where the blocks carry codes instead of labels, `kinds` are the labels.
        """
        self.who, self.X, self.task, self._kinds = who, source, task, kinds
        columns = getattr(source, "columns", ())
        if task != "none" and TARGET not in columns:
            raise InvalidInputError(
                f"{who}: requires y to be passed, but {source!r} brings no target. "
                "Give y beside a Dask array or a tensor, or use corevec.open(path, "
                "target=...)."
            )
        self._has_weights = WEIGHT in columns
        # Functions of rows travel to where the rows are: they must not hold the source.
        look = partial(_look, who, task, self._has_weights)
        self._size: Any = 1.0
        self._seen = self._ask_all(look)
        if kinds is not None:
            labels = kinds[self._seen.labels.astype(int)]
            self._seen = replace(self._seen, labels=labels)
        if self._seen.mass <= 0:
            raise InvalidInputError(
                f"{who}: sample_weight is zero for all {source.n_rows} rows, so no row "
                "is left to fit. Give at least one row a positive weight."
            )
        size = np.maximum(np.abs(self._seen.low), np.abs(self._seen.high))
        if ((size > 0) & ((size < TINY) | (size > HUGE))).any():
            self._size = np.where(size > 0, size, 1.0)
            self._seen = self._ask_all(partial(look, size=self._size))
        self.weights = None
        if self._has_weights and not self._seen.all_one:
            self.weights = CarriedColumn(WEIGHT)
        self.y = CarriedColumn(TARGET) if task != "none" else None

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return int(self.X.n_rows)

    @property
    def mass(self) -> float:
        """The sum of the weights of all rows."""
        return self._seen.mass

    def _ask_all(self, look: Callable[[Rows], _Seen]) -> _Seen:
        try:
            return self.X.reduce(look, partial(_join, self.who))
        except InvalidInputError as error:  # of a file or a partition: whose rows?
            text = str(error)
            named = text if self.who in text else f"{self.who}: {text}"
            raise InvalidInputError(named) from None

    @property
    def n_targets(self) -> int:
        """How many targets a row has."""
        return len(self._seen.mean)

    def classes(self) -> Array:
        """Return the different labels of the rows of positive weight, sorted."""
        return np.asarray(self._seen.labels[self._seen.masses > 0])

    def codes(self, classes: Array) -> Column:
        """Return the class code of a row as a function of its label."""
        if self._kinds is None:
            return Coded(classes)
        found = np.searchsorted(classes, self._kinds)
        return Recoded(np.minimum(found, len(classes) - 1))

    def check_classes(self, y: Any) -> None:
        """Raise where labels that came from memory are not those of classes."""
        if self._kinds is not None:
            check_classification_targets(y)

    def check_labels(self) -> None:
        """Do nothing: the pass over all rows has checked them."""

    def mass_of_classes(self, classes: Array) -> Array:
        """Return the sum of the weights of each class's rows."""
        found = np.zeros(len(classes))
        at = np.searchsorted(classes, self._seen.labels)
        known = self._seen.masses > 0
        found[at[known]] = self._seen.masses[known]
        return found

    def labels_of(self, rows: Array) -> Array:
        """Return the labels of a few rows."""
        labels = np.asarray(self.X.take(rows).columns[TARGET])
        return labels if self._kinds is None else self._kinds[labels]

    def target_moments(self, centred: bool) -> tuple[Array, Array]:
        """Return mean and deviation of each target, by weight."""
        seen = self._seen
        mean = seen.mean if centred else np.zeros_like(seen.mean)
        variance = seen.variance if centred else seen.variance + seen.mean**2
        constant = (seen.low == seen.high) & centred
        mean = np.where(constant, seen.low, mean)
        scale = np.where(constant, 0.0, np.sqrt(variance))
        return mean * self._size, np.where(scale > 0, scale * self._size, 1.0)

    def standardised(self, mean: Array, scale: Array) -> list[Column]:
        """Return the targets as functions of the rows."""
        pairs = zip(mean, scale, strict=True)
        return [Standardised(float(m), float(d), t) for t, (m, d) in enumerate(pairs)]

    def sample(self, rng: np.random.Generator, size: int) -> Dataset:
        """Return so many random rows, in memory."""
        rows = self.X.take(self.X.draw(rng, size))
        part = None if self.weights is None else of_rows(self.weights, rows)
        return Dataset(self.who, rows.values, None, part)


def _look(who: str, task: str, has_weights: bool, rows: Rows, size: Any = 1.0) -> _Seen:
    """Return what one block says, once its values are checked.

    Moments of targets are those of ``y / size``.
    """
    check_values(who, rows)
    weights = full(len(rows), 1.0, rows.index)
    if has_weights:
        weights = _checked(who, rows, WEIGHT, "sample_weight")
        if weights.ndim != 1:
            raise InvalidInputError(
                f"{who}: sample_weight has {weights.shape[1]} columns, "
                "expected one weight per row."
            )
        if (weights < 0).any():
            row = int(rows.index[weights.argmin()])
            raise InvalidInputError(
                f"{who}: sample_weight[{row}] = {weights.min():g} is negative. Weights "
                "count rows: 0 leaves a row out, 2 counts it twice."
            )
    mass, nothing = float(weights.sum()), np.empty(0)
    labels, masses = nothing, nothing
    low = high = mean = variance = nothing
    if task == "classes":
        labels, masses = _labels(who, rows, weights)
    elif task == "numbers":
        low, high, mean, variance = _moments(who, rows, weights, size)
    one = bool((weights == 1).all())
    sums = (labels, masses, low, high, mean, variance)
    return _Seen(len(rows), mass, one, *sums)


def _labels(who: str, rows: Rows, weights: Array) -> tuple[Array, Array]:
    """Return the different labels of a block, and the mass of each."""
    y = rows.columns[TARGET]
    y = y if is_tensor(y) else np.asarray(y)
    if y.ndim != 1:
        raise InvalidInputError(
            f"{who}: y should be a 1d array, but a row has {y.shape[1]} labels. Give "
            "one column."
        )
    if "float" in str(y.dtype):
        _checked(who, rows, TARGET, "y")
    if is_tensor(y):
        labels, masses = masses_of(y, weights)
        _check_kinds(who, labels)
        return labels, masses
    labels, place = _different(who, y)
    _check_kinds(who, labels)
    return labels, np.bincount(place, weights, minlength=len(labels))


def _different(who: str, labels: Array) -> tuple[Array, Array]:
    """Return the different labels, sorted, and the place of each label there."""
    try:
        found, place = np.unique(labels, return_inverse=True)
    except TypeError as error:
        raise InvalidInputError(
            f"{who}: the labels y cannot be sorted ({error}): some are missing, or "
            "text and numbers are mixed. Drop such rows, or write all as text."
        ) from None
    return found, place.ravel()


def _checked(who: str, rows: Rows, column: str, name: str) -> Array:
    """Return a column of finite numbers."""
    try:
        values = cast(rows.columns[column], np.float64)
    except (TypeError, ValueError):
        raise InvalidInputError(
            f"{who}: {name} must be numbers, but its type is "
            f"{np.asarray(rows.columns[column]).dtype}."
        ) from None
    if not is_finite(values):
        at = np.argwhere(~np.isfinite(to_numpy(values)))[0]
        value = float(to_numpy(values)[tuple(at)])
        raise InvalidInputError(
            f"{who}: {name}[{int(rows.index[int(at[0])])}] = {value}: Input "
            f"{name} contains NaN or infinity. Drop such rows."
        )
    return values


def _check_kinds(who: str, labels: Array) -> None:
    if len(labels) > MOST_CLASSES:
        raise InvalidInputError(
            f"{who}: y holds more than {MOST_CLASSES:,} different labels. Unknown "
            "label type: continuous; for targets that are numbers use a regressor."
        )


def _moments(
    who: str, rows: Rows, weights: Array, size: Any
) -> tuple[Array, Array, Array, Array]:
    """Return least, most, mean and variance of the targets of one block."""
    y = _checked(who, rows, TARGET, "y")
    y = (y[:, None] if y.ndim == 1 else y) / to_device_of(np.asarray(size), y)
    counted = weights > 0
    if not counted.any():
        nothing = np.zeros(y.shape[1])
        return nothing + np.inf, nothing - np.inf, nothing, nothing
    y, share = y[counted], weights[counted] / weights[counted].sum()
    mean = share @ y
    with np.errstate(over="ignore", under="ignore"):  # then a second pass looks
        variance = share @ (y - mean) ** 2
    low, high = namespace(y).min(y, axis=0), namespace(y).max(y, axis=0)
    return to_numpy(low), to_numpy(high), to_numpy(mean), to_numpy(variance)


def _join(who: str, a: _Seen, b: _Seen) -> _Seen:
    """Return what two parts say together (Chan, Golub, LeVeque 1979)."""
    labels, place = _different(who, np.concatenate([a.labels, b.labels]))
    masses = np.bincount(
        place, np.concatenate([a.masses, b.masses]), minlength=len(labels)
    )
    _check_kinds(who, labels)
    mass = a.mass + b.mass
    right = b.mass / mass if mass > 0 else 0.0
    step = b.mean - a.mean
    with np.errstate(over="ignore", invalid="ignore"):  # then a second pass looks
        spread = (1 - right) * a.variance + right * b.variance
        spread = spread + right * (1 - right) * step**2
    return _Seen(
        a.n_rows + b.n_rows,
        mass,
        a.all_one and b.all_one,
        labels,
        masses,
        np.minimum(a.low, b.low),
        np.maximum(a.high, b.high),
        a.mean + right * step,
        spread,
    )


def weights_of(weights: Column | None, rows: Rows) -> Array:
    """Return the weights of some rows, 1 where all rows are alike."""
    if weights is None:
        return full(len(rows), 1.0, rows.index)
    return of_rows(weights, rows)
