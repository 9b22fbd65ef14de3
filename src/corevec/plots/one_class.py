"""OneClassMapDisplay: the level sets of a detector, for two columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from corevec._runtime.types import Array
from corevec.plots._drawing import (
    BLUE,
    INK,
    LABEL_SIZE,
    TICK_SIZE,
    VERMILION,
    draw_rings,
    legend,
    one_axes,
    part_of_matplotlib,
    tidy,
    title,
)
from corevec.plots._model import (
    as_seen,
    dense,
    last_step,
    refuse,
    rows_of,
    some_rows,
    vectors_of,
)
from corevec.plots._plane import Plane, make_plane

WHO = "OneClassMapDisplay"


@dataclass(kw_only=True, eq=False, repr=False)
class OneClassMapDisplay:
    """Level sets of the decision function of a detector, over two columns.

    Use `from_estimator`. The boundary is bold. Blue is inside, and darker farther from
    the boundary; grey is outside. Other columns are held, as in `DecisionMapDisplay`.

    Parameters
    ----------
    plane : Plane
        The grid.
    response : ndarray of shape (resolution, resolution)
        Decision values on the grid; 0 on the boundary.
    places : ndarray of shape (n, 2)
        Two columns of the rows to draw.
    is_outlier : ndarray of bool of shape (n,)
        Whether the model predicts each of them to be an outlier.
    vectors : ndarray of shape (n_vectors, 2), optional
        Two columns of the core vectors.

    Attributes
    ----------
    figure_ : Figure
        Figure of the last drawing.
    ax_ : Axes
        Axes of the last drawing.
    colorbar_ : Colorbar
        The scale of the level sets.

    Examples
    --------
    >>> import numpy as np
    >>> from corevec import CoreVectorOneClass
    >>> from corevec.plots import OneClassMapDisplay
    >>> X = np.random.default_rng(0).normal(size=(500, 2))
    >>> model = CoreVectorOneClass(nu=0.1, random_state=0).fit(X)
    >>> display = OneClassMapDisplay.from_estimator(model, X)
    >>> bool(display.response.max() > 0 > display.response.min())
    True
    """

    plane: Plane
    response: Array
    places: Array
    is_outlier: Array
    vectors: Array | None = None

    @classmethod
    def from_estimator(
        cls,
        model: Any,
        X: Any,
        *,
        columns: tuple[Any, Any] = (0, 1),
        held: Any = None,
        resolution: int = 200,
        max_rows: int = 1000,
        random_state: int | None = 0,
        ax: Any = None,
    ) -> OneClassMapDisplay:
        """Compute the map of a fitted detector and draw it.

        Parameters
        ----------
        model : outlier detector
            Fitted detector whose ``decision_function`` is 0 on the boundary, or a
            pipeline that ends in one.
        X : array-like or CSR matrix of shape (n_rows, n_features)
            Rows that the map covers.
        columns : pair of int or str, default=(0, 1)
            The two columns of the map, by number or name.
        held : mapping or sequence, optional
            Values of the other columns: a mapping {column: value} or one value per
            column. The default is the median of each column.
        resolution : int, default=200
            Grid points along each side.
        max_rows : int, default=1000
            Maximum number of rows to draw; a random subset of more rows.
        random_state : int, optional
            Seed of the random subset.
        ax : Axes, optional
            Axes to draw on. None: those of a new figure.

        Returns
        -------
        OneClassMapDisplay
            The display, drawn.
        """
        if not hasattr(model, "decision_function") or hasattr(model, "classes_"):
            raise refuse(
                WHO,
                last_step(model),
                "is not a detector with a decision_function",
                "For classifiers use DecisionMapDisplay.",
            )
        plane = make_plane(WHO, model, X, columns, held, resolution)
        rows = rows_of(X)
        some = dense(rows[some_rows(rows.shape[0], max_rows, random_state)])
        vectors = vectors_of(model)
        return cls(
            plane=plane,
            response=plane.values(model, "decision_function"),
            places=plane.place(some),
            is_outlier=np.asarray(model.decision_function(as_seen(model, some))) < 0,
            vectors=None if vectors is None else plane.place(vectors[0]),
        ).plot(ax)

    def plot(
        self, ax: Any = None, *, rows: bool = True, vectors: bool | None = None
    ) -> OneClassMapDisplay:
        """Draw the map.

        Parameters
        ----------
        ax : Axes, optional
            Axes to draw on. None: those of a new figure.
        rows : bool, default=True
            Whether to draw the rows.
        vectors : bool, optional
            Whether to draw the core vectors; by default up to 300 of them.

        Returns
        -------
        self
            The display, with `figure_`, `ax_` and `colorbar_`.
        """
        ax = one_axes(WHO, ax, (7.2, 5.2))
        self._draw_levels(ax)
        if rows:
            self._draw_rows(ax)
        few = self.vectors is not None and len(self.vectors) <= 300
        if self.vectors is not None and (vectors or (vectors is None and few)):
            draw_rings(ax, self.vectors, label=f"{len(self.vectors)} core vectors")
        tidy(ax, *self.plane.names)
        ax.set(xlim=self.plane.extent[:2], ylim=self.plane.extent[2:])
        title(ax, "One-class map", "a slice: other columns held" * self.plane.is_slice)
        columns = min(4, len(ax.get_legend_handles_labels()[0]))
        below = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.14)}
        legend(ax, **below, ncols=columns, columnspacing=1.2, handletextpad=0.4)
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _draw_levels(self, ax: Any) -> None:
        colors = part_of_matplotlib("colors")
        nice = part_of_matplotlib("ticker").MaxNLocator(5)
        low, high = float(self.response.min()), float(self.response.max())
        span = max(high - low, 1e-12)
        colours = ["#9AA0A6", "#F4F5F6", "#F3F8FC", BLUE]
        cmap = colors.LinearSegmentedColormap.from_list(
            "inside", list(zip((0, 0.4999, 0.5, 1), colours, strict=True))
        )
        # A colour scale with 0 in the middle needs values on both sides.
        norm = colors.TwoSlopeNorm(0.0, min(low, -1e-3 * span), max(high, 1e-3 * span))
        # Each side has its own levels: the range inside is often much smaller.
        steps = [nice.tick_values(*side) for side in ((low, 0), (0, high))]
        levels = np.unique(np.concatenate([*steps, [0.0]]))
        grid = (self.plane.xx, self.plane.yy, self.response)
        bands = ax.contourf(*grid, levels=levels, cmap=cmap, norm=norm)
        if low < 0 < high:
            ax.contour(*grid, levels=[0.0], colors=INK, linewidths=2.2)
            ax.plot([], [], color=INK, lw=2.2, label="boundary")
        self.colorbar_ = ax.figure.colorbar(bands, ax=ax, spacing="uniform", shrink=0.9)
        self.colorbar_.set_label("decision value, below 0 outside", size=LABEL_SIZE)
        self.colorbar_.ax.tick_params(labelsize=TICK_SIZE)
        self.colorbar_.outline.set_visible(False)

    def _draw_rows(self, ax: Any) -> None:
        inside, outside = self.places[~self.is_outlier], self.places[self.is_outlier]
        ax.scatter(*inside.T, s=9, color="#1B3A57", alpha=0.55, lw=0, label="inside")
        ax.scatter(
            *outside.T,
            s=42,
            marker="X",
            color=VERMILION,
            edgecolors="white",
            linewidths=0.7,
            label="outside",
            zorder=3,
        )
