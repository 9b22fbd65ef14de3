"""Triangle meshes, and the zero set of a field as a mesh.

The field is evaluated from coarse to fine: everywhere on a coarse lattice, and, each
time the spacing is halved, only in cells that may contain the surface. The other nodes
get interpolated values, of which marching cubes needs only the sign. In the end every
cell with a change of sign has eight evaluated corners, so that the mesh is closed and
that of the field.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph
from scipy.spatial import cKDTree

from corevec._runtime.types import Array
from corevec.exceptions import InvalidInputError
from corevec.surfaces.files import save_mesh

Function = Callable[[Array], Array]

# Nodes per evaluated block, and the bytes of each: its location and value, several
# times. This and the next number were measured on a sphere.
_BLOCK, _BLOCK_BYTES = 1 << 16, 104
# Bytes per lattice node at the peak: the float32 value, the mask of evaluated nodes,
# the masks of cells, and the triangles, which are few.
_NODE_BYTES = 13
_LEAST = np.finfo(np.float32).tiny
# Minimum number of cells along the longest side of the coarsest lattice: an eighth of
# the default resolution; fewer cells could miss a thin part.
_COARSEST = 24
# A cell whose corners agree in sign may contain the surface if the field at a corner
# is below this slope times half its diagonal: 1 would suffice for a true distance.
_SLOPE = 1.5


@dataclass(frozen=True)
class Mesh:
    """Triangles of a surface.

    Attributes
    ----------
    vertices : ndarray of shape (n_vertices, 3)
        Positions, in the units of the points.
    faces : ndarray of int64 of shape (n_faces, 3)
        Vertex numbers of each triangle, counter-clockwise seen from outside.
    """

    vertices: Array
    faces: Array

    def save(self, path: str | Path) -> None:
        """Write the mesh to a file.

        Parameters
        ----------
        path : str or Path
            The suffix gives the format: ``.ply`` (binary, float64), ``.obj`` (text,
            nine digits) or ``.stl`` (binary, float32, vertices not shared).
        """
        save_mesh(path, self.vertices, self.faces)

    @property
    def components(self) -> Array:
        """Number of the connected component of each vertex."""
        n = len(self.vertices)
        start, end = self.faces[:, :2].ravel(), self.faces[:, 1:].ravel()
        links = sparse.coo_array((np.ones(len(start), bool), (start, end)), (n, n))
        return np.asarray(csgraph.connected_components(links, directed=False)[1])

    @property
    def n_components(self) -> int:
        """Number of connected components."""
        return int(self.components.max(initial=-1)) + 1

    @property
    def n_boundary_edges(self) -> int:
        """Edges that do not belong to exactly two triangles: 0 if watertight."""
        edges = np.sort(self.faces[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2), axis=1)
        _, count = np.unique(edges, axis=0, return_counts=True)
        return int((count != 2).sum())

    @property
    def volume(self) -> float:
        """Enclosed volume, for a closed mesh."""
        if len(self.faces) == 0:
            return 0.0
        corners = self.vertices[self.faces] - self.vertices.mean(axis=0)
        return float(np.linalg.det(corners).sum() / 6)

    def only(self, wanted: Array) -> Mesh:
        """Return the part of the mesh on some of its vertices.

        Parameters
        ----------
        wanted : ndarray of bool of shape (n_vertices,)
            Marks the vertices to keep.

        Returns
        -------
        Mesh
            Those vertices, and the triangles all of whose corners are among them.
        """
        number = np.cumsum(wanted) - 1
        faces = self.faces[wanted[self.faces].all(axis=1)]
        return Mesh(self.vertices[wanted], number[faces])

    def near(self, points: Array, least_share: float) -> Mesh:
        """Return the connected components that are near enough of the points.

        Parameters
        ----------
        points : ndarray of shape (n_points, 3)
            Points; each of them counts for the component of its nearest vertex.
        least_share : float
            Share of the points that a component needs, and at least one point.

        Returns
        -------
        Mesh
            The components that have this share of the points.
        """
        if len(self.vertices) == 0:
            return self
        piece = self.components
        _, nearest = cKDTree(self.vertices).query(points)
        votes = np.bincount(piece[nearest], minlength=piece.max() + 1)
        return self.only((votes >= max(1.0, least_share * len(points)))[piece])


@dataclass
class Lattice:
    """Lattice nodes of a box: their values, and which of them are evaluated."""

    origin: Array
    step: float
    values: Array
    known: Array

    def evaluate(self, field: Function, wanted: Array) -> None:
        """Set the values of the nodes in the mask `wanted`; positive on the border.

        The positive border closes the surface where it would leave the box.
        """
        shape = self.values.shape
        index = np.flatnonzero(wanted)
        for start in range(0, len(index), _BLOCK):
            nodes = np.unravel_index(index[start : start + _BLOCK], shape)
            found = field(self.origin + self.step * np.column_stack(nodes))
            for along, n in zip(nodes, shape, strict=True):
                found = np.where((along == 0) | (along == n - 1), np.abs(found), found)
            # An exact 0 at a node would give degenerate triangles.
            self.values[nodes] = np.where(found == 0, _LEAST, found)
        self.known[wanted] = True

    def every(self, stride: int) -> Lattice:
        """Return the lattice of every `stride`-th node, a view of the same arrays."""
        part = (slice(None, None, stride),) * 3
        return Lattice(
            self.origin, self.step * stride, self.values[part], self.known[part]
        )


def _lattice_shape(extent: Array, resolution: int) -> tuple[Array, int]:
    """Return the nodes per axis and the coarsest stride for a box of this extent.

    The stride is halved down to 1, so each side has a multiple of it in cells.
    """
    stride = 1
    while resolution // (2 * stride) >= _COARSEST:
        stride *= 2
    step = extent.max() / resolution
    cells = np.ceil(extent / (step * stride) - 1e-9).astype(np.int64) * stride
    return cells + 1, stride


def lattice_bytes(extent: Array, resolution: int) -> int:
    """Return the bytes of the lattice of `zero_set`."""
    shape, _ = _lattice_shape(extent, resolution)
    n_nodes = math.prod(int(side) for side in shape)  # beyond int64 at 2e6 per side
    return _NODE_BYTES * n_nodes + _BLOCK_BYTES * min(n_nodes, _BLOCK)


def check_lattice_memory(extent: Array, resolution: int, budget: float) -> None:
    """Raise an error that names a feasible resolution, if this one is too large."""
    needed = lattice_bytes(extent, resolution)
    if needed <= budget:
        return
    fits, beyond = 1, resolution
    while beyond - fits > 1:
        middle = (fits + beyond) // 2
        if lattice_bytes(extent, middle) <= budget:
            fits = middle
        else:
            beyond = middle
    advice = f"resolution={fits} fits; or raise" if fits > 1 else "Raise"
    raise InvalidInputError(
        f"ImplicitSurface: resolution={resolution} needs a lattice of {needed:,} "
        f"bytes, more than memory_budget={budget:,.0f}. {advice} memory_budget.",
        parameter="resolution",
    )


def zero_set(field: Function, low: Array, high: Array, resolution: int) -> Mesh:
    """Return the mesh of ``field = 0`` inside a box.

    Parameters
    ----------
    field : callable
        Values at locations of shape (n, 3): negative inside, and approximately the
        signed distance near the surface.
    low, high : ndarray of shape (3,)
        Corners of the box.
    resolution : int
        Cells along the longest side.
    """
    shape, stride = _lattice_shape(high - low, resolution)
    step = float((high - low).max()) / resolution
    lattice = Lattice(
        low, step, np.empty(shape, dtype=np.float32), np.zeros(shape, dtype=bool)
    )
    coarse = lattice.every(stride)
    coarse.evaluate(field, np.ones(coarse.values.shape, dtype=bool))
    while stride > 1:
        near = _cells_near_surface(coarse)
        stride //= 2
        coarse = lattice.every(stride)
        _interpolate(coarse.values)
        inside = np.repeat(np.repeat(np.repeat(near, 2, 0), 2, 1), 2, 2)
        coarse.evaluate(field, _corners_of(inside) & ~coarse.known)
    _follow_surface(field, lattice)
    return _marching_cubes(lattice)


def _follow_surface(field: Function, lattice: Lattice) -> None:
    """Evaluate until no cell with a change of sign has an interpolated corner."""
    while True:
        # On signs, one byte each: these arrays determine the peak memory.
        inside = lattice.values < 0
        mixed = _over_corners(np.logical_or, inside)
        mixed &= ~_over_corners(np.logical_and, inside)
        wanted = _corners_of(mixed) & ~lattice.known
        if not wanted.any():
            return
        lattice.evaluate(field, wanted)


def _cells_near_surface(lattice: Lattice) -> Array:
    """Return the mask of the cells that may contain the surface."""
    reach = _SLOPE * np.sqrt(3.0) / 2 * lattice.step
    low = _over_corners(np.minimum, lattice.values)
    high = _over_corners(np.maximum, lattice.values)
    return np.asarray((low < reach) & (high > -reach))


def _over_corners(merge: np.ufunc, values: Array) -> Array:
    """Return `merge` over the eight corner values of each cell."""
    for axis in range(3):
        before = (slice(None),) * axis + (slice(None, -1),)
        after = (slice(None),) * axis + (slice(1, None),)
        values = merge(values[before], values[after])
    return values


def _corners_of(cells: Array) -> Array:
    """Return the mask of the nodes that are corners of a marked cell."""
    nodes = cells
    for axis in range(3):
        ends = np.zeros((*nodes.shape[:axis], 1, *nodes.shape[axis + 1 :]), dtype=bool)
        before = np.concatenate([nodes, ends], axis=axis)
        after = np.concatenate([ends, nodes], axis=axis)
        nodes = before | after
    return nodes


def _interpolate(values: Array) -> None:
    """Interpolate the odd nodes of a lattice linearly from the even ones, in place."""
    for axis in range(3):
        # Earlier axes are complete; later axes have even nodes only.
        known = (slice(None),) * (axis + 1) + (slice(None, None, 2),) * (2 - axis)
        view = np.moveaxis(values[known], axis, 0)
        view[1::2] = (view[:-1:2] + view[2::2]) / 2


def _marching_cubes(lattice: Lattice) -> Mesh:
    measure = _import_measure()
    if not (lattice.values.min() < 0 < lattice.values.max()):
        return Mesh(np.empty((0, 3)), np.empty((0, 3), dtype=np.int64))
    vertices, faces, _, _ = measure.marching_cubes(
        lattice.values, 0.0, gradient_direction="descent"
    )
    places = lattice.origin + lattice.step * vertices.astype(np.float64)
    return Mesh(places, faces.astype(np.int64))


def _import_measure() -> Any:
    try:
        from skimage import measure
    except ImportError:
        raise ImportError(
            "ImplicitSurface.mesh needs scikit-image for marching cubes. Run: "
            'pip install "corevec[surface]"'
        ) from None
    return measure


__all__ = ["Mesh", "check_lattice_memory", "lattice_bytes", "zero_set"]
