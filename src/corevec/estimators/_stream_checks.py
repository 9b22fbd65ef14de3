"""Checks of the streaming estimators: parameters, and models to be merged."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from corevec.estimators._parameters import (
    check_count,
    check_parameters,
    check_positive,
)
from corevec.exceptions import InvalidInputError
from corevec.kernels import Kernel

# Parameters that may differ between two merged models, and may change in a stream.
FREE = ("verbose", "tol", "random_state", "nu")


def check_streaming(model: Any) -> None:
    """Raise `InvalidInputError` for the first parameter that cannot be used."""
    check_parameters(model)
    who = type(model).__name__
    if isinstance(model.kernel, str) and model.kernel == "precomputed":
        raise InvalidInputError(
            f"{who}: kernel='precomputed' has no rows to store. Give a kernel by name, "
            "or a function k(X, Z).",
            parameter="kernel",
        )
    is_hard = isinstance(model.C, Real) and np.inf == model.C
    if not is_hard or model._form.constrained:
        check_positive(who, "C", model.C)
    if model.budget is not None:
        remedy = "More rows than balls are needed; None keeps all absorbed rows."
        least = model.n_balls + 1
        check_count(who, "budget", model.budget, least=least, remedy=remedy)


def check_mergeable(model: Any, other: Any) -> None:
    """Raise if the balls of two models do not belong to the same problem."""
    who = type(model).__name__
    if type(other) is not type(model):
        raise InvalidInputError(
            f"{who}: a {type(other).__name__} cannot be merged into a {who}."
        )
    check_is_fitted(other)
    if other is model:
        raise InvalidInputError(
            f"{who}: a model was merged with itself; the two must have seen different "
            "rows."
        )
    mine, theirs = model.get_params(), other.get_params()
    for name in mine:
        if name not in FREE and mine[name] != theirs[name]:
            raise InvalidInputError(
                f"{who}: merge needs equal parameters; {name} is {mine[name]!r} "
                f"and {theirs[name]!r}."
            )
    if model.n_features_in_ != other.n_features_in_:
        raise InvalidInputError(
            f"{who}: merge needs the same columns; there are {model.n_features_in_} "
            f"and {other.n_features_in_}."
        )
    here, there = (
        list(getattr(one, "feature_names_in_", ())) for one in (model, other)
    )
    if here and there and here != there:
        raise InvalidInputError(
            f"{who}: merge needs the same columns; they are {here} and {there}."
        )
    if model._kernel_first and not model._is_linear:
        _check_same_width(who, model._streams[0].kernel, other._streams[0].kernel)


def check_unchanged(model: Any, begun_with: dict[str, Any]) -> None:
    """Raise if a parameter has changed since the stream began."""
    now = model.get_params()
    for name, value in begun_with.items():
        if now[name] is not value and now[name] != value:
            raise InvalidInputError(
                f"{type(model).__name__}: {name} was {value!r} when the stream began "
                f"and is {now[name]!r} now; a ball cannot change its problem. Set it "
                "back, or start anew with fit."
            )


def refuse_weights(model: Any, sample_weight: Any) -> None:
    """Raise if weights are given beside a stream."""
    if sample_weight is not None:
        raise InvalidInputError(
            f"{type(model).__name__}: sample_weight cannot be given beside a stream; "
            "put the weights into its blocks: (X, y, sample_weight)."
        )


def _check_same_width(who: str, mine: Any, theirs: Any) -> None:
    """Raise if a gamma by name was resolved differently in two models."""
    if not isinstance(mine, Kernel):
        return
    here, there = (
        float(one.gamma) * 4.0 ** -float(one.row_map.exponent) for one in (mine, theirs)
    )
    if not np.isclose(here, there, rtol=1e-12, atol=0.0):
        raise InvalidInputError(
            f"{who}: merge needs the same kernel; gamma was resolved as {here:g} "
            f"and {there:g}, each from its first block. Give gamma as a number."
        )
