"""The problems of the ball family, in one form.

With ``f(x) = <w, phi(x)> + b0`` every problem here reads

    min  |w|^2/2 (+ b0^2/2) (+ t) + 1/2 sum_i omega_i max(0, p_i - y_i f(x_i) - t)^2

=========  ====  ===  ==============  =====  =======  ================================
problem    y_i   b0   omega_i         p_i    t        dual over b >= 0
=========  ====  ===  ==============  =====  =======  ================================
two-class  +-1   yes  C s_i           1      no       sum(b) - b'Qb/2
one-class  1     no   C s_i           1      no       sum(b) - b'Qb/2
soft SVDD  1     no   4 C s_i         k_ii/2 free     p'b - b'Qb/2, sum(b) = 1
hard SVDD  1     no   infinite        k_ii/2 free     p'b - b'Kb/2, sum(b) = 1
=========  ====  ===  ==============  =====  =======  ================================

with ``Q_ij = y_i y_j (k_ij + [bias]) + [i = j]/omega_i``. SVDD values are doubled
for the user: then they are squared radii. A row is *worse* the larger its violation
``p_i - y_i f(x_i) - t``: for the two-class problem the least ``y f``, for SVDD the
largest distance from the centre (design.md 1.1). A problem knows nothing of where
rows live.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from corevec.kernels import AnyKernel, Rows

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Labels:
    """Class codes and weights of all rows; `None` where all rows are alike."""

    n_rows: int
    codes: Array | None = None
    sample_weight: Array | None = None
    class_weight: Array | None = None

    def weights(self, index: Array) -> Array:
        """Return the weight s_i of each row in `index`."""
        s = np.ones(len(index))
        if self.sample_weight is not None:
            s = s * self.sample_weight[index]
        if self.class_weight is not None and self.codes is not None:
            s = s * self.class_weight[self.codes[index]]
        return s


@dataclass(frozen=True)
class Terms:
    """The row-local numbers of a problem: y_i, omega_i and p_i for some rows."""

    sign: Array
    omega: Array
    target: Array

    def __getitem__(self, rows: Any) -> Terms:
        return Terms(self.sign[rows], self.omega[rows], self.target[rows])


@dataclass(frozen=True)
class Problem:
    """One quadratic programme of the family, over the rows that `labels` describe.

    Attributes
    ----------
    name : str
        The problem in words, for the certificate.
    C : float
        Weight of the squared slack; infinite for the hard margin.
    positive, negative : int or None
        Class codes with y = +1 and y = -1. ``negative=None`` takes every other code
        (one-vs-rest). Rows of other codes are absent: their omega is 0.
    has_bias, has_offset : bool
        Whether b0 and t of the formula above are there.
    """

    name: str
    labels: Labels
    C: float
    positive: int | None = None
    negative: int | None = None
    has_bias: bool = False
    has_offset: bool = False

    @property
    def is_hard(self) -> bool:
        """Whether no row may be violated."""
        return bool(np.isinf(self.C))

    @property
    def unit(self) -> float:
        """Factor from this file's objective to the user's."""
        return 2.0 if self.has_offset else 1.0

    def terms(self, rows: Rows, kernel: AnyKernel) -> Terms:
        """Return y, omega and p of the given rows."""
        index = rows.index
        weight = self.labels.weights(index)
        sign = np.ones(len(index))
        if self.positive is not None:
            assert self.labels.codes is not None
            codes = self.labels.codes[index]
            sign = np.where(codes == self.positive, 1.0, -1.0)
            if self.negative is not None:
                present = (codes == self.positive) | (codes == self.negative)
                weight = np.where(present, weight, 0.0)
        if self.is_hard:
            omega = np.where(weight > 0, np.inf, 0.0)
        else:
            omega = (4.0 if self.has_offset else 1.0) * self.C * weight
        target = kernel.diagonal(rows) / 2 if self.has_offset else np.ones(len(index))
        return Terms(sign, omega, target)

    def signed(self, K: Array, left: Terms, right: Terms) -> Array:
        """Return ``y_i y_j (k_ij + [bias])`` for kernel values between two row sets."""
        K = K + 1.0 if self.has_bias else K
        return np.asarray(K * np.outer(left.sign, right.sign))


def two_class(
    labels: Labels, C: float, positive: int, negative: int | None = None
) -> Problem:
    """Return the squared-hinge machine with penalised bias (CVM paper, eq. 8)."""
    name = (
        "two-class L2-SVM: min 1/2 (|w|^2 + b0^2) + C/2 sum s_i max(0, 1 - y_i f_i)^2"
    )
    return Problem(name, labels, C, positive, negative, has_bias=True)


def one_class(labels: Labels, C: float) -> Problem:
    """Return the one-class L2-SVM at rho = 1 (CVM paper, section 3.2.1)."""
    name = "one-class L2-SVM at rho = 1: min 1/2 |w|^2 + C/2 sum s_i max(0, 1 - f_i)^2"
    return Problem(name, labels, C)


def svdd(labels: Labels, C: float | None) -> Problem:
    """Return the enclosing ball: hard for ``C=None``, else with squared slack."""
    if C is None:
        name = "hard-margin SVDD: min R^2, |phi(x_i) - c|^2 <= R^2"
        return Problem(name, labels, np.inf, has_offset=True)
    name = (
        "soft-margin SVDD: min R^2 + C sum s_i xi_i^2, "
        "|phi(x_i) - c|^2 <= R^2 + xi_i, R^2 >= 0"
    )
    return Problem(name, labels, C, has_offset=True)
