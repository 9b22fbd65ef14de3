"""Checks of the parameters and points of `ImplicitSurface`."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from sklearn.utils.validation import check_array

from corevec._runtime.types import Array
from corevec.estimators._parameters import (
    check_choice,
    check_gap,
    check_jobs,
    check_number,
)
from corevec.exceptions import InvalidInputError
from corevec.kernels import DISTANCE_KERNELS

WHO = "ImplicitSurface"
FORMULATIONS = ("signed", "one-set")
# Three points span a plane; fewer define no normal.
LEAST_POINTS = 3
# Points whose second extent is below this share of the first lie on a line: rounding
# of coordinates near 1e6 around an object of size 1 leaves 1e-10.
_FLAT = 1e-7


def check_surface_parameters(model: Any) -> None:
    """Raise `InvalidInputError` for the first parameter that cannot be used."""
    check_choice(WHO, "kernel", model.kernel, DISTANCE_KERNELS)
    check_choice(WHO, "formulation", model.formulation, FORMULATIONS)
    check_whole(model.scales, "scales", 1)
    checked_widths(model.widths, model.scales)
    if model.max_vectors is not None:
        check_whole(model.max_vectors, "max_vectors", 1)
    check_whole(model.neighbors, "neighbors", LEAST_POINTS)
    check_number(WHO, "C", model.C, above=0, remedy="100 is the default.")
    check_gap(WHO, "tol", model.tol, default="1e-2")
    check_number(WHO, "memory_budget", model.memory_budget, above=0, remedy="Bytes.")
    if model.max_time is not None:
        remedy = "Seconds, or None."
        check_number(WHO, "max_time", model.max_time, above=0, remedy=remedy)
    if model.n_jobs is not None:
        check_jobs(WHO, "n_jobs", model.n_jobs)
    if model.tube is not None:
        remedy = "A length in the units of the points, or None."
        check_number(WHO, "tube", model.tube, above=0, remedy=remedy)


def check_whole(value: Any, name: str, least: int) -> None:
    """Check a parameter that must be a whole number of at least `least`."""
    is_whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not is_whole or value < least:
        raise InvalidInputError(
            f"{WHO}: {name}={value!r} must be a whole number of at least {least}.",
            parameter=name,
        )


def checked_widths(widths: Any, n_scales: int) -> Array | None:
    """Return the widths as an array, one per scale, decreasing; None if not given."""
    if widths is None:
        return None
    try:
        found = np.asarray(widths, dtype=np.float64)
    except (TypeError, ValueError):
        found = np.empty(0)
    falling = found.ndim == 1 and bool((np.diff(found) < 0).all())
    if found.shape == (n_scales,) and falling and 0 < found[-1] <= found[0] < np.inf:
        return found
    raise InvalidInputError(
        f"{WHO}: widths={widths!r} must be {n_scales} positive lengths (scales="
        f"{n_scales}), each smaller than the one before, in the units of the points.",
        parameter="widths",
    )


def checked_places(points: Any, least: int = 1) -> Array:
    """Return finite float64 points of shape (n, 3)."""
    try:
        places = check_array(
            points, dtype=np.float64, ensure_min_samples=least, input_name="points"
        )
    except ValueError as error:
        raise InvalidInputError(f"{WHO}: {error}") from None
    if places.shape[1] != 3:
        raise InvalidInputError(
            f"{WHO}: points of shape {places.shape} were given; expected three "
            "columns: x, y, z."
        )
    return np.ascontiguousarray(places)


def distinct_points(points: Any) -> tuple[Array, Array]:
    """Return the distinct points, in the given order, and their row numbers."""
    places = checked_places(points, least=0)
    rows = np.sort(np.unique(places, axis=0, return_index=True)[1])
    if len(rows) < LEAST_POINTS:
        raise InvalidInputError(
            f"{WHO}: {len(places)} points were given, {len(rows)} of them distinct; a "
            f"surface needs at least {LEAST_POINTS}."
        )
    distinct = places[rows]
    extents = np.linalg.svd(distinct - distinct.mean(axis=0), compute_uv=False)
    if extents[1] <= _FLAT * extents[0]:
        raise InvalidInputError(
            f"{WHO}: all {len(rows)} distinct points lie on one line, which has no "
            "surface. Give points that spread in at least two directions."
        )
    return distinct, rows


def checked_normals(normals: Any, n_points: int) -> Array:
    """Return unit normals of shape (n_points, 3)."""
    try:
        found = check_array(normals, dtype=np.float64, input_name="normals")
    except ValueError as error:
        raise InvalidInputError(f"{WHO}: {error}") from None
    if found.shape != (n_points, 3):
        raise InvalidInputError(
            f"{WHO}: normals of shape {found.shape} were given for {n_points} points; "
            f"expected ({n_points}, 3): one normal per point."
        )
    lengths = np.linalg.norm(found, axis=1)
    if not (lengths > 0).all():
        row = int(np.argmin(lengths))
        raise InvalidInputError(
            f"{WHO}: normals[{row}] has length 0. Remove such "
            "points, or give normals=None to estimate all normals."
        )
    return np.asarray(found / lengths[:, None])


__all__ = [
    "WHO",
    "check_surface_parameters",
    "check_whole",
    "checked_normals",
    "checked_places",
    "checked_widths",
    "distinct_points",
]
