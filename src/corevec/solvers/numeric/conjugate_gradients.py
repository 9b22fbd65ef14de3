"""Preconditioned conjugate gradients for several right-hand sides at once.

The systems are independent of each other (each has a matrix of its own), but one call
of the operator serves them all: reading a kernel matrix once is what costs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from corevec._runtime.types import Array

Operator = Callable[[Array], Array]


@dataclass
class Systems:
    """Solutions and residuals of the systems ``A_t x_t = y_t``, one column each.

    A call of `improve` continues where the last one stopped, so that a tolerance can be
    tightened without losing the directions.
    """

    solution: Array
    residual: Array
    iterations: int = 0
    _direction: Array | None = None
    _product: Array | None = None  # residual' preconditioned residual

    def improve(
        self,
        operator: Operator,
        precondition: Operator,
        bounds: Array,
        may_go_on: Callable[[], bool],
        most: int,
    ) -> None:
        """Iterate until each residual's norm is at most its entry of `bounds`.

        Parameters
        ----------
        operator, precondition : callable
            Return the matrices, and the approximate inverses, times one vector each.
        bounds : array of shape (systems,)
            Residual norms to reach.
        may_go_on : callable
            Asked before every iteration: False ends it (time, Ctrl-C).
        most : int
            Iterations at most, in this call.
        """
        if self._direction is None:
            self._direction = precondition(self.residual)
            self._product = _dots(self.residual, self._direction)
        assert self._product is not None
        for _ in range(most):
            is_open = np.linalg.norm(self.residual, axis=0) > bounds
            if not is_open.any() or not may_go_on():
                return
            image = operator(self._direction)
            curve = _dots(self._direction, image)
            step = np.where(is_open & (curve > 0), self._product, 0.0)
            step = np.divide(step, curve, out=np.zeros_like(step), where=curve > 0)
            self.solution = self.solution + step * self._direction
            self.residual = self.residual - step * image
            self.iterations += 1
            ready = precondition(self.residual)
            product = _dots(self.residual, ready)
            turn = np.divide(
                product,
                self._product,
                out=np.zeros_like(product),
                where=is_open & (self._product > 0),
            )
            # A system that is solved stands still: its direction is not changed.
            self._direction = np.where(
                is_open, ready + turn * self._direction, self._direction
            )
            self._product = np.where(is_open, product, self._product)


def _dots(left: Array, right: Array) -> Array:
    return np.asarray(np.einsum("it,it->t", left, right))
