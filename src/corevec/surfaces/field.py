"""The fitted field: a constant at infinity plus one kernel expansion per scale."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from corevec._runtime.types import Array
from corevec.data.sources import DEFAULT_MEMORY_BUDGET, Workers, as_source
from corevec.kernels import Rows
from corevec.models.expansion import KernelExpansion


@dataclass(frozen=True)
class Frame:
    """Unit coordinates: the centre of the box is 0, its diagonal has length 1.

    The fit uses only these, so that its parameters do not depend on the unit of length,
    and the distances of an object of size 1 at 1e6 from the origin lose no digits.
    """

    centre: Array
    size: float

    @classmethod
    def around(cls, points: Array) -> Frame:
        """Return the frame of the bounding box of `points`."""
        low, high = points.min(axis=0), points.max(axis=0)
        centre = low + (high - low) / 2
        return cls(centre, float(np.linalg.norm(high - low)))

    def enter(self, points: Array) -> Array:
        """Return points in unit coordinates."""
        return np.asarray((points - self.centre) / self.size)

    def leave(self, points: Array) -> Array:
        """Return points of unit coordinates in the coordinates of the user."""
        return np.asarray(points * self.size + self.centre)


@dataclass(frozen=True)
class Field:
    """``far + sum over scales of sum_j coef_j k_scale(b_j, x)``, in unit coordinates.

    Kernels vanish far from the points, so `far` is the value at infinity.
    """

    far: float
    scales: tuple[KernelExpansion, ...] = ()
    memory_budget: float = DEFAULT_MEMORY_BUDGET
    n_jobs: int | None = None

    def plus(self, scale: KernelExpansion) -> Field:
        """Return the field with one more scale."""
        return replace(self, scales=(*self.scales, scale))

    def shifted(self, amount: float) -> Field:
        """Return the field minus a constant `amount`."""
        return replace(self, far=self.far - amount)

    def __call__(self, places: Array) -> Array:
        """Return the values at `places`, block by block on all threads."""
        if len(places) == 0 or not self.scales:
            return np.full(len(places), self.far)
        ready = [(scale, scale.prepared()) for scale in self.scales]

        def score(rows: Rows) -> Array:
            parts = [scale.evaluate(rows, basis)[:, 0] for scale, basis in ready]
            return np.asarray(np.sum(parts, axis=0))

        with Workers(self.n_jobs) as workers:
            return self.far + as_source(places, self.memory_budget, workers).map(score)

    def slopes(self, places: Array, step: float) -> Array:
        """Return the norm of the gradient, by central differences of width ``2 step``.

        Differences instead of derivatives, because the Laplacian kernel has a cusp at
        each of its points; a step of the size of the details smooths it.
        """
        columns = [
            self(places + step * axis) - self(places - step * axis)
            for axis in np.eye(places.shape[1])
        ]
        return np.asarray(np.linalg.norm(columns, axis=0) / (2 * step))


__all__ = ["Field", "Frame"]
