"""Kernel-times-vectors on a GPU, in Triton: the kernel values never leave registers.

Rules of this file: as in ``loops/kernels.py``, arrays in, results written in place, no
branch on a kernel at run time (codes are compile-time constants), int64 row numbers, a
NumPy twin in ``tests/naive.py``. `times` is the only entry; ``kernels.py`` says when.
The arithmetic is in ``triton_sums.py``; how a launch is made ready (`ready`) is shared
with ``triton_scan.py``.
"""

# mypy: ignore-errors
# Triton reads these functions, not Python: annotations would say nothing of use.

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
import triton
import triton.language as tl

from corevec.backend.gpu.triton_profiles import (
    INVERSE_DISTANCE,
    POLYNOMIAL,
    power_of,
    scale_of,
)
from corevec.backend.gpu.triton_sums import SUMMED, few_sums, many_sums
from corevec.backend.profiles import FEW_COLUMNS, Profile

if TYPE_CHECKING:
    from corevec.backend.gpu.kernels import Prepared

FEW_OUTPUTS = 8  # sums in registers at a time, for few columns
MANY_OUTPUTS = 16  # the same for many columns, by a second matrix product


@triton.jit(do_not_specialize=["n", "k", "width"])
def few_columns(
    X,
    packed,
    mapping,
    n: tl.int64,
    k: tl.int64,
    gamma: tl.float64,
    coef0: tl.float64,
    degree: tl.float64,
    out,
    width: tl.int64,
    CODE: tl.constexpr,
    POWER: tl.constexpr,
    D: tl.constexpr,
    OUTPUTS: tl.constexpr,
    ROWS: tl.constexpr,
    UNROLL: tl.constexpr,
    BASIS: tl.constexpr,
    MAPPED: tl.constexpr,
):
    """``out[:, :OUTPUTS] = kernel(X, Z) @ coef``; see `few_sums`."""
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    inside = rows < n
    totals = few_sums(
        X,
        packed,
        mapping,
        rows,
        inside,
        k,
        gamma,
        coef0,
        degree,
        CODE,
        POWER,
        D,
        OUTPUTS,
        ROWS,
        UNROLL,
        BASIS,
        MAPPED,
    )
    for o in tl.static_range(OUTPUTS):
        tl.store(out + rows * width + o, totals[o], mask=inside)


@triton.jit(do_not_specialize=["n", "k", "width"])
def many_columns(
    X,
    x_squares,
    Z,
    z_squares,
    coef,
    mapping,
    n: tl.int64,
    k: tl.int64,
    d,
    padded,
    gamma: tl.float64,
    coef0: tl.float64,
    degree: tl.float64,
    out,
    width: tl.int64,
    CODE: tl.constexpr,
    POWER: tl.constexpr,
    OUTPUTS: tl.constexpr,
    ROWS: tl.constexpr,
    BASIS: tl.constexpr,
    COLUMNS: tl.constexpr,
    ONCE: tl.constexpr,
    MAPPED: tl.constexpr,
):
    """``out[:, :OUTPUTS] = kernel(X, Z) @ coef``; see `many_sums`."""
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    inside = rows < n
    totals = many_sums(
        X,
        x_squares,
        Z,
        z_squares,
        coef,
        mapping,
        rows,
        inside,
        k,
        d,
        padded,
        gamma,
        coef0,
        degree,
        CODE,
        POWER,
        OUTPUTS,
        ROWS,
        BASIS,
        COLUMNS,
        ONCE,
        MAPPED,
    )
    if OUTPUTS <= SUMMED:
        for o in tl.static_range(OUTPUTS):
            tl.store(out + rows * width + o, totals[o], mask=inside)
    else:
        outputs = tl.arange(0, 16)
        mask = inside[:, None] & (outputs < OUTPUTS)[None, :]
        tl.store(out + rows[:, None] * width + outputs[None, :], totals, mask=mask)


# --- launching ------------------------------------------------------------------------


class Launch(NamedTuple):
    """One launch made ready: its programs, first arguments and constants.

    `coef` is where the arguments hold the coefficients: other ones may be written.
    """

    grid: tuple[int]
    arguments: tuple
    constants: dict[str, int]
    coef: torch.Tensor

    @property
    def rows(self):
        """Rows of one program."""
        return self.constants["ROWS"]


def times(
    profile: Profile,
    x: Prepared,
    z: Prepared,
    coef: torch.Tensor,
    config: dict[str, int] | None = None,
) -> torch.Tensor:
    """Return ``kernel(x, z) @ coef`` in float64; every kernel but the linear one.

    Squares are needed by distance kernels of more than 8 columns. `config` replaces
    some of the sizes that `configuration` chooses.
    """
    (n, d), outputs = x.values.shape, coef.shape[1]
    out = torch.empty((n, outputs), dtype=torch.float64, device=x.values.device)
    run = few_columns if d <= FEW_COLUMNS else many_columns
    for start, stop in shares(d, outputs):
        launch = ready(profile, x, z, coef[:, start:stop], None, config)
        here = out[:, start:stop]
        run[launch.grid](*launch.arguments, here, outputs, **launch.constants)
    return out


class Repeated:
    """``coef -> times(profile, x, z, coef)``: rows and basis are made ready once.

    On small blocks that takes longer than the products themselves.
    """

    def __init__(self, profile: Profile, x: Prepared, z: Prepared):
        self.profile, self.x, self.z = profile, x, z
        self.launches: dict[int, Launch] = {}

    def __call__(self, coef: torch.Tensor) -> torch.Tensor:
        """Return the product with one set of coefficients, in float64."""
        (n, d), outputs = self.x.values.shape, coef.shape[1]
        out = coef.new_empty((n, outputs), dtype=torch.float64)
        run = few_columns if d <= FEW_COLUMNS else many_columns
        for start, stop in shares(d, outputs):
            launch = self._launch(coef[:, start:stop])
            here = out[:, start:stop]
            run[launch.grid](*launch.arguments, here, outputs, **launch.constants)
        return out

    def _launch(self, coef: torch.Tensor) -> Launch:
        known = self.launches.get(coef.shape[1])
        if known is None:
            known = ready(self.profile, self.x, self.z, coef, None)
            self.launches[coef.shape[1]] = known
        else:
            known.coef.copy_(coef)
        return known


def shares(d: int, outputs: int) -> list[tuple[int, int]]:
    """Return the outputs (start, stop) of each launch."""
    most = FEW_OUTPUTS if d <= FEW_COLUMNS else MANY_OUTPUTS
    launches = -(-outputs // most)
    return [
        (outputs * part // launches, outputs * (part + 1) // launches)
        for part in range(launches)
    ]


def ready(profile, x, z, coef, mapping, config=None) -> Launch:
    """Return a launch for rows x and a prepared basis z, in whose precision it works.

    Both are pairs of values and squared norms. `mapping` (two factors, then a shift for
    each column) maps the rows on the way; None where they are prepared, as z is. It
    needs `maps(d, z.dtype)`.
    """
    (X, _), (Z, _) = x, z
    d, outputs = X.shape[1], coef.shape[1]
    sizes = configuration(d, Z.dtype, outputs, len(Z)) | (config or {})
    constants = {
        "CODE": profile.code,
        "POWER": power_of(profile.degree) if profile.code == POLYNOMIAL.value else 0,
        "OUTPUTS": outputs,
        "ROWS": sizes["rows"],
        "BASIS": sizes["basis"],
        "MAPPED": mapping is not None,
        "num_warps": sizes["warps"],
        "num_stages": sizes["stages"],
    }
    made = _ready_few if d <= FEW_COLUMNS else _ready_many
    mapping = X if mapping is None else mapping
    arguments, more, held = made(profile, x, z, coef.to(Z.dtype), mapping, sizes)
    return Launch(_grid(len(X), sizes["rows"]), arguments, constants | more, held)


def maps(d: int, dtype: torch.dtype) -> bool:
    """Whether rows can be mapped on the way: all columns are in place at once."""
    if d <= FEW_COLUMNS:
        return True
    return d <= configuration(d, dtype, 1, 1)["columns"]


def configuration(d: int, dtype: torch.dtype, outputs: int, k: int) -> dict[str, int]:
    """Return the sizes of tiles: few sets, each compiled once per kernel."""
    # By values/s on an H200, 160 and 1000 basis rows (benchmarks/gpu_kernels.py).
    if d <= FEW_COLUMNS:
        each = 4 if outputs <= 2 else 2  # rows of a thread
        return {"rows": 128 * each, "basis": 64, "warps": 4, "unroll": 4, "stages": 1}
    columns = max(16, min(64, 1 << (d - 1).bit_length()))
    if dtype == torch.float64 and d <= 64:
        few = {"rows": 64, "basis": 32, "warps": 4, "stages": 2}
        return few | {"columns": 16 if d > 32 else min(columns, 32)}
    if dtype == torch.float64:
        return {"rows": 128, "basis": 64, "columns": 32, "warps": 8, "stages": 2}
    if 32 < d <= 64:
        return {"rows": 256, "basis": 64, "columns": 64, "warps": 8, "stages": 2}
    if d <= 32:
        basis = 64 if _filled(k, 64) else 32
        few = {"rows": 128, "basis": basis, "warps": 4, "stages": 2}
        return few | {"columns": columns}
    # A tile of 128 and the second product's operands do not fit the registers.
    basis = 128 if _filled(k, 128) and outputs <= SUMMED.value else 64
    return {"rows": 128, "basis": basis, "columns": 32, "warps": 8, "stages": 3}


def _filled(k: int, tile: int) -> bool:
    """Whether whole tiles waste less than a tenth of the work."""
    return -(-k // tile) * tile <= 1.1 * k


def _grid(n: int, rows: int) -> tuple[int]:
    return (-(-n // rows),)


def _at_run_time(profile):
    """Return the parameters of a profile that are not compiled in."""
    scale = scale_of(profile.code, profile.gamma)
    return scale, float(profile.coef0), float(profile.degree)


def _ready_few(profile, x, z, coef, mapping, sizes):
    (X, _), (Z, _) = x, z
    k = -(-len(Z) // sizes["unroll"]) * sizes["unroll"]
    packed = Z.new_zeros((k, X.shape[1] + coef.shape[1]))
    torch.cat((Z, coef), dim=1, out=packed[: len(Z)])
    constants = {"D": X.shape[1], "UNROLL": sizes["unroll"]}
    held = packed[: len(Z), X.shape[1] :]
    return (X, packed, mapping, len(X), k, *_at_run_time(profile)), constants, held


def _ready_many(profile, x, z, coef, mapping, sizes):
    (X, x_squares), (Z, z_squares) = x, z
    (k, d), outputs = Z.shape, coef.shape[1]
    padded_k = -(-k // sizes["basis"]) * sizes["basis"]
    padded = -(-d // sizes["columns"]) * sizes["columns"]
    basis = _split(Z, padded_k, padded)
    few = Z.new_zeros((padded_k, outputs if outputs <= SUMMED.value else MANY_OUTPUTS))
    few[:k, :outputs] = coef
    x_squares, others = X if x_squares is None else x_squares, basis  # maybe not read
    if profile.code <= INVERSE_DISTANCE.value:
        others = Z.new_zeros(padded_k)
        others[:k] = z_squares
    sized = (len(X), padded_k, d, padded, *_at_run_time(profile))
    constants = {"COLUMNS": sizes["columns"], "ONCE": padded == sizes["columns"]}
    arguments = (X, x_squares, basis, others, few, mapping, *sized)
    return arguments, constants, few[:k, :outputs]


def _split(Z, k, d):
    """Return Z filled up by zeros; in float32 its TF32 parts, high above low."""
    if Z.dtype == torch.float64:
        whole = Z.new_zeros((k, d))
        whole[: len(Z), : Z.shape[1]] = Z
        return whole
    parts = Z.new_zeros((2, k, d))
    bits = Z.contiguous().view(torch.int32) + 0x1000
    high = (bits & -0x2000).view(torch.float32)
    parts[0, : len(Z), : Z.shape[1]] = high
    parts[1, : len(Z), : Z.shape[1]] = Z - high
    return parts
