"""CoreVectorsDisplay: the vectors of a model among the rows, with their weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.decomposition import PCA

from corevec._runtime.types import Array
from corevec.exceptions import InvalidInputError
from corevec.plots._drawing import (
    PALE,
    class_name,
    colour_of,
    legend,
    marker_of,
    one_axes,
    tidy,
    title,
)
from corevec.plots._model import (
    dense,
    last_step,
    names_of,
    refuse,
    rows_for,
    some_rows,
    vectors_of,
)
from corevec.plots._plane import two_columns

WHO = "CoreVectorsDisplay"
# Areas of the smallest and the largest marker, in square points.
_SMALLEST, _LARGEST = 14.0, 260.0
# Maximum number of legend entries: 25 of them left no space for the axes.
_MOST_IN_LEGEND = 15


@dataclass(kw_only=True, eq=False, repr=False)
class CoreVectorsDisplay:
    """The vectors of a model among the rows, drawn by their weights.

    Use `from_estimator`. The area of a marker is proportional to the largest absolute
    coefficient of its vector. The colour is the class of the vector if it is a training
    row, and otherwise the sign of its coefficient (one colour for several outputs).

    Parameters
    ----------
    places : ndarray of shape (n, 2)
        The rows, in the coordinates of the plot.
    vectors : ndarray of shape (n_vectors, 2)
        The vectors, in the same coordinates.
    weights : ndarray of shape (n_vectors,)
        Largest absolute coefficient of each vector.
    groups : list of str
        Names of the colours.
    codes : ndarray of int of shape (n_vectors,)
        Group of each vector.
    names : pair of str
        Labels of the axes.

    Attributes
    ----------
    figure_ : Figure
        Figure of the last drawing.
    ax_ : Axes
        Axes of the last drawing.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from corevec import CoreVectorClassifier
    >>> from corevec.plots import CoreVectorsDisplay
    >>> X, y = load_iris(return_X_y=True)
    >>> model = CoreVectorClassifier(random_state=0).fit(X, y)
    >>> display = CoreVectorsDisplay.from_estimator(model, X, y)
    >>> len(display.vectors) == len(model.support_vectors_)
    True
    """

    places: Array
    vectors: Array
    weights: Array
    groups: list[str]
    codes: Array
    names: tuple[str, str]

    @classmethod
    def from_estimator(
        cls,
        model: Any,
        X: Any,
        y: Any = None,
        *,
        columns: tuple[Any, Any] | None = None,
        max_rows: int = 2000,
        random_state: int | None = 0,
        ax: Any = None,
    ) -> CoreVectorsDisplay:
        """Compute the places of the vectors of a fitted model and draw them.

        Parameters
        ----------
        model : estimator
            Fitted model with ``support_vectors_``, or a pipeline
            that ends in one.
        X : array-like or CSR matrix of shape (n_rows, n_features)
            The training rows.
        y : array-like of shape (n_rows,), optional
            Labels of a classifier, for the colours.
        columns : pair of int or str, optional
            The columns to draw, by number or name. The default is both of two columns,
            or the first two principal components of more columns.
        max_rows : int, default=2000
            Maximum number of rows to draw; a random subset of more rows.
        random_state : int, optional
            Seed of the random subset.
        ax : Axes, optional
            Axes to draw on. None: those of a new figure.

        Returns
        -------
        CoreVectorsDisplay
            The display, drawn.
        """
        found = vectors_of(model)
        if found is None:
            raise refuse(
                WHO,
                last_step(model),
                "has no vectors",
                "Linear streaming models and precomputed kernels have none to draw.",
            )
        vectors, coef = found
        rows = rows_for(WHO, model, X)
        some = rows[some_rows(rows.shape[0], max_rows, random_state)]
        view = _view(model, some, columns)
        groups, codes = _groups(last_step(model), y, coef)
        return cls(
            places=view.place(some),
            vectors=view.place(vectors),
            weights=np.abs(coef).max(axis=0),
            groups=groups,
            codes=codes,
            names=view.names,
        ).plot(ax)

    def plot(self, ax: Any = None, *, legend: bool = True) -> CoreVectorsDisplay:
        """Draw the rows and the vectors.

        Parameters
        ----------
        ax : Axes, optional
            Axes to draw on. None: those of a new figure.
        legend : bool, default=True
            Whether to draw the legend.

        Returns
        -------
        self
            The display, with `figure_` and `ax_`.
        """
        ax = one_axes(WHO, ax, (7.2, 4.8))
        ax.scatter(*self.places.T, s=9, color=PALE, lw=0, zorder=1, label="rows")
        share = self.weights / max(float(self.weights.max()), 1e-300)
        areas = np.maximum(_LARGEST * share, _SMALLEST)
        # Large markers first: a small one on top of a large one stays visible.
        order = np.argsort(-areas)
        for t, name in enumerate(self.groups):
            own = order[self.codes[order] == t]
            ax.scatter(
                *self.vectors[own].T,
                s=areas[own],
                marker=marker_of(t),
                color=colour_of(t),
                edgecolors="white",
                linewidths=0.8,
                alpha=0.85,
                label=name,
                zorder=3,
            )
        tidy(ax, *self.names)
        title(
            ax, f"{len(self.vectors):,} core vectors", "area: size of the coefficient"
        )
        if legend:
            self._draw_legend(ax)
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _draw_legend(self, ax: Any) -> None:
        handles, _ = ax.get_legend_handles_labels()
        left_out = len(handles) - _MOST_IN_LEGEND
        if left_out > 0:
            more = ax.scatter([], [], color="none", label=f"and {left_out} more")
            handles = [*handles[:_MOST_IN_LEGEND], more]
        drawn = legend(ax, handles)
        for handle in drawn.legend_handles:
            handle.set_sizes([45.0])


class _Columns:
    """Projection on two columns."""

    def __init__(self, columns: tuple[int, int], names: list[str]):
        self.columns = list(columns)
        self.names = names[columns[0]], names[columns[1]]

    def place(self, rows: Any) -> Array:
        return dense(rows[:, self.columns])


class _Components:
    """Projection on the first two principal components of the rows."""

    def __init__(self, rows: Any):
        solver = "arpack" if sparse.issparse(rows) else "auto"
        self.found = PCA(2, svd_solver=solver, random_state=0).fit(rows)
        first, second = self.found.explained_variance_ratio_
        self.names = (
            f"first main direction ({first:.0%} of the variance)",
            f"second main direction ({second:.0%})",
        )

    def place(self, rows: Any) -> Array:
        return np.asarray(self.found.transform(rows))


def _view(model: Any, rows: Any, columns: Any) -> Any:
    names = names_of(model, rows.shape[1])
    if columns is None:
        if rows.shape[1] < 2:
            raise InvalidInputError(
                f"{WHO}: X of shape {rows.shape} has fewer than two columns to draw."
            )
        if rows.shape[1] == 2:
            return _Columns((0, 1), names)
        return _Components(rows)
    return _Columns(two_columns(WHO, columns, names), names)


def _groups(model: Any, y: Any, coef: Array) -> tuple[list[str], Array]:
    """Return the names of the colours, and the colour of each vector."""
    index = getattr(model, "support_", None)
    classes = getattr(model, "classes_", None)
    if y is not None and classes is not None and _are_rows(index, coef):
        codes = np.searchsorted(classes, np.asarray(y)[index])
        return [class_name(name) for name in classes], codes
    if len(coef) == 1:
        return ["coefficient > 0", "coefficient < 0"], (coef[0] < 0).astype(int)
    return ["vectors"], np.zeros(coef.shape[1], dtype=int)


def _are_rows(index: Any, coef: Array) -> bool:
    """Whether every vector is a training row with a known number."""
    if index is None or len(index) != coef.shape[1]:
        return False
    return bool((np.asarray(index) >= 0).all())
