r"""Gradients of kernel expansions: how much each column matters to a function.

With the mapped rows :math:`u = S (x - m)`, the squared distance
:math:`q_{ij} = |u_i - u_j|^2` and :math:`w_{ij} = c_j k'(q_{ij})`,

.. math:: \frac{\partial f}{\partial u}(x_i)
          = 2 \Big(u_i \sum_j w_{ij} - \sum_j w_{ij} u_j\Big),

one product of the slopes of the kernel with the columns of the basis.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from corevec._runtime.types import Array
from corevec.backend.arrays import cast, to_device_of, to_numpy
from corevec.exceptions import KernelError
from corevec.kernels import Kernel, Rows
from corevec.models.expansion import KernelExpansion

# Slopes held at a time (32 MB), and columns of sparse rows that are dense then.
_TILE_VALUES, _BLOCK_COLUMNS = 1 << 22, 512


def squared_gradients(functions: KernelExpansion, rows: Rows, weight: Array) -> Array:
    r"""Return :math:`\sum_i s_i \sum_t (\partial f_t / \partial x_c)^2` of each c.

    The columns are those that the kernel's row map shifts, before its scale: the result
    does not depend on the metric of the kernel, but for the functions themselves. At a
    basis vector itself, the kernels with a kink have no gradient: that pair counts 0.

    Parameters
    ----------
    functions : KernelExpansion
        Functions of a kernel of the distance.
    rows : Rows
        Where the gradients are taken.
    weight : ndarray of shape (len(rows),)
        The weight s_i of each row.

    Returns
    -------
    ndarray of shape (n_features,)
        The diagonal of the weighted sum of the outer products of the gradients.
    """
    kernel = functions.kernel
    if not isinstance(kernel, Kernel) or not kernel.uses_distance:
        raise KernelError(
            f"gradients of columns need a kernel of the distance, not {kernel.name!r}. "
            "Use kernel='rbf'."
        )
    n_columns = rows.values.shape[1]
    found = np.zeros(n_columns)
    if len(functions.basis) == 0 or len(rows) == 0:
        return found
    z, x = functions.prepared(), kernel.prepare(rows)
    coef = cast(to_device_of(functions.coef, x.values), np.float64)
    step = max(1, _TILE_VALUES // len(z))
    for start in range(0, len(rows), step):
        few = x.part(start, start + step)
        slopes = kernel.slope(kernel.block(few, z))
        own = to_device_of(np.sqrt(weight[start : start + step]), few.values)
        for first in range(0, n_columns, _BLOCK_COLUMNS):
            columns = slice(first, first + _BLOCK_COLUMNS)
            at = _dense(few.values[:, columns])
            of = to_device_of(_dense(z.values[:, columns]), at)
            for c in coef.T:
                pull = slopes * c
                gradient = 2.0 * (at * pull.sum(axis=1)[:, None] - pull @ of)
                gradient = gradient * own[:, None]
                found[columns] += to_numpy((gradient * gradient).sum(axis=0))
    if kernel.row_map.scale is not None:
        found *= kernel.row_map.scale**2
    return found


def _dense(values: Any) -> Any:
    return values.toarray() if sparse.issparse(values) else values


__all__ = ["squared_gradients"]
