"""A preconditioner of low rank plus cells, on the device of the rows (PITC).

``P = G G' + blockdiag(K_cc - F_c F_c') + diag(mu)``, ``G = (F, 1)``, with F the
coordinates of the rows in the span of some landmarks and c cells of near rows: where
a kernel is narrow, what no landmark explains lies between near rows (covtype: 6 to 20
iterations, where low rank alone took 15 to 60; docs/mathematics.md, 5).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

# Rows of a cell: a batch of factors costs rows * CELL_ROWS^2 / 3 operations.
CELL_ROWS = 1024
# Rows whose columns' variances say where to cut.
CUT_SAMPLE = 2048
# The share of k(x, x) that float32 factors of cells need as a ridge.
RIDGE = 1e-5
# Rows that are added up in float64 at a time.
SUM_ROWS = 1 << 15
# Cells that are factored, or solved for many vectors, at a time.
CELLS_AT_A_TIME = 64
# Pivots drawn at a time.
PIVOTS = 256

Block = Callable[[Tensor, Tensor], Tensor]


def chosen_landmarks(
    block: Block, X: Tensor, diagonal: Tensor, least: float, draws: Draws
) -> Tensor:
    """Return positions of landmarks: a randomly pivoted Cholesky factor, in blocks.

    Parameters
    ----------
    block : callable
        Returns kernel values of two sets of prepared rows.
    X, diagonal : Tensor
        Prepared rows, and k(x, x) of each, in float64.
    least : float
        Ends where the mean eigenvalue of a block's columns is below.
    draws : Draws
        How many, and the random numbers.
    """
    n = len(X)
    F, left = X.new_empty((draws.most, n)), diagonal.clone()
    chosen = torch.empty(0, dtype=torch.int64, device=X.device)
    while len(chosen) < draws.most:
        width = min(PIVOTS, draws.most - len(chosen), int((left > 0).sum()))
        if width == 0:
            break
        share = (left / left.sum()).cpu().numpy()
        drawn = draws.rng.choice(n, width, replace=False, p=share / share.sum())
        pivots = torch.as_tensor(np.sort(drawn), device=X.device)
        known = F[: len(chosen)]
        columns = block(X[pivots], X) - known[:, pivots].T @ known
        corner = columns[:, pivots]
        corner.diagonal().add_(1e-9 * float(diagonal.max()))
        factor, info = torch.linalg.cholesky_ex(corner)
        if int(info):  # pivots that span each other: what is chosen serves
            break
        new = torch.linalg.solve_triangular(factor, columns, upper=False)
        F[len(chosen) : len(chosen) + width] = new
        chosen = torch.cat([chosen, pivots])
        left = (left - new.square().sum(dim=0)).clamp_(min=0.0)
        left[pivots] = 0.0
        if float(new.square().sum()) < least * width:
            break
    return chosen


@dataclass(frozen=True)
class Draws:
    """How many landmarks at most, and the generator that draws them."""

    most: int
    rng: np.random.Generator


class LowRankAndCells:
    """The parts of the preconditioner that do not depend on the active rows.

    Parameters
    ----------
    block : callable
        Returns kernel values of two sets of prepared rows, float32.
    X : Tensor of shape (n, d)
        The prepared rows of the working set.
    features : Tensor of shape (n, r)
        Their coordinates in the span of the landmarks, float32.
    """

    def __init__(self, block: Block, X: Tensor, features: Tensor):
        self.block, self.X, self.features = block, X, features
        self.place = torch.empty(len(X), dtype=torch.int64, device=X.device)
        self.place[near_order(X)] = torch.arange(len(X), device=X.device)

    def inverse(
        self, active: npt.NDArray[Any], mu: npt.NDArray[Any], has_bias: bool
    ) -> Inverses:
        """Return the approximate inverse of the system of the rows `active`."""
        everything = np.arange(len(active))
        return Inverses([Part(self, everything, active)], mu, has_bias)


class Part(NamedTuple):
    """One block of a block-diagonal system.

    `own` are its positions among the active rows, `rows` the same rows among those of
    its preconditioner.
    """

    factor: LowRankAndCells
    own: npt.NDArray[Any]
    rows: npt.NDArray[Any]


class Inverses:
    """``(G G' + B)^-1`` of each block of a system, by Woodbury's formula.

    B is block-diagonal: the cells of all blocks are solved together, because a launch
    for each of them would take longer than its work.
    """

    def __init__(self, parts: list[Part], mu: npt.NDArray[Any], has_bias: bool):
        device = parts[0].factor.X.device
        ridge = torch.as_tensor(mu, device=device).float()
        orders, spanning, ends, cells = [], [], [0], []
        self.spans: list[slice] = []
        for factor, own, rows in parts:
            at = torch.as_tensor(rows, device=device)
            order = torch.argsort(factor.place[at])
            at, where = at[order], torch.as_tensor(own, device=device)[order]
            G = factor.features[at]
            cells += _cells(factor, at, G, ridge[where])
            ends.append(len(cells))
            if has_bias:
                G = torch.cat([G, torch.ones_like(G[:, :1])], dim=1)
            start = self.spans[-1].stop if self.spans else 0
            self.spans.append(slice(start, start + len(at)))
            orders.append(where)
            spanning.append(G)
        self.order = torch.cat(orders)
        self.cells = Cells(cells)
        self.woodbury = [
            Woodbury(G, self.cells.solve(G, range(*own)))
            for G, own in zip(spanning, pairwise(ends), strict=True)
        ]

    def __call__(self, r: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the product with one vector."""
        given = torch.as_tensor(np.ascontiguousarray(r), device=self.order.device)
        u = given[self.order].float()[:, None]
        found = self.cells.solve(u)
        for span, one in zip(self.spans, self.woodbury, strict=True):
            one.subtract(u[span], found[span])
        out = torch.empty_like(given)
        out[self.order] = found[:, 0].double()
        return np.asarray(out.cpu().numpy())


def _cells(
    factor: LowRankAndCells, rows: Tensor, F: Tensor, ridge: Tensor
) -> list[Tensor]:
    """Return what the landmarks leave of the kernel matrix of each cell, plus ridge."""
    found = []
    for start in range(0, len(rows), CELL_ROWS):
        part = slice(start, start + CELL_ROWS)
        X, own = factor.X[rows[part]], F[part]
        left = torch.addmm(factor.block(X, X), own, own.T, alpha=-1.0)
        left.diagonal().add_(ridge[part] + RIDGE)
        found.append(left)
    return found


class Woodbury:
    """What the low rank takes away from the inverse of the cells."""

    def __init__(self, G: Tensor, solved: Tensor):
        self.solved = solved  # B^-1 G
        inner = _product(G, solved)
        inner = (inner + inner.T) / 2
        inner.diagonal().add_(1.0)
        jitter = 0.0
        while True:
            factor, info = torch.linalg.cholesky_ex(
                inner
                + jitter * torch.eye(len(inner), dtype=inner.dtype, device=inner.device)
            )
            if not int(info):
                break
            jitter = max(10 * jitter, 1e-6 * float(inner.abs().max()))
        # Its inverse: a product is one launch, a solution several, for every block.
        self.inner_inverse = torch.cholesky_inverse(factor)

    def subtract(self, u: Tensor, found: Tensor) -> None:
        """Take the correction off ``B^-1 u``, in place."""
        w = self.inner_inverse @ (self.solved.T @ u).double()
        found.addmm_(self.solved, w.float(), alpha=-1.0)


class Cells:
    """The inverse of a block-diagonal matrix with blocks of at most `CELL_ROWS` rows.

    The inverse of each block's Cholesky factor is kept, in stacks of equal size: a
    batch of products takes microseconds where as many solutions take milliseconds.
    """

    def __init__(self, matrices: list[Tensor]):
        self.starts = np.cumsum([0, *(len(one) for one in matrices)])
        sizes: dict[int, list[int]] = {}
        for c, one in enumerate(matrices):
            sizes.setdefault(_padded_size(len(one)), []).append(c)
        self.stacks = []
        for size, numbers in sizes.items():
            own = [matrices[c] for c in numbers]
            rows = [range(*self.starts[c : c + 2]) for c in numbers]
            self.stacks.append(Stack.of(size, numbers, own, rows))

    def solve(self, right: Tensor, cells: range | None = None) -> Tensor:
        """Return ``B^-1 right``, of some of the cells: `right` then has their rows."""
        cells = range(len(self.starts) - 1) if cells is None else cells
        nothing = torch.zeros_like(right[:1])  # what is beyond a padded cell
        given = torch.cat([right, nothing])
        out = torch.zeros_like(given)
        for stack in self.stacks:
            stack.solve(given, cells, int(self.starts[cells.start]), out)
        return out[:-1]


@dataclass(frozen=True)
class Stack:
    """Cells that are padded to one size.

    Attributes
    ----------
    numbers : ndarray
        The numbers of the cells, increasing.
    roots : Tensor of shape (cells, size, size)
        The inverses of their Cholesky factors.
    rows : Tensor of shape (cells, size)
        Which rows of the matrix they are; -1 beyond a cell.
    """

    numbers: npt.NDArray[Any]
    roots: Tensor
    rows: Tensor

    @staticmethod
    def of(
        size: int, numbers: list[int], matrices: list[Tensor], rows: list[range]
    ) -> Stack:
        """Return the stack of these matrices, padded by the identity."""
        like = matrices[0]
        roots = like.new_empty((len(matrices), size, size))
        places = np.full((len(matrices), size), -1)
        for i, own in enumerate(rows):
            places[i, : len(own)] = own
        identity = torch.eye(size, dtype=like.dtype, device=like.device)
        for start in range(0, len(matrices), CELLS_AT_A_TIME):
            part = matrices[start : start + CELLS_AT_A_TIME]
            batch = identity.repeat(len(part), 1, 1)
            for i, one in enumerate(part):
                batch[i, : len(one), : len(one)] = one
            roots[start : start + len(part)] = _inverse_roots(batch, identity)
        return Stack(
            np.asarray(numbers), roots, torch.as_tensor(places, device=like.device)
        )

    def solve(self, right: Tensor, cells: range, first: int, out: Tensor) -> None:
        """Write the solutions of some cells; `right` and `out` begin at row `first`."""
        low, high = np.searchsorted(self.numbers, [cells.start, cells.stop])
        for start in range(low, high, CELLS_AT_A_TIME):
            part = slice(start, min(start + CELLS_AT_A_TIME, high))
            rows, roots = self.rows[part], self.roots[part]
            rows = torch.where(rows < 0, -1, rows - first)
            out[rows] = roots.mT @ (roots @ right[rows])


def _padded_size(n_rows: int) -> int:
    """Return the size of the stack for a cell: the next power of two."""
    return min(CELL_ROWS, 1 << max(n_rows - 1, 1).bit_length())


def _inverse_roots(batch: Tensor, identity: Tensor) -> Tensor:
    """Return ``L^-1`` of ``L L' =`` each matrix: its ridge raised where L fails."""
    factor, info = torch.linalg.cholesky_ex(batch)
    failed = info.nonzero()[:, 0]
    if len(failed):  # rounding: raise the ridge, never crash
        few = batch[failed]
        few = few + torch.diag_embed(few.abs().sum(dim=2))
        factor[failed] = torch.linalg.cholesky(few)
    return torch.linalg.solve_triangular(
        factor, identity.expand_as(factor), upper=False
    )


def _product(left: Tensor, right: Tensor) -> Tensor:
    """Return ``left.T @ right`` of float32 matrices in float64.

    The leading directions are what is left of differences of 1 in C n: in float32 they
    came out with any sign at C n = 1e6, and covtype took 100 iterations.
    """
    out = left.new_zeros((left.shape[1], right.shape[1]), dtype=torch.float64)
    for start in range(0, len(left), SUM_ROWS):
        part = slice(start, start + SUM_ROWS)
        out += left[part].double().T @ right[part].double()
    return out


def near_order(X: Tensor) -> Tensor:
    """Return an order of the rows in which rows that follow each other are near.

    Halves at the median of the column of the largest variance, until cells are small.
    """
    open_parts = [torch.arange(len(X), device=X.device)]
    done: list[Tensor] = []
    while open_parts:
        rows = open_parts.pop()
        if len(rows) <= CELL_ROWS:
            done.append(rows)
            continue
        step = max(1, len(rows) // CUT_SAMPLE)
        column = int(X[rows[::step]].var(dim=0).argmax())
        rows = rows[torch.argsort(X[rows, column], stable=True)]
        half = len(rows) // 2
        open_parts += [rows[half:], rows[:half]]
    return torch.cat(done)
