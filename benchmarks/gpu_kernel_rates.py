"""Kernel-times-vectors at the tile sizes in use, beside blocked torch and the ceilings.

`gpu_kernels` tries other tile sizes too, and takes minutes.
"""

import torch

from benchmarks import gpu_kernels
from benchmarks.gpu_sheet import IS_CUDA
from corevec.backend.gpu import triton_times as _fused

COLUMNS = (2, 22, 128, 784)
BASIS = 1000


def cases():
    """Yield the ceilings of the machine, then every number of columns."""
    if not IS_CUDA:
        return
    yield "ceilings", ceilings
    for d in COLUMNS:
        for dtype in (torch.float32, torch.float64):
            yield (
                f"d={d}",
                lambda sheet, d=d, dtype=dtype: at_columns(sheet, d, dtype),
            )


def ceilings(sheet):
    """Write what a copy and matrix products reach."""
    write(sheet, gpu_kernels.copying())
    for name, dtype, precision in (
        ("matmul (flop/s)", torch.float32, "highest"),
        ("matmul tf32 (flop/s)", torch.float32, "high"),
        ("matmul (flop/s)", torch.float64, "highest"),
    ):
        write(sheet, gpu_kernels.multiplying(name, dtype, precision))


def at_columns(sheet, d, dtype):
    """Write the fused kernel and blocked torch for rows of d columns."""
    problem = gpu_kernels.Problem(gpu_kernels.rows_of(d, dtype), BASIS)
    sizes = _fused.configuration(d, dtype, 1, BASIS)
    write(sheet, problem.fused(sizes), len(problem.X))
    write(sheet, problem.blocked())


def write(sheet, row, n_rows=""):
    """Write a line of `gpu_kernels` in the columns of this table."""
    sheet.write(
        f"{row['what']}, d={row['d']}, {row['dtype']}",
        n_rows=n_rows,
        n_columns=row["d"],
        place="gpu",
        seconds=float(row["seconds"]),
        error=float(row["relative_error"]),
        n_vectors=row["k"],
        values_per_second=float(row["values_per_s"]),
        note=row["config"],
    )
