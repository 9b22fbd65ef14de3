"""Kernels, each written once, and the rows they are evaluated on."""

from corevec.kernels.kernel import (
    DISTANCE_KERNELS,
    KERNEL_NAMES,
    AnyKernel,
    CallableKernel,
    Kernel,
    NormalizedKernel,
    Points,
    PrecomputedKernel,
    RowMap,
    Rows,
    RowStatistics,
    check_kernel_name,
    finite,
    make_kernel,
    resolve_gamma,
)

__all__ = [
    "AnyKernel",
    "CallableKernel",
    "DISTANCE_KERNELS",
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
    "make_kernel",
    "resolve_gamma",
]
