"""A diagonal that grows until a matrix is positive definite."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np
from scipy import linalg

from corevec.exceptions import InvalidInputError

Found = TypeVar("Found")

# A matrix that a diagonal of a thousand times its size does not help is not finite.
MAX_SHARE = 1e3


def with_jitter(
    attempt: Callable[[float], Found],
    scale: float,
    first: float = 1e-14,
    growth: float = 10.0,
) -> Found:
    """Return ``attempt(jitter)``, for the least jitter at which it succeeds.

    Parameters
    ----------
    attempt : callable
        Factors a matrix with this number added to its diagonal; raises LinAlgError
        where that is not positive definite.
    scale : float
        Size of the matrix: its trace, or its largest entry.
    first, growth : float
        After 0, the jitter is this share of `scale`, and grows by this factor. A matrix
        that only rounding made indefinite needs some 1e-16 of its size per row.

    Raises
    ------
    InvalidInputError
        Where no jitter helps, or `scale` is not finite.
    """
    if not np.isfinite(scale):  # LAPACK factors such a matrix without a word
        raise _not_finite(scale)
    jitter = 0.0
    while True:
        try:
            return attempt(jitter)
        except linalg.LinAlgError:
            jitter = max(growth * jitter, first * scale)
            if not 0 < jitter <= MAX_SHARE * scale:
                raise _not_positive(scale) from None


def _not_positive(scale: float) -> InvalidInputError:
    if scale > 1e150:
        return _not_finite(scale)
    return InvalidInputError(
        f"a system of equations with entries of the size {scale:.3g} is not positive "
        "definite, whatever is added to its diagonal: nor is the kernel on these rows. "
        "Use a positive definite kernel ('rbf', or 'poly' with coef0 >= 0).",
        parameter="kernel",
    )


def _not_finite(scale: float) -> InvalidInputError:
    return InvalidInputError(
        f"a system of equations with entries of the size {scale:.3g} cannot be solved: "
        "products of the rows, times C and their weights, must stay below 1.8e308. "
        "Scale the columns, e.g. with StandardScaler, or lower C."
    )
