"""Constructor parameters: how they are stored, and one check for each name."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from corevec._runtime.checks import (
    check_choice,
    check_flag,
    check_gap,
    check_number,
    is_count,
)
from corevec.certificates import dual_bounds
from corevec.exceptions import InvalidInputError
from corevec.kernels import check_kernel_name

GAMMAS = ("scale", "auto", "mean-distance")
LOSSES = ("squared_hinge", "hinge")
Check = Callable[[str, str, Any], None]  # estimator, name, value


def store(model: Any, arguments: dict[str, Any]) -> None:
    """Store the arguments of a constructor, its ``locals()``, under their own names.

    scikit-learn's `clone` asks for exactly these objects back, so nothing is checked or
    converted before `fit`.
    """
    for name, value in arguments.items():
        if name not in ("self", "__class__"):
            setattr(model, name, value)


def seed_of(random_state: Any) -> int:
    """Return a seed of NumPy's generators.

    None gives always the same one: as with SVC, a fit can be repeated.
    """
    if random_state is None:
        return 0
    return int(check_random_state(random_state).randint(2**31 - 1))


def check_parameters(model: Any) -> None:
    """Raise `InvalidInputError` for the first parameter that cannot be used."""
    check_all(type(model).__name__, model)


def check_all(who: str, holder: Any, prefix: str = "") -> None:
    """Check every attribute of `holder` whose name has a check.

    Messages and errors name the parameter with `prefix`, as `set_params` does.
    """
    for name, check in _CHECKS.items():
        value = getattr(holder, name, _ABSENT)
        if value is not _ABSENT:
            check(who, prefix + name, value)


# Of C, of mu, and of C times the sum of the weights: blocks of kernel values are
# multiplied by them in float32, which ends at 3.4e38, and a dual value holds their
# inverse squared.
LEAST_C, LARGEST_C = 1e-100, 1e36


def check_positive(who: str, name: str, value: Any) -> None:
    """Check a weight of the loss, such as C: positive, finite and in range."""
    remedy = (
        "Larger values fit the rows more closely; 1e10 is a hard margin for all "
        "practical purposes."
    )
    check_number(who, name, value, above=0, remedy=remedy)
    if not LEAST_C <= value <= LARGEST_C:
        raise InvalidInputError(
            f"{who}: {name}={value!r} must lie between {LEAST_C:g} and {LARGEST_C:g}: "
            f"beyond, sums and squares leave the range of floating-point numbers. "
            f"{remedy}",
            parameter=name,
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


def check_count(
    who: str,
    name: str,
    value: Any,
    *,
    least: int = 1,
    or_none: bool = False,
    remedy: str = "",
) -> None:
    """Check a parameter that must be a whole number of at least `least`."""
    if not is_count(value) or value < least:
        none = ", or None" if or_none else ""
        raise InvalidInputError(
            f"{who}: {name}={value!r} must be a whole number of at least {least}{none}."
            f" {remedy}".rstrip(),
            parameter=name,
        )


# Trees of a forest: each is a machine of its own, and a file may ask for 2**64.
MOST_TREES = 10_000


def _check_trees(who: str, name: str, value: Any) -> None:
    check_count(who, name, value)
    if value > MOST_TREES:
        raise InvalidInputError(
            f"{who}: {name}={value!r} must be at most {MOST_TREES:,}: each tree is "
            "solved by itself. Three to ten average well.",
            parameter=name,
        )


def check_gamma(who: str, name: str, value: Any) -> None:
    """Check a kernel coefficient: a name, or a number above 0."""
    if isinstance(value, str):
        if value in GAMMAS:
            return
    elif isinstance(value, Real) and 0 < float(value) < np.inf:
        return
    words = ", ".join(repr(word) for word in GAMMAS)
    raise InvalidInputError(
        f"{who}: {name}={value!r} must be a number above 0 or one of {words}.",
        parameter=name,
    )


def check_path(who: str, name: str, value: Any) -> None:
    """Check a parameter that is the path of a file."""
    if not isinstance(value, str | os.PathLike):
        raise InvalidInputError(
            f"{who}: {name}={value!r} must be the path of a file, or None.",
            parameter=name,
        )


def check_jobs(who: str, name: str, value: Any) -> None:
    """Check a number of threads, as joblib counts them."""
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not whole or value == 0:
        raise InvalidInputError(
            f"{who}: {name}={value!r} must be a number of threads, a negative number "
            "that counts back from the cores (-1: all of them), or None.",
            parameter=name,
        )


def _words_or_rows(*words: str) -> Check:
    """Return the check of a word, or else of a number of rows."""

    def check(who: str, name: str, value: Any) -> None:
        if is_count(value) or (isinstance(value, str) and value in words):
            return
        allowed = ", ".join(repr(word) for word in words)
        raise InvalidInputError(
            f"{who}: {name}={value!r} must be {allowed} or a whole number of rows of "
            "at least 1 (the paper: sampling=59, batch=1).",
            parameter=name,
        )

    return check


def _optional(check: Callable[..., None], **more: Any) -> Check:
    """Return a check that allows None."""

    def checked(who: str, name: str, value: Any) -> None:
        if value is not None:
            check(who, name, value, **more)

    return checked


def _number(above: float | None, remedy: str = "") -> Check:
    return partial(check_number, above=above, remedy=remedy)


def _one_of(*words: Any) -> Check:
    return partial(check_choice, allowed=words)


_ABSENT = object()
# A name means the same in every estimator that has it. What depends on another
# parameter, such as C of a detector with nu, is checked by the estimator.
_CHECKS: dict[str, Check] = {
    "kernel": lambda who, _, value: check_kernel_name(who, value),
    "gamma": check_gamma,
    "degree": _number(0, "Use 3 for a cubic kernel."),
    "coef0": check_number,
    "tol": check_gap,
    "ball_epsilon": _optional(
        _number(0, "The papers use 1e-6; None stops by `tol` instead.")
    ),
    "epsilon": _optional(_number(0)),
    "sampling": _words_or_rows("auto", "full"),
    "batch": _words_or_rows("auto"),
    "qp": _one_of("auto", "newton", "smo"),
    "init": _one_of("auto", "any", "farthest", "opposite"),
    "n_trees": _check_trees,
    "n_components": check_count,
    "n_rows": check_count,
    "tune": check_flag,
    "metric": _one_of("isotropic", "learned"),
    "max_vectors": _optional(check_count, or_none=True),
    "max_iter": _optional(check_count, or_none=True),
    "checkpoint": _optional(check_path),
    "max_time": _optional(_number(0, "Seconds, or None.")),
    "memory_budget": _number(
        0, "Bytes for blocks and the core set beside the data, e.g. 2**28."
    ),
    "fit_intercept": check_flag,
    "multi_class": _one_of("auto", "ovr", "ovo"),
    "pair_weight": _one_of("query", "uniform"),
    "loss": _one_of(*LOSSES, "expectile", "quantile"),
    "regulariser": _one_of("norm", "coefficients"),
    "certificate": _one_of(*dual_bounds.HOW),
    "n_balls": partial(check_count, remedy="Use 1, or 8 for a smaller ball."),
    "balls": _one_of("lookahead", "general"),
    "overflow": _one_of("merge", "drop"),
    "nu": _optional(check_share),
    "n_jobs": _optional(check_jobs),
}

# The names that `reference` and the command line know.
_count = partial(check_count, or_none=True)


def _check_gamma(who: str, gamma: Any) -> None:
    check_gamma(who, "gamma", gamma)


__all__ = [
    "GAMMAS",
    "LOSSES",
    "check_all",
    "check_choice",
    "check_count",
    "check_flag",
    "check_gamma",
    "check_gap",
    "check_number",
    "check_parameters",
    "check_positive",
    "check_share",
    "is_count",
    "seed_of",
    "store",
]
