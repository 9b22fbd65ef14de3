"""DecisionMapDisplay: the predicted classes over two columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from corevec._runtime.types import Array
from corevec.plots._drawing import (
    INK,
    class_name,
    colour_of,
    darker,
    draw_rings,
    legend,
    marker_of,
    one_axes,
    plain,
    rgb,
    tidy,
    title,
)
from corevec.plots._model import last_step, refuse, rows_of, some_rows, vectors_of
from corevec.plots._plane import Plane, make_plane

WHO = "DecisionMapDisplay"
# Bands of a two-class map, in margins: the loss begins at 1.
_BANDS = (-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0)
# Strongest tint of a region, and the tint where two classes tie.
_DEEP, _FAINT = 0.62, 0.12
# Above this number of classes, names are drawn at the rows instead of in a legend.
_MOST_IN_LEGEND = 8


@dataclass(kw_only=True, eq=False, repr=False)
class DecisionMapDisplay:
    """Map of the decisions of a classifier over two columns, with its core vectors.

    Use `from_estimator`. For two classes: bands of the decision value, the boundary as
    a line, and dashed margins (values -1 and 1). For more classes: the colour of the
    predicted class, darker the larger its lead over the second class.

    With more than two columns the map is a slice: the other columns are held at fixed
    values, and the rows and core vectors are projected on the slice.

    Parameters
    ----------
    plane : Plane
        The grid.
    response : ndarray of shape (resolution, resolution[, n_classes])
        Decision values on the grid.
    classes : ndarray
        Class labels.
    places : ndarray of shape (n, 2), optional
        Two columns of the rows to draw.
    codes : ndarray of int of shape (n,), optional
        Index of the class of each row.
    vectors : ndarray of shape (n_vectors, 2), optional
        Two columns of the core vectors.

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
    >>> from corevec.plots import DecisionMapDisplay
    >>> X, y = make_moons(300, noise=0.2, random_state=0)
    >>> model = CoreVectorClassifier(C=10, random_state=0).fit(X, y)
    >>> display = DecisionMapDisplay.from_estimator(model, X, y)
    >>> display.ax_.get_xlabel()
    'column 0'
    """

    plane: Plane
    response: Array
    classes: Array
    places: Array | None = None
    codes: Array | None = None
    vectors: Array | None = None

    @classmethod
    def from_estimator(
        cls,
        model: Any,
        X: Any,
        y: Any = None,
        *,
        columns: tuple[Any, Any] = (0, 1),
        held: Any = None,
        resolution: int = 200,
        max_rows: int = 1000,
        random_state: int | None = 0,
        ax: Any = None,
    ) -> DecisionMapDisplay:
        """Compute the map of a fitted classifier and draw it.

        Parameters
        ----------
        model : classifier
            Any fitted classifier with ``classes_``, or a pipeline that ends in one.
        X : array-like or CSR matrix of shape (n_rows, n_features)
            Rows that the map covers.
        y : array-like of shape (n_rows,), optional
            Labels of the rows; without them the rows are not drawn.
        columns : pair of int or str, default=(0, 1)
            The two columns, by number or name.
        held : sequence of n_features values or mapping {column: value}, optional
            Values of the other columns. The default is their medians in `X`.
        resolution : int, default=200
            Grid points along each side; the model predicts the square of it.
        max_rows : int, default=1000
            Maximum number of rows to draw; a random subset of more rows.
        random_state : int, optional
            Seed of the random subset.
        ax : Axes, optional
            Axes to draw on. None: those of a new figure.

        Returns
        -------
        DecisionMapDisplay
            The display, drawn.
        """
        if not (is_classifier(model) and hasattr(model, "classes_")):
            raise refuse(
                WHO,
                last_step(model),
                "is not a fitted classifier",
                "Fit it first; for detectors use OneClassMapDisplay.",
            )
        plane = make_plane(WHO, model, X, columns, held, resolution)
        rows, places, codes = rows_of(X), None, None
        classes = np.asarray(model.classes_)
        if y is not None:
            some = some_rows(rows.shape[0], max_rows, random_state)
            places = plane.place(rows[some])
            codes = np.searchsorted(classes, np.asarray(y)[some])
        vectors = vectors_of(model)
        return cls(
            plane=plane,
            response=_response(model, plane),
            classes=classes,
            places=places,
            codes=codes,
            vectors=None if vectors is None else plane.place(vectors[0]),
        ).plot(ax)

    def plot(
        self,
        ax: Any = None,
        *,
        rows: bool = True,
        vectors: bool | None = None,
        legend: bool = True,
    ) -> DecisionMapDisplay:
        """Draw the map.

        Parameters
        ----------
        ax : Axes, optional
            Axes to draw on. None: those of a new figure.
        rows : bool, default=True
            Whether to draw the rows.
        vectors : bool, optional
            Whether to draw the core vectors; by default up to 300 of them.
        legend : bool, default=True
            Whether to draw the legend.

        Returns
        -------
        self
            The display, with `figure_` and `ax_`.
        """
        ax = one_axes(WHO, ax, (7.2, 4.8))
        if len(self.classes) == 2:
            self._draw_two(ax)
        else:
            self._draw_many(ax)
        if rows and self.places is not None:
            self._draw_rows(ax)
        self._draw_vectors(ax, vectors)
        tidy(ax, *self.plane.names)
        ax.set(xlim=self.plane.extent[:2], ylim=self.plane.extent[2:])
        title(ax, "Decision map", self._note())
        if legend:
            self._draw_legend(ax)
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _draw_two(self, ax: Any) -> None:
        low, high = (np.array(rgb(colour_of(t))) for t in (0, 1))
        strengths = (_DEEP, 0.42, 0.25, _FAINT)
        tints = [_tint(low, s) for s in strengths]
        tints += [_tint(high, s) for s in reversed(strengths)]
        grid = (self.plane.xx, self.plane.yy, self.response)
        ax.contourf(*grid, levels=_BANDS, colors=tints, extend="both")
        if self.response.min() < 0 < self.response.max():
            ax.contour(*grid, levels=[0.0], colors=INK, linewidths=2.0)
        sides = [v for v in (-1, 1) if self.response.min() < v < self.response.max()]
        if sides:
            ax.contour(
                *grid, levels=sides, colors=INK, linewidths=1.0, linestyles="dashed"
            )

    def _draw_many(self, ax: Any) -> None:
        ranked = np.sort(self.response, axis=2)
        lead = ranked[..., -1] - ranked[..., -2]
        # The tint covers leads up to the 90th percentile.
        strength = np.clip(lead / max(np.percentile(lead, 90), 1e-12), 0, 1)
        strength = _FAINT + (_DEEP - _FAINT) * strength[..., None]
        winner = self.response.argmax(axis=2)
        own = np.array([rgb(colour_of(t)) for t in range(len(self.classes))])[winner]
        ax.imshow(
            1 - strength * (1 - own),
            extent=self.plane.extent,
            origin="lower",
            aspect="auto",
            interpolation="nearest",
        )
        for t in np.unique(winner):
            others = np.delete(self.response, t, axis=2).max(axis=2)
            ax.contour(
                self.plane.xx,
                self.plane.yy,
                self.response[..., t] - others,
                levels=[0.0],
                colors=INK,
                linewidths=1.2,
            )

    def _draw_rows(self, ax: Any) -> None:
        for t, name in enumerate(self.classes):
            own = self.places[self.codes == t]  # type: ignore[index]
            ax.scatter(
                *own.T,
                s=24,
                marker=marker_of(t),
                color=darker(colour_of(t)),
                edgecolors="white",
                linewidths=0.5,
                alpha=0.9,
                label=class_name(name),
                zorder=3,
            )
            if len(self.classes) > _MOST_IN_LEGEND and len(own):
                _write_name(ax, np.median(own, axis=0), plain(name))

    def _draw_vectors(self, ax: Any, wanted: bool | None) -> None:
        if self.vectors is None or wanted is False:
            return
        if wanted or len(self.vectors) <= 300:
            draw_rings(ax, self.vectors, label=f"{len(self.vectors)} core vectors")

    def _draw_legend(self, ax: Any) -> None:
        if len(self.classes) == 2:
            for text, style, width in (("boundary", "-", 2), ("margins", "--", 1)):
                ax.plot([], [], color=INK, ls=style, lw=width, label=text)
        elif self.places is None:
            for t, name in enumerate(self.classes):
                square = {"marker": "s", "s": 60, "color": colour_of(t)}
                ax.scatter([], [], label=class_name(name), **square)
        handles, labels = ax.get_legend_handles_labels()
        if len(self.classes) > _MOST_IN_LEGEND and self.places is not None:
            written = {class_name(name) for name in self.classes}  # at their rows
            pairs = zip(handles, labels, strict=True)
            handles = [handle for handle, label in pairs if label not in written]
        if handles:
            legend(ax, handles)

    def _note(self) -> str:
        if not self.plane.is_slice:
            return ""
        n = len(self.plane.held) - 2
        held = "one other column held" if n == 1 else f"{n} other columns held"
        return f"a slice: {held}; rows and vectors projected"


def _response(model: Any, plane: Plane) -> Array:
    """Return the decision values, or 1 for the predicted class if there are none."""
    classes = np.asarray(model.classes_)
    if hasattr(model, "decision_function"):
        values = plane.values(model, "decision_function")
        if values.ndim == 2 or values.shape[2] == len(classes):
            return values
    predicted = plane.values(model, "predict")
    chosen = (predicted[..., None] == classes).astype(np.float64)
    if len(classes) == 2:
        chosen = chosen[..., 1] - chosen[..., 0]
    return np.asarray(chosen)


def _tint(colour: Array, strength: float) -> tuple[float, ...]:
    return tuple(1 - strength * (1 - colour))


def _write_name(ax: Any, place: Array, name: str) -> None:
    box = {"boxstyle": "round,pad=0.2", "fc": "white", "ec": "none", "alpha": 0.8}
    ax.annotate(
        name,
        place,
        ha="center",
        va="center",
        fontsize=11,
        bbox=box,
        color=INK,
        zorder=6,
    )
