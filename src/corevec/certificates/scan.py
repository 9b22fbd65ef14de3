"""One look at rows: which are worst, and what the primal loses on them.

A look is one ``source.reduce``. Several problems (classes) share it: the kernel
values of a block are made once and multiplied by all coefficient columns.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from corevec._runtime.types import Array
from corevec.backend.arrays import (
    ALIGNED,
    floats,
    full,
    is_among,
    largest,
    namespace,
    places,
    to_numpy,
)
from corevec.data.sources import RowSubset, Source
from corevec.kernels import AnyKernel, Rows
from corevec.models.expansion import KernelExpansion, Ready
from corevec.problems.family import Problem

if TYPE_CHECKING:
    from corevec.backend.gpu.kernels import Answer, Asked


# Questions that a block on a device is asked at once, each with up to four numbers a
# row: beyond, the block is looked at in parts, but not of fewer rows than these.
MOST_ASKED, FEWEST_ROWS = 4, 1 << 16


@dataclass(frozen=True)
class Question:
    """What to ask of every row for one problem.

    `skip` are entries to leave out (the core's, whose part is known exactly).
    `trials` are pairs (scale, offset) at which the loss is wanted: any of them gives
    a valid primal value, so the best of a few is taken.
    """

    problem: Problem
    skip: Array
    trials: tuple[tuple[float, float], ...] = ((1.0, 0.0),)
    n_worst: int = 1


@dataclass(frozen=True)
class Look:
    """The answer: losses per trial, the worst entries, slopes for the next trial.

    `loss[q]` is ``sum omega max(0, p - scale_q y f - offset_q)^2 / 2``; `slope` and
    `curve` are its first derivative in the scale (or the offset) at the first trial,
    negated, and its second. Violations are those of the first trial.
    """

    loss: Array
    slope: float
    curve: float
    worst: Array
    violation: Array
    n_violated: int

    @property
    def largest(self) -> float:
        """Return the largest violation seen, -inf if no row was."""
        return float(self.violation[0]) if len(self.violation) else -np.inf


class Subset(RowSubset):
    """Rows taken out of a source, with the row numbers they have there.

    Keeps the kernel values against the basis rows it meets, while they fit half of
    the memory budget: from one look to the next most of the basis stays.
    """

    def __init__(self, source: Source, rows: Array):
        index = np.sort(np.asarray(rows, dtype=np.int64))
        super().__init__(source, index, source.take(index))
        self._columns: list[tuple[Array, Array]] = []  # (basis row numbers, values)

    def evaluate(self, functions: KernelExpansion, dtype: Any) -> Array | None:
        """Return the functions' values on all rows from kept kernel values.

        Only columns of basis rows that are new are computed. None where the columns
        would not fit the budget, or a basis vector is no row (number -1).
        """
        if functions.basis.index.min(initial=0) < 0:
            return None
        if self._columns and self._columns[0][1].dtype != dtype:
            self._columns = []
        numbers = functions.basis.index
        known = [rows for rows, _ in self._columns]
        missing = np.setdiff1d(numbers, np.concatenate(known) if known else numbers[:0])
        width = sum(len(rows) for rows in known) + len(missing)
        if width * self.n_rows * np.dtype(dtype).itemsize > self.memory_budget / 2:
            self._columns = []
            return None
        if len(missing):
            self._columns.append((missing, self._block(functions, missing, dtype)))
        order = np.argsort(numbers)
        total = np.tile(functions.intercept, (self.n_rows, 1))
        for rows, columns in self._columns:
            at = np.minimum(np.searchsorted(numbers[order], rows), len(order) - 1)
            here = numbers[order][at] == rows
            coef = np.where(here[:, None], functions.coef[order[at]], 0.0)
            total += columns @ coef.astype(dtype)
        return total

    def _block(self, functions: KernelExpansion, missing: Array, dtype: Any) -> Array:
        """Return kernel values of all rows against some rows of the basis."""
        basis, kernel = functions.basis, functions.kernel
        where = np.flatnonzero(np.isin(basis.index, missing))
        where = where[np.argsort(basis.index[where])]
        few = Rows(basis.values[where], basis.index[where])
        points = kernel.prepare_basis(few, dtype)
        return self.map(lambda rows: kernel.block(kernel.prepare(rows, dtype), points))


def look(
    source: Source,
    functions: KernelExpansion,
    questions: list[Question],
    dtype: Any = np.float64,
) -> list[Look]:
    """Return one `Look` per question; column t of `functions` answers question t.

    Cost: n_rows * len(basis) kernel values; memory one block. Rows of weight zero
    are not looked at.
    """
    kept = source.evaluate(functions, dtype) if isinstance(source, Subset) else None
    if kept is not None and not np.isfinite(kept).all():
        kept = None  # let the plain way raise its error
    ready, kernel = functions.ready(dtype), functions.kernel
    index = source.index if isinstance(source, Subset) else np.empty(0)

    def score(rows: Rows) -> list[Look]:
        if kept is None and ready.reduces(rows):
            found = _answers_there(rows, ready, questions)
            if found is not None:
                return found
        if kept is None:
            values = ready(rows)
        else:
            values = kept[np.searchsorted(index, rows.index)]
        return [
            _answer(rows, values[:, t], question, kernel)
            for t, question in enumerate(questions)
        ]

    def merge(left: list[Look], right: list[Look]) -> list[Look]:
        return _merged(left, right, questions)

    return source.reduce(score, merge)


def _answers_there(
    rows: Rows, ready: Ready, questions: list[Question]
) -> list[Look] | None:
    """Return the looks at rows on a device, reduced there beside their values.

    A part of the rows at a time, where many questions have many terms of each.
    """
    kernel = ready.functions.kernel
    asked = [(t, side) for t, q in enumerate(questions) for side in q.problem.sides]
    step = len(rows) * MOST_ASKED // max(len(asked), MOST_ASKED)
    step = max(FEWEST_ROWS, -(-step // ALIGNED) * ALIGNED)
    looks: list[Look] | None = None
    for start in range(0, len(rows), step):
        part = rows if step >= len(rows) else rows.part(slice(start, start + step))
        found = ready.answers(
            part, [_asked(part, t, questions[t], kernel, side) for t, side in asked]
        )
        if found is None:
            return None
        answers = iter(found)
        new = [_look_of(answers, question) for question in questions]
        looks = new if looks is None else _merged(looks, new, questions)
    return looks


def _asked(
    rows: Rows, column: int, question: Question, kernel: AnyKernel, side: int
) -> Asked:
    from corevec.backend.gpu.kernels import Asked  # its module needs torch

    problem, terms = question.problem, question.problem.terms(rows, kernel, side)
    skip = problem.entries(question.skip, -side)  # row numbers, if on this side
    own: tuple[Any, Any, Any] = terms.sign, terms.omega, terms.target
    return Asked(
        column,
        *own,
        skip if len(skip) else None,
        question.trials,
        problem.has_offset,
        question.n_worst,
    )


def _look_of(answers: Iterator[Answer], question: Question) -> Look:
    """Return the look of the next answers, one for each side."""
    problem = question.problem
    looks = []
    for side, one in zip(problem.sides, answers, strict=False):
        sums = one.loss, one.slope, one.curve
        if problem.is_hard:  # omega is infinite
            sums = np.zeros_like(one.loss), 0.0, 0.0
        entries = problem.entries(one.worst, side)
        looks.append(Look(*sums, entries, one.violation, one.n_violated))
    return _joined(looks, question)


def _answer(rows: Rows, values: Array, question: Question, kernel: AnyKernel) -> Look:
    looks = [
        _answer_on_side(rows, values, question, kernel, side)
        for side in question.problem.sides
    ]
    return _joined(looks, question)


def _joined(looks: list[Look], question: Question) -> Look:
    """Return one look of those at each side."""
    return reduce(lambda a, b: _merge(a, b, question.n_worst), looks)


def _answer_on_side(
    rows: Rows,
    values: Array,
    question: Question,
    kernel: AnyKernel,
    side: int,
) -> Look:
    """Return the look at one side of some rows; twin: _fused_looks._answer."""
    problem = question.problem
    terms = problem.terms(rows, kernel, side)
    entries, omega = problem.entries(rows.index, side), terms.omega
    xp = namespace(omega)
    nothing = full((), 0.0, omega)
    if len(question.skip):
        omega = xp.where(is_among(entries, question.skip), nothing, omega)
    margins = terms.sign * values
    losses = []
    for scale, offset in question.trials:
        if problem.is_hard:
            losses.append(nothing)
            continue
        excess = (terms.target - scale * margins - offset).clip(min=0.0)
        losses.append(omega @ excess**2 / 2)
    scale, offset = question.trials[0]
    violation = terms.target - scale * margins - offset
    violation = xp.where(omega > 0, violation, nothing - np.inf)
    inside = places(violation > 0)
    slope = curve = nothing
    if not problem.is_hard:
        lever = margins[inside]
        if problem.has_offset:
            lever = full(len(inside), 1.0, lever)
        slope = omega[inside] @ (violation[inside] * lever)
        curve = omega[inside] @ lever**2
    top = largest(violation, question.n_worst)
    worst, worst_entries = to_numpy(violation[top]), to_numpy(entries[top])
    seen = worst > -np.inf
    slope, curve, *losses = floats([slope, curve, *losses])
    return Look(
        np.array(losses), slope, curve, worst_entries[seen], worst[seen], len(inside)
    )


def _merged(
    left: list[Look], right: list[Look], questions: list[Question]
) -> list[Look]:
    pairs = zip(left, right, questions, strict=True)
    return [_merge(a, b, q.n_worst) for a, b, q in pairs]


def _merge(a: Look, b: Look, n_worst: int) -> Look:
    violation = np.concatenate([a.violation, b.violation])
    worst = np.concatenate([a.worst, b.worst])
    top = largest(violation, n_worst)
    return Look(
        a.loss + b.loss,
        a.slope + b.slope,
        a.curve + b.curve,
        worst[top],
        violation[top],
        a.n_violated + b.n_violated,
    )
