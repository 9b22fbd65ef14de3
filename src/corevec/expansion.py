"""What every model ends as: a few rows, their coefficients, a kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from corevec.kernels import AnyKernel, Points, Rows, finite
from corevec.sources import Source

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class KernelExpansion:
    """``f_t(x) = sum_j coef[j, t] k(b_j, x) + intercept[t]``, several t at once."""

    kernel: AnyKernel
    basis: Rows
    coef: Array  # (len(basis), outputs)
    intercept: Array  # (outputs,)

    def prepared(self, dtype: Any = np.float64) -> Points:
        """Return the basis made ready for `evaluate` in one precision."""
        return self.kernel.prepare_basis(self.basis, dtype)

    def evaluate(self, rows: Rows, basis: Points) -> Array:
        """Return values of shape (len(rows), outputs) for one block of rows."""
        points = self.kernel.prepare(rows, basis.dtype)
        values = self.kernel.times(points, basis, self.coef) + self.intercept
        return finite(values, self.kernel)

    def values(self, source: Source) -> Array:
        """Return f of every row, shape (n_rows, outputs), block by block."""
        basis = self.prepared()
        return source.map(lambda rows: self.evaluate(rows, basis))
