"""One scan of rows: the most violating ones, and the primal loss.

A scan is one ``source.reduce``. Several problems (classes) share it: the kernel
values of a block are computed once and multiplied by all coefficient columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
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


# Requests that a block on a device answers at once, each with up to four numbers per
# row: beyond, the block is split into parts, but not of fewer rows than these.
MOST_ASKED, FEWEST_ROWS = 4, 1 << 16


@dataclass(frozen=True)
class ScanRequest:
    """What is computed on every row for one problem.

    `skip` are entries to leave out (those of the core set, whose part is known
    exactly). `trials` are pairs (scale, offset) at which the loss is wanted: each gives
    a valid primal value, so the best of a few is taken. `n_worst` is the number of most
    violating entries to return.
    """

    problem: Problem
    skip: Array
    trials: tuple[tuple[float, float], ...] = ((1.0, 0.0),)
    n_worst: int = 1


@dataclass(frozen=True)
class ScanResult:
    """Losses per trial, the most violating entries, derivatives for the next trial.

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
        """Return the largest violation found, -inf if there were no rows."""
        return float(self.violation[0]) if len(self.violation) else -np.inf


class Subset(RowSubset):
    """Rows of a source in memory, with the row numbers that they have in it.

    Caches the kernel values against the basis rows it meets, while they fit half of
    the memory budget: from one scan to the next most of the basis is the same.
    """

    def __init__(self, source: Source, rows: Array):
        index = np.sort(np.asarray(rows, dtype=np.int64))
        super().__init__(source, index, source.take(index))
        self._columns: list[tuple[Array, Array]] = []  # (basis row numbers, values)

    def evaluate(self, functions: KernelExpansion, dtype: Any) -> Array | None:
        """Return the functions' values on all rows from cached kernel values.

        Only columns of basis rows that are new are computed. None where the columns
        would not fit the budget, or a basis vector is not a row (number -1).
        """
        if functions.basis.index.min(initial=0) < 0:
            return None
        if self._columns and self._columns[0][1].dtype != dtype:
            self._columns = []
        numbers = functions.basis.index
        if len(numbers) == 0:  # no row has a multiplier: a constant
            return np.tile(functions.intercept, (self.n_rows, 1))
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
            is_used = numbers[order][at] == rows
            coef = np.where(is_used[:, None], functions.coef[order[at]], 0.0)
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


def scan(
    source: Source,
    functions: KernelExpansion,
    requests: list[ScanRequest],
    dtype: Any = np.float64,
    check: Callable[[], None] | None = None,
) -> list[ScanResult]:
    """Return one `ScanResult` per request; column t of `functions` answers request t.

    Cost: n_rows * len(basis) kernel values; memory one block. Rows of weight zero
    are skipped. `check` is called before each block: an exception of it ends the scan.
    """
    cached = source.evaluate(functions, dtype) if isinstance(source, Subset) else None
    if cached is not None and not np.isfinite(cached).all():
        cached = None  # the plain way raises its error
    ready, kernel = functions.ready(dtype), functions.kernel
    index = source.index if isinstance(source, Subset) else np.empty(0)

    def score(rows: Rows) -> list[ScanResult]:
        if check is not None:
            check()
        if cached is None and ready.reduces(rows):
            found = answers_on_device(rows, ready, requests)
            if found is not None:
                return found
        if cached is None:
            values = ready(rows)
        else:
            values = cached[np.searchsorted(index, rows.index)]
        return [
            _answer(rows, values[:, t], request, kernel)
            for t, request in enumerate(requests)
        ]

    def merge(left: list[ScanResult], right: list[ScanResult]) -> list[ScanResult]:
        return _merged(left, right, requests)

    return source.reduce(score, merge)


def answers_on_device(
    rows: Rows,
    ready: Ready,
    requests: list[ScanRequest],
    fewest_rows: int = FEWEST_ROWS,
) -> list[ScanResult] | None:
    """Return the results of rows on a device, reduced on it together with their values.

    A part of the rows at a time, where many requests have many terms of each row.
    """
    kernel = ready.functions.kernel
    asked = [(t, side) for t, q in enumerate(requests) for side in q.problem.sides]
    step = len(rows) * MOST_ASKED // max(len(asked), MOST_ASKED)
    step = max(fewest_rows, -(-step // ALIGNED) * ALIGNED)
    results: list[ScanResult] | None = None
    for start in range(0, len(rows), step):
        part = rows if step >= len(rows) else rows.part(slice(start, start + step))
        found = ready.answers(
            part, [_asked(part, t, requests[t], kernel, side) for t, side in asked]
        )
        if found is None:
            return None
        answers = iter(found)
        new = [_result_of(answers, request) for request in requests]
        results = new if results is None else _merged(results, new, requests)
    return results


def _asked(
    rows: Rows, column: int, request: ScanRequest, kernel: AnyKernel, side: int
) -> Asked:
    from corevec.backend.gpu.kernels import Asked  # its module needs torch

    problem, terms = request.problem, request.problem.terms(rows, kernel, side)
    skip = problem.entries(request.skip, -side)  # row numbers, if on this side
    own: tuple[Any, Any, Any] = terms.sign, terms.omega, terms.target
    return Asked(
        column,
        *own,
        skip if len(skip) else None,
        request.trials,
        problem.has_offset,
        request.n_worst,
    )


def _result_of(answers: Iterator[Answer], request: ScanRequest) -> ScanResult:
    """Return the result of the next answers, one for each side."""
    problem = request.problem
    results = []
    for side, one in zip(problem.sides, answers, strict=False):
        sums = one.loss, one.slope, one.curve
        if problem.is_hard:  # omega is infinite
            sums = np.zeros_like(one.loss), 0.0, 0.0
        entries = problem.entries(one.worst, side)
        results.append(ScanResult(*sums, entries, one.violation, one.n_violated))
    return _joined(results, request)


def _answer(
    rows: Rows, values: Array, request: ScanRequest, kernel: AnyKernel
) -> ScanResult:
    with np.errstate(over="ignore"):  # a sum beyond the floats' range is inf
        results = [
            _answer_on_side(rows, values, request, kernel, side)
            for side in request.problem.sides
        ]
    return _joined(results, request)


def _joined(results: list[ScanResult], request: ScanRequest) -> ScanResult:
    """Return the results of all sides as one."""
    return reduce(lambda a, b: _merge(a, b, request.n_worst), results)


def _answer_on_side(
    rows: Rows,
    values: Array,
    request: ScanRequest,
    kernel: AnyKernel,
    side: int,
) -> ScanResult:
    """Return the result of one side of some rows; twin: triton_scan._answer."""
    problem = request.problem
    terms = problem.terms(rows, kernel, side)
    entries, omega = problem.entries(rows.index, side), terms.omega
    xp = namespace(omega)
    nothing = full((), 0.0, omega)
    if len(request.skip):
        omega = xp.where(is_among(entries, request.skip), nothing, omega)
    margins = terms.sign * values
    losses = []
    for scale, offset in request.trials:
        if problem.is_hard:
            losses.append(nothing)
            continue
        excess = (terms.target - scale * margins - offset).clip(min=0.0)
        losses.append(omega @ excess**2 / 2)
    scale, offset = request.trials[0]
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
    top = largest(violation, request.n_worst)
    worst, worst_entries = to_numpy(violation[top]), to_numpy(entries[top])
    seen = worst > -np.inf
    slope, curve, *losses = floats([slope, curve, *losses])
    return ScanResult(
        np.array(losses), slope, curve, worst_entries[seen], worst[seen], len(inside)
    )


def _merged(
    left: list[ScanResult], right: list[ScanResult], requests: list[ScanRequest]
) -> list[ScanResult]:
    pairs = zip(left, right, requests, strict=True)
    return [_merge(a, b, q.n_worst) for a, b, q in pairs]


def _merge(a: ScanResult, b: ScanResult, n_worst: int) -> ScanResult:
    violation = np.concatenate([a.violation, b.violation])
    worst = np.concatenate([a.worst, b.worst])
    top = largest(violation, n_worst)
    return ScanResult(
        a.loss + b.loss,
        a.slope + b.slope,
        a.curve + b.curve,
        worst[top],
        violation[top],
        a.n_violated + b.n_violated,
    )
