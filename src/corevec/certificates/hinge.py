"""The hinge problem: its primal value, and what multipliers prove about its optimum.

    min  1/2 (|w|^2 [+ b0^2]) + C sum_i s_i max(0, 1 - y_i f(x_i))
    max  sum(beta) - 1/2 |u|^2 [- 1/2 (sum beta_i y_i)^2],   0 <= beta_i <= C s_i

with ``u = sum_i beta_i y_i phi(x_i)``: scikit-learn's SVC with a penalised bias or
none. C is SVC's; the CPSP paper's is ``C sum(s)``. The dual value is that of the
multipliers at their best scale within the box; |u|^2 is summed exactly, or bounded from
above (design.md 1.3): by the projection on the span of a basis, or with a sample of the
rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from corevec._runtime.types import Array
from corevec.data.sources import Source
from corevec.kernels import AnyKernel
from corevec.models.basis import Basis
from corevec.models.expansion import KernelExpansion
from corevec.models.norms import norms_sq, parts_of
from corevec.problems.family import Labels, Problem, Terms

# A sampled bound holds with this probability. Rows of one draw, and how often a fresh
# and four times larger draw is tried; the probability is split over the tries.
CONFIDENCE, SAMPLE_ROWS, TRIES = 0.999, 500, 3


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
        Whether the penalised bias b0 is there.
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
    # A two-class problem looks at what belongs to the rows only.
    blocks = [source.block(*bounds) for bounds in source.blocks()]
    terms = Terms.join([family.terms(rows, _NO_KERNEL) for rows in blocks])
    return HingeProblem(name, terms.sign, terms.omega, has_bias)


def primal_value(
    problem: HingeProblem, functions: KernelExpansion, norm_sq: float, source: Source
) -> float:
    """Return the objective of a function over all rows; `norm_sq` is its |w|^2."""
    values = functions.values(source)[:, 0]
    bias = float(functions.intercept[0])
    return (norm_sq + bias**2) / 2 + problem.loss(values)


@dataclass(frozen=True)
class DualBound:
    """A lower bound of the optimum: how it was obtained, and how surely it holds."""

    value: float
    kind: str  # "exact", "projection", "sample", "none"
    confidence: float = 1.0
    scale: float = 1.0  # of the multipliers, within the box


def dual_value(
    problem: HingeProblem,
    beta: Array,
    source: Source,
    kernel: AnyKernel,
    *,
    basis: Basis | None = None,
    how: str = "auto",
    affordable: float = 1e9,
    rng: np.random.Generator | None = None,
) -> DualBound:
    """Return what the multipliers `beta` prove about the optimum.

    Parameters
    ----------
    beta : ndarray of shape (n_rows,)
        Multipliers; those outside the box ``[0, C s_i]`` are clipped.
    basis : Basis, optional
        Span to project on, for "projection" and "sample".
    how : {"auto", "exact", "projection", "sample"}
        "auto" is exact up to `affordable` kernel values, else the projection.
    affordable : float
        Kernel values that "auto" may spend on the exact sum.

    Notes
    -----
    Cost in kernel values, with r rows of positive beta and k basis rows: r^2/2 (exact),
    r k (projection), r (k + m) for m sampled rows.
    """
    beta = np.clip(beta, 0.0, problem.omega)
    inside = np.flatnonzero(beta > 0)
    if len(inside) == 0:
        return DualBound(0.0, "exact")
    if how == "auto":
        cheap = float(len(inside)) ** 2 / 2 <= affordable
        how = "exact" if cheap or basis is None else "projection"
    pull = _Pull(problem, source, kernel, inside, beta[inside])
    if how == "exact" or basis is None:
        return pull.bound(pull.norm_sq(), "exact")
    if how == "projection":
        return pull.bound(*pull.projected(basis))
    return pull.sampled(basis, rng or np.random.default_rng(0))


def dual_at_best_scale(slope: float, curve: float, most: float) -> tuple[float, float]:
    """Return the largest ``t slope - t^2 curve/2`` for t in [0, most], and the t."""
    t = most if curve <= 0 else min(slope / curve, most)
    return t * slope - t * t * curve / 2, t


def distances_to_span(source: Source, basis: Basis, numbers: Array) -> Array:
    """Return ``|(I - P) phi(x_i)|`` of some rows, rounded up."""
    return _features_of(source, basis, numbers, np.zeros(len(numbers)))[1]


def _features_of(
    source: Source, basis: Basis, numbers: Array, signed: Array
) -> tuple[Array, Array]:
    """Return the coordinates of ``sum_i signed_i P phi_i``, and the rows' distances."""
    kernel = basis.kernel
    parts = parts_of(numbers, len(basis))

    def project(part: slice) -> tuple[Array, Array]:
        rows = source.take(numbers[part])
        phi = basis.features(kernel.block(kernel.prepare(rows), basis.points))
        own = kernel.diagonal(rows)
        # Rounded up: |phi|^2 carries an error of a few eps k_ii per term.
        left = np.maximum(own - np.einsum("ij,ij->i", phi, phi), 0.0)
        return signed[part] @ phi, np.sqrt(left + basis.rounding * own)

    found = list(source.workers.run(project, parts))
    pulled = np.sum([p for p, _ in found], axis=0)
    return pulled, np.concatenate([d for _, d in found])


@dataclass(frozen=True)
class _Pull:
    """``u = sum beta_i y_i phi(x_i)`` over the rows with a multiplier."""

    problem: HingeProblem
    source: Source
    kernel: AnyKernel
    inside: Array  # positions
    beta: Array

    @property
    def numbers(self) -> Array:
        return np.asarray(self.source.numbers[self.inside])

    @property
    def signed(self) -> Array:
        return np.asarray(self.beta * self.problem.sign[self.inside])

    def norm_sq(self) -> float:
        """Return |u|^2, rounded up."""
        total, diagonal = norms_sq(
            self.source, self.kernel, self.numbers, self.signed[:, None]
        )
        return float(total[0]) + self._rounding(diagonal)

    def _rounding(self, diagonal: float) -> float:
        relative = self.kernel.rounding(self.source.n_features)
        return relative * float(self.beta.sum()) ** 2 * diagonal

    def projected(self, basis: Basis) -> tuple[float, str]:
        """Return ``|Pu|^2 + (sum beta_i delta_i)^2``."""
        Pu, delta = _features_of(self.source, basis, self.numbers, self.signed)
        largest = float(np.abs(basis.factor).max()) ** 2
        bound = float(Pu @ Pu) + float(self.beta @ delta) ** 2
        return bound + self._rounding(largest), "projection"

    def sampled(self, basis: Basis, rng: np.random.Generator) -> DualBound:
        """Return the bound that holds with probability `CONFIDENCE` (Hoeffding).

        Rows are drawn with probability ``beta_i delta_i / T``; the mean of ``T y_i <r,
        phi_i>/delta_i`` estimates ``|r|^2``, r = (I - P)u, and no term of it is above
        ``T |r|``.
        """
        numbers, signed = self.numbers, self.signed
        Pu, delta = _features_of(self.source, basis, numbers, signed)
        largest = float(np.abs(basis.factor).max()) ** 2
        share = self.beta * delta
        T = float(share.sum())
        best: DualBound | None = None
        for attempt in range(TRIES):
            size = SAMPLE_ROWS * 4**attempt
            drawn = rng.choice(len(numbers), size, p=share / T)
            terms = T * self._left_over(basis, Pu, drawn) / delta[drawn]
            noise = T * np.sqrt(2 * np.log(TRIES / (1 - CONFIDENCE)) / size)
            mean = max(float(terms.mean()), 0.0)
            rest = min(T, (noise + np.sqrt(noise**2 + 4 * mean)) / 2)
            curve = float(Pu @ Pu) + rest**2 + self._rounding(largest)
            found = self.bound(curve, "sample", CONFIDENCE)
            if best is None or found.value > best.value:
                best = found
            # More rows can take away the noise only.
            if noise < 0.1 * rest or size >= len(numbers):
                break
        assert best is not None
        return best

    def _left_over(self, basis: Basis, Pu: Array, drawn: Array) -> Array:
        """Return ``y_i <(I - P) u, phi_i>`` of the drawn rows."""
        kernel, source = self.kernel, self.source
        some, where = np.unique(drawn, return_inverse=True)
        few = kernel.prepare_basis(source.take(self.numbers[some]))
        parts = parts_of(self.beta)

        def values(part: slice) -> Array:
            rows = kernel.prepare(source.take(self.numbers[part]))
            return kernel.times(few, rows, self.signed[part, None])[:, 0]

        whole = np.sum(list(source.workers.run(values, parts)), axis=0)
        phi = basis.features(kernel.block(few, basis.points))
        found = self.problem.sign[self.inside[some]] * (whole - phi @ Pu)
        return np.asarray(found[where])

    def bound(self, curve: float, kind: str, confidence: float = 1.0) -> DualBound:
        """Return the dual value at the best scale within the box."""
        if self.problem.has_bias:
            curve += float(self.signed.sum()) ** 2
        most = float((self.problem.omega[self.inside] / self.beta).min())
        value, scale = dual_at_best_scale(float(self.beta.sum()), curve, most)
        return DualBound(value, kind, confidence, scale)


class _NoKernel:
    """Stands where a two-class problem is given a kernel that it does not ask."""


_NO_KERNEL: Any = _NoKernel()
