"""Kernel profiles in Triton: squared distances or inner products to kernel values.

The functions of ``loops.kernels.profile``, for `triton_times`. Codes are compile-time
constants.
"""

# mypy: ignore-errors
# Triton reads these functions, not Python: annotations would say nothing of use.

from __future__ import annotations

import triton
import triton.language as tl

from corevec.backend import profiles

# The codes as Triton wants its constants.
RBF = tl.constexpr(profiles.RBF)
LAPLACIAN = tl.constexpr(profiles.LAPLACIAN)
INVERSE_DISTANCE = tl.constexpr(profiles.INVERSE_DISTANCE)
POLYNOMIAL = tl.constexpr(profiles.POLYNOMIAL)
SIGMOID = tl.constexpr(profiles.SIGMOID)

# How a power is taken when its exponent is no small integer.
_ANY_POWER = tl.constexpr(-1)
_EVEN_POWER = tl.constexpr(-2)
_ODD_POWER = tl.constexpr(-3)
_LARGEST_POWER = 64

_LOG2E = 1.4426950408889634
# 1.5 * 2**52 and 1.5 * 2**23: adding one rounds to an integer, in the low bits.
_ROUND64 = tl.constexpr(6755399441055744.0)
_ROUND32 = tl.constexpr(12582912.0)


@triton.jit
def _exp2_64(q, scale):
    """``2**(scale * q)`` in float64 for q >= 0 >= scale, at least ``2**-1020``.

    The polynomial is the best of degree 10 for ``2**r`` on [-1/2, 1/2] (Remez in 50
    digits; relative error 2.1e-16). The clip compares upper halves as integers: the
    float64 unit has the least to spare here.
    """
    limit = -1020.0 / scale
    top = (q.to(tl.int64, bitcast=True) >> 32).to(tl.int32)
    top_limit = (limit.to(tl.int64, bitcast=True) >> 32).to(tl.int32)
    q = tl.where(top < top_limit, q, limit)
    rounded = q * scale + _ROUND64
    r = q * scale - (rounded - _ROUND64)
    p = r * 7.037279530582804e-09 + 1.0208537904552164e-07
    p = p * r + 1.3215662831846104e-06
    p = p * r + 1.5252658116561384e-05
    p = p * r + 1.5403529961135955e-04
    p = p * r + 1.3333558228561476e-03
    p = p * r + 9.61812910803459e-03
    p = p * r + 5.550410866445883e-02
    p = p * r + 2.4022650695908768e-01
    p = p * r + 6.931471805599497e-01
    p = p * r + 1.0
    whole = rounded.to(tl.int64, bitcast=True) << 52
    return (p.to(tl.int64, bitcast=True) + whole).to(tl.float64, bitcast=True)


@triton.jit
def _decay(q, scale):
    """``2**(scale * q)`` in the precision of q, for q >= 0 >= scale."""
    if q.dtype == tl.float64:
        return _exp2_64(q, scale)
    else:
        return tl.exp2(q * scale)


@triton.jit
def _tanh(y):
    """``tanh(y) = e / (e + 2)``, e = exp(2|y|) - 1, right also for tiny |y|.

    ``2**(k + r) - 1 = 2**k m + (2**k - 1)`` with ``m = 2**r - 1`` from its Taylor
    series, which has no constant term to round against: degree 13 (remainder 4e-18)
    in float64, 8 (3e-9, against m >= r/2) in float32.
    """
    t = tl.minimum(tl.abs(y) * 2.8853900817779268, 60.0)
    if y.dtype == tl.float64:
        rounded = t + _ROUND64
        r = t - (rounded - _ROUND64)
        p = r * 1.3691488853904128e-12 + 2.567843599348820e-11
        p = p * r + 4.445538271870811e-10
        p = p * r + 7.054911620801123e-09
        p = p * r + 1.0178086009239699e-07
        p = p * r + 1.3215486790144309e-06
        p = p * r + 1.525273380405984e-05
        p = p * r + 1.540353039338161e-04
        p = p * r + 1.3333558146428441e-03
        p = p * r + 9.618129107628477e-03
        p = p * r + 5.550410866482158e-02
        p = p * r + 2.402265069591007e-01
        p = p * r + 6.931471805599453e-01
        whole = (rounded.to(tl.int64, bitcast=True) << 52) + 0x3FF0000000000000
        power = whole.to(tl.float64, bitcast=True)
    else:
        rounded = t + _ROUND32
        r = t - (rounded - _ROUND32)
        p = r * 1.3215486790144309e-06 + 1.525273380405984e-05
        p = p * r + 1.540353039338161e-04
        p = p * r + 1.3333558146428441e-03
        p = p * r + 9.618129107628477e-03
        p = p * r + 5.550410866482158e-02
        p = p * r + 2.402265069591007e-01
        p = p * r + 6.931471805599453e-01
        whole = (rounded.to(tl.int32, bitcast=True) << 23) + 0x3F800000
        power = whole.to(tl.float32, bitcast=True)
    e = power * (p * r) + (power - 1.0)
    e = e / (e + 2.0)
    return tl.where(y < 0.0, -e, e)


@triton.jit
def _power(base, degree, POWER: tl.constexpr):
    """``base**degree`` as NumPy has it: any sign where the degree is an integer."""
    if POWER >= 0:
        result = base * 0.0 + 1.0
        square = base
        for bit in tl.static_range(7):
            if (POWER >> bit) & 1:
                result = result * square
            square = square * square
    else:
        wide = base.to(tl.float64)
        if POWER != _ANY_POWER:
            wide = tl.abs(wide)
        result = tl.exp2(tl.log2(wide) * degree).to(base.dtype)
        if POWER == _ODD_POWER:
            result = tl.where(base < 0.0, -result, result)
    return result


@triton.jit
def profile(q, scale, shift, degree, CODE: tl.constexpr, POWER: tl.constexpr):
    """Kernel values of squared distances or inner products; see `scale_of`."""
    if CODE == RBF:
        return _decay(q, -scale)
    elif CODE == LAPLACIAN:
        return _decay(tl.sqrt(q * scale), tl.full([], -1.0, q.dtype))
    elif CODE == INVERSE_DISTANCE:
        return 1.0 / (1.0 + tl.sqrt(q * scale))
    elif CODE == POLYNOMIAL:
        return _power(q * scale + shift, degree, POWER)
    else:
        return _tanh(q * scale + shift)


def scale_of(code: int, gamma: float) -> float:
    """Return gamma, with log2(e) in it where the value is a power of two."""
    factor = {RBF.value: _LOG2E, LAPLACIAN.value: _LOG2E**2}.get(code, 1.0)
    return float(gamma) * factor


def power_of(degree: float) -> int:
    """Return a small integer degree, or the name of the way to take another one."""
    if degree != int(degree):
        return _ANY_POWER.value
    if 0 <= degree <= _LARGEST_POWER:
        return int(degree)
    return (_ODD_POWER if int(degree) % 2 else _EVEN_POWER).value
