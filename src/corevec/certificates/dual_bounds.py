"""The dual value that the violations of a function prove, in one of three ways.

From a function f, ``beta_i = omega_i max(0, p_i - y_i f_i)`` is dual feasible. With
``u = sum beta_i y_i phi(x_i)``, the projection P on the span of a basis and
``delta_i^2 = k_ii - |P phi_i|^2``, its value needs ``|u|^2`` (design.md 1.3):

- "exact": all pairs of violated rows, block by block;
- "projection": ``|u|^2 <= |P u|^2 + (sum beta_i delta_i)^2``, one pass;
- "sample": with ``r = (I - P) u`` and rows drawn with probabilities ``beta_i delta_i /
  T``, ``T = sum beta_i delta_i``, the numbers ``X = T y_i <r, phi_i> / delta_i`` have
  the mean ``|r|^2`` and lie within ``T |r|``, so that by Hoeffding's inequality

      |r| <= (h + sqrt(h^2 + 4 max(mean X, 0))) / 2,   h = T sqrt(2 ln(1/p) / m)

  with probability 1 - p: m times as many kernel values as violated rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from corevec._runtime.types import Array
from corevec.certificates.exact import dual_of_entries
from corevec.certificates.projection import Pulls, Sums, all_sums, dual_of
from corevec.data.sources import Source
from corevec.kernels import AnyKernel
from corevec.models.basis import Basis
from corevec.models.certificate import relative_gap
from corevec.models.expansion import KernelExpansion
from corevec.problems.family import Problem

HOW = ("auto", "exact", "projection", "sample")
# A sampled bound holds with this probability.
CONFIDENCE = 0.999
# Rows drawn in the first try and in the second.
DRAWN = (1000, 8000)
# "auto" sums exactly up to this many kernel values: adult's 8.5e7, of 123 columns, took
# 1 s on one busy core.
AFFORDABLE = 1e9
_PART = 2048


@dataclass(frozen=True)
class Proof:
    """A lower bound of the optimum, and how it was obtained."""

    dual: float
    bound: str
    confidence: float = 1.0


def prove(
    problems: list[Problem],
    functions: KernelExpansion,
    offsets: list[float],
    source: Source,
    basis: Basis,
    *,
    how: str,
    tol: float,
    rng: np.random.Generator,
    affordable: float = AFFORDABLE,
    norms_sq: Array | None = None,
) -> tuple[list[Proof], list[float]]:
    """Return what the violations of each problem's function prove, and its loss.

    Column t of `functions` belongs to ``problems[t]``. "auto" takes the cheap bound
    where that reaches `tol`, else the exact one up to `affordable` kernel values.
    `norms_sq` are the functions' ``|w|^2`` where they are none of the vectors of
    `basis`.
    """
    # 24 bytes per violated entry.
    most = 24 * source.n_rows * sum(len(problem.sides) for problem in problems)
    keep = how != "projection" and most <= max(source.memory_budget / 2, 1e8)
    keep = keep and source.holds(source.n_rows)
    bands = [0.0] * len(problems)
    sums = all_sums(problems, offsets, bands, functions, source, basis, keep)
    if norms_sq is None:
        norms_sq = ((basis.factor.T @ functions.coef) ** 2).sum(axis=0)
    proofs = []
    for t, problem in enumerate(problems):
        bias = float(functions.intercept[t]) * problem.has_bias
        primal = (float(norms_sq[t]) + bias**2) / 2
        primal += problem.price * offsets[t] + sums[t].loss
        best = Proof(dual_of(problem, sums[t], basis), "projection")
        few = sums[t].n_inside ** 2 / 2 <= affordable
        if keep and (how == "exact" or relative_gap(primal, best.dual) > tol):
            if how == "sample":
                found = _sampled(problem, sums[t], primal, source, basis, tol, rng)
                best = max(best, found, key=lambda one: one.dual)
            elif how == "exact" or few:
                found = _exact(problem, sums[t], source, basis.kernel)
                best = max(best, found, key=lambda one: one.dual)
        proofs.append(best)
    return proofs, [one.loss for one in sums]


def _exact(problem: Problem, sums: Sums, source: Source, kernel: AnyKernel) -> Proof:
    pulls = joined(sums)
    b = np.abs(pulls.pull)
    return Proof(dual_of_entries(problem, source, kernel, pulls.entries, b), "exact")


def _sampled(
    problem: Problem,
    sums: Sums,
    primal: float,
    source: Source,
    basis: Basis,
    tol: float,
    rng: np.random.Generator,
) -> Proof:
    """Return the dual value with a sampled bound; more rows where the first miss `tol`.

    Each try is a draw of its own and may fail with half of the allowed probability.
    """
    pulls = joined(sums)
    best = Proof(problem.least, "sample", CONFIDENCE)
    for size in DRAWN:
        missed = missed_sq(problem, pulls, sums, source, basis, size, rng, len(DRAWN))
        less = replace(sums, missed=float(np.sqrt(missed)))
        dual = dual_of(problem, less, basis)
        best = max(best, Proof(dual, "sample", CONFIDENCE), key=lambda one: one.dual)
        if relative_gap(primal, best.dual) <= tol:
            break
    return best


def joined(sums: Sums) -> Pulls:
    """Return the violated entries of all blocks."""
    return Pulls(
        *(
            np.concatenate([getattr(one, name) for one in sums.kept])
            for name in ("entries", "pull", "delta")
        )
    )


def missed_sq(
    problem: Problem,
    pulls: Pulls,
    sums: Sums,
    source: Source,
    basis: Basis,
    size: int,
    rng: np.random.Generator,
    n_tries: int = 1,
) -> float:
    """Return an upper bound of ``|(I - P) u|^2`` from `size` drawn rows.

    It fails with probability ``(1 - CONFIDENCE) / n_tries``.
    """
    strength = np.abs(pulls.pull) * pulls.delta
    total = float(strength.sum())
    if total <= 0:
        return 0.0
    drawn = rng.choice(len(strength), size, p=strength / total)
    few, counts = np.unique(drawn, return_counts=True)
    rows = problem.rows_of(pulls.entries)
    signed = _residual_at(rows, pulls.pull, few, sums.pulled, source, basis)
    signed *= np.sign(pulls.pull[few]) / pulls.delta[few]
    mean = total * float(signed @ counts) / size
    h = total * np.sqrt(2 * np.log(n_tries / (1 - CONFIDENCE)) / size)
    root = (h + np.sqrt(h**2 + 4 * max(mean, 0.0))) / 2
    return float(min(root, total) ** 2)


def _residual_at(
    rows: Array,
    pull: Array,
    few: Array,
    pulled: Array,
    source: Source,
    basis: Basis,
) -> Array:
    """Return ``<(I - P) u, phi(x)>`` for the rows of some violated entries."""
    kernel, n = basis.kernel, len(pull)
    source = source.near(rows)
    chosen = source.take(rows[few])
    points = kernel.prepare_basis(chosen)

    # Summed over columns of the violated rows: a part of them at a time.
    def part(start: int) -> Array:
        stop = start + _PART
        some = kernel.prepare(source.take(rows[start:stop]))
        return kernel.times(points, some, pull[start:stop, None])[:, 0]

    values = np.zeros(len(few))
    for found in source.workers.run(part, range(0, n, _PART)):
        values += found
    phi = basis.features(kernel.block(points, basis.points))
    return np.asarray(values - phi @ pulled)
