"""Targets of the field: rows and target values of each scale.

Near the surface the target is the signed distance: 0 on the points, +d and -d at
a distance d along the normal (Carr et al., "Reconstruction and representation of 3D
objects with radial basis functions", SIGGRAPH 2001). Far from it, only the sign matters
for the mesh: it comes from the winding number of the oriented points (Barill et al.,
"Fast winding numbers for soups and clouds", 2018), which is near 1 inside, near 0
outside, and bridges holes of the scan.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from corevec._runtime.types import Array
from corevec.surfaces.normals import Cloud
from corevec.surfaces.plan import Scale

Function = Callable[[Array], Array]

# A location beside the surface is used if no point is closer to it than this share of
# its distance: otherwise it is close to another sheet (the other side of an ear), and
# its sign is doubtful. 1 would remove locations in every shallow dent.
_CLEAR = 0.8
# Distances tried: d, d/2, d/4, d/8; a point for which none is free gets no location.
_HALVINGS = 3
# Nodes of the background lattice along its longest side, and its margin around the box
# of the points as a share of that side: the margin of a mesh.
_LATTICE, _BEYOND = 16, 0.25
# Lattice nodes closer to a point than this many lattice steps are skipped: the
# locations beside the surface, whose signs are more reliable, cover them.
_AWAY = 0.75
# Points with locations beside them are thinned to this many spacings: the slope of the
# field varies more slowly than the surface. With 1 instead of 2 there are 30 % more
# support vectors on the bunny, without a smaller distance.
_BESIDE_SPACING = 2.0
# A location beside the surface is added to a scale if the error of the field so far
# exceeds this share of its distance. With a quarter instead of a half there are 18 %
# more support vectors on the bunny, without a smaller distance; the slope is 0.95
# instead of 0.90.
_RELATIVE_ERROR = 0.5
# Winding numbers are sums over at most about this many clusters of points.
_CLUSTERS = 4000


@dataclass(frozen=True)
class Targets:
    """Rows of one regression: locations and their target values."""

    places: Array
    values: Array

    def where(self, chosen: Array) -> Targets:
        """Return the rows marked in `chosen`."""
        return Targets(self.places[chosen], self.values[chosen])

    def __add__(self, other: Targets) -> Targets:
        return Targets(
            np.concatenate([self.places, other.places]),
            np.concatenate([self.values, other.values]),
        )


def thinned(cloud: Cloud, spacing: float) -> Array:
    """Return the row numbers of one point per cube of side `spacing`."""
    if spacing <= cloud.spacing:
        return np.arange(len(cloud.points))
    return np.sort(np.unique(_cubes(cloud, spacing), axis=0, return_index=True)[1])


def near_surface(
    cloud: Cloud, normals: Array | None, scale: Scale, field: Function
) -> Targets:
    """Return the rows near the surface for one scale.

    The points, thinned to the spacing of the scale, have the value 0. With normals,
    there are also locations one spacing beside them, with their signed distance, where
    the error of the field so far exceeds half of it: they fix the sign and the slope,
    and exact values would spend support vectors away from the surface.
    """
    rows = thinned(cloud, scale.spacing)
    found = Targets(cloud.points[rows], np.zeros(len(rows)))
    if normals is None:
        return found
    rows = thinned(cloud, _BESIDE_SPACING * scale.spacing)
    beside = beside_surface(cloud, normals, rows, scale.spacing)
    error = np.abs(field(beside.places) - beside.values)
    return found + beside.where(error > _RELATIVE_ERROR * np.abs(beside.values))


def beside_surface(
    cloud: Cloud, normals: Array, rows: Array, distance: float
) -> Targets:
    """Return locations along both directions of the normals, with signed distances.

    The distance is halved while another part of the surface is too close; a point for
    which no distance is free is skipped.
    """
    outside = _along(cloud, normals[rows], rows, distance)
    inside = _along(cloud, -normals[rows], rows, distance)
    return outside + Targets(inside.places, -inside.values)


def _along(cloud: Cloud, directions: Array, rows: Array, distance: float) -> Targets:
    found = Targets(np.empty((0, 3)), np.empty(0))
    for halving in range(_HALVINGS + 1):
        step = distance / 2**halving
        places = cloud.points[rows] + step * directions
        nearest, _ = cloud.tree.query(places)
        clear = nearest >= _CLEAR * step
        found = found + Targets(places[clear], np.minimum(nearest, step)[clear])
        rows, directions = rows[~clear], directions[~clear]
    return found


@dataclass(frozen=True)
class Background:
    """Nodes of a coarse lattice away from the surface, with their signed distances."""

    places: Array
    values: Array

    @classmethod
    def around(cls, cloud: Cloud, normals: Array) -> Background:
        """Return the background of a cloud; the signs are those of winding numbers."""
        places, step = _lattice(cloud.points)
        nearest, _ = cloud.tree.query(places)
        away = nearest > _AWAY * step
        places, nearest = places[away], nearest[away]
        inside = winding_numbers(cloud, normals, places) > 0.5
        return cls(places, np.where(inside, -nearest, nearest))

    def unsecured(self, field: Function) -> Targets:
        """Return the locations where the sign of the field is wrong or weak.

        Weak means below half of the distance. That value is the target: a location
        that reaches it is not added, so that it needs no support vectors.
        """
        wanted = self.values / 2
        weak = field(self.places) * np.sign(wanted) < np.abs(wanted)
        return Targets(self.places[weak], wanted[weak])


def _lattice(points: Array) -> tuple[Array, float]:
    """Return the nodes of a lattice around the points, and its step."""
    low, high = points.min(axis=0), points.max(axis=0)
    margin = _BEYOND * (high - low).max()
    step = (high - low + 2 * margin).max() / _LATTICE
    sides = [
        np.arange(a - margin, b + margin + step, step)
        for a, b in zip(low, high, strict=True)
    ]
    places = np.stack(np.meshgrid(*sides, indexing="ij"), axis=-1).reshape(-1, 3)
    return places, float(step)


def winding_numbers(cloud: Cloud, normals: Array, places: Array) -> Array:
    """Return the winding number of the oriented points around each location.

    ``sum_i a_i n_i . (p_i - x) / (4 pi |p_i - x|^3)``, over clusters of points: this is
    accurate a few cluster sizes away from the surface, where it is evaluated.
    """
    centres, dipoles = _clusters(cloud, normals)
    numbers = np.empty(len(places))
    for start in range(0, len(places), 256):
        part = slice(start, start + 256)
        way = centres - places[part, None]
        cubes = np.einsum("pci,pci->pc", way, way) ** 1.5
        flux = np.einsum("pci,ci->pc", way, dipoles)
        numbers[part] = (flux / np.maximum(cubes, 1e-300)).sum(axis=1)
    return numbers / (4 * np.pi)


def _clusters(cloud: Cloud, normals: Array) -> tuple[Array, Array]:
    """Return the centres of clusters, and the area-weighted sums of their normals."""
    side = np.sqrt(cloud.areas.sum() / _CLUSTERS)
    _, cluster = np.unique(_cubes(cloud, side), axis=0, return_inverse=True)
    weight = np.bincount(cluster, cloud.areas)
    centres = [np.bincount(cluster, cloud.areas * x) / weight for x in cloud.points.T]
    dipoles = [np.bincount(cluster, cloud.areas * x) for x in normals.T]
    return np.column_stack(centres), np.column_stack(dipoles)


def _cubes(cloud: Cloud, side: float) -> Array:
    """Return the index, per axis, of the cube of each point."""
    low = cloud.points.min(axis=0)
    return np.asarray(np.floor((cloud.points - low) / side), dtype=np.int64)


__all__ = ["Background", "Targets", "near_surface", "winding_numbers"]
