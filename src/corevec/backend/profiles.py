"""Codes and constants of the kernel profiles, which every backend shares."""

from typing import NamedTuple

# Codes of the kernel profiles; `kernels` maps names to them.
RBF, LAPLACIAN, INVERSE_DISTANCE, LINEAR, POLYNOMIAL, SIGMOID = range(6)


class Profile(NamedTuple):
    """A kernel as every backend takes it: the code of its profile, its parameters."""

    code: int
    gamma: float = 1.0
    coef0: float = 0.0
    degree: float = 3.0


# Up to this many columns explicit differences beat a matrix product (measured on
# AVX-512: 2.3e9 against 2.2e9 float32 values/s at d=8, 2.3 against 0.9 at d=2), and
# they do not cancel.
FEW_COLUMNS = 8

# |x|^2 + |z|^2 - 2 x.z is wrong by up to (d + 4) UNIT (|x|^2 + |z|^2). Squared
# distances below the share NEAR of that sum are made of differences; every other one
# has a relative error of at most (d + 4) UNIT / NEAR, and every kernel value, since
# t exp(-t) < 0.37, an absolute one of 0.37 times that, whatever gamma and the scale of
# the columns. One part in 64: near-duplicates, or columns that are spread widely.
NEAR = 1.0 / 64.0
UNIT = 1.1102230246251565e-16  # of float64
SINGLE_UNIT = 2.0**-24  # of float32
# A Gaussian value that cancellation can move by less is left as it is: in tables with
# many near-duplicates explicit differences of them would cost more than the product.
HARMLESS = 2e-13
