"""The hinge problem: its primal value, and what multipliers prove about its optimum.

    min  1/2 (|w|^2 [+ b0^2]) + C sum_i s_i max(0, 1 - y_i f(x_i))
    max  sum(beta) - 1/2 |u|^2 [- 1/2 (sum beta_i y_i)^2],   0 <= beta_i <= C s_i

with ``u = sum_i beta_i y_i phi(x_i)``: scikit-learn's SVC with a penalised bias or
none. C is SVC's; the CPSP paper's is ``C sum(s)``. The dual value is that of the
multipliers at their best scale within the box, with ``|u|^2`` summed or bounded as in
``dual_bounds.py``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from corevec._runtime.types import Array
from corevec.certificates.dual_bounds import (
    CONFIDENCE,
    BoundRequest,
    Combination,
    DualBound,
)
from corevec.data.sources import Source
from corevec.kernels import AnyKernel
from corevec.models.basis import Basis
from corevec.models.expansion import KernelExpansion
from corevec.problems.family import Labels, Problem, Terms

# Rows of each draw of a sampled bound; the probability of failing is split over them.
SAMPLE_SIZES = (500, 2000, 8000)
# No further draw where the noise is below this share of the bound: more rows reduce
# the noise only.
MIN_NOISE_SHARE = 0.1


@dataclass(frozen=True)
class HingeProblem:
    """One hinge problem, row by row in the order of the source's blocks.

    Attributes
    ----------
    name : str
        The problem in words.
    sign, omega : ndarray of shape (n_rows,)
        y_i, and ``C s_i``: 0 for rows that are absent.
    has_bias : bool
        Whether there is a penalised bias b0.
    """

    name: str
    sign: Array
    omega: Array
    has_bias: bool = False

    @property
    def C(self) -> float:
        """The paper's C: ``C sum(s)``."""
        return float(self.omega.sum())

    def loss(self, values: Array) -> float:
        """Return ``C sum_i s_i max(0, 1 - y_i f_i)``."""
        return float(self.omega @ np.maximum(1.0 - self.sign * values, 0.0))


def hinge_problem(
    labels: Labels,
    C: float,
    positive: int,
    negative: int | None,
    source: Source,
    *,
    has_bias: bool = False,
) -> HingeProblem:
    """Return the problem of one class against another, or against the rest."""
    norm = "1/2 (|w|^2 + b0^2)" if has_bias else "1/2 |w|^2"
    name = f"two-class SVM (hinge): min {norm} + C sum s_i max(0, 1 - y_i f_i)"
    family = Problem(name, labels, C, positive, negative, has_bias=has_bias)
    no_kernel: Any = None  # the terms of a two-class problem need none
    blocks = [source.block(*bounds) for bounds in source.blocks()]
    terms = Terms.join([family.terms(rows, no_kernel) for rows in blocks])
    return HingeProblem(name, terms.sign, terms.omega, has_bias)


def primal_value(
    problem: HingeProblem, functions: KernelExpansion, source: Source
) -> float:
    """Return the objective of a function over all rows, with its rounding error."""
    values = functions.values(source)[:, 0]
    bias, norm_sq = float(functions.intercept[0]), float(functions.norms_sq()[0])
    error = float(problem.omega.sum() * functions.value_errors()[0])
    return (norm_sq + bias**2) / 2 + problem.loss(values) + error


def dual_value(
    problem: HingeProblem,
    beta: Array,
    source: Source,
    kernel: AnyKernel,
    basis: Basis | None = None,
    request: BoundRequest | None = None,
) -> DualBound:
    """Return what the multipliers `beta` prove about the optimum.

    Parameters
    ----------
    problem : HingeProblem
        The problem; its rows are those of `source`, in memory.
    beta : ndarray of shape (n_rows,)
        Multipliers; those outside the box ``[0, C s_i]`` are clipped.
    source : Source
        All rows.
    kernel : Kernel
        The kernel.
    basis : Basis, optional
        Span to project on; without it the bound is exact.
    request : BoundRequest, optional
        The bound that is wanted, "auto" by default.

    Returns
    -------
    DualBound
        A lower bound of the optimum. Cost in kernel values, with r rows of positive
        beta and k basis rows: r^2/2 (exact), r k (projection), r (k + m) for m sampled
        rows.
    """
    request = request or BoundRequest()
    beta = np.clip(beta, 0.0, problem.omega)
    inside = np.flatnonzero(beta > 0)
    if len(inside) == 0:
        return DualBound(0.0, "exact")
    few = float(len(inside)) ** 2 / 2 <= request.affordable
    pull = beta[inside] * problem.sign[inside]
    u = Combination(source, np.asarray(source.numbers[inside]), pull)
    case = _Multipliers(problem, inside, beta[inside], u)
    if basis is None or request.how == "exact" or (request.how == "auto" and few):
        return case.bound(sum(u.norm_sq(kernel)), "exact")
    if request.how == "sample":
        return case.sampled(basis, request.rng or np.random.default_rng(0))
    return case.projected(basis)


def dual_at_best_scale(slope: float, curve: float, most: float) -> tuple[float, float]:
    """Return the largest ``t slope - t^2 curve/2`` for t in [0, most], and the t."""
    t = most if curve <= 0 else min(slope / curve, most)
    return t * slope - t * t * curve / 2, t


@dataclass(frozen=True)
class _Multipliers:
    """The rows with a positive multiplier, by position, and the u that they give."""

    problem: HingeProblem
    inside: Array
    beta: Array
    u: Combination

    def bound(self, norm_sq: float, kind: str, confidence: float = 1.0) -> DualBound:
        """Return the dual value at the best scale within the box."""
        curve = norm_sq
        if self.problem.has_bias:
            curve += float(self.u.pull.sum()) ** 2
        most = float((self.problem.omega[self.inside] / self.beta).min())
        value, scale = dual_at_best_scale(float(self.beta.sum()), curve, most)
        return DualBound(value, kind, confidence, scale)

    def projected(self, basis: Basis) -> DualBound:
        """Return the bound with ``|Pu|^2 + (sum beta_i delta_i)^2``."""
        found = self.u.projected(basis)
        norm_sq = found.norm_sq + float(self.beta @ found.delta) ** 2
        return self.bound(norm_sq + self._rounding(basis), "projection")

    def sampled(self, basis: Basis, rng: np.random.Generator) -> DualBound:
        """Return the best bound of several draws."""
        projection = self.u.projected(basis)
        residuals = self.u.sampled_residuals(projection, basis, SAMPLE_SIZES, rng)
        found = []
        for size, left in zip(SAMPLE_SIZES, residuals, strict=False):
            norm_sq = projection.norm_sq + left.norm**2 + self._rounding(basis)
            found.append(self.bound(norm_sq, "sample", CONFIDENCE))
            if left.noise < MIN_NOISE_SHARE * left.norm or size >= len(self.beta):
                break
        return max(found, key=lambda one: one.value)

    def _rounding(self, basis: Basis) -> float:
        largest = float(np.abs(basis.factor).max()) ** 2
        return self.u.rounding(basis.kernel, largest)
