"""What every model ends as: a few rows, their coefficients, a kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from corevec.arrays import there
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
        values = self.kernel.times(points, basis, self.coef)
        return finite(values + there(self.intercept, values), self.kernel)

    def ready(self, dtype: Any = np.float64) -> Ready:
        """Return the functions made ready for one precision."""
        return Ready(self, dtype)

    def values(self, source: Source) -> Array:
        """Return f of every row, shape (n_rows, outputs), block by block."""
        return source.map(self.ready())


class Ready:
    """Functions with their basis prepared; only the functions travel.

    The prepared basis is as large as the basis: sent along, it would double what each
    round sends to workers.
    """

    def __init__(self, functions: KernelExpansion, dtype: Any = np.float64):
        self.functions, self.dtype = functions, dtype
        self.points = functions.prepared(dtype)

    def __call__(self, rows: Rows) -> Array:
        """Return values of shape (len(rows), outputs) for one block of rows."""
        return self.functions.evaluate(rows, self.points)

    def __reduce__(self) -> Any:
        return Ready, (self.functions, self.dtype)
