"""Kernels, each written once, and the rows that they are evaluated on.

A kernel is a *profile* of one number per pair of rows: the squared distance (``rbf``,
``laplacian``, ``inverse-distance``) or the inner product (``linear``, ``poly``,
``sigmoid``). ``precomputed`` and Python functions follow the same interface.

=================  ==========================================  ==================
name               k(x, z)                                     remark
=================  ==========================================  ==================
rbf                exp(-gamma |x-z|^2)                         papers: gamma=1/beta
laplacian          exp(-sqrt(gamma) |x-z|)                     Euclidean distance;
                                                               sigma=1/sqrt(gamma)
                                                               in the CVR paper
inverse-distance   1 / (1 + sqrt(gamma) |x-z|)
linear             x.z
poly               (gamma x.z + coef0)^degree
sigmoid            tanh(gamma x.z + coef0)                     not positive definite
normalized-NAME    k(x,z) / sqrt(k(x,x) k(z,z))
precomputed        row of the given square matrix
callable           k(X, Z) -> array (len(X), len(Z))
=================  ==========================================  ==================

scikit-learn's ``laplacian_kernel`` uses the L1 distance; this one, as the paper,
the Euclidean.

==============  =============================================================
module          holds
==============  =============================================================
rows            `Rows` of a source, `RowMap`, and `Points`: prepared rows
kernel          `Kernel`, a profile of the distance or the inner product
custom          kernels that the user gives as a matrix or a function
factory         `make_kernel`, which resolves names and ``gamma``
==============  =============================================================
"""

from corevec.kernels.custom import CallableKernel, NormalizedKernel, PrecomputedKernel
from corevec.kernels.factory import (
    KERNEL_NAMES,
    AnyKernel,
    check_kernel_name,
    finite,
    make_kernel,
    resolve_gamma,
    rounding_share,
    scale_of,
)
from corevec.kernels.kernel import (
    DISTANCE_KERNELS,
    KERNEL_CODES,
    Kernel,
    inverse_root,
)
from corevec.kernels.rows import Points, RowMap, Rows, RowStatistics, squared_norms

__all__ = [
    "AnyKernel",
    "CallableKernel",
    "DISTANCE_KERNELS",
    "KERNEL_CODES",
    "KERNEL_NAMES",
    "Kernel",
    "NormalizedKernel",
    "Points",
    "PrecomputedKernel",
    "RowMap",
    "RowStatistics",
    "Rows",
    "check_kernel_name",
    "finite",
    "inverse_root",
    "make_kernel",
    "resolve_gamma",
    "rounding_share",
    "scale_of",
    "squared_norms",
]
