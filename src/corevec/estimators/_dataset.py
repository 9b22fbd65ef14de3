"""The training set: rows, targets and weights, and one summary of them.

In memory the targets and weights are validated arrays. The blocks of remote rows
(files, Dask, a device) carry theirs: nothing of the length of the data is copied to the
host.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

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
    MemorySource,
    Recoded,
    Source,
    Standardised,
    as_source,
    check_values,
    of_rows,
    row_statistics,
    statistics_and,
)
from corevec.exceptions import InvalidInputError
from corevec.kernels import Rows, RowStatistics
from corevec.problems.family import Labels

# Labels of more kinds than this are taken for the target of a regression.
MOST_CLASSES = 10_000
# Targets and weights whose squares, and sums of them, keep all digits of a float64.
TINY, HUGE = 1e-100, 1e100
# Labels that are encoded at once: 8 MiB of positions.
_CHUNK = 1 << 20


def _nothing() -> Array:
    return np.empty(0)


@dataclass(frozen=True)
class Summary:
    """What the targets and weights of some rows add up to.

    Attributes
    ----------
    mass : float
        Sum of the weights.
    is_unweighted : bool
        Whether every weight is 1.
    labels, masses : ndarray
        Distinct labels, sorted, and the sum of the weights of each.
    low, high, mean, variance : ndarray
        Of each target over the rows of positive weight, in units of `size`.
    size : float or ndarray
        The unit of the moments; squares of 1e-200 or 1e200 are out of range.
    """

    mass: float
    is_unweighted: bool = True
    labels: Array = field(default_factory=_nothing)
    masses: Array = field(default_factory=_nothing)
    low: Array = field(default_factory=_nothing)
    high: Array = field(default_factory=_nothing)
    mean: Array = field(default_factory=_nothing)
    variance: Array = field(default_factory=_nothing)
    size: Any = 1.0


@dataclass(frozen=True)
class Dataset:
    """Rows with a target and a weight each, wherever they are.

    Attributes
    ----------
    who : str
        The estimator, for messages.
    source : Source
        The rows.
    target, weight : Column or None
        Arrays for rows in memory; else what the blocks carry. No weights: all are 1.
    summary : Summary
        The sums over all rows.
    labels : ndarray or None
        The labels, where the blocks carry their positions in this array instead.
    """

    who: str
    source: Source
    target: Column | None
    weight: Column | None
    summary: Summary
    labels: Array | None = None

    @classmethod
    def in_memory(
        cls,
        who: str,
        source: Source,
        weight: Array | None,
        y: Any = None,
        task: str = "none",
    ) -> Dataset:
        """Return validated rows in memory with their targets and weights."""
        mass = float(source.n_rows if weight is None else weight.sum())
        seen = Summary(mass, weight is None)
        if task == "classes" and y is not None:
            labels, masses = _label_masses(who, y, weight)
            seen = replace(seen, labels=labels, masses=masses)
        elif task == "numbers" and y is not None:
            size = np.abs(y).max(axis=0)
            unit = np.where(size > 0, size, 1.0)
            own = np.ones(len(y)) if weight is None else weight
            seen = replace(_with_moments(seen, y, own, unit), size=unit)
        return cls(who, source, None if task == "none" else y, weight, seen)

    @classmethod
    def carried(
        cls, who: str, source: Source, task: str, labels: Array | None = None
    ) -> Dataset:
        """Return remote rows, after one pass over them.

        `task` is "classes", "numbers" or "none". The pass gives the summary and the
        statistics of the columns; a second one follows where the squares of targets are
        out of range.
        """
        columns = getattr(source, "columns", ())
        if task != "none" and TARGET not in columns:
            raise InvalidInputError(
                f"{who}: requires y to be passed, but {source!r} brings no target. "
                "Give y beside a Dask array or a tensor, or use corevec.open(path, "
                "target=...)."
            )
        weight = CarriedColumn(WEIGHT) if WEIGHT in columns else None
        # Functions of rows travel to where the rows are: they must not hold the source.
        look = partial(_look, who, task, weight)
        join = partial(_join, who)
        statistics, seen = statistics_and(source, weight, look, join)
        if labels is not None:
            seen = replace(seen, labels=labels[seen.labels.astype(int)])
        if seen.mass <= 0:
            raise InvalidInputError(
                f"{who}: sample_weight is zero for all {source.n_rows} rows, so no row "
                "is left to fit. Give at least one row a positive weight."
            )
        size = np.maximum(np.abs(seen.low), np.abs(seen.high))
        if ((size > 0) & ((size < TINY) | (size > HUGE))).any():
            unit = np.where(size > 0, size, 1.0)
            seen = replace(source.reduce(partial(look, size=unit), join), size=unit)
        target = CarriedColumn(TARGET) if task != "none" else None
        weight = None if seen.is_unweighted else weight
        given = cls(who, source, target, weight, seen, labels)
        given.__dict__["statistics"] = statistics
        return given

    @cached_property
    def statistics(self) -> RowStatistics:
        """Mean, variance and range of the columns."""
        return row_statistics(self.source, self.weight)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.source.n_rows)

    @property
    def mass(self) -> float:
        """Sum of the weights of all rows."""
        return self.summary.mass

    @property
    def n_targets(self) -> int:
        """Number of targets of a row."""
        return len(self.summary.mean)

    @property
    def classes(self) -> Array:
        """The distinct labels of the rows of positive weight, sorted."""
        return np.asarray(self.summary.labels[self.summary.masses > 0])

    def problem_labels(
        self, codes: Column | None = None, class_weight: Array | None = None
    ) -> Labels:
        """Return the codes and weights of the rows as a problem takes them."""
        return Labels(self.n_rows, codes, self.weight, class_weight, self.mass)

    def codes(self, classes: Array) -> Column:
        """Return the position of the label of each row among `classes`.

        Labels of absent classes get some code: their rows weigh nothing.
        """
        if self.labels is not None:
            found = np.searchsorted(classes, self.labels)
            return Recoded(np.minimum(found, len(classes) - 1))
        if not isinstance(self.target, np.ndarray):
            return Coded(classes)
        return encoded(self.target, classes)

    def mass_of_classes(self, classes: Array) -> Array:
        """Return the sum of the weights of the rows of each class."""
        known = self.summary.masses > 0
        found = np.zeros(len(classes))
        at = np.searchsorted(classes, self.summary.labels[known])
        found[at] = self.summary.masses[known]
        return found

    def labels_of(self, rows: Array) -> Array:
        """Return the labels of a few rows."""
        if isinstance(self.target, np.ndarray):
            return np.asarray(self.target[rows])
        labels = np.asarray(self.source.take(rows).columns[TARGET])
        return labels if self.labels is None else self.labels[labels]

    def target_moments(self, centred: bool) -> tuple[Array, Array]:
        """Return mean and standard deviation of each target, by weight.

        Where not `centred`, the mean is zero and the deviation is taken from there.
        """
        seen = self.summary
        mean = seen.mean if centred else np.zeros_like(seen.mean)
        variance = seen.variance if centred else seen.variance + seen.mean**2
        # A constant column has a deviation of a rounding error: none.
        constant = (seen.low == seen.high) & centred
        mean = np.where(constant, seen.low, mean)
        scale = np.where(constant, 0.0, np.sqrt(variance))
        return mean * seen.size, np.where(scale > 0, scale * seen.size, 1.0)

    def standardised(self, mean: Array, scale: Array) -> list[Column]:
        """Return each target as ``(y - mean) / scale``."""
        if isinstance(self.target, np.ndarray):
            z = (self.target - mean) / scale
            return [np.ascontiguousarray(z[:, t]) for t in range(z.shape[1])]
        pairs = zip(mean, scale, strict=True)
        return [Standardised(float(m), float(d), t) for t, (m, d) in enumerate(pairs)]

    def sample(self, rng: np.random.Generator, size: int) -> Dataset:
        """Return this many random rows without targets, in memory."""
        source = self.source
        if isinstance(source, MemorySource):  # exactly `size` rows
            numbers = np.sort(rng.permutation(self.n_rows)[:size])
        else:
            numbers = source.draw(rng, size)
        rows = source.take(numbers)
        part = None if self.weight is None else of_rows(self.weight, rows)
        few = as_source(rows.values, source.memory_budget, source.workers)
        return Dataset.in_memory(self.who, few, part)


def encoded(labels: Array, classes: Array) -> Array:
    """Return positions among sorted classes in the smallest integer type."""
    codes = np.empty(len(labels), dtype=np.int8 if len(classes) < 127 else np.int32)
    for start in range(0, len(labels), _CHUNK):
        part = slice(start, start + _CHUNK)
        found = np.searchsorted(classes, labels[part])
        codes[part] = np.minimum(found, len(classes) - 1)
    return codes


def weights_of(weights: Column | None, rows: Rows) -> Array:
    """Return the weights of some rows; 1 for each if there are none."""
    if weights is None:
        return full(len(rows), 1.0, rows.index)
    return of_rows(weights, rows)


def _look(
    who: str, task: str, weight: Column | None, rows: Rows, size: Any = 1.0
) -> Summary:
    """Return the summary of one block, after checking its values."""
    check_values(who, rows)
    w = full(len(rows), 1.0, rows.index)
    if weight is not None:
        w = _checked(who, rows, WEIGHT, "sample_weight")
        if w.ndim != 1:
            raise InvalidInputError(
                f"{who}: sample_weight has {w.shape[1]} columns, "
                "expected one weight per row."
            )
        refuse_bad_weights(who, w, rows.index)
    seen = Summary(float(w.sum()), bool((w == 1).all()))
    if task == "classes":
        labels, masses = _label_masses(who, _labels(who, rows), w)
        return replace(seen, labels=labels, masses=masses)
    if task == "numbers":
        y = _checked(who, rows, TARGET, "y")
        return _with_moments(seen, y[:, None] if y.ndim == 1 else y, w, size)
    return seen


def refuse_bad_weights(who: str, weights: Any, numbers: Any = None) -> None:
    """Raise for a weight below 0, or one whose sums could leave the floats' range."""
    if (weights < 0).any():
        at, fault = int(weights.argmin()), "is negative"
    elif (weights > HUGE).any():
        at, fault = int(weights.argmax()), f"is above {HUGE:g}"
    else:
        return
    row = at if numbers is None else int(numbers[at])
    raise InvalidInputError(
        f"{who}: sample_weight[{row}] = {float(weights.ravel()[at]):g} {fault}. "
        "Weights count rows: 0 leaves a row out, 2 counts it twice."
    )


def _labels(who: str, rows: Rows) -> Any:
    """Return the labels that a block carries."""
    y = rows.columns[TARGET]
    y = y if is_tensor(y) else np.asarray(y)
    if y.ndim != 1:
        raise InvalidInputError(
            f"{who}: y should be a 1d array, but a row has {y.shape[1]} labels. Give "
            "one column."
        )
    if "float" in str(y.dtype):
        _checked(who, rows, TARGET, "y")
    return y


def _label_masses(who: str, y: Any, weights: Array | None) -> tuple[Array, Array]:
    """Return the distinct labels, and the sum of the weights of each."""
    if is_tensor(y):
        labels, masses = masses_of(y, weights)  # the blocks of a device have weights
        _check_kinds(who, labels)
        return labels, masses
    labels = _distinct(who, y)
    _check_kinds(who, labels)
    masses = np.zeros(len(labels))
    for start in range(0, len(y), _CHUNK):
        part = slice(start, start + _CHUNK)
        own = None if weights is None else weights[part]
        at = np.searchsorted(labels, y[part])
        masses += np.bincount(at, own, minlength=len(labels))
    return labels, masses


def _distinct(who: str, labels: Array) -> Array:
    """Return the distinct labels, sorted."""
    try:
        return np.unique(labels)
    except TypeError as error:
        raise InvalidInputError(
            f"{who}: the labels y cannot be sorted ({error}): some are missing, or "
            "text and numbers are mixed. Drop such rows, or write all as text."
        ) from None


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


def _with_moments(seen: Summary, y: Any, weights: Array, size: Any) -> Summary:
    """Return the summary with the moments of the targets, in units of `size`."""
    counted = weights > 0
    if not counted.any():
        none = np.zeros(y.shape[1])
        return replace(
            seen, low=none + np.inf, high=none - np.inf, mean=none, variance=none
        )
    xp, w = namespace(y), weights[:, None]
    u = y / to_device_of(np.asarray(size), y)
    present = u if counted.all() else u[counted]
    # Squares of rows without weight may overflow: they count as 0.
    u = u if present is u else xp.where(counted[:, None], u, 0.0 * w)
    total = w.sum(axis=0)
    mean = (u * w).sum(axis=0) / total
    with np.errstate(over="ignore", under="ignore"):  # then a second pass follows
        variance = ((u - mean) ** 2 * w).sum(axis=0) / total
    found = xp.min(present, axis=0), xp.max(present, axis=0), mean, variance
    low, high, mean, variance = (to_numpy(one) for one in found)
    return replace(seen, low=low, high=high, mean=mean, variance=variance)


def _join(who: str, a: Summary, b: Summary) -> Summary:
    """Return the summary of two parts together (Chan, Golub, LeVeque 1979)."""
    labels = _distinct(who, np.concatenate([a.labels, b.labels]))
    _check_kinds(who, labels)
    masses = np.zeros(len(labels))
    for one in (a, b):
        masses[np.searchsorted(labels, one.labels)] += one.masses
    mass = a.mass + b.mass
    right = b.mass / mass if mass > 0 else 0.0
    step = b.mean - a.mean
    with np.errstate(over="ignore", invalid="ignore"):  # then a second pass follows
        variance = (1 - right) * a.variance + right * b.variance
        variance = variance + right * (1 - right) * step**2
    return Summary(
        mass,
        a.is_unweighted and b.is_unweighted,
        labels,
        masses,
        np.minimum(a.low, b.low),
        np.maximum(a.high, b.high),
        a.mean + right * step,
        variance,
    )
