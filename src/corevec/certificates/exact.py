"""The exact dual value of given multipliers, for any number of entries."""

from __future__ import annotations

from corevec._runtime.types import Array
from corevec.data.sources import Source
from corevec.kernels import AnyKernel
from corevec.models.norms import norms_sq, parts_of
from corevec.problems.family import Problem, Terms


def dual_of_entries(
    problem: Problem, source: Source, kernel: AnyKernel, entries: Array, b: Array
) -> float:
    """Return the dual value of multipliers `b` of `entries`.

    Part by part of the symmetric matrix: memory does not grow with their number.
    """
    if len(entries) == 0 or b.sum() <= 0:
        return problem.least
    rows, side = problem.rows_of(entries), problem.side_of(entries)
    source = source.near(rows)

    def own(part: slice) -> Terms:
        return problem.terms(source.take(rows[part]), kernel, side[part])

    terms = Terms.join(list(source.workers.run(own, parts_of(rows))))
    if not (terms.omega > 0).all():
        return problem.least
    signed = b * terms.sign
    curves, diagonal = norms_sq(source, kernel, rows, signed[:, None])
    curve = float(curves[0])
    curve += signed.sum() ** 2 if problem.has_bias else 0.0
    curve += 0.0 if problem.is_hard else float(b @ (b / terms.omega))
    relative = kernel.rounding(source.n_features)
    curve += relative * float(b.sum()) ** 2 * diagonal
    slope = float(terms.target @ b)
    return problem.dual_at_best_scale(slope, curve, float(b.sum()))
