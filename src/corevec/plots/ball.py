"""BallDisplay: the ball of a one-class model in its feature space."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from corevec._runtime.types import Array
from corevec.estimators import SVDD, CoreVectorOneClass
from corevec.exceptions import InvalidInputError
from corevec.kernels import Rows
from corevec.models.expansion import KernelExpansion
from corevec.plots._drawing import (
    BLUE,
    INK,
    VERMILION,
    draw_rings,
    one_axes,
    tidy,
    title,
)
from corevec.plots._drawing import legend as beside
from corevec.plots._model import (
    as_seen,
    dense,
    last_step,
    refuse,
    rows_for,
    rows_of,
    some_rows,
)

WHO = "BallDisplay"
# Core vectors that determine the two directions: an eigenvalue problem of this size.
_MOST_VECTORS = 1500


@dataclass(kw_only=True, eq=False, repr=False)
class BallDisplay:
    r"""A ball in the feature space of the kernel, projected on its two main directions.

    Use `from_estimator`. The directions are those in which the core vectors vary most
    around the centre: the first two eigenvectors of their kernel matrix taken about
    the centre (kernel PCA, with the ball's centre in place of the mean).

    The ball is projected on a plane through its centre, so that its outline is exactly
    a circle of the same radius, and every row inside the ball lies inside the circle.
    The converse does not hold: a row outside the ball can lie inside the circle,
    because the plane hides all other directions; such rows keep the marker of
    outliers. With ``distance="true"`` each row is moved outward, in its direction
    within the plane, to its true distance from the centre: then it is inside the
    circle if and only if it is inside the ball, and the plot is not a projection.

    Parameters
    ----------
    places : ndarray of shape (n, 2)
        Projected rows; the centre is at 0.
    distances : ndarray of shape (n,)
        True distances from the centre, in the feature space.
    vectors : ndarray of shape (n_vectors, 2)
        Projected core vectors.
    vector_distances : ndarray of shape (n_vectors,)
        True distances of the core vectors.
    radius : float
        Radius of the ball.
    share : float
        Share of the squared distances of the core vectors that lies in the plane.

    Attributes
    ----------
    figure_ : Figure
        Figure of the last drawing.
    ax_ : Axes
        Axes of the last drawing.

    Examples
    --------
    >>> import numpy as np
    >>> from corevec import SVDD
    >>> from corevec.plots import BallDisplay
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> display = BallDisplay.from_estimator(SVDD(kernel="linear").fit(X), X)
    >>> bool(np.linalg.norm(display.places, axis=1).max() <= 1.001 * display.radius)
    True
    """

    places: Array
    distances: Array
    vectors: Array
    vector_distances: Array
    radius: float
    share: float

    @classmethod
    def from_estimator(
        cls,
        model: Any,
        X: Any,
        *,
        distance: str = "projected",
        max_rows: int = 1000,
        random_state: int | None = 0,
        ax: Any = None,
    ) -> BallDisplay:
        """Project the ball of a fitted model and draw it.

        Parameters
        ----------
        model : SVDD or CoreVectorOneClass
            Fitted detector, or a pipeline that ends in one. CoreVectorOneClass is a
            ball only for a kernel of constant k(x, x) (rbf, laplacian, normalised).
        X : array-like or CSR matrix of shape (n_rows, n_features)
            Rows to draw.
        distance : {"projected", "true"}, default="projected"
            Whether the rows are projected, or moved to their true distance.
        max_rows : int, default=1000
            Maximum number of rows to draw; a random subset of more rows.
        random_state : int, optional
            Seed of the random subset.
        ax : Axes, optional
            Axes to draw on. None: those of a new figure.

        Returns
        -------
        BallDisplay
            The display, drawn.
        """
        own = last_step(model)
        functions, radius = _ball(own)
        rows = rows_for(WHO, model, X)
        rows = dense(rows[some_rows(rows.shape[0], max_rows, random_state)])
        if own is not model:
            rows = dense(rows_of(model[:-1].transform(as_seen(model, rows))))
        view = _Plane(functions)
        places, distances = view.place(Rows(rows, np.arange(len(rows))))
        vectors, vector_distances = view.place(functions.basis)
        return cls(
            places=places,
            distances=distances,
            vectors=vectors,
            vector_distances=vector_distances,
            radius=radius,
            share=view.share,
        ).plot(ax, distance=distance)

    def plot(
        self, ax: Any = None, *, distance: str = "projected", legend: bool = True
    ) -> BallDisplay:
        """Draw the ball.

        Parameters
        ----------
        ax : Axes, optional
            Axes to draw on. None: those of a new figure.
        distance : {"projected", "true"}, default="projected"
            Whether the rows are projected, or moved to their true distance.
        legend : bool, default=True
            Whether to draw the legend.

        Returns
        -------
        self
            The display, with `figure_` and `ax_`.
        """
        if distance not in ("projected", "true"):
            raise InvalidInputError(
                f"{WHO}: distance={distance!r} must be 'projected' or 'true'.",
                parameter="distance",
            )
        ax = one_axes(WHO, ax, (7.0, 5.2))
        places, vectors = self.places, self.vectors
        note = f"projected; the plane holds {self.share:.0%} of the squared distances"
        if distance == "true":
            places = _moved(places, self.distances)
            vectors = _moved(vectors, self.vector_distances)
            note = "rows at their true distance from the centre"
        self._draw_circle(ax)
        # Core rows lie on the sphere up to the tolerance of the fit: no outliers.
        outside = self.distances > self.radius * (1 + 1e-9)
        ax.scatter(*places[~outside].T, s=10, color="#1B3A57", alpha=0.5, lw=0)
        ax.plot([], [], "o", ms=4, color="#1B3A57", alpha=0.6, label="inside the ball")
        if outside.any():
            ax.scatter(
                *places[outside].T,
                s=42,
                marker="X",
                color=VERMILION,
                edgecolors="white",
                linewidths=0.7,
                label="outside the ball",
                zorder=3,
            )
        draw_rings(ax, vectors, label=f"{len(vectors)} core vectors")
        ax.set_aspect("equal")
        ax.margins(0.06)
        ax.locator_params(nbins=5)
        tidy(ax, "first main direction in feature space", "second main direction")
        title(ax, "Ball in feature space", note)
        if legend:
            beside(ax)
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _draw_circle(self, ax: Any) -> None:
        angles = np.linspace(0, 2 * np.pi, 361)
        circle = self.radius * np.array([np.cos(angles), np.sin(angles)])
        ax.fill(*circle, color=BLUE, alpha=0.08, lw=0)
        ax.plot(*circle, color=INK, lw=2, label=f"radius {self.radius:.4g}")
        ax.plot([0], [0], "+", ms=13, mew=2.2, color=INK, label="centre", zorder=6)


class _Plane:
    """Two directions around the centre ``c = sum_j coef_j phi(b_j)`` of a ball."""

    def __init__(self, centre: KernelExpansion):
        self.centre = centre
        self.kernel = centre.kernel
        self.basis = centre.prepared()
        coef = centre.coef[:, 0]
        chosen = np.sort(np.argsort(-np.abs(coef))[:_MOST_VECTORS])
        values = centre.basis.values[chosen]
        self.chosen = Rows(values, centre.basis.index[chosen])
        self.anchors = self.kernel.prepare_basis(self.chosen, np.float64)
        self.norm_sq = float(coef @ self._along(centre.basis))
        self.anchor_along = self._along(self.chosen)
        gram = self._about_centre(self.chosen)
        values, directions = np.linalg.eigh((gram + gram.T) / 2)
        main = np.maximum(values[::-1][:2], 0.0)
        self.share = float(main.sum() / max(np.trace(gram), 1e-300))
        # A direction of length 0 (one or two vectors, one column) stays at 0.
        scale = np.where(main > 1e-12 * max(main.max(), 1e-300), main, np.inf)
        self.directions = directions[:, ::-1][:, :2] / np.sqrt(scale)

    def place(self, rows: Rows) -> tuple[Array, Array]:
        """Return the coordinates in the plane, and true distances from the centre."""
        own = self.kernel.diagonal(rows)
        distances_sq = own - 2 * self._along(rows) + self.norm_sq
        places = self._about_centre(rows) @ self.directions
        if places.shape[1] < 2:
            places = np.column_stack([places, np.zeros(len(places))])
        return places, np.sqrt(np.maximum(distances_sq, 0.0))

    def _along(self, rows: Rows) -> Array:
        """Return <phi(x), c> for each row."""
        points = self.kernel.prepare(rows, np.float64)
        return self.kernel.times(points, self.basis, self.centre.coef)[:, 0]

    def _about_centre(self, rows: Rows) -> Array:
        """Return <phi(x) - c, phi(b_j) - c> for each row and chosen vector."""
        points = self.kernel.prepare(rows, np.float64)
        block = np.asarray(self.kernel.block(points, self.anchors), dtype=np.float64)
        along = self._along(rows)
        return block - along[:, None] - self.anchor_along + self.norm_sq


def _ball(model: Any) -> tuple[KernelExpansion, float]:
    """Return the centre as an expansion, and the radius."""
    if hasattr(model, "_forest"):
        raise refuse(
            WHO,
            model,
            "with cells is not a single ball",
            "Fit it without cells; OneClassMapDisplay draws its decision.",
        )
    if isinstance(model, SVDD) and hasattr(model, "radius_"):
        functions = model._functions
        _refuse_precomputed(model)
        return functions, float(model.radius_)
    if isinstance(model, CoreVectorOneClass) and hasattr(model, "offset_"):
        _refuse_precomputed(model)
        return _one_class_ball(model)
    raise refuse(
        WHO, model, "is not a fitted ball", "Fit an SVDD or a CoreVectorOneClass."
    )


def _one_class_ball(model: Any) -> tuple[KernelExpansion, float]:
    """Return the ball of a one-class machine with a constant k(x, x).

    Its multipliers divided by their sum are the weights of the centre; at the optimum
    that sum is twice the dual value (b'Qb = sum b). A row with f = offset lies
    on the sphere: R^2 = k(x, x) - 2 <phi(x), c> + |c|^2 there.
    """
    functions: KernelExpansion = model._functions
    own = functions.kernel.diagonal(functions.basis)
    if np.ptp(own) > 1e-9 * abs(own).max():
        raise refuse(
            WHO,
            model,
            f"with kernel={model.kernel!r} is not a ball: k(x, x) varies",
            "Use SVDD, or a normalised kernel.",
        )
    total = 2 * model.certificate_.dual
    coef = functions.coef / total
    centre = KernelExpansion(functions.kernel, functions.basis, coef, np.zeros(1))
    along = centre.evaluate(functions.basis, centre.prepared())[:, 0]
    norm_sq = float(coef[:, 0] @ along)
    radius_sq = float(own[0]) - 2 * model.offset_ / total + norm_sq
    return centre, float(np.sqrt(max(radius_sq, 0.0)))


def _refuse_precomputed(model: Any) -> None:
    if model.kernel == "precomputed":
        raise refuse(
            WHO, model, "has a precomputed kernel", "New rows cannot be projected."
        )


def _moved(places: Array, distances: Array) -> Array:
    """Return places moved along their direction to the given distances."""
    lengths = np.linalg.norm(places, axis=1)
    factor = np.divide(
        distances, lengths, out=np.zeros_like(distances), where=lengths > 0
    )
    return np.asarray(places * factor[:, None])
