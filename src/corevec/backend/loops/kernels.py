"""Every compiled loop, and nothing else.

Rules of this file: arrays in, results written in place, ``nogil`` and ``cache`` on,
no branch on a kernel inside an inner loop, a NumPy twin in ``tests/naive.py``.
Each function is compiled for float32 and float64 on first use only.
"""

# mypy: ignore-errors
# Numba reads these functions, not Python: annotations would say nothing of use.

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic, overload

from corevec.backend.loops.compiler import njit
from corevec.backend.profiles import (
    HARMLESS,
    INVERSE_DISTANCE,
    LAPLACIAN,
    NEAR,
    POLYNOMIAL,
    RBF,
    SIGMOID,
    UNIT,
)

# "contract" lets LLVM use fused multiply-add; nothing else of fastmath, so that NaN
# and infinity keep their meaning.
_FAST = {"error_model": "numpy", "fastmath": {"contract"}}

_LOG2E = 1.4426950408889634
_LN2_HIGH = 0.693145751953125  # 15 bits: k * _LN2_HIGH is exact for |k| < 2**9
_LN2_LOW = 1.42860682030941723212e-6

# The least curve of a step of SMO, as a share of its two diagonal entries (LIBSVM has
# 1e-12 in the units of the kernel: values of 1e-24 then took 10 million steps).
_FLAT, _LEAST_CURVE = 1e-12, 1e-300


@intrinsic
def _float64_from_bits(typingctx, bits):
    """Reinterpret an int64 as the float64 with the same bits."""

    def codegen(context, builder, signature, args):
        return builder.bitcast(args[0], ir.DoubleType())

    return types.float64(types.int64), codegen


@intrinsic
def _float32_from_bits(typingctx, bits):
    """Reinterpret an int32 as the float32 with the same bits."""

    def codegen(context, builder, signature, args):
        return builder.bitcast(args[0], ir.FloatType())

    return types.float32(types.int32), codegen


# Why not np.exp: without Intel's SVML, LLVM calls the scalar libm once per value.
# These two are branch-free, so the loops around them use the vector unit: measured
# 6x (float64) and 12x (float32) faster than np.exp in the same loop.
@njit(**_FAST)
def _exp64(x):
    """e**x for -708 <= x <= 0, relative error below 3e-16 (x is clipped)."""
    x = x if x > -708.0 else -708.0
    k = np.floor(x * _LOG2E + 0.5)
    r = (x - k * _LN2_HIGH) - k * _LN2_LOW
    # Taylor to degree 13 on |r| <= ln(2)/2: remainder 4e-18.
    p = 1.0 / 6227020800.0
    p = p * r + 1.0 / 479001600.0
    p = p * r + 1.0 / 39916800.0
    p = p * r + 1.0 / 3628800.0
    p = p * r + 1.0 / 362880.0
    p = p * r + 1.0 / 40320.0
    p = p * r + 1.0 / 5040.0
    p = p * r + 1.0 / 720.0
    p = p * r + 1.0 / 120.0
    p = p * r + 1.0 / 24.0
    p = p * r + 1.0 / 6.0
    p = p * r + 0.5
    p = p * r + 1.0
    p = p * r + 1.0
    return p * _float64_from_bits((np.int64(np.int32(k)) + 1023) << 52)


@njit(**_FAST)
def _exp32(x):
    """e**x for -87 <= x <= 0 in float32, relative error below 2e-7 (x is clipped)."""
    x = x if x > np.float32(-87.0) else np.float32(-87.0)
    k = np.floor(x * np.float32(_LOG2E) + np.float32(0.5))
    r = (x - k * np.float32(_LN2_HIGH)) - k * np.float32(_LN2_LOW)
    p = np.float32(1.0 / 720.0)
    p = p * r + np.float32(1.0 / 120.0)
    p = p * r + np.float32(1.0 / 24.0)
    p = p * r + np.float32(1.0 / 6.0)
    p = p * r + np.float32(0.5)
    p = p * r + np.float32(1.0)
    p = p * r + np.float32(1.0)
    return p * _float32_from_bits((np.int32(k) + np.int32(127)) << np.int32(23))


def _exp(x):
    """e**x for x <= 0 in the precision of x."""
    raise NotImplementedError("compiled code only")


@overload(_exp, jit_options=_FAST)
def _exp_by_precision(x):
    if x == types.float32:
        return lambda x: _exp32(x)
    return lambda x: _exp64(x)


@njit(nogil=True, cache=True, **_FAST)
def profile(code, gamma, coef0, degree, q):
    """Replace pair quantities by kernel values, in place; twin: naive.profile.

    `q` holds squared distances for the distance kernels, inner products otherwise.
    """
    one = q.dtype.type(1.0)
    g = q.dtype.type(gamma)
    shift = q.dtype.type(coef0)
    if code == RBF:
        for j in range(q.shape[0]):
            q[j] = _exp(-g * q[j])
    elif code == LAPLACIAN:
        for j in range(q.shape[0]):
            q[j] = _exp(-np.sqrt(g * q[j]))
    elif code == INVERSE_DISTANCE:
        for j in range(q.shape[0]):
            q[j] = one / (one + np.sqrt(g * q[j]))
    elif code == POLYNOMIAL:
        for j in range(q.shape[0]):
            q[j] = (g * q[j] + shift) ** degree
    elif code == SIGMOID:
        for j in range(q.shape[0]):
            q[j] = np.tanh(g * q[j] + shift)


@njit(nogil=True, cache=True, **_FAST)
def difference_block(form, X, ZT, out):
    """Kernel values from explicit differences, for few columns; twin: naive.kernel.

    ``out[i, j] = profile(sum_c (X[i, c] - ZT[c, j])**2)``: no cancellation, and for
    d <= 8 faster than a matrix product followed by a correction. `form` is a `Profile`.
    """
    for i in range(X.shape[0]):
        row = out[i]
        for j in range(row.shape[0]):
            t = X[i, 0] - ZT[0, j]
            row[j] = t * t
        for c in range(1, X.shape[1]):
            for j in range(row.shape[0]):
                t = X[i, c] - ZT[c, j]
                row[j] += t * t
        profile(form.code, form.gamma, form.coef0, form.degree, row)


@njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract", "reassoc"})
def difference_times(form, X, ZT, coefT, scratch, out):
    """``out = kernel(X, Z) @ coefT.T`` without storing the kernel; twin: naive.kernel.

    One row of kernel values at a time stays in the first-level cache. "reassoc"
    lets the sum over basis rows use the vector unit.
    """
    for i in range(X.shape[0]):
        for j in range(scratch.shape[0]):
            t = X[i, 0] - ZT[0, j]
            scratch[j] = t * t
        for c in range(1, X.shape[1]):
            for j in range(scratch.shape[0]):
                t = X[i, c] - ZT[c, j]
                scratch[j] += t * t
        profile(form.code, form.gamma, form.coef0, form.degree, scratch)
        for o in range(coefT.shape[0]):
            total = 0.0
            for j in range(scratch.shape[0]):
                total += coefT[o, j] * scratch[j]
            out[i, o] = total


@njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract", "reassoc"})
def _squared_difference(x, z):
    """Return the squared distance of two rows, which does not cancel."""
    total = x.dtype.type(0.0)
    for c in range(x.shape[0]):
        t = x[c] - z[c]
        total += t * t
    return total


@njit(nogil=True, cache=True, **_FAST)
def _distances(a, zz, row):
    """Turn the inner products of one row into squared distances; count near pairs."""
    zero = row.dtype.type(0.0)
    near = row.dtype.type(NEAR)
    n_near = 0
    for j in range(row.shape[0]):
        both = a + zz[j]
        t = both - row[j] - row[j]
        n_near += t < near * both
        row[j] = t if t > zero else zero
    return n_near


@njit(nogil=True, cache=True, **_FAST)
def product_block(form, x, z, xx, zz, out):
    """Turn inner products in `out` into kernel values, in place; twin: naive.kernel.

    `xx` and `zz` are squared norms, used by the distance kernels only. So are the rows
    `x` and `z`: where ``|x|^2 + |z|^2 - 2 x.z`` cancels, the squared distance is made
    of their differences (see `NEAR` and `HARMLESS`).
    """
    near = out.dtype.type(NEAR)
    for i in range(out.shape[0]):
        row = out[i]
        if form.code <= INVERSE_DISTANCE:
            n_near = _distances(xx[i], zz, row)
            if n_near > 0 and matters(form.code, form.gamma, xx[i], x.shape[1]):
                for j in range(row.shape[0]):
                    if row[j] < near * (xx[i] + zz[j]):
                        row[j] = _squared_difference(x[i], z[j])
        profile(form.code, form.gamma, form.coef0, form.degree, row)


@njit(nogil=True, cache=True, **_FAST)
def distances(form, n_columns, xx, zz, out, cancelled):
    """Turn inner products in `out` into squared distances, in place; twin: naive.

    For sparse rows, which this loop cannot read: rows with pairs that have to be made
    of differences are marked in `cancelled`.
    """
    for i in range(out.shape[0]):
        n_near = _distances(xx[i], zz, out[i])
        cancelled[i] = n_near > 0 and matters(form.code, form.gamma, xx[i], n_columns)


@njit(nogil=True, cache=True, error_model="numpy")
def matters(code, gamma, square, n_columns):
    """Whether cancellation at a row of this squared norm harms kernel values.

    A near pair has ``|x|^2 + |z|^2 < 2.5 |x|^2``. The Gaussian loses gamma times the
    error of the squared distance; the others, functions of its root, always lose.
    """
    return code != RBF or 2.5 * gamma * square * (n_columns + 4) * UNIT > HARMLESS


# The three loops of an SMO step, in a form that LLVM turns into vector code: together
# 6 us at 4000 rows, where loops that track an index and a maximum took 16. Values here
# are finite, so all of fastmath is safe.
_FASTEST = {"error_model": "numpy", "fastmath": True}
_LANES = 16


@njit(nogil=True, cache=True, **_FASTEST)
def _first_smallest(x, lanes):
    """Return the first position of the least entry; `lanes` is scratch."""
    n = x.shape[0]
    whole = n - n % _LANES
    for lane in range(_LANES):
        lanes[lane] = x[0]
    for start in range(0, whole, _LANES):
        for lane in range(_LANES):
            lanes[lane] = min(lanes[lane], x[start + lane])
    least = x[0]
    for lane in range(_LANES):
        least = min(least, lanes[lane])
    for i in range(whole, n):
        least = min(least, x[i])
    for i in range(n):
        if x[i] == least:
            return i
    return 0


@njit(nogil=True, cache=True, **_FASTEST)
def _fill_gains(row_up, up, own, a, g, gains):
    """Set `gains` to minus what moving weight from each row to the row `up` gains."""
    own_up, g_up = own[up], g[up]
    for j in range(a.shape[0]):
        b = max(g[j] - g_up, 0.0)
        b = b if a[j] > 0.0 else 0.0
        both = own_up + own[j]
        curve = max(both - 2.0 * row_up[j], _FLAT * both, _LEAST_CURVE)
        gains[j] = -b * b / curve


@njit(nogil=True, cache=True, **_FAST)
def _largest_difference(a, g, g_up):
    worst = 0.0
    for j in range(a.shape[0]):
        if a[j] > 0.0 and g[j] - g_up > worst:
            worst = g[j] - g_up
    return worst


@njit(nogil=True, cache=True, **_FAST)
def smo(K, ridge, a, g, tol, max_steps):
    """Minimise ``a'(K + diag(ridge))a/2 - p'a`` over the simplex by pairs, in place.

    Second-order choice of the pair (the steepest row up, then the row down that gains
    most), the rule of LIBSVM that the paper builds on. `g` holds the gradient ``(K +
    diag(ridge))a - p`` and is kept up to date. Returns the steps taken; stops when
    ``max over a_j > 0 of g_j - min_i g_i <= tol``, looked at every eighth step. Twin:
    naive.hinge.
    """
    n = a.shape[0]
    gains, lanes, own = np.empty(n), np.empty(_LANES), np.empty(n)
    for i in range(n):
        own[i] = K[i, i] + ridge[i]
    for step in range(max_steps):
        up = _first_smallest(g, lanes)
        if step % 8 == 0 and _largest_difference(a, g, g[up]) <= tol:
            return step
        row_up = K[up]
        _fill_gains(row_up, up, own, a, g, gains)
        down = _first_smallest(gains, lanes)
        if gains[down] == 0.0:
            return step
        row_down = K[down]
        both = own[up] + own[down]
        curve = max(both - 2.0 * row_up[down], _FLAT * both, _LEAST_CURVE)
        move = (g[down] - g[up]) / curve
        if move >= a[down]:
            move = a[down]
            a[down] = 0.0
        else:
            a[down] -= move
        a[up] += move
        g[up] += move * ridge[up]
        g[down] -= move * ridge[down]
        for i in range(n):
            g[i] += move * (row_up[i] - row_down[i])
    return max_steps


@njit(nogil=True, cache=True)
def gather_rows(K, few, start, out):
    """Write ``K[few[start + i], few]`` into the rows of `out`; twin: np.ix_.

    80 parts of a matrix of 15,000 rows took 9.5 s by NumPy's own gather, 3.8 s by this.
    """
    for i in range(out.shape[0]):
        row = K[few[start + i]]
        for j in range(few.shape[0]):
            out[i, j] = row[few[j]]
