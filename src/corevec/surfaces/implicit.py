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
from corevec.estimators._notebook import ShowsCertificate
from corevec.estimators._parameters import check_choice, store
from corevec.estimators.methods import CoreSet
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

# Value of the field far from all points, in diagonals of their box: the kernels vanish
# there, and the outside must stay positive. With 0.05 the widest scale has a quarter
# more support vectors (bunny), and the next one more locations to correct.
FAR = 0.25
# The one-set formulation of the paper: f = 1 on the points, 0 far away; field 1 - f.
FAR_ONE_SET = 1.0
# The box of the mesh exceeds that of the points by this share of the diagonal on each
# side, so that the surface can close where the points leave a hole.
MARGIN = 0.08
# Points (at most twice this number) at which the fitted field is centred and its
# typical slope is measured.
CENTRE_POINTS, SLOPE_POINTS = 5000, 500
# A component of the mesh is removed if it is the nearest one for less than this share
# of the points: it is an artefact away from the points.
LEAST_SHARE = 1e-3


class ImplicitSurface(ShowsCertificate, BaseEstimator):
    r"""Closed surface through a point cloud, as the zero set of a field.

    The field is a sum of kernel expansions, from wide to narrow kernels. Each of them
    is a `CoreVectorRegressor` without bias and with a fixed tube, fitted to the
    residual of the wider ones (Tsang, Kwok and Lai 2005, section 4.2, after Schölkopf,
    Giesen and Spalinger 2005).

    ``formulation="signed"`` fits the signed distance: 0 on the points, +d and -d at a
    distance d along the outward and the inward normal. Two measures keep the sign right
    away from the points, so that the result is one closed surface without extra shells.
    First, the field is a positive constant plus kernels that vanish far away, so that
    unobserved space is outside. Second, locations of a coarse lattice whose sign is
    wrong or weak are added to the rows of the next scale; their true sign is that of
    the winding number of the oriented points, which also closes the holes of a scan.
    Artefacts far from every point are removed from the mesh (see `mesh`).

    ``formulation="one-set"`` is that of the paper: f = 1 on the points, without further
    conditions. The field is 1 - f; its zero set may have several shells, and only its
    sign is meaningful (`distance` divides by the slope).

    Parameters
    ----------
    kernel : {"laplacian", "rbf", "inverse-distance"}, default="laplacian"
        Kernel of every scale, with ``gamma = width**-2``. The Laplacian with a large
        width approximates the biharmonic spline, the smoothest interpolant.
    scales : int, default=3
        Number of scales.
    formulation : {"signed", "one-set"}, default="signed"
        Conditions on the field; see above.
    widths : sequence of float, optional
        Width of each scale, decreasing, in the units of the points. The default is
        derived from the spacing of the points.
    tube : float, optional
        Distance up to which the surface may deviate from a point at no cost (finest
        scale), in the units of the points. The default is 0.15 % of the diagonal of
        their box; half of it needs about twice the support vectors. For noisy points
        give the size of the noise.
    C : float, default=100.0
        Weight of errors beyond the tube, for targets of unit root mean square in each
        scale, as in `CoreVectorRegressor`.
    neighbors : int, default=12
        Number of neighbours for the normal and the spacing of a point.
    tol : float, default=1e-2
        Relative duality gap to reach in each scale.
    max_vectors : int, optional
        Maximum number of core rows of each scale.
    max_time : float, optional
        Maximum time of each scale in seconds.
    memory_budget : float, default=2**28
        Memory budget in bytes, beside the points, for each fit and for the lattice of
        `mesh`.
    n_jobs : int, optional
        Number of threads. The default is all cores.
    random_state : int, RandomState instance or None, default=None
        Seed of the regressions.
    verbose : int, default=0
        1 shows a progress line on a terminal; 2 writes one log record per round.

    Attributes
    ----------
    estimators_ : list of CoreVectorRegressor
        Models of the scales, in unit coordinates (centre of the box 0, diagonal 1).
    widths_ : ndarray of shape (scales,)
        Width of each scale, in the units of the points.
    tubes_ : ndarray of shape (scales,)
        Tube of each scale, in the units of the points.
    spacing_ : float
        Typical distance of neighbouring points.
    points_ : ndarray of shape (n_distinct, 3)
        Distinct points.
    normals_ : ndarray of shape (n_distinct, 3) or None
        Outward unit normals of the points; None for "one-set".
    n_support_ : int
        Number of support vectors of all scales.
    certificate_ : Certificate
        Certificate of the worst scale, with one per scale in ``parts``.
    n_features_in_ : int
        Number of columns: 3.

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
        max_vectors: int | None = None,
        max_time: float | None = None,
        memory_budget: float = DEFAULT_MEMORY_BUDGET,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ):
        store(self, locals())

    def fit(self, points: Any, normals: Any = None) -> ImplicitSurface:
        """Fit the field to points of a surface.

        Parameters
        ----------
        points : array-like of shape (n, 3)
            Points on the surface, in any order; duplicates count once.
        normals : array-like of shape (n, 3), optional
            Outward normals of any positive length (all of them are flipped if they
            enclose a negative volume). The default is an estimate from the neighbours,
            with an orientation of its own for each separate body. The one-set
            formulation ignores them.

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
            Locations to evaluate.

        Returns
        -------
        ndarray of shape (n,)
            In the signed formulation approximately the signed distance near the
            surface, in the units of the points, and a quarter of the diagonal of their
            box far away. In the one-set formulation 1 - f, without unit.
        """
        places = self._entered(points)
        values = self._field(places)
        return values if self.normals_ is None else self._frame.size * values

    def distance(self, points: Any) -> Array:
        """Return the approximate signed distance: the field divided by its slope.

        Parameters
        ----------
        points : array-like of shape (n, 3)
            Locations to evaluate; seven times as expensive as `decision`.

        Returns
        -------
        ndarray of shape (n,)
            Distances in the units of the points, to first order: accurate near the
            surface. Slopes below a tenth of the typical slope are replaced by it.
        """
        places = self._entered(points)
        slopes = self._field.slopes(places, self._step)
        slopes = np.maximum(slopes, 0.1 * self._slope)
        return np.asarray(self._frame.size * self._field(places) / slopes)

    def mesh(self, resolution: int = 128, *, keep: str = "near") -> Mesh:
        """Return the surface as a watertight triangle mesh, oriented outward.

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
            method=CoreSet(max_vectors=self.max_vectors),
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
            f"of {self.tubes_[-1]:.3g}. Give a wider tube, or raise max_vectors, "
            "max_time or memory_budget."
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
