"""Kernel values times coefficients, in Triton: shared by times and scan.

``few_sums`` (d <= 8) gives every thread a few rows and walks the basis, whose
entries all threads read at the same moment; distances are explicit differences.
Float64 arithmetic per value at d = 2, from the machine code for an H200: 18
instructions (13 of them in 2**x), of which that card makes 1.5e13 a second. Float32:
6 and one special-function instruction, of which it makes 3.7e12 a second.
``many_sums`` multiplies tiles on the tensor cores. A float32 number is the sum of
two TF32 numbers, and three of the four products count ("3xTF32"); the basis is split
once, outside. Float64 tiles are multiplied in float64.

MAPPED rows are as the user gave them, in any precision, and pass through the kernel's
``RowMap`` on their way into the registers: made beforehand, mapped rows and their
squared norms would cost 40 bytes an entry, at d = 22 more than the kernel values.
"""

# mypy: ignore-errors
# Triton reads these functions, not Python: annotations would say nothing of use.

from __future__ import annotations

import triton
import triton.language as tl

from corevec.backend.gpu.triton_profiles import INVERSE_DISTANCE, profile

SUMMED = tl.constexpr(4)  # outputs up to here by summing the tile, else by a product


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


@triton.jit
def _mapped(x, mapping, shift):
    """``x 2**-exponent - shift`` in float64; twin: kernels.RowMap.

    `mapping` holds the power of two in two factors, for 2**1074 is no float64.
    """
    x = x.to(tl.float64) * tl.load(mapping) * tl.load(mapping + 1)
    return x - shift


@triton.jit
def few_sums(
    X,
    packed,
    mapping,
    rows,
    inside,
    k,
    gamma,
    coef0,
    degree,
    CODE: tl.constexpr,
    POWER: tl.constexpr,
    D: tl.constexpr,
    OUTPUTS: tl.constexpr,
    ROWS: tl.constexpr,
    UNROLL: tl.constexpr,
    BASIS: tl.constexpr,
    MAPPED: tl.constexpr,
):
    """Return the columns of ``kernel(X[rows], Z) @ coef``; twin: naive.gram.

    A row of `packed` holds a basis row and its coefficients; k, a multiple of UNROLL,
    is filled up by rows of zeros. Each BASIS rows are summed in the precision of
    `packed`, these sums in float64.
    """
    precision: tl.constexpr = packed.dtype.element_ty
    scale = tl.full([], gamma, precision)
    shift = tl.full([], coef0, precision)
    x = ()
    for c in tl.static_range(D):
        column = tl.load(X + rows * D + c, mask=inside, other=0.0)
        if MAPPED:
            column = _mapped(column, mapping, tl.load(mapping + 2 + c)).to(precision)
        x = x + (column,)  # noqa: RUF005
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
    return totals


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


@triton.jit
def many_sums(
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
    CODE: tl.constexpr,
    POWER: tl.constexpr,
    OUTPUTS: tl.constexpr,
    ROWS: tl.constexpr,
    BASIS: tl.constexpr,
    COLUMNS: tl.constexpr,
    ONCE: tl.constexpr,
    MAPPED: tl.constexpr,
):
    """Return ``kernel(X[rows], Z) @ coef``; twin: naive.gram.

    Z has k rows, a multiple of BASIS, of `padded` columns, a multiple of COLUMNS, both
    filled up by zeros; in float32 first all upper parts, then all lower parts. ONCE:
    the rows' only tile of columns stays in place for the whole basis; MAPPED needs it.
    Up to 4 outputs are returned as columns; more as a matrix of 16 columns, which
    `coef` has then.
    """
    precision: tl.constexpr = Z.dtype.element_ty
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
        if MAPPED:
            centre = tl.load(mapping + 2 + columns, mask=columns < d, other=0.0)
            x = _mapped(x, mapping, centre[None, :]).to(precision)
    if CODE <= INVERSE_DISTANCE:
        if MAPPED:
            own = tl.sum(x * x, axis=1) * scale
        else:
            own = tl.load(x_squares + rows, mask=inside, other=0.0) * scale
    if OUTPUTS <= SUMMED:
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
        if OUTPUTS <= SUMMED:
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
    return totals
