"""Kernel-times-vectors on a GPU, in Triton: the kernel values never leave registers.

Rules of this file: as in ``_loops.py``, arrays in, results written in place, no branch
on a kernel at run time (codes are compile-time constants), int64 row numbers, a NumPy
twin in ``tests/naive.py``. `times` is the only entry; ``_torch_kernels`` decides when.

``few_columns`` (d <= 8) gives every thread a few rows and walks the basis, whose
entries all threads read at the same moment; distances are explicit differences.
Float64 arithmetic per value at d = 2, from the machine code for an H200: 18
instructions (13 of them in 2**x), of which that card makes 1.5e13 a second. Float32:
6 and one special-function instruction, of which it makes 3.7e12 a second.
``many_columns`` multiplies tiles on the tensor cores. A float32 number is the sum of
two TF32 numbers, and three of the four products count ("3xTF32"); the basis is split
once, outside. Float64 tiles are multiplied in float64.
"""

# mypy: ignore-errors
# Triton reads these functions, not Python: annotations would say nothing of use.

from __future__ import annotations

import torch
import triton
import triton.language as tl

from corevec._fused_profiles import (
    INVERSE_DISTANCE,
    POLYNOMIAL,
    power_of,
    profile,
    scale_of,
)

FEW_COLUMNS = 8  # as in `kernels`: explicit differences up to here
FEW_OUTPUTS = 8  # sums in registers at a time, for few columns
MANY_OUTPUTS = 16  # the same for many columns, by a second matrix product
_SUMMED = tl.constexpr(4)  # up to here by summing the tile instead


@triton.jit
def _pair(x, packed, start, D: tl.constexpr, CODE: tl.constexpr):
    """Squared distances, or inner products, of rows and one basis row."""
    if CODE <= INVERSE_DISTANCE:
        t = x[0] - tl.load(packed + start)
        q = t * t
        for c in tl.static_range(1, D):
            t = x[c] - tl.load(packed + start + c)
            q += t * t
    else:
        q = x[0] * tl.load(packed + start)
        for c in tl.static_range(1, D):
            q += x[c] * tl.load(packed + start + c)
    return q


@triton.jit(do_not_specialize=["n", "k", "width"])
def few_columns(
    X,
    packed,
    out,
    n: tl.int64,
    k: tl.int64,
    width: tl.int64,
    gamma: tl.float64,
    coef0: tl.float64,
    degree: tl.float64,
    CODE: tl.constexpr,
    POWER: tl.constexpr,
    D: tl.constexpr,
    OUTPUTS: tl.constexpr,
    ROWS: tl.constexpr,
    UNROLL: tl.constexpr,
    BASIS: tl.constexpr,
):
    """``out[:, :OUTPUTS] = kernel(X, Z) @ coef``; twin: naive.gram.

    A row of `packed` holds a basis row and its coefficients; k, a multiple of UNROLL,
    is filled up by rows of zeros. Each BASIS rows are summed in the precision of X,
    these sums in float64.
    """
    precision: tl.constexpr = X.dtype.element_ty
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    inside = rows < n
    scale = tl.full([], gamma, precision)
    shift = tl.full([], coef0, precision)
    x = ()
    for c in tl.static_range(D):
        x = x + (tl.load(X + rows * D + c, mask=inside, other=0.0),)  # noqa: RUF005
    totals = ()
    for _ in tl.static_range(OUTPUTS):
        totals = totals + (tl.zeros((ROWS,), tl.float64),)  # noqa: RUF005
    for first in range(0, k, BASIS):
        sums = ()
        for _ in tl.static_range(OUTPUTS):
            sums = sums + (tl.zeros((ROWS,), precision),)  # noqa: RUF005
        for some in range(first, tl.minimum(first + BASIS, k), UNROLL):
            for one in tl.static_range(UNROLL):
                start = (some + one) * (D + OUTPUTS)
                q = _pair(x, packed, start, D, CODE)
                values = profile(q, scale, shift, degree, CODE, POWER)
                grown = ()
                for o in tl.static_range(OUTPUTS):
                    weight = tl.load(packed + start + D + o)
                    grown = grown + (sums[o] + values * weight,)  # noqa: RUF005
                sums = grown
        grown = ()
        for o in tl.static_range(OUTPUTS):
            grown = grown + (totals[o] + sums[o].to(tl.float64),)  # noqa: RUF005
        totals = grown
    for o in tl.static_range(OUTPUTS):
        tl.store(out + rows * width + o, totals[o], mask=inside)


@triton.jit
def _high(x):
    """Return the nearest TF32 number: 10 bits after the point, not 23."""
    bits = x.to(tl.int32, bitcast=True) + 0x1000
    return (bits & -0x2000).to(tl.float32, bitcast=True)


@triton.jit
def _product(x, z_high, z_low, dot):
    """``dot + x @ z``, the small parts first."""
    if x.dtype == tl.float64:
        return tl.dot(x, z_high, dot, out_dtype=tl.float64)
    else:
        x_high = _high(x)
        x_low = x - x_high
        dot = tl.dot(x_low, z_high, dot, input_precision="tf32")
        dot = tl.dot(x_high, z_low, dot, input_precision="tf32")
        return tl.dot(x_high, z_high, dot, input_precision="tf32")


@triton.jit
def _high_low(Z, low, at):
    """Return a tile of the basis and, in float32, what TF32 leaves out of it."""
    z_high = tl.load(Z + at)
    z_low = z_high
    if z_high.dtype == tl.float32:
        z_low = tl.load(Z + low + at)
    return z_high, z_low


@triton.jit(do_not_specialize=["n", "k", "width"])
def many_columns(
    X,
    x_squares,
    Z,
    z_squares,
    coef,
    out,
    n: tl.int64,
    k: tl.int64,
    d,
    padded,
    width: tl.int64,
    gamma: tl.float64,
    coef0: tl.float64,
    degree: tl.float64,
    CODE: tl.constexpr,
    POWER: tl.constexpr,
    OUTPUTS: tl.constexpr,
    ROWS: tl.constexpr,
    BASIS: tl.constexpr,
    COLUMNS: tl.constexpr,
    ONCE: tl.constexpr,
):
    """``out[:, :OUTPUTS] = kernel(X, Z) @ coef``; twin: naive.gram.

    Z has k rows, a multiple of BASIS, of `padded` columns, a multiple of COLUMNS, both
    filled up by zeros; in float32 first all upper parts, then all lower parts. `coef`
    has min(OUTPUTS, 16) columns beyond 4 outputs. ONCE: the rows' only tile of columns
    stays in place for the whole basis.
    """
    precision: tl.constexpr = X.dtype.element_ty
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    inside = rows < n
    scale = tl.full([], gamma, precision)
    shift = tl.full([], coef0, precision)
    one = tl.full([], 1.0, precision)
    columns = tl.arange(0, COLUMNS)
    here = X + rows[:, None] * d + columns[None, :]
    basis = tl.arange(0, BASIS)
    low = k * padded
    if ONCE:
        mask = inside[:, None] & (columns < d)[None, :]
        x = tl.load(here, mask=mask, other=0.0)
    if CODE <= INVERSE_DISTANCE:
        own = tl.load(x_squares + rows, mask=inside, other=0.0) * scale
    if OUTPUTS <= _SUMMED:
        totals = ()
        for _ in tl.static_range(OUTPUTS):
            totals = totals + (tl.zeros((ROWS,), tl.float64),)  # noqa: RUF005
    else:
        outputs = tl.arange(0, 16)
        totals = tl.zeros((ROWS, 16), tl.float64)
    for first in range(0, k, BASIS):
        at = (first + basis)[None, :] * padded + columns[:, None]
        q = tl.zeros((ROWS, BASIS), precision)
        if ONCE:
            z_high, z_low = _high_low(Z, low, at)
            q = _product(x, z_high, z_low, q)
        else:
            for start in range(0, padded, COLUMNS):
                mask = inside[:, None] & (columns < d - start)[None, :]
                x = tl.load(here + start, mask=mask, other=0.0)
                z_high, z_low = _high_low(Z, low, at + start)
                q = _product(x, z_high, z_low, q)
        if CODE <= INVERSE_DISTANCE:
            others = tl.load(z_squares + first + basis) * scale
            q = tl.maximum(own[:, None] + others[None, :] - (2.0 * scale) * q, 0.0)
            values = profile(q, one, shift, degree, CODE, POWER)
        else:
            values = profile(q, scale, shift, degree, CODE, POWER)
        if OUTPUTS <= _SUMMED:
            grown = ()
            for o in tl.static_range(OUTPUTS):
                c = tl.load(coef + (first + basis) * OUTPUTS + o)
                more = tl.sum(values * c[None, :], axis=1)
                grown = grown + (totals[o] + more.to(tl.float64),)  # noqa: RUF005
            totals = grown
        else:
            c = tl.load(coef + (first + basis)[:, None] * 16 + outputs[None, :])
            more = tl.zeros((ROWS, 16), precision)
            c_low = c
            if precision == tl.float32:
                c_high = _high(c)
                c_low = c - c_high
                c = c_high
            totals += _product(values, c, c_low, more).to(tl.float64)
    if OUTPUTS <= _SUMMED:
        for o in tl.static_range(OUTPUTS):
            tl.store(out + rows * width + o, totals[o], mask=inside)
    else:
        mask = inside[:, None] & (outputs < OUTPUTS)[None, :]
        tl.store(out + rows[:, None] * width + outputs[None, :], totals, mask=mask)


# --- launching ------------------------------------------------------------------------


def times(
    code: int,
    gamma: float,
    coef0: float,
    degree: float,
    X: torch.Tensor,
    Z: torch.Tensor,
    coef: torch.Tensor,
    x_squares: torch.Tensor | None = None,
    z_squares: torch.Tensor | None = None,
    config: dict[str, int] | None = None,
) -> torch.Tensor:
    """Return ``kernel(X, Z) @ coef`` in float64; every kernel but the linear one.

    Squares are needed by distance kernels of more than 8 columns. `config` replaces
    some of the sizes that `configuration` chooses.
    """
    d, outputs = X.shape[1], coef.shape[1]
    out = torch.empty((len(X), outputs), dtype=torch.float64, device=X.device)
    launch = _launch_few if d <= FEW_COLUMNS else _launch_many
    most = FEW_OUTPUTS if d <= FEW_COLUMNS else MANY_OUTPUTS
    launches = -(-outputs // most)
    scalars = (scale_of(code, gamma), float(coef0), float(degree))
    kind = {"CODE": code, "POWER": power_of(degree) if code == POLYNOMIAL.value else 0}
    coef = coef.to(X.dtype)
    for part in range(launches):
        start, stop = (outputs * p // launches for p in (part, part + 1))
        few = coef[:, start:stop]
        sizes = configuration(d, X.dtype, stop - start, len(Z)) | (config or {})
        squares = (x_squares, z_squares)
        launch(X, Z, few, squares, out[:, start:stop], outputs, scalars, kind, sizes)
    return out


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
    basis = 128 if _filled(k, 128) and outputs <= _SUMMED.value else 64
    return {"rows": 128, "basis": basis, "columns": 32, "warps": 8, "stages": 3}


def _filled(k: int, tile: int) -> bool:
    """Whether whole tiles waste less than a tenth of the work."""
    return -(-k // tile) * tile <= 1.1 * k


def _grid(n: int, rows: int) -> tuple[int]:
    return (-(-n // rows),)


def _launch_few(X, Z, coef, squares, out, width, scalars, kind, sizes):
    k = -(-len(Z) // sizes["unroll"]) * sizes["unroll"]
    packed = X.new_zeros((k, X.shape[1] + coef.shape[1]))
    torch.cat((Z, coef), dim=1, out=packed[: len(Z)])
    few_columns[_grid(len(X), sizes["rows"])](
        X,
        packed,
        out,
        len(X),
        k,
        width,
        *scalars,
        **kind,
        D=X.shape[1],
        OUTPUTS=coef.shape[1],
        ROWS=sizes["rows"],
        UNROLL=sizes["unroll"],
        BASIS=sizes["basis"],
        num_warps=sizes["warps"],
        num_stages=sizes["stages"],
    )


def _launch_many(X, Z, coef, squares, out, width, scalars, kind, sizes):
    (k, d), outputs = Z.shape, coef.shape[1]
    padded_k = -(-k // sizes["basis"]) * sizes["basis"]
    padded = -(-d // sizes["columns"]) * sizes["columns"]
    basis = _split(Z, padded_k, padded)
    few = X.new_zeros((padded_k, outputs if outputs <= _SUMMED.value else MANY_OUTPUTS))
    few[:k, :outputs] = coef
    x_squares, z_squares = X, basis  # not read
    if kind["CODE"] <= INVERSE_DISTANCE.value:
        x_squares, z_squares = squares[0], X.new_zeros(padded_k)
        z_squares[:k] = squares[1]
    many_columns[_grid(len(X), sizes["rows"])](
        X,
        x_squares,
        basis,
        z_squares,
        few,
        out,
        len(X),
        padded_k,
        d,
        padded,
        width,
        *scalars,
        **kind,
        OUTPUTS=outputs,
        ROWS=sizes["rows"],
        BASIS=sizes["basis"],
        COLUMNS=sizes["columns"],
        ONCE=padded == sizes["columns"],
        num_warps=sizes["warps"],
        num_stages=sizes["stages"],
    )


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
