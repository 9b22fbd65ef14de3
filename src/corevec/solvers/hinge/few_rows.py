"""A problem on few rows: pairs of multipliers on one kernel matrix in float64.

The matrix serves the steps and then the certificate, so that no kernel value is
computed twice. A pair of two classes of digits (360 rows) took 1.9 ms through working
sets, 0.7 ms this way, and LIBSVM 0.75 ms.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from corevec._runtime.types import Array
from corevec.backend.loops.box import Box, smo_pairs
from corevec.data.sources import Source
from corevec.kernels import AnyKernel, finite
from corevec.problems import BoxProblem

# Entries up to which the whole matrix is made: 8 MB.
MOST_ENTRIES = 1000
# Steps of pairs per entry; a problem that needs more is left to working sets, which
# solve free entries together.
STEPS_PER_ENTRY = 10


class FewRows(NamedTuple):
    """The kernel matrix of the entries of a problem.

    Attributes
    ----------
    K : ndarray of shape (entries, entries)
        Kernel values of their rows.
    relative : float
        Relative rounding of a kernel value.
    largest : float
        The largest k(x, x).
    """

    K: Array
    relative: float
    largest: float

    @classmethod
    def of(
        cls, source: Source, kernel: AnyKernel, numbers: Array, place: Array
    ) -> FewRows:
        """Return the matrix of the rows with these numbers; `place` is an entry's."""
        taken = source.take(numbers)
        points = kernel.prepare_basis(taken)
        K = np.asarray(finite(kernel.block(points, points), kernel))
        largest = float(np.abs(K.diagonal()).max())
        if not np.array_equal(place, np.arange(len(K))):
            K = K[np.ix_(place, place)]
        relative = kernel.rounding(taken.values.shape[1], taken.values.dtype)
        return cls(K, relative, largest)

    def values(self, signed: Array) -> tuple[Array, float]:
        """Return f at all entries, and the error of a value."""
        error = self.relative * self.largest * float(np.abs(signed).sum())
        return self.K @ signed, error

    def improved(
        self, problem: BoxProblem, signed: Array, tol: float, most: int
    ) -> tuple[Array, int]:
        """Return better multipliers, to a violation of `tol`, and the steps taken."""
        K, order = self.K, np.arange(len(signed))
        if len(problem.totals) > 1:  # the entries of a group together
            order = np.argsort(problem.group, kind="stable")
            K = K[np.ix_(order, order)]
        residual = problem.target - self.values(signed)[0]
        box = Box(
            np.searchsorted(problem.group[order], np.arange(len(problem.totals) + 1)),
            problem.lower[order],
            problem.higher[order],
            signed[order],
            residual[order],
        )
        steps = smo_pairs(K, box, tol, most, np.empty(2))
        found = np.empty(len(signed))
        found[order] = box.a
        return found, int(steps)
