"""The machines of many cells of a device, solved there at once.

As `cell_solver.solve_cell`, for batches of cells that have about as many rows each:
their kernel matrices are one tensor, and one Newton iteration serves all machines
(`_cell_tensors.newton`). Balls, automatic tubes, cells that are too large, and those
whose matrix is near singular are left to the solver of single cells.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
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
from corevec.kernels.kernel import AnyKernel, Kernel, Rows, _inverse_root, finite
from corevec.models.certificate import relative_gap
from corevec.problems.family import Problem
from corevec.solvers.cells.cell import MERGED_FROM
from corevec.solvers.cells.solve import FEWEST, MOST_STEPS, STAGES, CellFit

# Cells of a batch have this share of the rows of its largest, or more.
_ALIKE = 0.75
# A matrix of a batch, in matrices: itself, what is left of it when half of the cells
# are solved, one while it is made. They have half of the room, the systems the rest.
_COPIES = 2.5
# Numbers that a row of a machine has in work: z, side, omega, a, f, ...
_ROW_NUMBERS = 24


def solve_cells(
    problems: list[Problem],
    source: HostCopy,
    kernel: AnyKernel,
    members: list[Array],
    solve: Callable[[Array], CellFit],
    is_late: Callable[[], bool],
) -> Iterator[CellFit]:
    """Yield the machines of every cell, in order.

    `solve` takes the rows of a cell that no batch takes, or of any once `is_late`.
    """
    found: dict[int, CellFit] = {}
    cells = list(range(len(members)))
    batches = _batches(problems, source, kernel, list(map(len, members)))
    n_out = 0
    for batch in batches:
        if is_late():
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
    """Return cells that are solved together; those in none are solved one by one."""
    if not isinstance(kernel, Kernel) or not _is_served(problems):
        return []
    room = source.on_device.working_budget // 2
    order = sorted(range(len(sizes)), key=lambda cell: -sizes[cell])

    def n_bytes(size: int) -> float:
        numbers = _COPIES * size + _ROW_NUMBERS * len(problems) + 3 * source.n_features
        return 8 * size * numbers

    batches: list[list[int]] = []
    largest = 0
    for cell in order:
        size = sizes[cell]
        if not 0 < size <= MERGED_FROM or n_bytes(size) > room:
            continue
        full = not batches or (len(batches[-1]) + 1) * n_bytes(largest) > room
        if full or size < _ALIKE * largest:
            batches.append([])
            largest = size
        batches[-1].append(cell)
    return batches


def _is_served(problems: list[Problem]) -> bool:
    """Whether Newton's method solves these problems, with the same matrix."""
    one_bias = len({one.has_bias for one in problems}) == 1
    return one_bias and not any(one.has_offset or one.is_hard for one in problems)


@lru_cache(256)
def _order(n_rows: int) -> Array:
    """Return the order in which the rows of a cell come in, as in `cell_solver`."""
    return np.random.default_rng(n_rows).permutation(n_rows)


class _Batch:
    """Cells of a device, padded to one size; rows are in the order of the stages."""

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
            own[: len(rows)], own[len(rows) :] = rows[_order(len(rows))], rows[0]
        self.rows = source.on_device.pick(numbers.ravel())
        self.shape = shape
        self.constant = np.zeros((len(members), len(problems)))

    def solve(self) -> list[CellFit | None]:
        """Return the machines of each cell; None where there are none by this way."""
        terms = self._terms()
        is_open = to_numpy(self._is_open(*terms[1:]))
        results = np.zeros((3, *is_open.shape))  # intercept, primal, dual
        results[0] = self.constant
        coef = np.zeros((*is_open.shape, self.shape[1]))
        is_bad = np.zeros(len(is_open), dtype=bool)
        if is_open.any():
            cell, output = np.nonzero(is_open)
            a, ended, found = self._solve(terms, cell, output)
            results[:, cell, output], coef[cell, output] = found, a
            is_bad[cell[_is_bad(ended, *found[1:])]] = True
        return [
            None if bad else self._fit(at, coef[at], results[:, at])
            for at, bad in enumerate(is_bad)
        ]

    def _solve(
        self, terms: tuple[Tensor, Tensor, Tensor], cell: Array, output: Array
    ) -> tuple[Array, Array, Array]:
        """Return coefficients, how each machine ended, and what it proves."""
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
        z, side, omega = [], [], []
        for problem in self.problems:
            terms: Any = problem.terms(self.rows, self.kernel)
            is_number = problem.response is not None
            z.append(terms.target + problem.tube if is_number else terms.sign)
            side.append(torch.zeros_like(terms.sign) if is_number else terms.sign)
            omega.append(terms.omega)
        made = [
            torch.stack([one.reshape(self.shape) for one in own], dim=1)
            for own in (z, side, omega)
        ]
        columns = torch.arange(self.shape[1], device=made[2].device)
        made[2] *= columns < _to(made[2], self.sizes)[:, None, None]
        return made[0], made[1], made[2]

    def _is_open(self, side: Tensor, omega: Tensor) -> Tensor:
        """Whether there is something to solve; what is not gets its sign.

        Only two-class problems of one sign, or without rows, have nothing.
        """
        present = omega > 0
        n_above = (present & (side > 0)).sum(dim=2)
        n_below = (present & (side < 0)).sum(dim=2)
        two_class = _to(side, np.array([p.positive is not None for p in self.problems]))
        closed = two_class & ((n_above == 0) | (n_below == 0))
        sign = (n_above > 0).to(torch.int8) - (n_below > 0).to(torch.int8)
        self.constant = to_numpy(torch.where(closed, sign, 0)).astype(np.float64)
        return ~closed

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
            root: Any = _inverse_root(points.diagonal)
            root = root.view(shape[:2])
            K.mul_(root[:, :, None]).mul_(root[:, None, :])
        finite(K, self.kernel)
        return K.add_(float(self.problems[0].has_bias))

    def _by_stages(
        self, K: Tensor, machines: Machines, sizes: Array
    ) -> tuple[Tensor, Tensor]:
        """Solve on the first rows of each cell first, as `cell_solver` does."""
        a = torch.zeros_like(machines.z)
        broken = torch.zeros(len(machines), dtype=torch.bool, device=a.device)
        ended = torch.zeros(len(machines), dtype=torch.int8, device=a.device)
        room = self.source.on_device.working_budget // 2
        for share in STAGES:
            counts = (share * sizes).astype(np.int64)
            if share < 1:
                counts[sizes <= 4 * FEWEST] = 0
            k = int(counts.max())
            if k == 0:
                continue
            few = machines.first(k, _to(K, counts))
            a[:, :k], ended = newton(K[:, :k, :k], few, a[:, :k], MOST_STEPS, room)
            broken |= ended == BROKEN
            a.masked_fill_(broken[:, None], 0.0)
        return a, torch.where(broken, BROKEN, ended)

    def _measured(
        self, K: Tensor, machines: Machines, a: Tensor, output: Array
    ) -> Array:
        """Return intercept, primal and dual value of every machine.

        As `cell_solver` measures them: what the coefficients `a` prove.
        """
        f, omega, present = times(K, machines, a), machines.omega, machines.omega > 0
        wrong = machines.violations(f).clamp(min=0.0)
        loss = (omega * wrong**2).sum(dim=1) / 2
        norm_sq, mass = (a * f).sum(dim=1), a.abs().sum(dim=1)
        own = torch.where(present, a**2 / omega, 0.0).sum(dim=1)
        slope = (a * machines.z).sum(dim=1) - machines.tube[:, 0] * mass
        diagonal = K.diagonal(dim1=1, dim2=2).abs().amax(dim=1)[machines.slot]
        relative = self.kernel.rounding(self.source.n_features)
        error = relative * mass * diagonal
        rounding = mass * error
        lost = error * (omega * (wrong + error[:, None] / 2)).sum(dim=1)
        sums = (a.sum(dim=1), norm_sq, loss + lost, own, slope, mass, rounding)
        found = np.empty((3, len(machines)))
        for i, (total, norm, lost, more, rise, m, off) in enumerate(
            to_numpy(torch.stack(sums, dim=1)).tolist()
        ):
            problem = self.problems[output[i]]
            dual = problem.dual_at_best_scale(rise, norm + more, m)
            found[0, i] = total if problem.has_bias else 0.0
            found[1, i] = problem.unit * (norm / 2 + lost + off)
            found[2, i] = problem.unit * (dual - off)
        return found

    def _fit(self, at: int, coef: Array, results: Array) -> CellFit:
        """Return the machines of one cell, its rows in the order of their numbers."""
        rows = self.members[at]
        sorted_back = np.empty((len(rows), len(coef)))
        sorted_back[_order(len(rows))] = coef[:, : len(rows)].T
        used = np.flatnonzero(sorted_back.any(axis=1))
        index = rows[used]
        intercept, primal, dual = results
        basis = Rows(self.source.take(index).values, index)
        nothing = np.zeros(len(coef))
        return CellFit(
            basis, sorted_back[used], intercept, primal, dual, len(rows), nothing
        )


def _is_bad(ended: Array, primal: Array, dual: Array) -> Array:
    """Say which machines neither ended exactly nor prove that they are exact."""
    pairs = zip(primal.tolist(), dual.tolist(), strict=True)
    close = np.array([relative_gap(p, d) <= 1e-9 for p, d in pairs])
    return np.asarray((ended == BROKEN) | ((ended != SOLVED) & ~close))


def _gram(kernel: Kernel, X: Tensor) -> Tensor:
    """Return the kernel values among the prepared rows of each cell."""
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
        how = *kernel._parameters[:2], q, X, X, squares, squares
        _torch_kernels.repair(*how)
    else:
        q = torch.bmm(X, X.transpose(1, 2))
    return _torch_kernels.profile(*kernel._parameters, q)


def _to(like: Tensor, a: Array) -> Tensor:
    return torch.as_tensor(a, device=like.device)


__all__ = ["solve_cells"]
