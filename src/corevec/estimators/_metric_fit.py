"""Learning a metric for an estimator, with gamma and C, and what that sets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from corevec._runtime.progress import Progress
from corevec._runtime.types import Array
from corevec.data.sources import RowSubset, Source
from corevec.estimators._categories import shared_columns
from corevec.estimators._dataset import Dataset
from corevec.estimators._metric import is_learned
from corevec.estimators.methods import method_of
from corevec.kernels import AnyKernel, Kernel, make_kernel
from corevec.problems.family import Problem
from corevec.solvers.cells.cell import rows_with_weight
from corevec.solvers.cells.tuning import with_C_times
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

# The share of the time limit that learning may take.
_TIME_SHARE = 0.25


def search(
    model: Any, kernel: AnyKernel, given: Dataset, problems: list[Problem]
) -> tuple[AnyKernel, list[Problem], dict[str, Any]]:
    """Return kernel and problems as a method of one machine finds them.

    That is the metric, and gamma and C with `tune`. The last entry is what is noted in
    `history_`.
    """
    method, own = method_of(model), (model.degree, model.coef0)

    def kernel_of(gamma: float | None) -> AnyKernel:
        if gamma is None:
            return kernel
        return make_kernel(model.kernel, gamma, *own, given.statistics)

    clock = Progress(given.n_rows, max_time=model.max_time)
    seed = model._settings().random_state
    own_columns = shared_columns(model)
    fit = MetricFit(problems, given.source, kernel_of, seed, own_columns)
    learned = fit.learn(form_of_all_rows(method), Deadline.of(clock))
    facts: dict[str, Any] = facts_of(learned) if is_learned(method) else {}
    if is_learned(method):
        set_learned(model, learned)
    if learned.gamma is not None:
        model.gamma_, model.C_ = learned.gamma, float(model.C * learned.C_factor)
        facts |= {"gamma": model.gamma_, "C": model.C_}
    found = with_metric(kernel_of(learned.gamma), learned)
    return found, with_C_times(problems, learned.C_factor), facts


@dataclass(frozen=True)
class MetricFit:
    """What a metric is learned from: problems, rows, and the kernel asked for."""

    problems: list[Problem]
    source: Source
    kernel_of: Callable[[float | None], AnyKernel]
    seed: int
    shared: Array | None = None  # which columns share a factor

    def learn(self, form: Form, deadline: Deadline) -> Learned:
        """Return the metric learned on a sample, which is held in memory."""
        rng = np.random.default_rng(self.seed)
        host, n_outputs = self.source.host_copy(), len(self.problems)
        if host.holds(host.n_rows):
            rows = rows_with_weight(self.problems, host)
            groups = draw_regions(host, rows, form, n_outputs, rng)
        else:
            host, groups = self._sampled(
                host, sample_size(form, n_outputs, host.n_rows), rng
            )
        own = self.problems, host, groups, self._kernel, form, self.shared
        task = MetricTask(*own)
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


def form_of_all_rows(method: Any) -> Form:
    """Return what is learned for one machine of all rows."""
    tuned = bool(getattr(method, "tune", False))
    return Form(GLOBAL_ROWS, False, is_tuned=tuned, has_metric=is_learned(method))


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


__all__ = [
    "MetricFit",
    "facts_of",
    "form_of_all_rows",
    "search",
    "set_learned",
    "with_metric",
]
