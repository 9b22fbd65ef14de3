"""A preconditioner of low rank plus cells, on the device of the rows (PITC).

``P = G G' + blockdiag(K_cc - F_c F_c') + diag(mu)``, ``G = (F, 1)``, with F the
coordinates of the rows in the span of some landmarks and c cells of near rows: where
a kernel is narrow, what no landmark explains lies between near rows (covtype: 6 to 20
iterations, where low rank alone took 15 to 60; docs/mathematics.md, 5).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

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
    ) -> Inverse:
        """Return the approximate inverse of the system of the rows `active`."""
        rows = torch.as_tensor(active, device=self.X.device)
        order = torch.argsort(self.place[rows])
        ridge = torch.as_tensor(mu, device=rows.device)[order].float()
        rows = rows[order]
        G = self.features[rows]
        factors = self._factors(rows, G, ridge)
        if has_bias:
            G = torch.cat([G, torch.ones_like(G[:, :1])], dim=1)
        return Inverse(G, factors, order)

    def _factors(self, rows: Tensor, F: Tensor, ridge: Tensor) -> list[Tensor]:
        """Return the Cholesky factor of each cell's own part."""
        found = []
        for start in range(0, len(rows), CELL_ROWS):
            part = slice(start, start + CELL_ROWS)
            X, own = self.X[rows[part]], F[part]
            left = self.block(X, X) - own @ own.T
            diagonal = ridge[part] + RIDGE
            factor, info = torch.linalg.cholesky_ex(left + torch.diag(diagonal))
            if int(info):  # rounding: raise the ridge, never crash
                diagonal = diagonal + left.abs().sum(dim=1)
                factor = torch.linalg.cholesky(left + torch.diag(diagonal))
            found.append(factor)
        return found


class Inverse:
    """``(G G' + B)^-1`` by Woodbury's formula, B block-diagonal."""

    def __init__(self, G: Tensor, factors: list[Tensor], order: Tensor):
        self.factors, self.order = factors, order
        self.solved = self._solve_cells(G)  # B^-1 G
        inner = _product(G, self.solved)
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
        self.factor = factor

    def __call__(self, r: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the product with one vector."""
        given = torch.as_tensor(np.ascontiguousarray(r), device=self.order.device)
        u = given[self.order].float()[:, None]
        w = torch.cholesky_solve(_product(self.solved, u), self.factor)
        found = self._solve_cells(u) - self.solved @ w.float()
        out = torch.empty_like(given)
        out[self.order] = found[:, 0].double()
        return np.asarray(out.cpu().numpy())

    def _solve_cells(self, right: Tensor) -> Tensor:
        out, start = torch.empty_like(right), 0
        for factor in self.factors:
            part = slice(start, start + len(factor))
            out[part] = torch.cholesky_solve(right[part], factor)
            start += len(factor)
        return out


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
