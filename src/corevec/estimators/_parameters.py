"""Checks of constructor parameters."""

from __future__ import annotations

import os
from numbers import Real
from typing import Any

import numpy as np

from corevec._runtime.checks import check_choice, check_flag, check_gap, check_number
from corevec._runtime.checks import is_count as _is_count
from corevec.exceptions import InvalidInputError
from corevec.kernels import check_kernel_name

GAMMAS = ("scale", "auto", "mean-distance")


def store(model: Any, arguments: dict[str, Any]) -> None:
    """Store the arguments of a constructor, its ``locals()``, under their own names.

    scikit-learn's `clone` asks for exactly these objects back, so nothing is checked or
    converted before `fit`.
    """
    for name, value in arguments.items():
        if name not in ("self", "__class__"):
            setattr(model, name, value)


def check_parameters(model: Any) -> None:
    """Raise `InvalidInputError` for the first parameter that cannot be used."""
    who = type(model).__name__
    check_kernel_name(who, model.kernel)
    local = getattr(model, "cells", None) is not None and model._task != "none"
    tuned = isinstance(model.gamma, str) and model.gamma == "tune"
    if tuned and not local:
        raise InvalidInputError(
            f"{who}: gamma='tune' needs labels and cells: give cells=1000 to a "
            "classifier or regressor, or another gamma ('scale', or a number).",
            parameter="gamma",
        )
    if not tuned:
        _check_gamma(who, model.gamma)
    check_number(
        who, "degree", model.degree, above=0, remedy="Use 3 for a cubic kernel."
    )
    check_number(who, "coef0", model.coef0)
    check_gap(who, "tol", model.tol)
    if model.ball_epsilon is not None:
        check_number(
            who,
            "ball_epsilon",
            model.ball_epsilon,
            above=0,
            remedy="The papers use 1e-6; None stops by `tol` instead.",
        )
    _choice_or_count(who, "sampling", model.sampling, ("auto", "full"))
    _choice_or_count(who, "batch", model.batch, ("auto",))
    check_choice(who, "qp", model.qp, ("auto", "newton", "smo"))
    check_choice(who, "init", model.init, ("auto", "any", "farthest", "opposite"))
    check_choice(who, "low_rank", model.low_rank, ("auto", True, False))
    check_choice(
        who, "weights", getattr(model, "weights", "auto"), ("auto", "core", "all")
    )
    for name in ("max_core", "max_iter"):
        if getattr(model, name) is not None:
            _count(who, name, getattr(model, name))
    check_path(who, "checkpoint", getattr(model, "checkpoint", None))
    if model.max_time is not None:
        check_number(
            who, "max_time", model.max_time, above=0, remedy="Seconds, or None."
        )
    check_number(
        who,
        "memory_budget",
        model.memory_budget,
        above=0,
        remedy="Bytes for blocks and the core set beside the data, e.g. 2**28.",
    )


def check_positive(who: str, name: str, value: Any) -> None:
    """Check a parameter that must be a positive finite number, such as C."""
    check_number(
        who, name, value, above=0, remedy="Larger C fits the rows more closely."
    )


def check_share(who: str, name: str, value: Any) -> None:
    """Check a parameter that must lie strictly between 0 and 1, such as nu."""
    check_number(
        who, name, value, above=0, remedy="Give a share of the rows, e.g. 0.05."
    )
    if value >= 1:
        raise InvalidInputError(
            f"{who}: {name}={value!r} must be below 1. Give a share, e.g. 0.05.",
            parameter=name,
        )


def _count(who: str, name: str, value: Any) -> None:
    if _is_count(value):
        return
    raise InvalidInputError(
        f"{who}: {name}={value!r} must be a whole number of at least 1, or None.",
        parameter=name,
    )


def _choice_or_count(who: str, name: str, value: Any, words: tuple[str, ...]) -> None:
    if isinstance(value, str) and value in words:
        return
    if _is_count(value):
        return
    allowed = ", ".join(repr(word) for word in words)
    raise InvalidInputError(
        f"{who}: {name}={value!r} must be {allowed} or a whole number of rows of at "
        "least 1 (the paper: sampling=59, batch=1).",
        parameter=name,
    )


def _check_gamma(who: str, gamma: Any) -> None:
    if isinstance(gamma, str):
        if gamma in GAMMAS:
            return
    elif isinstance(gamma, Real) and 0 < float(gamma) < np.inf:
        return
    words = ", ".join(repr(word) for word in GAMMAS)
    raise InvalidInputError(
        f"{who}: gamma={gamma!r} must be a number above 0 or one of {words}.",
        parameter="gamma",
    )


# Re-exports some checks of `corevec._runtime.checks`, which needs no scikit-learn.
__all__ = [
    "GAMMAS",
    "_check_gamma",
    "_is_count",
    "check_choice",
    "check_flag",
    "check_gap",
    "check_number",
    "check_parameters",
    "check_positive",
    "check_share",
]


def check_path(who: str, name: str, value: Any) -> None:
    """Check a parameter that is the path of a file, or None."""
    if value is not None and not isinstance(value, str | os.PathLike):
        raise InvalidInputError(
            f"{who}: {name}={value!r} must be the path of a file, or None.",
            parameter=name,
        )
