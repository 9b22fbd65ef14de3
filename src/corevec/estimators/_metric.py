"""Whether a metric is learned, what allows it, and what the certificate says."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from corevec.estimators.methods import Cells
from corevec.exceptions import InvalidInputError
from corevec.kernels import DISTANCE_KERNELS, AnyKernel, scale_of
from corevec.models.certificate import Certificate

# The attributes that a learned metric sets.
ATTRIBUTES = ("feature_importances_", "metric_")


def is_learned(method: Any) -> bool:
    """Return whether a method learns a metric."""
    return getattr(method, "metric", "isotropic") == "learned"


def is_searched(method: Any) -> bool:
    """Return whether a method learns a metric, or chooses gamma and C."""
    return is_learned(method) or bool(getattr(method, "tune", False))


def check_metric(model: Any, method: Any) -> None:
    """Raise where a learned metric has no meaning for the estimator."""
    for name in ATTRIBUTES:
        model.__dict__.pop(name, None)
    if isinstance(method, Cells) and not is_learned(method):
        return  # which checks `tune` itself
    for name, other in (("metric", "isotropic"), ("tune", False)):
        value = getattr(method, name, other)
        if value != other:
            _check_searched(model, f"method__{name}", value, other)


def _check_searched(model: Any, name: str, value: Any, other: Any) -> None:
    who = type(model).__name__
    if model._serves not in ("classifier", "regressor"):
        raise InvalidInputError(
            f"{who}: {name}={value!r} is chosen by the error on held-out rows, which "
            "needs labels or targets of a classifier or a regressor. Use "
            f"{name}={other!r}.",
            parameter=name,
        )
    if model.kernel not in DISTANCE_KERNELS:
        words = ", ".join(map(repr, DISTANCE_KERNELS))
        raise InvalidInputError(
            f"{who}: {name}={value!r} is about the distance of a kernel, but "
            f"kernel={model.kernel!r} was given. Use one of {words}, or "
            f"{name}={other!r}.",
            parameter=name,
        )


def stated(certificate: Certificate, kernel: AnyKernel) -> Certificate:
    """Return the certificate with the metric of its problem, if one was learned."""
    if scale_of(kernel) is None:
        return certificate
    words = (
        f"{certificate.problem}; the distance of its kernel has a diagonal metric that "
        "was learned from the rows, and the problem is the one with this metric: "
        "nothing is claimed about the choice of the metric"
    )
    return replace(certificate, problem=words)


__all__ = ["ATTRIBUTES", "check_metric", "is_learned", "is_searched", "stated"]
