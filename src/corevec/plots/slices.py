"""SurfaceSliceDisplay: planar slices of an implicit surface."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from corevec._runtime.types import Array
from corevec.exceptions import InvalidInputError
from corevec.plots._drawing import (
    INK,
    LABEL_SIZE,
    TICK_SIZE,
    VERMILION,
    legend,
    part_of_matplotlib,
    several_axes,
    tidy,
    title,
)
from corevec.plots._model import refuse
from corevec.surfaces import ImplicitSurface

WHO = "SurfaceSliceDisplay"
_AXES = ("x", "y", "z")
# The slice extends beyond the points by this share of the diagonal of their box.
_MARGIN = 0.1


@dataclass(kw_only=True, eq=False, repr=False)
class SurfaceSliceDisplay:
    """The field of an `ImplicitSurface` on planes perpendicular to one axis.

    Use `from_estimator`. The bold line is the surface; blue is inside, orange outside.
    In the signed formulation the values approximate signed distances, in the units of
    the points; in the one-set formulation they have no unit. Points that are closer to
    the plane than half their spacing are drawn.

    Parameters
    ----------
    axis : {"x", "y", "z"}
        The axis that the planes are perpendicular to.
    at : ndarray of shape (n_slices,)
        Positions of the planes on that axis.
    xx : ndarray of shape (resolution, resolution)
        First of the two other coordinates of the grid points.
    yy : ndarray of shape (resolution, resolution)
        Second of the two other coordinates of the grid points.
    values : ndarray of shape (n_slices, resolution, resolution)
        Values of the field.
    points : list of ndarray of shape (n, 2)
        Points near each plane, in the two other coordinates.
    unit : str
        Description of the values, for the colour bar.

    Attributes
    ----------
    figure_ : Figure
        Figure of the last drawing.
    ax_ : Axes
        First panel of the last drawing.
    axes_ : ndarray of Axes
        One panel per slice.

    Examples
    --------
    >>> import numpy as np
    >>> from corevec import ImplicitSurface
    >>> from corevec.plots import SurfaceSliceDisplay
    >>> points = np.random.default_rng(0).normal(size=(500, 3))
    >>> points /= np.linalg.norm(points, axis=1, keepdims=True)
    >>> surface = ImplicitSurface(random_state=0).fit(points)
    >>> display = SurfaceSliceDisplay.from_estimator(surface, at=[0.0], resolution=40)
    >>> display.values.shape
    (1, 40, 40)
    """

    axis: str
    at: Array
    xx: Array
    yy: Array
    values: Array
    points: list[Array]
    unit: str

    @classmethod
    def from_estimator(
        cls,
        surface: ImplicitSurface,
        *,
        axis: str = "z",
        at: float | Sequence[float] | None = None,
        resolution: int = 150,
        ax: Any = None,
    ) -> SurfaceSliceDisplay:
        """Evaluate the field on the planes and draw them.

        Parameters
        ----------
        surface : ImplicitSurface
            Fitted surface.
        axis : {"x", "y", "z"}, default="z"
            The axis that the planes are perpendicular to.
        at : float or sequence of float, optional
            Positions of the planes, in the units of the points. The default is three
            planes, at a quarter, half and three quarters of the range of the points.
        resolution : int, default=150
            Grid points along the longer side of a slice.
        ax : Axes or sequence of Axes, optional
            Axes to draw on, one per slice. None: those of a new figure.

        Returns
        -------
        SurfaceSliceDisplay
            The display, drawn.
        """
        if not isinstance(surface, ImplicitSurface) or not hasattr(surface, "points_"):
            raise refuse(WHO, surface, "is not a fitted ImplicitSurface", "Fit one.")
        if axis not in _AXES:
            raise InvalidInputError(
                f"{WHO}: axis={axis!r} must be 'x', 'y' or 'z'.", parameter="axis"
            )
        across = _AXES.index(axis)
        others = [j for j in range(3) if j != across]
        points = surface.points_
        if at is None:
            low, high = points[:, across].min(), points[:, across].max()
            at = low + (high - low) * np.array([0.25, 0.5, 0.75])
        planes = np.atleast_1d(np.asarray(at, dtype=np.float64))
        xx, yy = _grid(points, others, resolution)
        values = [_field(surface, xx, yy, across, others, place) for place in planes]
        near = surface.spacing_ / 2
        return cls(
            axis=axis,
            at=planes,
            xx=xx,
            yy=yy,
            values=np.array(values),
            points=[
                points[np.abs(points[:, across] - place) < near][:, others]
                for place in planes
            ],
            unit="1 - f"
            if surface.normals_ is None
            else "about the signed distance (units of the points)",
        ).plot(ax)

    def plot(self, ax: Any = None) -> SurfaceSliceDisplay:
        """Draw the slices.

        Parameters
        ----------
        ax : Axes or sequence of Axes, optional
            Axes to draw on, one per slice. None: those of a new figure.

        Returns
        -------
        self
            The display, with `figure_`, `ax_` and `axes_`.
        """
        count = len(self.at)
        size = (3.6 * count + 1.6, 4.2)
        axes = several_axes(WHO, ax, count, size, sharex=True, sharey=True)
        names = [name for name in _AXES if name != self.axis]
        for k, place in enumerate(axes):
            bands = self._draw(place, k)
            tidy(place, names[0], names[1] if k == 0 else "")
            title(place, f"{self.axis} = {self.at[k]:.3g}")
        bar = axes[0].figure.colorbar(bands, ax=list(axes), shrink=0.85)
        bar.set_label(self.unit, size=LABEL_SIZE)
        bar.ax.tick_params(labelsize=TICK_SIZE)
        bar.outline.set_visible(False)
        self.axes_, self.ax_, self.figure_ = axes, axes[0], axes[0].figure
        return self

    def _draw(self, ax: Any, k: int) -> Any:
        # Blue and orange are distinguishable for every reader; the surface is white.
        cmap = part_of_matplotlib("colors").LinearSegmentedColormap.from_list(
            "sides", ["#0072B2", "#8CBEDD", "#FFFFFF", "#F3CF8A", "#E69F00"]
        )
        # The field is not informative far from the surface: 90 % of it set the scale.
        most = float(np.percentile(np.abs(self.values), 90)) or 1.0
        nice = part_of_matplotlib("ticker").MaxNLocator(12, symmetric=True)
        levels = nice.tick_values(-most, most)
        grid = (self.xx, self.yy, self.values[k])
        bands = ax.contourf(*grid, levels=levels, cmap=cmap, extend="both")
        if self.values[k].min() < 0 < self.values[k].max():
            ax.contour(*grid, levels=[0], colors=INK, linewidths=2)
        if len(self.points[k]):
            ax.scatter(*self.points[k].T, s=7, color=VERMILION, lw=0, zorder=3)
        ax.set_aspect("equal")
        if k == 0:
            ax.plot([], [], color=INK, lw=2, label="surface")
            ax.plot([], [], "o", ms=3.5, color=VERMILION, label="points")
            legend(ax, loc="lower left")
        return bands


def _grid(points: Array, others: list[int], resolution: int) -> list[Array]:
    """Return the grid over two coordinates of the points, with a margin."""
    low, high = points.min(axis=0), points.max(axis=0)
    margin = _MARGIN * float(np.linalg.norm(high - low))
    step = float((high - low)[others].max() + 2 * margin) / max(resolution - 1, 1)
    sides = [
        np.arange(low[j] - margin, high[j] + margin + step / 2, step) for j in others
    ]
    return list(np.meshgrid(*sides))


def _field(
    surface: Any, xx: Array, yy: Array, across: int, others: list[int], at: float
) -> Array:
    places = np.empty((xx.size, 3))
    places[:, across] = at
    places[:, others[0]], places[:, others[1]] = xx.ravel(), yy.ravel()
    return np.asarray(surface.decision(places)).reshape(xx.shape)
