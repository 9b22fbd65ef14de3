r"""A bound on the objective over all rows seen, from a sample and the core.

The sample is drawn without replacement by random numbers of its own, so that to it the
model is a fixed function, whatever rows that was learned from, and nothing is assumed
about the rows. With n of N losses ``0 <= v <= b`` drawn, the mean of all exceeds that
of the sample, with probability d at most, by

.. math:: \hat\sigma \sqrt{2 \rho \log(5/d) / n}
          + (7/3 + 3/\sqrt 2)\, b \log(5/d) / n

(empirical Bernstein-Serfling bound: Bardenet and Maillard 2015, theorem 4.3; rho is
about ``1 - n/N``). From below, the optimum over all rows is at least that over the core
alone, and this at least the dual value of the core's multipliers.
"""

from __future__ import annotations

import copy
import zlib
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from scipy import sparse

from corevec._runtime.types import Array
from corevec.kernels import Kernel
from corevec.solvers.streaming.core_stream import CoreStream, Targets, as_rows
from corevec.solvers.streaming.reservoir import MAX_SAMPLE_ROWS, sample_size
from corevec.solvers.streaming.stream import stacked

# The constant of the theorem, and relative room for the rounding of sums.
RANGE_TERM, ROUNDING = 7 / 3 + 3 / np.sqrt(2), 1e-9
# Bytes of the first block that make the seed of the sample.
SEED_BYTES = 1 << 16


@dataclass(frozen=True)
class ObjectiveBound:
    """Between what the objective lies, summed over all rows seen.

    Attributes
    ----------
    upper : float
        The objective of the model is at most this, with probability `confidence`.
        Infinite for kernels whose values have no bound (functions, of rows).
    estimate : float
        What the sample says it is.
    lower : float
        No function has a smaller objective; proved, not estimated. Of several classes
        or targets all three are sums.
    confidence : float
        The probability; 1 where all rows seen are in the sample.
    n_measured, n_rows : int
        Rows of the sample, and rows seen.
    """

    upper: float
    estimate: float
    lower: float
    confidence: float
    n_measured: int
    n_rows: int

    @property
    def relative_gap(self) -> float:
        """``(upper - lower) / upper``; not below that of the model."""
        return (self.upper - self.lower) / self.upper if self.upper > 0 else 0.0

    def __str__(self) -> str:
        return (
            f"The objective over {self.n_rows:,} rows is at most {self.upper:.6g} "
            f"(probability {self.confidence:g}, {self.n_measured:,} rows measured; "
            f"estimate {self.estimate:.6g}); the optimum is at least {self.lower:.6g}."
        )


@dataclass(frozen=True)
class SeenRows:
    """A uniform sample of the rows seen with their targets, and what bounds the others.

    `keys` are uniform random numbers, and the rows with the smallest are the sample: it
    does not depend on the blocks, and two of them can be joined. `reach` is the largest
    squared norm of a row, `largest` that of a target and of a weight.
    """

    generator: np.random.Generator
    rows: Any = None
    z: Array | None = None
    omega: Array | None = None
    keys: Array | None = None
    n_seen: int = 0
    reach: float = 0.0
    largest: tuple[float, float] = (0.0, 0.0)

    @classmethod
    def of_first(cls, X: Any) -> Self:
        """Return an empty sample; its random numbers follow from the first block."""
        values = X.data if sparse.issparse(X) else np.ascontiguousarray(X)
        seed = 0
        if values.dtype.kind == "f":
            seed = zlib.crc32(values.tobytes()[:SEED_BYTES])
        return cls(np.random.default_rng(seed))

    def after(self, X: Any, targets: Targets) -> Self:
        """Return the sample after further rows; those of weight 0 do not count."""
        generator = copy.deepcopy(self.generator)
        keys = generator.random(X.shape[0])
        counts = targets.omega > 0
        if not counts.any():
            return replace(self, generator=generator)
        size = sample_size(X, MAX_SAMPLE_ROWS)
        limit = 1.0
        if self.keys is not None and len(self.keys) >= size:
            limit = float(self.keys[-1])
        chosen = np.flatnonzero(counts & (keys < limit))
        if len(chosen) > size:
            chosen = chosen[np.argpartition(keys[chosen], size)[:size]]
        new = replace(
            self,
            generator=generator,
            n_seen=self.n_seen + int(np.count_nonzero(counts)),
            reach=max(self.reach, _largest_square(X)),
            largest=self._with_largest(targets.z[counts], targets.omega),
        )
        part = targets.part(chosen)
        return new._with(X[chosen], part.z, part.omega, keys[chosen])

    def joined(self, other: Self) -> Self:
        """Return the sample of the rows of both."""
        if other.keys is None:
            return self
        assert other.z is not None
        assert other.omega is not None
        new = replace(
            self,
            n_seen=self.n_seen + other.n_seen,
            reach=max(self.reach, other.reach),
            largest=(
                max(self.largest[0], other.largest[0]),
                max(self.largest[1], other.largest[1]),
            ),
        )
        return new._with(other.rows, other.z, other.omega, other.keys)

    def moved(self, step: Array) -> Self:
        """Return the sample of targets to which `step` is added."""
        if self.z is None or not step.any():
            return self
        z, omega = self.largest
        return replace(self, z=self.z + step, largest=(z + np.abs(step).max(), omega))

    def _with_largest(self, z: Array, omega: Array) -> tuple[float, float]:
        here = np.abs(z).max(initial=self.largest[0]), omega.max(initial=0.0)
        return float(here[0]), max(self.largest[1], float(here[1]))

    def _with(self, rows: Any, z: Array, omega: Array, keys: Array) -> Self:
        if self.keys is not None and self.z is not None and self.omega is not None:
            rows = stacked(self.rows, rows)
            z, keys = np.vstack([self.z, z]), np.append(self.keys, keys)
            omega = np.append(self.omega, omega)
        order = np.argsort(keys, kind="stable")
        order = order[: sample_size(rows, MAX_SAMPLE_ROWS)]
        return replace(
            self, rows=rows[order], z=z[order], omega=omega[order], keys=keys[order]
        )


def bound_of(
    stream: CoreStream, seen: SeenRows, box: float, confidence: float
) -> ObjectiveBound:
    """Return the bound of the stream's functions.

    `box` is the largest squared norm that a row may have as the kernel takes it.
    """
    assert seen.z is not None
    assert seen.omega is not None
    n, total = len(seen.omega), seen.n_seen
    f = stream.values(seen.rows)
    wrong = np.maximum(stream.excess(seen.z, f), 0.0)
    losses = seen.omega / 2 * (wrong**2).sum(axis=1)
    norms = stream.norms_sq()
    own, mean = float(norms.sum()) / 2, float(losses.mean())
    lower = least_objective(stream) * (1 - ROUNDING)
    estimate, margin = own + total * mean, 0.0
    if n < total:
        worst = seen.largest[0] - stream.form.tube + _most_values(stream, norms, box)
        most = seen.largest[1] / 2 * float((np.maximum(worst, 0.0) ** 2).sum())
        margin = total * excess_of_mean(losses, total, most, confidence)
    upper = (estimate + margin) * (1 + ROUNDING)
    share = confidence if n < total else 1.0
    return ObjectiveBound(upper, estimate, lower, share, n, total)


def excess_of_mean(sample: Array, total: int, most: float, confidence: float) -> float:
    """Return by how much the mean of `total` numbers may exceed that of a sample.

    They are between 0 and `most`; the sample is drawn without replacement.
    """
    n = len(sample)
    log = np.log(5 / (1 - confidence))
    rho = 1 - (n - 1) / total if 2 * n <= total else (1 - n / total) * (1 + 1 / n)
    chance = float(np.std(sample)) * np.sqrt(2 * rho * log / n)
    return float(chance + RANGE_TERM * most * log / n)


def least_objective(stream: CoreStream) -> float:
    """Return the dual value of the core's multipliers, for the rows of the core alone.

    That of ``t a`` is ``t p - t^2 q / 2``, at its best ``p^2 / (2 q)``.
    """
    z, omega, a = stream.targets.z, stream.targets.omega, stream.a
    if len(omega) == 0 or not a.any():
        return 0.0
    K = stream.core_kernel()
    gain = (z * a - stream.form.tube * np.abs(a)).sum(axis=0)
    curve = (a * (K @ a)).sum(axis=0) + (a**2 / omega[:, None]).sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        best = np.where(curve > 0, np.maximum(gain, 0.0) ** 2 / (2 * curve), 0.0)
    return float(best.sum())


def _most_values(stream: CoreStream, norms: Array, box: float) -> Array:
    """Return bounds of ``|f(x)|`` over the rows seen, one per output."""
    kernel = stream.kernel
    if not isinstance(kernel, Kernel) or kernel.name == "sigmoid":
        return np.full(len(norms), np.inf)
    row = np.zeros((1, stream.rows.shape[1]))
    row[0, 0] = np.sqrt(box)
    largest = float(kernel.diagonal(as_rows(row))[0])
    bias = float(stream.form.bias)
    bound = np.sqrt(norms * (largest + bias))
    if kernel.constant_diagonal and not stream.by_columns:
        bound = np.minimum(bound, (1.0 + bias) * np.abs(stream.coef).sum(axis=0))
    return np.asarray(bound)


def _largest_square(X: Any) -> float:
    """Return the largest squared norm of a row; infinite where it overflows."""
    if X.dtype.kind != "f":
        return np.inf
    with np.errstate(over="ignore"):
        if sparse.issparse(X):
            return float(X.multiply(X).sum(axis=1).max())
        return float(np.einsum("ij,ij->i", X, X, dtype=np.float64).max())


__all__ = ["ObjectiveBound", "SeenRows", "bound_of", "excess_of_mean"]
