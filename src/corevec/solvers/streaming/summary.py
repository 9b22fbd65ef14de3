r"""What rows that left the core still say: a quadratic function of f.

Rows that leave the core are replaced by the squared loss that they had at that moment,
which touches the squared hinge at the present function and is never below it,

.. math:: \tfrac{\omega_i}2 \max(0, 1 - y_i f(x_i))^2
          \le \tfrac{\omega_i}2 (t_i - f(x_i))^2 + \text{const},

with the target ``t_i = y_i`` where the row is inside the margin, else the value of f.
The sum of these and of ``|w|^2/2`` is again a quadratic function: its minimum `mean`
and the inverse of its second derivative, `spread`, are all that is stored. As in the
sparse online Gaussian process of Csato and Opper (2002) both live in a span: that of
the columns (linear kernel, few columns: nothing is lost) or that of the core rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from scipy import linalg

from corevec._runtime.types import Array


@dataclass(frozen=True)
class Summary:
    """The quadratic function in orthonormal coordinates of its span.

    Attributes
    ----------
    spread : ndarray of shape (r, r)
        Inverse of the second derivative; the identity when nothing was absorbed.
    mean : ndarray of shape (r, outputs)
        The minimum of each output.
    """

    spread: Array
    mean: Array

    @classmethod
    def empty(cls, r: int, n_outputs: int) -> Self:
        """Return the summary of no row: ``|w|^2 / 2`` alone."""
        return cls(np.eye(r), np.zeros((r, n_outputs)))

    @classmethod
    def of_values(cls, F: Array, gram: Array, prior: Array) -> Self:
        """Return the summary with ``F' S F`` and ``F' m`` for upper triangular F."""
        half = linalg.solve_triangular(F, gram, trans="T", check_finite=False)
        spread = linalg.solve_triangular(F, half.T, trans="T", check_finite=False)
        mean = linalg.solve_triangular(F, prior, trans="T", check_finite=False)
        return cls((spread + spread.T) / 2, mean)

    def with_directions(self, n: int) -> Self:
        """Return the summary with further directions, of which no row says anything."""
        if n == 0:
            return self
        r = len(self.mean)
        spread = np.eye(r + n)
        spread[:r, :r] = self.spread
        mean = np.vstack([self.mean, np.zeros((n, self.mean.shape[1]))])
        return replace(self, spread=spread, mean=mean)

    def after(self, F: Array, target: Array, omega: Array) -> Self:
        """Return the summary after the squared losses of rows with coordinates `F`.

        Many rows are added to the second derivative, few to its inverse.
        """
        if 2 * F.shape[1] > F.shape[0]:
            curve, slope = self._whole()
            scaled = F * omega
            return self._of_whole(curve + scaled @ F.T, slope + scaled @ target)
        U = self.spread @ F
        system = F.T @ U
        system[np.diag_indices_from(system)] += 1.0 / omega
        factor = linalg.cholesky(system, lower=True, check_finite=False)
        half = linalg.solve_triangular(factor, U.T, lower=True, check_finite=False)
        residual = target - F.T @ self.mean
        whitened = linalg.solve_triangular(
            factor, residual, lower=True, check_finite=False
        )
        return replace(
            self,
            spread=self.spread - half.T @ half,
            mean=self.mean + half.T @ whitened,
        )

    def rotated(self, Q: Array) -> Self:
        """Return the summary in the coordinates of orthonormal columns `Q`.

        What it says of the function's part outside them is lost.
        """
        return replace(self, spread=Q.T @ self.spread @ Q, mean=Q.T @ self.mean)

    def mapped(self, J: Array) -> Self:
        """Return the summary in coordinates ``J v``: the rows say of values the same.

        Its losses have second derivative ``S = inv(spread) - I`` and gradient h at 0;
        in the new coordinates they are ``J S J'`` and ``J h``.
        """
        curve, slope = self._losses()
        return self._of_losses(J @ curve @ J.T, J @ slope)

    def decayed(self, share: float) -> Self:
        """Return the summary with all losses multiplied by `share`."""
        curve, slope = self._losses()
        return self._of_losses(share * curve, share * slope)

    def moved(self, one: Array, step: Array) -> Self:
        """Return the summary of targets to which `step` is added.

        `one` are the coordinates of the constant function.
        """
        curve, slope = self._losses()
        return self._of_losses(curve, slope + np.outer(curve @ one, step))

    def joined(self, other: Self) -> Self:
        """Return the summary of both, in equal coordinates."""
        (mine, own), (theirs, further) = self._losses(), other._losses()
        return self._of_losses(mine + theirs, own + further)

    def _losses(self) -> tuple[Array, Array]:
        """Return the second derivative of the losses alone, and their gradient."""
        curve, slope = self._whole()
        return curve - np.eye(len(curve)), slope

    def _of_losses(self, curve: Array, slope: Array) -> Self:
        return self._of_whole(curve + np.eye(len(curve)), slope)

    def _whole(self) -> tuple[Array, Array]:
        """Return the inverse of `spread`, and that times `mean`."""
        inverse = _inverse(self.spread)
        return inverse, inverse @ self.mean

    def _of_whole(self, curve: Array, slope: Array) -> Self:
        spread = _inverse(curve)
        return replace(self, spread=spread, mean=spread @ slope)


def _inverse(matrix: Array) -> Array:
    """Return the inverse of a positive definite matrix."""
    if len(matrix) == 0:
        return matrix
    factor, failed = linalg.lapack.dpotrf(matrix, lower=True)
    if failed:
        raise np.linalg.LinAlgError("a summary lost its definiteness to rounding")
    half = np.tril(linalg.lapack.dpotri(factor, lower=True)[0])
    return np.asarray(half + np.tril(half, -1).T)
