"""ModelSizeDisplay: the error against the number of vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import is_classifier, is_regressor

from corevec._runtime.types import Array
from corevec.estimators.compression import compress
from corevec.exceptions import InvalidInputError
from corevec.plots._drawing import (
    BLUE,
    INK,
    legend,
    one_axes,
    part_of_matplotlib,
    tidy,
    title,
)
from corevec.plots._model import last_step, refuse, vectors_of

WHO = "ModelSizeDisplay"
# Default sizes: powers of two up to this share of the vectors of the model.
_LARGEST_SHARE = 0.5
_WRONG_CLASS = "share of rows classified wrongly"
_UNLIKE_LABEL = "share of rows judged otherwise than labelled"
_UNLIKE_LARGEST = "share of rows judged otherwise than by the largest model"
# Errors that are shares: their axis is in per cent.
_SHARES = (_WRONG_CLASS, _UNLIKE_LABEL, _UNLIKE_LARGEST)


@dataclass(kw_only=True, eq=False, repr=False)
class ModelSizeDisplay:
    """Error of models of several sizes on the same rows.

    `from_estimator` computes the smaller models by `corevec.compress` from one fitted
    model; `from_models` draws given models (fitted with different ``n_vectors`` or
    ``C``). The error of classifiers is the share of misclassified rows, with
    bars of one standard error; that of regressors is the root mean squared error; that
    of detectors is the share of rows whose prediction differs from `y` or, without
    `y`, from that of the largest model.

    Parameters
    ----------
    sizes : ndarray of shape (n_models,)
        Number of vectors of each model.
    errors : ndarray of shape (n_models,)
        Error of each model.
    spread : ndarray of shape (n_models,)
        Standard error of each error (0 where it is unknown).
    measure : str
        Name of the error, for the axis.
    full : tuple of (int, float), optional
        Number of vectors and error of the model that was compressed.

    Attributes
    ----------
    figure_ : Figure
        Figure of the last drawing.
    ax_ : Axes
        Axes of the last drawing.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from corevec import CoreVectorClassifier
    >>> from corevec.plots import ModelSizeDisplay
    >>> X, y = make_moons(400, noise=0.2, random_state=0)
    >>> model = CoreVectorClassifier(C=10, random_state=0).fit(X, y)
    >>> display = ModelSizeDisplay.from_estimator(model, X, y, sizes=[4, 16])
    >>> display.sizes.tolist()
    [4, 16]
    """

    sizes: Array
    errors: Array
    spread: Array
    measure: str
    full: tuple[int, float] | None = None

    @classmethod
    def from_estimator(
        cls,
        model: Any,
        X: Any,
        y: Any = None,
        *,
        sizes: Sequence[int] | None = None,
        random_state: int | None = 0,
        ax: Any = None,
    ) -> ModelSizeDisplay:
        """Compress a fitted model to several sizes, measure their errors, draw them.

        Parameters
        ----------
        model : estimator
            A model that `corevec.compress` accepts.
        X : array-like or CSR matrix of shape (n_rows, n_features)
            Rows to measure the error on, preferably held-out rows.
        y : array-like of shape (n_rows,), optional
            Labels or targets of the rows; not needed for detectors.
        sizes : sequence of int, optional
            Numbers of vectors. The default is powers of two up to half of the model.
        random_state : int, optional
            Seed of `corevec.compress`.
        ax : Axes, optional
            Axes to draw on. None: those of a new figure.

        Returns
        -------
        ModelSizeDisplay
            The display, drawn.
        """
        n_full = _size(model)
        if sizes is None:
            top = max(1, int(np.log2(max(2.0, n_full * _LARGEST_SHARE))))
            sizes = [2**power for power in range(1, top + 1)]
        small = [compress(model, int(n), random_state=random_state) for n in sizes]
        measured = [_error(each, X, y, model) for each in small]
        error, _ = _error(model, X, y, model)
        return cls(
            sizes=np.array([_size(each) for each in small]),
            errors=np.array([value for value, _ in measured]),
            spread=np.array([spread for _, spread in measured]),
            measure=_measure(model, y),
            full=(n_full, error),
        ).plot(ax)

    @classmethod
    def from_models(
        cls, models: Sequence[Any], X: Any, y: Any = None, *, ax: Any = None
    ) -> ModelSizeDisplay:
        """Measure the errors of fitted models on the same rows and draw them.

        Parameters
        ----------
        models : sequence of estimators
            Fitted models of one kind, or pipelines that end in them.
        X : array-like or CSR matrix of shape (n_rows, n_features)
            Rows to measure the error on, preferably held-out rows.
        y : array-like of shape (n_rows,), optional
            Labels or targets of the rows; not needed for detectors.
        ax : Axes, optional
            Axes to draw on. None: those of a new figure.

        Returns
        -------
        ModelSizeDisplay
            The display, drawn.
        """
        if len(models) == 0:
            raise InvalidInputError(f"{WHO}: models is empty. Give fitted models.")
        models = sorted(models, key=_size)
        measured = [_error(each, X, y, models[-1]) for each in models]
        return cls(
            sizes=np.array([_size(each) for each in models]),
            errors=np.array([value for value, _ in measured]),
            spread=np.array([spread for _, spread in measured]),
            measure=_measure(models[0], y),
        ).plot(ax)

    def plot(self, ax: Any = None) -> ModelSizeDisplay:
        """Draw the errors against the sizes.

        Parameters
        ----------
        ax : Axes, optional
            Axes to draw on. None: those of a new figure.

        Returns
        -------
        self
            The display, with `figure_` and `ax_`.
        """
        ax = one_axes(WHO, ax, (6.4, 4.4))
        ticker = part_of_matplotlib("ticker")
        ax.errorbar(
            self.sizes,
            self.errors,
            yerr=self.spread if self.spread.any() else None,
            fmt="o-",
            ms=6,
            lw=2,
            color=BLUE,
            ecolor=BLUE,
            elinewidth=1.2,
            capsize=3,
            label="compressed" if self.full else "models",
        )
        if self.full:
            size, error = self.full
            ax.axhline(error, color=INK, ls="--", lw=1.2, zorder=1)
            label = f"full model, {size:,} vectors"
            ax.plot([size], [error], "D", ms=8, color=INK, mec="white", label=label)
        ax.set_xscale("log", base=2)
        ax.xaxis.set_major_formatter(ticker.ScalarFormatter())
        if self.measure in _SHARES:
            ax.yaxis.set_major_formatter(ticker.PercentFormatter(1.0))
        ax.set_ylim(bottom=0)
        ax.grid(axis="y", color="#E6E8EA", lw=0.8)
        tidy(ax, "vectors in the model", self.measure)
        title(ax, "Error against model size")
        legend(ax, loc="upper right")
        self.ax_, self.figure_ = ax, ax.figure
        return self


def _size(model: Any) -> int:
    found = vectors_of(model)
    if found is None:
        raise refuse(
            WHO,
            last_step(model),
            "has no vectors",
            "Its size is the number of columns.",
        )
    return int(found[0].shape[0])


def _measure(model: Any, y: Any) -> str:
    if is_classifier(model):
        return _WRONG_CLASS
    if is_regressor(model):
        return "root mean squared error"
    return _UNLIKE_LARGEST if y is None else _UNLIKE_LABEL


def _error(model: Any, X: Any, y: Any, full: Any) -> tuple[float, float]:
    """Return the error of a model on rows, and its standard error."""
    if y is None:
        if is_classifier(full) or is_regressor(full):
            raise InvalidInputError(f"{WHO}: y is needed to measure an error.")
        y = full.predict(X)
    y = np.asarray(y)
    predicted = model.predict(X)
    if is_regressor(full):
        return float(np.sqrt(np.mean((predicted - y) ** 2))), 0.0
    share = float(np.mean(predicted != y))
    return share, float(np.sqrt(share * (1 - share) / len(y)))
