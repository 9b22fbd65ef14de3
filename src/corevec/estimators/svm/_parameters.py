"""The parameters of scikit-learn's support vector machines, each checked as there."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from corevec._runtime.checks import check_choice, check_flag, check_number
from corevec.estimators._parameters import check_jobs
from corevec.exceptions import InvalidInputError
from corevec.kernels import check_kernel_name

Check = Callable[[str, str, Any], None]  # estimator, name, value


def check_svm_parameters(model: Any) -> None:
    """Raise `InvalidInputError` for the first parameter that cannot be used."""
    who, values = type(model).__name__, model.get_params(deep=False)
    for name, value in values.items():
        if name in _CHECKS:
            _CHECKS[name](who, name, value)


def _refuse(who: str, name: str, value: Any, allowed: str) -> None:
    raise InvalidInputError(
        f"{who}: {name}={value!r} must be {allowed}", parameter=name
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool | np.bool_)


def _between(
    low: float, high: float, *, closed: str, allowed: str, finite: bool = True
) -> Check:
    """Return the check of a number in an interval; `closed` names its closed ends."""

    def check(who: str, name: str, value: Any) -> None:
        inside = _is_number(value) and (not finite or np.isfinite(value))
        if inside:
            above = value >= low if "left" in closed else value > low
            below = value <= high if "right" in closed else value < high
            inside = bool(above and below)
        if not inside:
            _refuse(who, name, value, allowed)

    return check


def _whole(least: int, allowed: str) -> Check:
    def check(who: str, name: str, value: Any) -> None:
        whole = isinstance(value, Integral) and not isinstance(value, bool)
        if not whole or value < least:
            _refuse(who, name, value, allowed)

    return check


def _check_gamma(who: str, name: str, value: Any) -> None:
    is_word = isinstance(value, str) and value in ("scale", "auto")
    if not is_word and not (_is_number(value) and 0 <= value < np.inf):
        _refuse(who, name, value, "'scale', 'auto' or a finite number of at least 0.")


def _check_probability(who: str, name: str, value: Any) -> None:
    if not (isinstance(value, str) and value == "deprecated"):
        check_flag(who, name, value)


def _check_class_weight(who: str, name: str, value: Any) -> None:
    if value is None or isinstance(value, dict):
        return
    if not (isinstance(value, str) and value == "balanced"):
        _refuse(
            who, name, value, "'balanced', a dict {label: weight}, or None (all 1)."
        )


def _check_verbose(who: str, name: str, value: Any) -> None:
    if not isinstance(value, bool | np.bool_):
        _whole(0, "True, False, or a whole number of at least 0.")(who, name, value)


def _check_random_state(who: str, name: str, value: Any) -> None:
    try:
        check_random_state(value)
    except ValueError:
        _refuse(
            who, name, value, "a whole number, a numpy.random.RandomState, or None."
        )


def _optional(check: Check) -> Check:
    """Return a check that allows None."""

    def checked(who: str, name: str, value: Any) -> None:
        if value is not None:
            check(who, name, value)

    return checked


_above_0 = partial(_between, 0.0, np.inf, closed="")

_CHECKS: dict[str, Check] = {
    "C": _between(
        0.0,
        np.inf,
        closed="right",
        finite=False,
        allowed="a number above 0. Larger values fit the rows more closely; inf is a "
        "hard margin.",
    ),
    "nu": _between(
        0.0,
        1.0,
        closed="right",
        allowed="above 0 and at most 1: at most this share of the rows is on the wrong "
        "side of the margin, and at least this share are support vectors.",
    ),
    "epsilon": _between(
        0.0,
        np.inf,
        closed="left",
        allowed="a finite number of at least 0, in units of y: errors below it cost "
        "nothing.",
    ),
    "kernel": lambda who, _, value: check_kernel_name(who, value),
    "degree": _whole(0, "a whole number of at least 0. Use 3 for a cubic kernel."),
    "gamma": _check_gamma,
    "coef0": check_number,
    "shrinking": check_flag,
    "probability": _check_probability,
    "tol": _above_0(allowed="a finite number above 0. 1e-3 is the default."),
    "cache_size": _above_0(
        allowed="a finite number above 0: megabytes for kernel values, 200 by default."
    ),
    "class_weight": _check_class_weight,
    "verbose": _check_verbose,
    "max_iter": _whole(-1, "a whole number of steps, or -1 for no limit."),
    "decision_function_shape": partial(check_choice, allowed=("ovr", "ovo")),
    "break_ties": check_flag,
    "random_state": _check_random_state,
    "max_time": _optional(_above_0(allowed="a number of seconds above 0, or None.")),
    "n_jobs": _optional(check_jobs),
    "memory_budget": _optional(
        _above_0(allowed="a number of bytes above 0, e.g. 2**30, or None.")
    ),
}
