"""A low-rank preconditioner of the active rows' system, by Woodbury's formula.

With F of a randomly pivoted Cholesky factor (Chen, Epperly, Tropp and Webber 2025),
``K ~ F F' + diag(d)``, d what the factor leaves of k(x, x). The system of the active
rows A, ``K_AA + 1 + diag(mu)``, is approximated by ``G G' + diag(d + mu)``, G = (F, 1).
"""

from __future__ import annotations

import numpy as np
from scipy import linalg

from corevec._runtime.types import Array
from corevec.solvers.exact.gram import Gram
from corevec.solvers.numeric.partial_cholesky import PartialFactor

# The rank grows until the next eigenvalues are this multiple of the ridge: conjugate
# gradients then take ten to twenty iterations, and a larger factor costs more than it
# saves. At most this multiple of the root of the rows: r^2 n against n^2 per product.
RIDGES, RANK_FACTOR, MOST_RANK = 3.0, 6.0, 1500
# Pivots drawn at a time.
PIVOTS = 64


class LowRank:
    """``F`` of all rows of a working set, float32, and what it leaves of k(x, x)."""

    def __init__(self, gram: Gram, ridge: float, rng: np.random.Generator):
        n = len(gram)
        diagonal = gram.diagonal()
        rank = int(min(RANK_FACTOR * np.sqrt(n), MOST_RANK))
        factor = PartialFactor(gram.columns, diagonal, min(rank, n))
        while factor.can_grow:
            most = min(PIVOTS, factor.n_left, int(np.count_nonzero(factor.left)))
            share = factor.left / factor.left.sum()
            drawn = rng.choice(n, most, replace=False, p=share)
            new = factor.add(np.sort(drawn))
            # |F_j|^2 of the latest columns estimates the next eigenvalues.
            if np.einsum("ij,ij->", new, new) < RIDGES * ridge * len(new):
                break
        features = factor.features(slice(None)).T
        self.left = np.maximum(diagonal - np.einsum("ij,ij->i", features, features), 0)
        self.features = np.ascontiguousarray(features, dtype=np.float32)

    def inverse(self, active: Array, mu: Array, has_bias: bool) -> Inverse:
        """Return the approximate inverse of the system of the rows `active`.

        `active` are positions, `mu` the ridge of each.
        """
        G = self.features[active]
        if has_bias:
            G = np.column_stack([G, np.ones(len(G), dtype=np.float32)])
        return Inverse(G, self.left[active] + mu)


class Inverse:
    """``(G G' + diag(e))^-1`` as an operator on vectors of the active rows."""

    def __init__(self, G: Array, diagonal: Array):
        self.G, self.scale = G, 1.0 / diagonal
        weighted = G * self.scale[:, None].astype(np.float32)
        inner = (G.T @ weighted).astype(np.float64)
        inner[np.diag_indices_from(inner)] += 1.0
        jitter = 0.0
        while True:
            try:
                self.factor = linalg.cho_factor(
                    inner + jitter * np.eye(len(inner)), lower=True, check_finite=False
                )
                return
            except linalg.LinAlgError:  # float32 sums: raise the ridge, never crash
                jitter = max(10 * jitter, 1e-6 * float(np.abs(inner).max()))

    def __call__(self, r: Array) -> Array:
        """Return the product with one vector."""
        u = self.scale * r
        inner = (self.G.T @ u.astype(np.float32)).astype(np.float64)
        w = linalg.cho_solve(self.factor, inner, check_finite=False)
        return u - self.scale * (self.G @ w.astype(np.float32))
