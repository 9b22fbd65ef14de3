"""Newton's method for the machines of many cells at once, on a device.

The batched form of `backend.loops.cells.newton`. The cells are padded to one size with
rows that are absent (omega is 0), and every operation works on all unfinished machines:
one launch on a GPU serves hundreds of cells. The linear systems of a step hold the
violated rows only, and machines with similar numbers of them are factored together.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

# How a machine ended: by rounding or the step limit, exactly, without a factor.
STOPPED, SOLVED, BROKEN = 0, 1, -1
# Machines are factored together if the smallest system has at least this share of the
# rows of the largest, or if all are small: at most (1 / 0.7)^3, 3 times, the work.
_MIN_SIZE_RATIO, _SMALL_SYSTEM = 0.7, 64
# Iterations of the line search between two checks for convergence, and the number of
# checks: each synchronises with the device, which is idle meanwhile.
_STEPS_PER_CHECK, _MAX_CHECKS = 4, 15
# Bytes of a linear system in units of its rows squared: four float64 matrices, for the
# system, its factor, and the workspace of the solution.
_SYSTEM_BYTES = 32


@dataclass(frozen=True)
class Machines:
    """Problems over the rows of cells; each tensor has a row per machine.

    The machine in row i belongs to the kernel matrix ``slot[i]`` and is number
    ``lane[i]`` of its `n_lanes` machines. `side` is 0 for rows that can be violated on
    both sides.
    """

    slot: Tensor
    lane: Tensor
    n_lanes: int
    z: Tensor  # (machines, rows), as the two below
    side: Tensor
    omega: Tensor
    tube: Tensor  # (machines, 1)

    def __len__(self) -> int:
        return len(self.slot)

    def part(self, few: Tensor) -> Machines:
        """Return the selected machines."""
        names = ("slot", "lane", "z", "side", "omega", "tube")
        return replace(self, **{name: getattr(self, name)[few] for name in names})

    def first(self, n_columns: int, counts: Tensor) -> Machines:
        """Return the machines over the first rows of each cell, `counts` of them."""
        columns = torch.arange(n_columns, device=self.z.device)
        omega = self.omega[:, :n_columns] * (columns < counts[:, None])
        own = self.z[:, :n_columns], self.side[:, :n_columns], omega
        return replace(self, z=own[0], side=own[1], omega=own[2])

    def signs(self, f: Tensor) -> Tensor:
        """Return the side on which each row is violated at the values `f`."""
        residual = torch.where(self.z > f, 1.0, -1.0).to(f.dtype)
        return torch.where(self.side == 0, residual, self.side)

    def violations(self, f: Tensor) -> Tensor:
        """Return the violation of each row; -1 for rows that are absent."""
        left = self.z - f
        wrong = torch.where(self.side == 0, left.abs(), self.side * left) - self.tube
        return torch.where(self.omega > 0, wrong, -1.0)


def times(K: Tensor, machines: Machines, a: Tensor) -> Tensor:
    """Return ``K a`` of every machine; the matrices are symmetric."""
    if machines.n_lanes == 1 and len(machines) == len(K):  # one per matrix, in order
        return torch.bmm(a[:, None], K)[:, 0]
    spread = a.new_zeros((len(K), machines.n_lanes, a.shape[1]))
    spread[machines.slot, machines.lane] = a
    return torch.bmm(spread, K)[machines.slot, machines.lane]


def newton(
    K: Tensor, machines: Machines, a: Tensor, max_steps: int, max_bytes: int
) -> tuple[Tensor, Tensor]:
    """Return the coefficients of every machine, warm started at `a`, and how it ended.

    Parameters
    ----------
    K : Tensor of shape (cells, rows, rows)
        Kernel values, with the bias.
    machines : Machines
        In the order of the cells.
    a : Tensor of shape (machines, rows)
        The warm start.
    max_steps : int
        The maximal number of steps.
    max_bytes : int
        Device memory for the linear systems that are factored together.
    """
    found = a.clone()
    ended = torch.full((len(machines),), STOPPED, dtype=torch.int8, device=a.device)
    place = torch.arange(len(machines), device=a.device)
    strikes = torch.zeros(len(machines), dtype=torch.int8, device=a.device)
    f = times(K, machines, a)
    for _ in range(max_steps):
        new, failed = _solve_on_active(K, machines, f, max_bytes)
        moved = times(K, machines, new)
        same = _is_same_set(machines, f, moved)
        over = same | failed | (strikes == 3)
        found[place] = torch.where(same[:, None], new, a)
        ended[place] = torch.where(failed, BROKEN, same.to(torch.int8))
        left = (~over).nonzero()[:, 0]
        if len(left) == 0:
            break
        if len(left) < len(place):
            parts = (place, strikes, a, f, new, moved)
            place, strikes, a, f, new, moved = (part[left] for part in parts)
            K, machines = _drop_matrices(K, machines.part(left))
        step, change = new - a, moved - f
        s = _step_lengths(machines, f, step, change)
        tiny = s * change.abs().amax(dim=1) <= 1e-12
        strikes = torch.where(tiny, strikes + 1, 0)
        a = a + s[:, None] * step
        f = times(K, machines, a)
        found[place] = a
    return found, ended


def _drop_matrices(K: Tensor, machines: Machines) -> tuple[Tensor, Machines]:
    """Return only the matrices that are still needed, once that is half of them."""
    if 2 * len(machines) > len(K):
        return K, machines
    cells, slot = torch.unique(machines.slot, return_inverse=True)
    return K[cells], replace(machines, slot=slot)


def _is_same_set(machines: Machines, f: Tensor, moved: Tensor) -> Tensor:
    """Return whether the violated rows at `moved` are those at `f`."""
    inside, after = machines.violations(f) > 0, machines.violations(moved)
    changed = torch.where(inside, after < 0, after > 1e-13)
    return ~changed.any(dim=1)


def _solve_on_active(
    K: Tensor, machines: Machines, f: Tensor, max_bytes: int
) -> tuple[Tensor, Tensor]:
    """Return the solutions of ``(K_AA + 1/omega) a_A = z_A - tube s_A``, and failures.

    A are the violated rows; the coefficients of the others are 0. A machine fails if
    its system has no Cholesky factor.
    """
    active = machines.violations(f) > 0
    right = machines.z - machines.tube * machines.signs(f)
    new = torch.zeros_like(right)
    failed = torch.zeros(len(machines), dtype=torch.bool, device=f.device)
    counts = active.sum(dim=1).cpu().numpy()
    for group in _groups_of_similar_size(counts, max_bytes):
        size = int(counts[group[0]])
        own = torch.as_tensor(group, device=f.device)
        new[own], failed[own] = _factor_and_solve(
            K, machines.slot[own], active[own], right[own], machines.omega[own], size
        )
    return new, failed


def _groups_of_similar_size(
    counts: npt.NDArray[np.int64], max_bytes: int
) -> list[npt.NDArray[np.int64]]:
    """Return groups of machines with similar numbers of violated rows, largest first.

    The systems of a group fit `max_bytes`.
    """
    order = np.argsort(-counts, kind="stable")
    order = order[counts[order] > 0]
    groups = []
    while len(order):
        size = int(counts[order[0]])
        least = 0 if size <= _SMALL_SYSTEM else _MIN_SIZE_RATIO * size
        n_similar = int(np.count_nonzero(counts[order] >= least))
        n_fit = max(1, max_bytes // (_SYSTEM_BYTES * size * size))
        cut = min(n_similar, n_fit)
        groups.append(order[:cut])
        order = order[cut:]
    return groups


def _factor_and_solve(
    K: Tensor, slot: Tensor, active: Tensor, right: Tensor, omega: Tensor, size: int
) -> tuple[Tensor, Tensor]:
    """Return the solutions of systems of up to `size` active rows, and which failed.

    Smaller systems are padded with rows of the identity. One step of refinement
    follows.
    """
    at = active.cumsum(dim=1) - 1
    columns = torch.arange(active.shape[1], device=K.device).expand(active.shape)
    # Inactive rows are all scattered to one extra column, which is cut off.
    rows = torch.zeros((len(slot), size + 1), dtype=torch.int64, device=K.device)
    rows.scatter_(1, torch.where(active, at, size), columns)
    rows = rows[:, :size]
    is_row = torch.arange(size, device=K.device) <= at[:, -1:]
    system = K[slot[:, None, None], rows[:, :, None], rows[:, None, :]]
    system.mul_(is_row[:, :, None] & is_row[:, None, :])
    own = torch.where(is_row, 1.0 / omega.gather(1, rows), 1.0)
    system.diagonal(dim1=1, dim2=2).add_(own)
    b = torch.where(is_row, right.gather(1, rows), 0.0)[:, :, None]
    L, info = torch.linalg.cholesky_ex(system)
    x = torch.cholesky_solve(b, L)
    x += torch.cholesky_solve(b - torch.bmm(system, x), L)
    x = x[:, :, 0].gather(1, at.clamp(0, size - 1))
    return torch.where(active, x, 0.0), info > 0


def _step_lengths(
    machines: Machines, f: Tensor, step: Tensor, change: Tensor
) -> Tensor:
    """Return the exact minimiser along each step: the derivative is piecewise linear.

    Newton's method within a bracket goes from piece to piece.
    """
    slope0, curve0 = (step * f).sum(dim=1), (step * change).sum(dim=1)
    left, two_sided = machines.z - f, machines.side == 0
    pull = machines.omega * change
    s = torch.ones_like(slope0)
    low, high = torch.zeros_like(s), torch.full_like(s, 1e3)
    done = torch.zeros_like(s, dtype=torch.bool)
    for _ in range(_MAX_CHECKS):
        for _ in range(_STEPS_PER_CHECK):
            rest = left - s[:, None] * change
            sign = torch.where(
                two_sided, torch.where(rest > 0, 1.0, -1.0), machines.side
            )
            wrong = sign * rest - machines.tube
            pulled = torch.where(wrong > 0, pull, 0.0)
            slope = slope0 + s * curve0 - (pulled * wrong * sign).sum(dim=1)
            curve = curve0 + (pulled * change).sum(dim=1)
            high = torch.where(slope > 0, s, high)
            low = torch.where(slope > 0, low, s)
            middle = 0.5 * (low + high)
            new = torch.where(curve > 0, s - slope / curve, middle)
            new = torch.where((low <= new) & (new <= high), new, middle)
            done |= (new - s).abs() <= 1e-12 * s
            s = torch.where(done, s, new)
        if bool(done.all()):
            break
    return s
