"""A metric learned for an estimator, what it sets, and what its certificate says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from corevec._runtime.types import Array
from corevec.data.sources import RowSubset, Source
from corevec.exceptions import InvalidInputError
from corevec.kernels import DISTANCE_KERNELS, AnyKernel, Kernel, scale_of
from corevec.models.certificate import Certificate
from corevec.problems.family import Problem
from corevec.solvers.cells.cell import rows_with_weight
from corevec.solvers.metric.learn import (
    GLOBAL_ROWS,
    Form,
    Learned,
    MetricTask,
    draw_regions,
    learn,
    sample_size,
)
from corevec.solvers.numeric.deadline import Deadline

# The attributes that a learned metric sets.
ATTRIBUTES = ("feature_importances_", "metric_")
# The share of the time limit that learning may take.
_TIME_SHARE = 0.25
GLOBAL_FORM = Form(GLOBAL_ROWS, is_local=False)


@dataclass(frozen=True)
class MetricFit:
    """What a metric is learned from: problems, rows, and the kernel asked for."""

    problems: list[Problem]
    source: Source
    kernel_of: Callable[[float | None], AnyKernel]
    seed: int

    def learn(self, form: Form, deadline: Deadline) -> Learned:
        """Return the metric learned on a sample, which is held in memory."""
        rng = np.random.default_rng(self.seed)
        host, n_outputs = self.source.host_copy(), len(self.problems)
        if host.holds(host.n_rows):
            rows = rows_with_weight(self.problems, host)
            groups = draw_regions(host, rows, form, n_outputs, rng)
        else:
            host, groups = self._sampled(host, sample_size(form, n_outputs), rng)
        task = MetricTask(self.problems, host, groups, self._kernel, form)
        least = Deadline(deadline.progress, _share_of(deadline))
        return learn(task, rng, least)

    def _sampled(
        self, remote: Source, size: int, rng: np.random.Generator
    ) -> tuple[Source, list[Array]]:
        """Return a random sample of out-of-core rows, in memory."""
        while not remote.holds(size):
            size //= 2
        drawn = np.sort(Source.draw(remote, rng, size))
        rows = remote.near(drawn).take(drawn)
        sample = RowSubset(remote, rows.index, rows)
        return sample, [rows_with_weight(self.problems, sample)]

    def _kernel(self, gamma: float | None) -> Kernel:
        kernel = self.kernel_of(gamma)
        assert isinstance(kernel, Kernel)  # `check_metric`
        return kernel


def _share_of(deadline: Deadline) -> float:
    """Return when learning must end: after a share of the time that is left."""
    return deadline.progress.seconds + _TIME_SHARE * deadline.left


def is_learned(method: Any) -> bool:
    """Return whether a method learns a metric."""
    return getattr(method, "metric", "isotropic") == "learned"


def check_metric(model: Any, method: Any) -> None:
    """Raise where a learned metric has no meaning for the estimator."""
    for name in ATTRIBUTES:
        model.__dict__.pop(name, None)
    if not is_learned(method):
        return
    who = type(model).__name__
    if model._serves not in ("classifier", "regressor"):
        raise InvalidInputError(
            f"{who}: method__metric='learned' is chosen by the error on held-out rows, "
            "which needs labels or targets of a classifier or a regressor. Use "
            "method__metric='isotropic'.",
            parameter="method__metric",
        )
    if model.kernel not in DISTANCE_KERNELS:
        words = ", ".join(map(repr, DISTANCE_KERNELS))
        raise InvalidInputError(
            f"{who}: method__metric='learned' changes the distance of a kernel, but "
            f"kernel={model.kernel!r} was given. Use one of {words}, or "
            "method__metric='isotropic'.",
            parameter="method__metric",
        )


def with_metric(kernel: AnyKernel, learned: Learned) -> AnyKernel:
    """Return the kernel with the learned metric, if that is better than none."""
    if learned.scale is None:
        return kernel
    assert isinstance(kernel, Kernel)
    return kernel.with_scale(learned.scale)


def set_learned(model: Any, learned: Learned) -> None:
    """Set the attributes that describe the metric."""
    scale = learned.scale
    ones: Array = np.ones(len(learned.importances))
    model.metric_ = ones if scale is None else scale**2
    model.feature_importances_ = learned.importances


def facts_of(learned: Learned) -> dict[str, float]:
    """Return what is noted in `history_`: errors on the held-out rows of the sample."""
    return {
        "metric_error": learned.error,
        "isotropic_error": learned.isotropic_error,
        "metric_rounds": learned.n_rounds,
    }


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


__all__ = [
    "ATTRIBUTES",
    "GLOBAL_FORM",
    "MetricFit",
    "check_metric",
    "facts_of",
    "is_learned",
    "set_learned",
    "stated",
    "with_metric",
]
