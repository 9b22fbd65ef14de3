r"""Exact Shapley values of Gaussian expansions, in quadratic time in the columns.

A Gaussian kernel is a product over the columns. For a row x, a reference row r and a
vector z put :math:`a_c = k_c(x_c, z_c)` and :math:`b_c = k_c(r_c, z_c)`: the value of
the coalition S, the columns that come from x while the others come from r, is
:math:`\prod_{c \in S} a_c \prod_{c \notin S} b_c`. Its Shapley values are

.. math:: \phi_c = (a_c - b_c) \sum_{s=0}^{d-1} \frac{s! (d-1-s)!}{d!} e_s
                 = (a_c - b_c) \int_0^1 \prod_{m \ne c} ((1 - t) b_m + t a_m) \, dt,

with :math:`e_s` the coefficient of :math:`t^s` in
:math:`\prod_{m \ne c} (b_m + t a_m)`: elementary symmetric polynomials, weighted by
integrals of
:math:`t^s (1 - t)^{d-1-s}`. The integrand is a polynomial of degree d - 1, so that
Gauss and Legendre's rule with ``ceil(d / 2)`` nodes is exact. No term is negative:
nothing cancels, which the recursion for :math:`e_s` does in a hundred columns.
"""

from __future__ import annotations

import numpy as np

from corevec._runtime.types import Array
from corevec.exceptions import KernelError
from corevec.kernels import Kernel, Rows
from corevec.models.expansion import KernelExpansion

# Factors that are held at a time: 32 MB.
_HELD_FACTORS = 1 << 22


def shapley_values(
    functions: KernelExpansion, rows: Rows, background: Rows, groups: Array
) -> Array:
    """Return the Shapley values of the groups of columns, for each row and output.

    The value of a coalition is the mean of the function over the background, with the
    columns of the coalition from the row. The values of a row add up to its function
    value less the mean over the background, to rounding.

    Parameters
    ----------
    functions : KernelExpansion
        Functions of the Gaussian kernel.
    rows, background : Rows
        The rows to explain, and those for columns out of a coalition; dense.
    groups : ndarray of shape (n_features,)
        The number of the group of each column, from 0 on.

    Returns
    -------
    ndarray of shape (len(rows), n_groups, n_outputs)
        The Shapley values.
    """
    kernel = functions.kernel
    if not isinstance(kernel, Kernel) or kernel.name != "rbf":
        raise KernelError(
            "exact Shapley values need a kernel that is a product over the columns: "
            f"kernel='rbf', but {kernel.name!r} was given."
        )
    n_groups = int(groups.max()) + 1
    member = np.zeros((len(groups), n_groups))
    member[np.arange(len(groups)), groups] = 1.0
    z = np.asarray(functions.prepared().values, dtype=np.float64)
    x, r = (kernel.prepare(own).values for own in (rows, background))
    nodes, weights = np.polynomial.legendre.leggauss((n_groups + 1) // 2)
    nodes, weights = (nodes + 1) / 2, weights / 2
    found = np.zeros((len(rows), n_groups, functions.coef.shape[1]))
    step = max(1, _HELD_FACTORS // (len(nodes) * n_groups))
    for start in range(0, len(z), step):
        few, coef = z[start : start + step], functions.coef[start : start + step]
        a = [_factors(row, few, member, kernel.gamma) for row in x]
        for b in (_factors(row, few, member, kernel.gamma) for row in r):
            for i, own in enumerate(a):
                found[i] += _of_product(own, b, nodes, weights).T @ coef
    return found / len(r)


def _factors(row: Array, z: Array, member: Array, gamma: float) -> Array:
    """Return the factor of each vector and group, shape (vectors, groups)."""
    return np.asarray(np.exp(-gamma * ((z - row) ** 2 @ member)))


def _of_product(a: Array, b: Array, nodes: Array, weights: Array) -> Array:
    """Return the Shapley values of products, shape (vectors, groups)."""
    t = nodes[:, None, None]
    mixed = (1 - t) * b + t * a  # (nodes, vectors, groups)
    ones = np.ones((*mixed.shape[:2], 1))
    # The products of all other factors: of those before, times those after.
    before = np.cumprod(np.concatenate([ones, mixed[..., :-1]], axis=2), axis=2)
    after = np.cumprod(np.concatenate([ones, mixed[..., :0:-1]], axis=2), axis=2)
    others = before * after[..., ::-1]
    return np.asarray((a - b) * np.tensordot(weights, others, axes=1))


__all__ = ["shapley_values"]
