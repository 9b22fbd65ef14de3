"""Many cells on a device, solved at once.

The same solutions as `cell.solve_cell`, for batches of cells with similar numbers of
rows: their kernel matrices are one tensor, and one Newton iteration serves all machines
(`backend.gpu.cells.newton`). Balls, automatic tubes, cells that are too large, and
cells with a nearly singular matrix are left to the solver of single cells.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from corevec._runtime.types import Array
from corevec.backend.arrays import to_numpy
from corevec.backend.gpu import kernels as _torch_kernels
from corevec.backend.gpu.cells import BROKEN, SOLVED, Machines, newton, times
from corevec.backend.profiles import FEW_COLUMNS
from corevec.data.sources import HostCopy
from corevec.kernels import AnyKernel, Kernel, Rows, finite, inverse_root
from corevec.models.certificate import relative_gap
from corevec.problems.family import Problem
from corevec.solvers.cells.cell import (
    MAX_EXACT_GAP,
    MAX_NEWTON_STEPS,
    MIN_STAGE_ROWS,
    STAGES,
    CellSolution,
    Sums,
    newton_applies,
    newton_targets,
    stage_order,
)
from corevec.solvers.cells.duplicates import MERGE_MIN_ROWS

# The smallest cell of a batch has at least this share of the rows of the largest.
_MIN_SIZE_RATIO = 0.75
# Memory of a batch in units of its kernel matrices: the matrices, a copy of half of
# them when half of the cells are solved, and one more during their computation. Half of
# the device memory is for these, the other half for the linear systems.
_MATRIX_COPIES = 2.5
# Numbers that a row of a machine needs: z, side, omega, a, f, ...
_NUMBERS_PER_ROW = 24


def solve_cells(
    problems: list[Problem],
    source: HostCopy,
    kernel: AnyKernel,
    members: list[Array],
    solve: Callable[[Array], CellSolution],
    must_stop: Callable[[], bool],
) -> Iterator[CellSolution]:
    """Yield the solution of every cell, in order.

    `solve` gets the rows of the cells that fit no batch, and of all remaining cells
    once `must_stop` returns True.
    """
    found: dict[int, CellSolution] = {}
    cells = list(range(len(members)))
    batches = _batches(problems, source, kernel, list(map(len, members)))
    n_out = 0
    for batch in batches:
        if must_stop():
            break
        own = [members[cell] for cell in batch]
        assert isinstance(kernel, Kernel)
        with source.at_work():
            fits = _Batch(problems, source, kernel, own).solve()
        found |= {c: one for c, one in zip(batch, fits, strict=True) if one is not None}
        while n_out in found:
            yield found.pop(n_out)
            n_out += 1
    others = [cell for cell in cells[n_out:] if cell not in found]
    alone = source.workers.run(solve, [members[cell] for cell in others])
    for cell in cells[n_out:]:
        yield found.pop(cell) if cell in found else next(alone)


def _batches(
    problems: list[Problem], source: HostCopy, kernel: AnyKernel, sizes: list[int]
) -> list[list[int]]:
    """Return lists of cells that are solved together; the others are solved singly."""
    if not isinstance(kernel, Kernel) or not _is_supported(problems):
        return []
    budget = source.on_device.working_budget // 2

    def n_bytes(size: int) -> float:
        per_row = _MATRIX_COPIES * size + _NUMBERS_PER_ROW * len(problems)
        return 8 * size * (per_row + 3 * source.n_features)

    batches: list[list[int]] = []
    largest = 0
    for cell in sorted(range(len(sizes)), key=lambda cell: -sizes[cell]):
        size = sizes[cell]
        if not 0 < size <= MERGE_MIN_ROWS or n_bytes(size) > budget:
            continue
        is_full = not batches or (len(batches[-1]) + 1) * n_bytes(largest) > budget
        if is_full or size < _MIN_SIZE_RATIO * largest:
            batches.append([])
            largest = size
        batches[-1].append(cell)
    return batches


def _is_supported(problems: list[Problem]) -> bool:
    """Return whether Newton's method solves all problems with one kernel matrix."""
    one_bias = len({one.has_bias for one in problems}) == 1
    return one_bias and all(map(newton_applies, problems))


class _Batch:
    """Cells on a device, padded to one size, their rows in the order of the stages."""

    def __init__(
        self,
        problems: list[Problem],
        source: HostCopy,
        kernel: Kernel,
        members: list[Array],
    ):
        self.problems, self.source, self.kernel = problems, source, kernel
        self.members = members
        self.sizes = np.array([len(rows) for rows in members])
        shape = len(members), int(self.sizes.max())
        numbers = np.empty(shape, dtype=np.int64)
        for own, rows in zip(numbers, members, strict=True):
            own[: len(rows)], own[len(rows) :] = rows[stage_order(len(rows))], rows[0]
        self.rows = source.on_device.pick(numbers.ravel())
        self.shape = shape

    def solve(self) -> list[CellSolution | None]:
        """Return the solution of each cell; None where it must be solved singly."""
        terms = self._terms()
        is_constant, constant = self._constants(*terms[1:])
        results = np.zeros((3, *constant.shape))  # intercept, primal, dual
        results[0] = constant
        coef = np.zeros((*constant.shape, self.shape[1]))
        has_failed = np.zeros(len(constant), dtype=bool)
        if not is_constant.all():
            cell, output = np.nonzero(~is_constant)
            a, ended, found = self._solve(terms, cell, output)
            results[:, cell, output], coef[cell, output] = found, a
            has_failed[cell[_has_failed(ended, *found[1:])]] = True
        return [
            None if failed else self._solution(at, coef[at], results[:, at])
            for at, failed in enumerate(has_failed)
        ]

    def _solve(
        self, terms: tuple[Tensor, Tensor, Tensor], cell: Array, output: Array
    ) -> tuple[Array, Array, Array]:
        """Return coefficients, the way each machine ended, and its bounds."""
        held, slot = np.unique(cell, return_inverse=True)
        K = self._matrices(held)
        lane, tubes = _to(K, output), np.array([one.tube for one in self.problems])
        z, side, omega = (one[_to(K, cell), lane] for one in terms)
        tube = _to(K, tubes[output])[:, None]
        n_lanes = len(self.problems)
        machines = Machines(_to(K, slot), lane, n_lanes, z, side, omega, tube)
        a, ended = self._by_stages(K, machines, self.sizes[cell])
        return to_numpy(a), to_numpy(ended), self._measured(K, machines, a, output)

    def _terms(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return z, side and omega, each of shape (cells, outputs, rows)."""
        parts = []
        for problem in self.problems:
            terms: Any = problem.terms(self.rows, self.kernel)
            parts.append((*newton_targets(problem, terms), terms.omega))
        z, side, omega = (
            torch.stack([one.reshape(self.shape) for one in own], dim=1)
            for own in zip(*parts, strict=True)
        )
        columns = torch.arange(self.shape[1], device=omega.device)
        omega *= columns < _to(omega, self.sizes)[:, None, None]
        return z, side, omega

    def _constants(self, side: Tensor, omega: Tensor) -> tuple[Array, Array]:
        """Return which problems a constant solves, and that constant.

        These are the two-class problems whose rows share one sign, or without rows.
        """
        present = omega > 0
        n_above = (present & (side > 0)).sum(dim=2)
        n_below = (present & (side < 0)).sum(dim=2)
        two_class = _to(side, np.array([p.positive is not None for p in self.problems]))
        is_constant = two_class & ((n_above == 0) | (n_below == 0))
        sign = (n_above > 0).to(torch.int8) - (n_below > 0).to(torch.int8)
        constant = to_numpy(torch.where(is_constant, sign, 0)).astype(np.float64)
        return to_numpy(is_constant), constant

    def _matrices(self, cells: Array) -> Tensor:
        """Return ``k_ij + [bias]`` of some cells, shape (cells, rows, rows)."""
        shape = len(cells), self.shape[1], self.source.n_features
        values: Any = self.rows.values.reshape(len(self.members), *shape[1:])
        if len(cells) < len(self.members):
            values = values[_to(values, cells)]
        points = self.kernel.prepare(
            Rows(values.reshape(-1, shape[2]), self.rows.index)
        )
        K = _gram(self.kernel, points.values.view(shape))
        if points.diagonal is not None:
            root: Any = inverse_root(points.diagonal)
            root = root.view(shape[:2])
            K.mul_(root[:, :, None]).mul_(root[:, None, :])
        finite(K, self.kernel)
        return K.add_(float(self.problems[0].has_bias))

    def _by_stages(
        self, K: Tensor, machines: Machines, sizes: Array
    ) -> tuple[Tensor, Tensor]:
        """Return coefficients and endings, solved on the first rows of each cell first.

        The stages are those of `cell.solve_cell`.
        """
        a = torch.zeros_like(machines.z)
        broken = torch.zeros(len(machines), dtype=torch.bool, device=a.device)
        ended = torch.zeros(len(machines), dtype=torch.int8, device=a.device)
        n_bytes = self.source.on_device.working_budget // 2
        for share in STAGES:
            counts = (share * sizes).astype(np.int64)
            if share < 1:
                counts[sizes <= 4 * MIN_STAGE_ROWS] = 0
            k = int(counts.max())
            if k == 0:
                continue
            few = machines.first(k, _to(K, counts))
            part = K[:, :k, :k], few, a[:, :k]
            a[:, :k], ended = newton(*part, MAX_NEWTON_STEPS, n_bytes)
            broken |= ended == BROKEN
            a.masked_fill_(broken[:, None], 0.0)
        return a, torch.where(broken, BROKEN, ended)

    def _measured(
        self, K: Tensor, machines: Machines, a: Tensor, output: Array
    ) -> Array:
        """Return intercept, primal and dual value of every machine.

        The sums are those of `cell.Sums`, with the error of the loss added to it.
        """
        f, omega, present = times(K, machines, a), machines.omega, machines.omega > 0
        excess = machines.violations(f).clamp(min=0.0)
        loss = (omega * excess**2).sum(dim=1) / 2
        norm_sq, mass = (a * f).sum(dim=1), a.abs().sum(dim=1)
        ridge = torch.where(present, a**2 / omega, 0.0).sum(dim=1)
        slope = (a * machines.z).sum(dim=1) - machines.tube[:, 0] * mass
        diagonal = K.diagonal(dim1=1, dim2=2).abs().amax(dim=1)[machines.slot]
        error = self.kernel.rounding(self.source.n_features) * mass * diagonal
        loss = loss + error * (omega * (excess + error[:, None] / 2)).sum(dim=1)
        sums = norm_sq, loss, ridge, slope, mass, mass * error, a.sum(dim=1)
        found = np.empty((3, len(machines)))
        for i, (*own, total) in enumerate(to_numpy(torch.stack(sums, dim=1)).tolist()):
            problem = self.problems[output[i]]
            found[0, i] = total if problem.has_bias else 0.0
            found[1:, i] = Sums(*own).bounds(problem)
        return found

    def _solution(self, at: int, coef: Array, results: Array) -> CellSolution:
        """Return the solution of one cell, its rows in the order of their numbers."""
        rows = self.members[at]
        in_order = np.empty((len(rows), len(coef)))
        in_order[stage_order(len(rows))] = coef[:, : len(rows)].T
        used = np.flatnonzero(in_order.any(axis=1))
        index, offset = rows[used], np.zeros(len(coef))
        basis = Rows(self.source.take(index).values, index)
        intercept, primal, dual = results
        return CellSolution(
            basis, in_order[used], intercept, primal, dual, len(rows), offset
        )


def _has_failed(ended: Array, primal: Array, dual: Array) -> Array:
    """Return which machines neither ended exactly nor have bounds that prove it."""
    pairs = zip(primal.tolist(), dual.tolist(), strict=True)
    is_exact = np.array([relative_gap(p, d) <= MAX_EXACT_GAP for p, d in pairs])
    return np.asarray((ended == BROKEN) | ((ended != SOLVED) & ~is_exact))


def _gram(kernel: Kernel, X: Tensor) -> Tensor:
    """Return the kernel matrix of the prepared rows of each cell."""
    d = X.shape[2]
    if kernel.uses_distance and 0 < d <= FEW_COLUMNS:
        q = (X[:, :, None, 0] - X[:, None, :, 0]).square_()
        for c in range(1, d):
            q += (X[:, :, None, c] - X[:, None, :, c]).square_()
    elif kernel.uses_distance:
        squares = (X * X).sum(dim=2)
        q = torch.baddbmm(squares[:, None, :], X, X.transpose(1, 2), alpha=-2.0)
        q.add_(squares[:, :, None]).clamp_(min=0.0)
        q.diagonal(dim1=1, dim2=2).zero_()
        rows = _torch_kernels.Prepared(X, squares)
        _torch_kernels.repair(kernel._parameters, q, rows, rows)
    else:
        q = torch.bmm(X, X.transpose(1, 2))
    return _torch_kernels.apply_profile(kernel._parameters, q)


def _to(like: Tensor, a: Array) -> Tensor:
    """Return an array on the device of `like`."""
    return torch.as_tensor(a, device=like.device)


__all__ = ["solve_cells"]
