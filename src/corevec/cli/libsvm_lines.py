"""The lines that LIBSVM's programs print, which scripts parse."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import Any

from corevec.cli.data import Table
from corevec.cli.letters import TrainLetters

# A coefficient within this share of its bound is at it.
_AT_BOUND = 1e-9


def trained_lines(
    model: Any, text: Any, letters: TrainLetters, table: Table
) -> Iterator[str]:
    """Yield what svm-train prints of every machine of a model.

    obj is the least value of the dual problem written as a minimum.
    """
    import numpy as np

    steps = np.atleast_1d(model.n_iter_)
    certificate = model.certificate_
    parts = certificate.parts or (certificate,)
    machines = _machines(text, letters, table)
    for (coef, bound, n_rows), t in zip(machines, range(len(steps)), strict=True):
        yield f"optimization finished, #iter = {int(steps[t])}"
        size, objective = np.abs(coef).sum(), -parts[t].dual
        if letters.s == 1:
            C = size / (letters.n * n_rows)  # the function was divided by 1 / C
            bound, objective = C * bound, objective * C * C
            yield f"C = {C:.6f}"
        elif letters.s in (0, 3) and not letters.weights:
            yield f"nu = {size / (letters.c * n_rows):.6f}"
        elif letters.s == 4:
            yield f"epsilon = {_tube(model, table, bound):.6f}"
        yield f"obj = {objective:.6f}, rho = {text.rho[t]:.6f}"
        at_bound = np.abs(coef) >= bound * (1 - _AT_BOUND)
        yield f"nSV = {len(coef)}, nBSV = {np.count_nonzero(at_bound)}"
    if letters.is_classifier:
        yield f"Total nSV = {len(text.coef)}"


def _machines(
    text: Any, letters: TrainLetters, table: Table
) -> Iterator[tuple[Any, Any, int]]:
    """Yield coefficients that are not 0, their bounds, and the rows of each machine."""
    import numpy as np

    if not letters.is_classifier:
        coef = text.coef[:, 0]
        bound: Any = 1.0 if letters.s == 2 else letters.c
        yield coef[coef != 0], bound, len(table.y)
        return
    own = np.repeat(np.arange(len(text.labels)), text.counts)
    C = letters.c if letters.s == 0 else 1.0
    use_weights = letters.s == 0
    for i, j in combinations(range(len(text.labels)), 2):
        parts = text.coef[own == i, j - 1], text.coef[own == j, i]
        weights = [
            letters.weights.get(float(text.labels[k]), 1.0) if use_weights else 1.0
            for k in (i, j)
        ]
        coef = np.concatenate(parts)
        bound = C * np.repeat(weights, [len(part) for part in parts])
        rows = np.isin(table.y, text.labels[[i, j]])
        yield coef[coef != 0], bound[coef != 0], int(np.count_nonzero(rows))


def _tube(model: Any, table: Table, bound: float) -> float:
    """Return the tube of nu-SVR: where rows with a free multiplier are."""
    import numpy as np

    away = np.abs(table.y - model.predict(table.X))
    size = np.zeros(len(away))
    size[model.support_] = np.abs(np.ravel(_dense(model.dual_coef_)))
    free = (size > 0) & (size < bound * (1 - _AT_BOUND))
    if free.any():
        return float(np.mean(away[free]))
    inside, outside = away[size == 0], away[size > 0]
    return float(inside.max(initial=0.0) + outside.min(initial=np.inf)) / 2


def _dense(values: Any) -> Any:
    return values.toarray() if hasattr(values, "toarray") else values


def laplace_lines(scale: float) -> str:
    """Return what svm-predict -b 1 prints of a regression."""
    return (
        "Prob. model for test data: target value = predicted value + z,\n"
        f"z: Laplace distribution e^(-|z|/sigma)/(2sigma),sigma={scale:g}"
    )
