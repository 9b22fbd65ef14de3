"""Kernel expansions: a few rows, their coefficients, a kernel. Every model is one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from corevec._runtime.types import Array
from corevec.backend.arrays import is_tensor, to_device_of, to_numpy
from corevec.data.sources import Source
from corevec.kernels import AnyKernel, Kernel, Points, Rows, finite

if TYPE_CHECKING:
    from corevec.backend.gpu.kernels import Answer, Asked


@dataclass(frozen=True)
class KernelExpansion:
    """``f_t(x) = sum_j coef[j, t] k(b_j, x) + intercept[t]``, several t at once."""

    kernel: AnyKernel
    basis: Rows
    coef: Array  # (len(basis), outputs)
    intercept: Array  # (outputs,)

    def output(self, t: int) -> KernelExpansion:
        """Return one of the functions."""
        one = slice(t, t + 1)
        return KernelExpansion(
            self.kernel, self.basis, self.coef[:, one], self.intercept[one]
        )

    def prepared(self, dtype: Any = np.float64) -> Points:
        """Return the basis prepared for `evaluate` in one precision."""
        return self.kernel.prepare_basis(self.basis, dtype)

    def evaluate(self, rows: Rows, basis: Points) -> Array:
        """Return values of shape (len(rows), outputs) for one block of rows."""
        points = self.kernel.prepare(rows, basis.dtype)
        values = self.kernel.times(points, basis, self.coef)
        return finite(values + to_device_of(self.intercept, values), self.kernel)

    @property
    def largest_diagonal(self) -> float:
        """The largest k(x, x) of a basis row."""
        if len(self.basis) == 0:
            return 0.0
        return float(abs(self.kernel.diagonal(self.basis)).max())

    def value_errors(self) -> Array:
        """Return a bound on the rounding error of each output's values.

        For rows whose k(x, x) is at most that of the basis rows.
        """
        values = self.basis.values
        relative = self.kernel.rounding(values.shape[1], values.dtype)
        return np.asarray(
            relative * self.largest_diagonal * np.abs(self.coef).sum(axis=0)
        )

    def norms_sq(self) -> Array:
        """Return an upper bound of ``|w_t|^2`` of each output, rounding included."""
        basis = self.prepared()
        values = self.kernel.times(basis, basis, self.coef)
        norms = np.maximum((to_numpy(self.coef) * to_numpy(values)).sum(axis=0), 0.0)
        return norms + self.value_errors() * np.abs(to_numpy(self.coef)).sum(axis=0)

    def ready(self, dtype: Any = np.float64) -> Ready:
        """Return the functions with their basis prepared in one precision."""
        return Ready(self, dtype)

    def ready_for(self, source: Source) -> Ready:
        """Return the function of a block of rows of `source`."""
        return self.ready()

    def values(self, source: Source) -> Array:
        """Return f of every row, shape (n_rows, outputs), block by block."""
        return source.map(self.ready())


class Ready:
    """Functions with their basis prepared; only the functions are pickled.

    The prepared basis is as large as the basis: pickled, it would double what each
    round sends to workers.
    """

    def __init__(self, functions: KernelExpansion, dtype: Any = np.float64):
        self.functions, self.dtype = functions, dtype
        self.points = functions.prepared(dtype)

    def __call__(self, rows: Rows) -> Array:
        """Return values of shape (len(rows), outputs) for one block of rows."""
        return self.functions.evaluate(rows, self.points)

    def reduces(self, rows: Rows) -> bool:
        """Whether `answers` serves rows on the device of these."""
        if not is_tensor(rows.values) or len(rows) == 0:
            return False
        from corevec.backend.gpu import (
            kernels as _torch_kernels,  # its module needs torch
        )

        kernel = self.functions.kernel
        return isinstance(kernel, Kernel) and _torch_kernels.fused(rows.values)

    def answers(self, rows: Rows, asked: list[Asked]) -> list[Answer] | None:
        """Return what is asked of all of some rows, reduced on their device.

        The rows' numbers increase. None where a value is not finite: `__call__`
        then raises the error.
        """
        from corevec.backend.gpu import (
            kernels as _torch_kernels,  # its module needs torch
        )

        functions, kernel = self.functions, self.functions.kernel
        assert isinstance(kernel, Kernel)
        as_given = Points(rows.values, rows.index, self.dtype)
        basis, intercept = self.points.to_device_of(as_given), functions.intercept
        scaled = kernel.normalized and not kernel.uses_distance
        X: Any = rows.values
        z = _torch_kernels.Prepared(basis.values, basis.squares)
        by_parts = scaled or kernel.row_map.scale is not None
        if by_parts or not _torch_kernels.answers_in_one(kernel._parameters, X, z):
            points = kernel.prepare(rows, self.dtype)
            values: Any = kernel.times(points, basis, functions.coef)
            return _torch_kernels.answers_of(values, intercept, rows.index, asked)
        coef: Any = to_device_of(functions.coef, X)
        mapping = _torch_kernels.Mapping(kernel.row_map.shift, kernel.row_map.exponent)
        there = _torch_kernels.Functions(kernel._parameters, z, coef, intercept)
        return _torch_kernels.answers(there, X, mapping, rows.index, asked)

    def __reduce__(self) -> Any:
        return Ready, (self.functions, self.dtype)
