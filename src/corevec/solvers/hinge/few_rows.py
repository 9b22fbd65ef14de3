"""A problem on few rows: pairs of multipliers on one kernel matrix in float64.

The matrix serves the steps and then the certificate, so that no kernel value is
computed twice. A pair of two classes of digits (360 rows) took 1.9 ms through working
sets, 0.7 ms this way, and LIBSVM 0.75 ms.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from corevec._runtime.types import Array
from corevec.backend.loops.box import Box, gather, smo_pairs
from corevec.data.sources import Source
from corevec.kernels import AnyKernel, PrecomputedKernel, Rows, finite
from corevec.problems import BoxProblem
from corevec.solvers.numeric.kernel_matrix import kernel_matrix

# Entries up to which the whole matrix is made: 8 MB.
MOST_ENTRIES = 1000
# Rows up to which problems share the matrix of all rows (128 MB), or any number of them
# where each has more numbers than this: a value then costs more than gathering it.
MOST_SHARED_ROWS, FEW_COLUMNS = 4096, 64
# Steps of pairs per entry; a problem that needs more is left to working sets, which
# solve free entries together.
STEPS_PER_ENTRY = 10


class Shared(NamedTuple):
    """Where few rows have their kernel values from.

    Several problems share the matrix of all rows if it fits into the memory and its
    values are expensive, or few: 5,460 pairs of classes of 2,000 texts took 33 s when
    each computed its own values.

    Attributes
    ----------
    source : Source
        The rows.
    kernel : kernel
        Their kernel.
    relative : float
        Relative rounding of a kernel value.
    matrix : ndarray or None
        The kernel matrix of all rows.
    """

    source: Source
    kernel: AnyKernel
    relative: float
    matrix: Array | None

    @classmethod
    def of(
        cls,
        problems: list[BoxProblem],
        source: Source,
        kernel: AnyKernel,
        memory: float,
    ) -> Shared:
        """Return what the problems share, in `memory` bytes at most."""
        n, matrix = source.n_rows, None
        is_shared = all(len(one.rows) <= MOST_ENTRIES for one in problems)
        is_shared &= len(problems) > 1 and 8 * n**2 <= memory
        is_shared &= not isinstance(kernel, PrecomputedKernel)
        is_shared &= n <= MOST_SHARED_ROWS or source.row_entries > FEW_COLUMNS
        few = source.take(source.numbers[:1])
        if is_shared:
            taken = source.take(source.numbers)
            rows = Rows(taken.values, taken.index)
            matrix = kernel_matrix(rows, kernel, np.float64, source.workers)
        relative = kernel.rounding(few.values.shape[1], few.values.dtype)
        return cls(source, kernel, relative, matrix)

    def values(self, numbers: Array) -> Array:
        """Return the kernel matrix of some rows: gathered, or computed."""
        if self.matrix is None:
            taken = self.source.take(numbers)
            points = self.kernel.prepare_basis(taken)
            return np.asarray(finite(self.kernel.block(points, points), self.kernel))
        at = np.searchsorted(self.source.numbers, numbers)
        out = np.empty((len(at), len(at)))
        gather(self.matrix, at, at, out)
        return out


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
    def of(cls, shared: Shared, numbers: Array, place: Array) -> FewRows:
        """Return the matrix of the rows with these numbers; `place` is an entry's."""
        K = shared.values(numbers)
        largest = float(np.abs(K.diagonal()).max())
        if not np.array_equal(place, np.arange(len(K))):
            K = K[np.ix_(place, place)]
        return cls(K, shared.relative, largest)

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
