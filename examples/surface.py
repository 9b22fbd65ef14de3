"""A closed surface from bare points: fit, measure, mesh, draw.

Generates points on a trefoil knot, fits a field whose zero set is the knot, and writes
``knot.ply`` here and ``docs/surface.png``.
"""

import time
from pathlib import Path

import numpy as np

from corevec.surfaces import ImplicitSurface

POINTS, THICKNESS = 12_000, 0.45
PICTURE = Path("surface.png")


def knot(n_points, seed):
    """Return points on a tube around the trefoil knot, in random order."""
    t, angle = 2 * np.pi * np.random.default_rng(seed).random((2, n_points))
    centre, along = trefoil(t), trefoil(t + 1e-4) - trefoil(t - 1e-4)
    along /= np.linalg.norm(along, axis=1, keepdims=True)
    side = np.cross(along, [0.0, 0.0, 1.0])
    side /= np.linalg.norm(side, axis=1, keepdims=True)
    up = np.cross(side, along)
    around = np.cos(angle)[:, None] * side + np.sin(angle)[:, None] * up
    return centre + THICKNESS * around


def trefoil(t):
    return np.column_stack(
        [
            np.sin(t) + 2 * np.sin(2 * t),
            np.cos(t) - 2 * np.cos(2 * t),
            -np.sin(3 * t),
        ]
    )


def true_distance(places):
    """Return the distance to the tube, from 20,000 places of its centre line."""
    from scipy.spatial import cKDTree

    line = trefoil(np.linspace(0, 2 * np.pi, 20_001))
    return cKDTree(line).query(places)[0] - THICKNESS


def draw(surface, points, mesh, path):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure = plt.figure(figsize=(10, 5), layout="constrained")
    left = figure.add_subplot(1, 2, 1, projection="3d")
    left.scatter(*points.T, s=0.3, c="black", linewidths=0)
    left.set_box_aspect(np.ptp(points, axis=0), zoom=1.15)
    left.set_axis_off()
    left.set_title(f"{len(points):,} points without normals")
    right = figure.add_subplot(1, 2, 2, projection="3d")
    surface.plot(mesh, ax=right)
    right.set_title(f"closed surface, {surface.n_support_:,} support vectors")
    for axes in (left, right):
        axes.view_init(elev=60, azim=-70)
    figure.savefig(path, dpi=110)


def main():
    points = knot(POINTS, seed=0)
    start = time.perf_counter()
    surface = ImplicitSurface(random_state=0).fit(points)
    fitted = time.perf_counter()
    mesh = surface.mesh(resolution=128)
    meshed = time.perf_counter()

    size = np.linalg.norm(np.ptp(points, axis=0))
    error = np.abs(true_distance(mesh.vertices)) / size
    n_edges = len(mesh.faces) * 3 // 2
    print(f"{POINTS:,} points of a knot, {surface.n_support_:,} support vectors")
    print(f"seconds to fit {fitted - start:.1f}, to mesh {meshed - fitted:.1f}")
    print(f"distance to the true knot: mean {error.mean():.3%} of the diagonal")
    print(f"pieces {mesh.n_components}, boundary edges {mesh.n_boundary_edges}")
    euler = len(mesh.vertices) - n_edges + len(mesh.faces)
    print(f"V - E + F = {euler} (0 for a torus, knotted or not)\n")
    print(surface.certificate_)
    mesh.save("knot.ply")
    draw(surface, points, mesh, PICTURE)
    print(f"\nMesh: knot.ply. Picture: {PICTURE.resolve()}")


if __name__ == "__main__":
    main()
