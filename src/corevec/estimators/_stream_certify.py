"""Certificates of one-pass classifiers on given rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from corevec.data.sources import as_source
from corevec.estimators._stream import refuse_remote
from corevec.estimators._stream_blocks import encoded
from corevec.estimators._validation import checked_weights, validated
from corevec.exceptions import InvalidInputError
from corevec.kernels import Rows
from corevec.models.certificate import Certificate, worst_of
from corevec.models.expansion import KernelExpansion
from corevec.problems.family import Labels, two_class
from corevec.solvers.streaming.certificate import gap_of


def certify_classes(
    model: Any,
    rows: tuple[Any, Any, Any],
    positive: Sequence[int],
    lengths: Sequence[tuple[float, float]],
) -> Certificate:
    """Return the certificate of a classifier's machines on rows, labels and weights.

    `positive` are the class codes of the machines; `lengths` the number that each
    function of ``model._functions`` is divided by, and ``|w|^2 + b0^2`` of the result.
    For two classes the certificate is that of the best scale of the function, which
    keeps the predictions; for more classes there is no rescaling, because their values
    are compared.
    """
    who = type(model).__name__
    X, y, sample_weight = rows
    refuse_remote(who, X)
    if y is None:
        raise InvalidInputError(f"{who}: labels y are needed to certify a classifier.")
    X, y = validated(model, X, y, reset=False)
    weights = checked_weights(model, sample_weight, X.shape[0])
    codes = encoded(who, y, weights, model.classes_, lambda row: f"row {row}")
    labels = Labels(X.shape[0], codes, weights)
    X, functions = model._for_certificate(X)
    source = as_source(X, model.memory_budget)
    parts, at_best = [], len(positive) == 1
    for t, code in enumerate(positive):
        problem = two_class(
            labels, float(model.C), code, has_bias=bool(model.fit_intercept)
        )
        scale, norm_sq = lengths[t]
        few = np.flatnonzero(functions.coef[:, t])
        one = KernelExpansion(
            functions.kernel,
            Rows(functions.basis.values[few], few),
            functions.coef[few, t : t + 1] / scale,
            functions.intercept[t : t + 1] / scale,
        )
        found = gap_of(problem, one, norm_sq, source, at_best=at_best)
        done = bool(found.relative_gap <= model.tol)
        parts.append(
            replace(found, converged=done, tol=model.tol, stopped_by="one pass")
        )
    return worst_of(parts, "one machine per class")
