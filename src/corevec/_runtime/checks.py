"""Checks of single parameters: who, what was given, what is allowed."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any

import numpy as np

from corevec.exceptions import InvalidInputError


def check_number(
    who: str, name: str, value: Any, *, above: float | None = None, remedy: str = ""
) -> None:
    """Check a parameter that must be a finite number, `above` a bound if given."""
    is_number = isinstance(value, Real) and not isinstance(value, bool | np.bool_)
    if is_number and _is_finite(value) and (above is None or value > above):
        return
    bound = "" if above is None else f" above {above:g}"
    raise InvalidInputError(
        f"{who}: {name}={value!r} must be a finite number{bound}. {remedy}".rstrip(),
        parameter=name,
    )


def _is_finite(value: Real) -> bool:
    try:
        return math.isfinite(float(value))
    except OverflowError:  # a whole number beyond 1e308
        return False


def check_gap(who: str, name: str, value: Any, default: str = "1e-3") -> None:
    """Check a relative duality gap that is asked for: above 0 and below 1."""
    remedy = f"{default} is the default."
    check_number(who, name, value, above=0, remedy=remedy)
    if value >= 1:
        raise InvalidInputError(
            f"{who}: {name}={value!r} must be below 1: a relative gap of 1 says "
            f"nothing about a model. {remedy}",
            parameter=name,
        )


def check_flag(who: str, name: str, value: Any) -> None:
    """Check a parameter that must be True or False."""
    if not isinstance(value, bool | np.bool_):
        raise InvalidInputError(
            f"{who}: {name}={value!r} must be True or False.", parameter=name
        )


def check_choice(
    who: str, name: str, value: Any, allowed: tuple[Any, ...], other: str = ""
) -> None:
    """Check a parameter that must be one of a few words; `other` is allowed, too."""
    if any(value is a or (isinstance(value, str) and value == a) for a in allowed):
        return
    words = ", ".join(repr(a) for a in allowed)
    other = f", or {other}" if other else ""
    raise InvalidInputError(
        f"{who}: {name}={value!r} must be one of {words}{other}.", parameter=name
    )


def is_count(value: Any) -> bool:
    """Whether a value is a whole number of at least 1."""
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    return whole and int(value) >= 1


def check_csr(rows: Any) -> None:
    """Raise ValueError where the arrays of a CSR matrix from a file do not match.

    SciPy's own check passes over a last pointer below 0; its compiled loops then read
    outside of the arrays.
    """
    data, indices, indptr = rows.data, rows.indices, rows.indptr
    if len(indptr) != rows.shape[0] + 1 or indptr[0] != 0:
        raise ValueError("indptr must have one entry per row and one more, from 0 on")
    if (indptr[1:] < indptr[:-1]).any() or not indptr[-1] == len(indices) == len(data):
        raise ValueError("indptr must increase to the number of entries")
    if len(indices) and not 0 <= indices.min() <= indices.max() < rows.shape[1]:
        raise ValueError(f"indices must be those of {rows.shape[1]} columns")
    rows.check_format(full_check=True)


__all__ = [
    "check_choice",
    "check_csr",
    "check_flag",
    "check_gap",
    "check_number",
    "is_count",
]
