"""
A surface from bare points
==========================

Points on a trefoil knot, without normals, become a field whose zero set is a closed
surface. ``pip install "corevec[surface]"`` brings scikit-image.
"""

import matplotlib.pyplot as plt
import numpy as np

from corevec import ImplicitSurface


def trefoil(t):
    return np.column_stack(
        [
            np.sin(t) + 2 * np.sin(2 * t),
            np.cos(t) - 2 * np.cos(2 * t),
            -np.sin(3 * t),
        ]
    )


def knot(n_points, thickness=0.45):
    """Return points on a tube around the trefoil knot, in random order."""
    t, angle = 2 * np.pi * np.random.default_rng(0).random((2, n_points))
    along = trefoil(t + 1e-4) - trefoil(t - 1e-4)
    along /= np.linalg.norm(along, axis=1, keepdims=True)
    side = np.cross(along, [0.0, 0.0, 1.0])
    side /= np.linalg.norm(side, axis=1, keepdims=True)
    up = np.cross(side, along)
    around = np.cos(angle)[:, None] * side + np.sin(angle)[:, None] * up
    return trefoil(t) + thickness * around


points = knot(3_000)
surface = ImplicitSurface(scales=2, random_state=0).fit(points)
mesh = surface.mesh(resolution=48)
print(f"{surface.n_support_:,} vectors; {len(mesh.faces):,} triangles")

# %%
# ``mesh.save("knot.ply")`` writes it; matplotlib shades it.

figure = plt.figure(figsize=(10, 5), layout="constrained")
left = figure.add_subplot(1, 2, 1, projection="3d")
left.scatter(*points.T, s=0.5, c="black", linewidths=0)
left.set_box_aspect(np.ptp(points, axis=0), zoom=1.15)
left.set_axis_off()
right = figure.add_subplot(1, 2, 2, projection="3d")
surface.plot(mesh, ax=right)
for axes in (left, right):
    axes.view_init(elev=60, azim=-70)
