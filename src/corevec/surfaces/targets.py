"""What the field shall be where: rows and target values for each scale.

Near the surface the wanted field is the signed distance: 0 on the points, +d and -d at
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

# A place beside the surface is kept if no point is nearer to it than this share of its
# distance: else it comes close to another sheet (the far side of an ear) and its sign
# is doubtful. 1 would drop places in every shallow dent.
_CLEAR = 0.8
# Distances tried: d, d/2, d/4, d/8; a point that fits none gets no place beside it.
_HALVINGS = 3
# Places of the background lattice along its longest side, and how far beyond the box
# of the points it reaches, as a share of the longest side: as far as a mesh looks.
_LATTICE, _BEYOND = 16, 0.25
# Lattice places nearer to a point than this many lattice steps are left to the places
# beside the surface, whose signs are surer.
_AWAY = 0.75
# Points that get places beside them are thinned to this many spacings: the slope of
# the field varies more slowly than the surface. 1 instead of 2: 30 % more support
# vectors on the bunny, and no closer to the points.
_BESIDE_SPACING = 2.0
# A place beside the surface joins a scale when the field so far is off by this share
# of its distance. A quarter instead of a half: 18 % more support vectors on the bunny,
# and no closer to the points; the slope there is 0.95 instead of 0.90.
_RELATIVE_ERROR = 0.5
# Winding numbers are sums over at most about this many clusters of points.
_CLUSTERS = 4000


@dataclass(frozen=True)
class Targets:
    """Rows of one regression: places, and the value wanted there."""

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
    """Return row numbers of one point per cube of side `spacing`; all if not denser."""
    if spacing <= cloud.spacing:
        return np.arange(len(cloud.points))
    return np.sort(np.unique(_cubes(cloud, spacing), axis=0, return_index=True)[1])


def near_surface(
    cloud: Cloud, normals: Array | None, scale: Scale, field: Function
) -> Targets:
    """Return the rows near the surface for one scale.

    The points, thinned to the spacing of the scale, with value 0. Where there are
    normals, also places one spacing beside them with their signed distance, as far as
    the field so far is off there by more than half of it: they hold sign and slope,
    and asking for exact values would spend support vectors off the surface.
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
    """Return places along the normals of `rows`, both ways, with signed distance.

    Where the way out is blocked by another part of the surface the distance is halved
    until it is clear; a point that stays blocked is left out.
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
    """Places of a coarse lattice, away from the surface, and their signed distance."""

    places: Array
    values: Array

    @classmethod
    def around(cls, cloud: Cloud, normals: Array) -> Background:
        """Return the background of a cloud; signs come from its winding numbers."""
        places, step = _lattice(cloud.points)
        nearest, _ = cloud.tree.query(places)
        away = nearest > _AWAY * step
        places, nearest = places[away], nearest[away]
        inside = winding_numbers(cloud, normals, places) > 0.5
        return cls(places, np.where(inside, -nearest, nearest))

    def unsecured(self, field: Function) -> Targets:
        """Return the places where the field's sign is wrong or weak.

        Weak: below half of the distance. That much is asked for, and no more: a place
        that has it is left alone, so it costs no support vectors.
        """
        wanted = self.values / 2
        weak = field(self.places) * np.sign(wanted) < np.abs(wanted)
        return Targets(self.places[weak], wanted[weak])


def _lattice(points: Array) -> tuple[Array, float]:
    """Return places of a lattice around the points, and its step."""
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
    """Return how often the oriented points surround each place.

    ``sum_i a_i n_i . (p_i - x) / (4 pi |p_i - x|^3)``, over clusters of points: exact
    enough a few cluster sizes away from the surface, which is where it is asked.
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
    """Return centres of clusters, and the area-weighted sum of their normals."""
    side = np.sqrt(cloud.areas.sum() / _CLUSTERS)
    _, cluster = np.unique(_cubes(cloud, side), axis=0, return_inverse=True)
    weight = np.bincount(cluster, cloud.areas)
    centres = [np.bincount(cluster, cloud.areas * x) / weight for x in cloud.points.T]
    dipoles = [np.bincount(cluster, cloud.areas * x) for x in normals.T]
    return np.column_stack(centres), np.column_stack(dipoles)


def _cubes(cloud: Cloud, side: float) -> Array:
    """Return the number of the cube, per axis, that each point lies in."""
    low = cloud.points.min(axis=0)
    return np.asarray(np.floor((cloud.points - low) / side), dtype=np.int64)


__all__ = ["Background", "Targets", "near_surface", "winding_numbers"]
