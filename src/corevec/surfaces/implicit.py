"""ImplicitSurface: points -> field -> mesh."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from corevec._runtime.types import Array
from corevec.data.sources import DEFAULT_MEMORY_BUDGET
from corevec.estimators._parameters import check_choice
from corevec.estimators.regress import CoreVectorRegressor
from corevec.exceptions import NotCertifiedWarning
from corevec.kernels import Rows, make_kernel
from corevec.models.certificate import Certificate, worst_of
from corevec.models.expansion import KernelExpansion
from corevec.surfaces.checks import (
    WHO,
    check_surface_parameters,
    check_whole,
    checked_normals,
    checked_places,
    checked_widths,
    distinct_points,
)
from corevec.surfaces.field import Field, Frame
from corevec.surfaces.mesh import Mesh, check_lattice_memory, zero_set
from corevec.surfaces.normals import (
    Cloud,
    estimate_normals,
    make_cloud,
    outward_as_a_whole,
)
from corevec.surfaces.picture import draw_mesh
from corevec.surfaces.plan import Scale, plan_scales
from corevec.surfaces.targets import Background, Targets, near_surface

# Value of the field far from all points, in diagonals of their box: there the kernels
# vanish, and the outside must stay outside. 0.05 instead: a quarter more support
# vectors in the widest scale (bunny), and more places to correct in the next.
FAR = 0.25
# The one-set of the paper: f = 1 on the points and 0 far away; 1 - f is the field.
FAR_ONE_SET = 1.0
# The mesh's box is larger than the points' by this share of the diagonal on each side,
# room for the surface to close where the points leave a hole.
MARGIN = 0.08
# Points, at most twice as many, at which the fitted field is centred and its typical
# slope measured.
CENTRE_POINTS, SLOPE_POINTS = 5000, 500
# A piece of the mesh is dropped when fewer than this share of the points lie nearest
# to it: it is an artefact away from the points.
LEAST_SHARE = 1e-3


class ImplicitSurface(BaseEstimator):
    r"""The closed surface through a cloud of points, as the zero set of a field.

    The field is a sum of kernel expansions, wide to narrow, each of them a
    `CoreVectorRegressor` without bias and with a fixed tube that fits what the wider
    ones left (Tsang, Kwok and Lai 2005, section 4.2, after Schölkopf, Giesen and
    Spalinger 2005).

    ``formulation="signed"`` asks for the signed distance: 0 on the points, +d and -d
    at a distance d along the outward and the inward normal. Two things keep the sign
    right away from the points, so that one closed surface comes out and no shells.
    First, the field is a positive constant plus kernels that vanish far away: what
    nobody has seen is outside. Second, places of a coarse lattice whose sign is
    wrong or weak join the rows of the next scale, the true sign taken from the winding
    number of the oriented points, which also bridges the holes of a scan. What may
    still appear far from every point is left out of the mesh (see `mesh`).

    ``formulation="one-set"`` is the paper's: f = 1 on the points and nothing else is
    asked. The field is 1 - f, its zero set may have several shells, and its size means
    nothing but its sign (`distance` divides by the slope).

    Parameters
    ----------
    kernel : {"laplacian", "rbf", "inverse-distance"}, default="laplacian"
        Kernel of every scale, with ``gamma = width**-2``. The Laplacian with a large
        width is the biharmonic spline, which bends least.
    scales : int, default=3
        Number of scales.
    formulation : {"signed", "one-set"}, default="signed"
        What is asked of the field.
    widths : sequence of float, optional
        Width of each scale, falling, in the units of the points. Chosen from the
        spacing of the points if not given.
    tube : float, optional
        How far the surface may pass from a point at no cost (finest scale), in the
        units of the points; 0.15 % of the diagonal of their box if not given. Half of
        it needs about twice the support vectors. For noisy points give the size of
        the noise.
    C : float, default=100.0
        Weight of errors beyond the tube, for each scale's values at unit root mean
        square, as in `CoreVectorRegressor`.
    neighbors : int, default=12
        Neighbours of a point that its normal and spacing are estimated from.
    tol : float, default=1e-2
        Relative duality gap to reach in each scale.
    max_core, max_time : optional
        Limits for each scale, as in `CoreVectorRegressor`.
    memory_budget : float, default=2**28
        Bytes beside the points, for each fit and for the lattice of `mesh`.
    n_jobs : int, optional
        Threads; all cores by default.
    random_state : int, RandomState instance or None, default=None
        Seed of the regressions.
    verbose : int, default=0
        As in `CoreVectorRegressor`.

    Attributes
    ----------
    estimators_ : list of CoreVectorRegressor
        The scales, in unit coordinates (middle of the box 0, diagonal 1).
    widths_, tubes_ : ndarray of shape (scales,)
        Width and tube of each scale, in the units of the points.
    spacing_ : float
        Typical distance of neighbouring points.
    points_, normals_ : ndarray of shape (n_distinct, 3)
        The distinct points and their unit normals, outward (None for "one-set").
    n_support_ : int
        Support vectors of all scales together.
    certificate_ : Certificate
        That of the worst scale; one per scale in ``parts``.
    n_features_in_ : int
        3.

    Examples
    --------
    >>> import numpy as np
    >>> from corevec import ImplicitSurface
    >>> points = np.random.default_rng(0).normal(size=(1000, 3))
    >>> points /= np.linalg.norm(points, axis=1, keepdims=True)
    >>> surface = ImplicitSurface(random_state=0).fit(points)
    >>> outside, inside = surface.decision([[0, 0, 1.5], [0, 0, 0.5]])
    >>> bool(outside > 0 > inside)
    True
    """

    def __init__(
        self,
        kernel: str = "laplacian",
        scales: int = 3,
        *,
        formulation: str = "signed",
        widths: Sequence[float] | None = None,
        tube: float | None = None,
        C: float = 100.0,
        neighbors: int = 12,
        tol: float = 1e-2,
        max_core: int | None = None,
        max_time: float | None = None,
        memory_budget: float = DEFAULT_MEMORY_BUDGET,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ):
        self.kernel = kernel
        self.scales = scales
        self.formulation = formulation
        self.widths = widths
        self.tube = tube
        self.C = C
        self.neighbors = neighbors
        self.tol = tol
        self.max_core = max_core
        self.max_time = max_time
        self.memory_budget = memory_budget
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, points: Any, normals: Any = None) -> ImplicitSurface:
        """Fit the field to points of a surface.

        Parameters
        ----------
        points : array-like of shape (n, 3)
            Points on the surface, in any order; repeated ones count once.
        normals : array-like of shape (n, 3), optional
            Normals of any positive length, pointing outward (if they enclose a
            negative volume, all are flipped). If not given they are estimated from
            the neighbours; separate bodies are then oriented each by itself. The
            one-set formulation needs none and takes no notice of them.

        Returns
        -------
        ImplicitSurface
            The fitted surface.
        """
        check_surface_parameters(self)
        self.points_, rows = distinct_points(points)
        if normals is not None:
            normals = checked_normals(normals, len(points))[rows]
        self.n_features_in_ = 3
        self._frame = Frame.around(self.points_)
        cloud = make_cloud(self._frame.enter(self.points_), self.neighbors)
        self.normals_ = self._oriented(cloud, normals)
        self._fit_scales(cloud, self._plan(cloud))
        self._centre(cloud.points)
        return self

    def decision(self, points: Any) -> Array:
        """Return the field: positive outside, negative inside, 0 on the surface.

        Parameters
        ----------
        points : array-like of shape (n, 3)
            Places to judge.

        Returns
        -------
        ndarray of shape (n,)
            In the signed formulation about the signed distance near the surface, in
            the units of the points, and a quarter of their box's diagonal far away.
            In the one-set formulation 1 - f, a number without unit.
        """
        places = self._entered(points)
        values = self._field(places)
        return values if self.normals_ is None else self._frame.size * values

    def distance(self, points: Any) -> Array:
        """Return the approximate signed distance: the field divided by its slope.

        Parameters
        ----------
        points : array-like of shape (n, 3)
            Places to judge; seven times as costly as `decision`.

        Returns
        -------
        ndarray of shape (n,)
            Distances in the units of the points, to first order: good near the
            surface. Slopes below a tenth of the typical one count as that tenth.
        """
        places = self._entered(points)
        slopes = self._field.slopes(places, self._step)
        slopes = np.maximum(slopes, 0.1 * self._slope)
        return np.asarray(self._frame.size * self._field(places) / slopes)

    def mesh(self, resolution: int = 128, *, keep: str = "near") -> Mesh:
        """Return the surface as triangles, watertight, seen from outside.

        Marching cubes (scikit-image) on a lattice whose nodes are evaluated only near
        the surface, coarse to fine.

        Parameters
        ----------
        resolution : int, default=128
            Cells along the longest side of the box (the points' and a margin of 8 %
            of the diagonal).
        keep : {"near", "all"}, default="near"
            "near" drops connected pieces to which fewer than one in a thousand points
            are nearest; "all" keeps every piece inside the box.

        Returns
        -------
        Mesh
            With ``vertices``, ``faces`` and ``save(path)``.
        """
        check_is_fitted(self, "certificate_")
        check_whole(resolution, "resolution", 2)
        check_choice(WHO, "keep", keep, ("near", "all"))
        places = self._frame.enter(self.points_)
        low, high = places.min(axis=0) - MARGIN, places.max(axis=0) + MARGIN
        check_lattice_memory(high - low, int(resolution), self.memory_budget)
        found = zero_set(self._field_as_distance, low, high, int(resolution))
        if keep == "near":
            found = found.near(places, LEAST_SHARE)
        return Mesh(self._frame.leave(found.vertices), found.faces)

    def plot(self, mesh: Mesh | None = None, *, ax: Any = None) -> Any:
        """Draw the surface, shaded (needs matplotlib).

        Parameters
        ----------
        mesh : Mesh, optional
            What to draw; ``mesh(64)`` if not given (matplotlib is slow on more than
            some 100,000 triangles).
        ax : Axes3D, optional
            Where to draw; a new figure if not given.

        Returns
        -------
        Axes3D
            The axes drawn into.
        """
        return draw_mesh(self.mesh(64) if mesh is None else mesh, ax)

    def _oriented(self, cloud: Cloud, normals: Array | None) -> Array | None:
        if self.formulation == "one-set":
            return None
        if normals is None:
            return estimate_normals(cloud)
        return outward_as_a_whole(cloud, normals)

    def _plan(self, cloud: Cloud) -> list[Scale]:
        size = self._frame.size
        widths = checked_widths(self.widths, self.scales)
        widths = None if widths is None else widths / size
        tube = None if self.tube is None else self.tube / size
        plan = plan_scales(cloud.spacing, self.scales, widths, tube)
        self.spacing_ = size * cloud.spacing
        self.widths_ = size * np.array([scale.width for scale in plan])
        self.tubes_ = size * np.array([scale.tube for scale in plan])
        self._step = plan[-1].spacing / 2
        return plan

    def _fit_scales(self, cloud: Cloud, plan: list[Scale]) -> None:
        """Fit each scale to what the ones before it left."""
        far, background = FAR_ONE_SET, None
        if self.normals_ is not None:
            far, background = FAR, Background.around(cloud, self.normals_)
        self._field = Field(far, (), self.memory_budget, self.n_jobs)
        self.estimators_: list[CoreVectorRegressor] = []
        for scale in plan:
            rows = near_surface(cloud, self.normals_, scale, self._field)
            if background is not None:
                rows = rows + background.unsecured(self._field)
            self._fit_scale(scale, rows)
            if self.estimators_[-1].certificate_.stopped_by == "interrupt":
                break  # Ctrl-C ends the surface, not only this scale
        self.n_support_ = sum(len(model.support_) for model in self.estimators_)
        self.certificate_ = self._certificate()
        self._warn_unless_certified()

    def _fit_scale(self, scale: Scale, rows: Targets) -> None:
        gamma = scale.width**-2
        model = CoreVectorRegressor(
            C=self.C,
            mu=None,
            tube=scale.tube,
            kernel=self.kernel,
            gamma=gamma,
            fit_intercept=False,
            tol=self.tol,
            # Points of a surface carry little noise, so the rows outside the tube
            # are few and a core set holds them; its certificate is exact.
            low_rank=False,
            max_core=self.max_core,
            max_time=self.max_time,
            memory_budget=self.memory_budget,
            n_jobs=self.n_jobs,
            random_state=self.random_state,
            verbose=self.verbose,
        )
        with warnings.catch_warnings():
            # Said once for all scales, in the words of a surface, by `_fit_scales`.
            warnings.simplefilter("ignore", NotCertifiedWarning)
            model.fit(rows.places, rows.values - self._field(rows.places))
        basis = Rows(model.support_vectors_, model.support_)
        kernel = make_kernel(self.kernel, gamma)
        self._field = self._field.plus(
            KernelExpansion(kernel, basis, model.dual_coef_.T, model.intercept_)
        )
        self.estimators_.append(model)

    def _certificate(self) -> Certificate:
        """Return that of the worst scale, with the rows of all scales counted."""
        parts = [model.certificate_ for model in self.estimators_]
        return replace(
            worst_of(parts, "one machine per scale"),
            n_verified=sum(part.n_verified for part in parts),
            n_rows=sum(part.n_rows for part in parts),
            seconds=sum(part.seconds for part in parts),
            parts=tuple(parts),
        )

    def _warn_unless_certified(self) -> None:
        found = self.certificate_
        if found.converged:
            return
        text = (
            f"{WHO} stopped by {found.stopped_by} with relative gap "
            f"{found.relative_gap:.2e} in its worst scale, {found.tol:.2e} asked. The "
            "surface is usable, but some points may lie farther from it than the tube "
            f"of {self.tubes_[-1]:.3g}. Give a wider tube, or raise max_core, max_time "
            "or memory_budget."
        )
        warning = NotCertifiedWarning(text, stopped_by=found.stopped_by)
        warnings.warn(warning, stacklevel=4)

    def _centre(self, points: Array) -> None:
        """Shift the field to median 0 on the points, and measure its slope there.

        Kernels pull towards the value far away, so that most points end near one side
        of the tube: without the shift a torus lost 1.4 % of its volume.
        """
        some = points[:: max(1, len(points) // CENTRE_POINTS)]
        self._field = self._field.shifted(float(np.median(self._field(some))))
        few = points[:: max(1, len(points) // SLOPE_POINTS)]
        slope = float(np.median(self._field.slopes(few, self._step)))
        self._slope = slope if slope > 0 else 1.0

    def _field_as_distance(self, places: Array) -> Array:
        return self._field(places) / self._slope

    def _entered(self, points: Any) -> Array:
        check_is_fitted(self, "certificate_")
        return self._frame.enter(checked_places(points))


__all__ = ["ImplicitSurface"]
