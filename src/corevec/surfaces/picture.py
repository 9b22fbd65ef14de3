"""A shaded plot of a mesh."""

from __future__ import annotations

from typing import Any

import numpy as np

from corevec._runtime.types import Array
from corevec.surfaces.mesh import Mesh

# Direction of the light: from above, over the left shoulder of the viewer.
_LIGHT = np.array([0.35, -0.6, 0.72])
# Brightness of a face that is turned away from the light.
_COLOR = "lightsteelblue"
_DARKEST = 0.2
# Zoom, because matplotlib leaves much space empty; 1.35 cuts off flat bodies.
_ZOOM = 1.15


def draw_mesh(mesh: Mesh, ax: Any = None) -> Any:
    """Return the 3-D axes (new ones if None) with the mesh drawn."""
    pyplot, colors, art3d = _import_matplotlib()
    if ax is None:
        ax = pyplot.figure(figsize=(6, 6)).add_subplot(projection="3d")
    corners = mesh.vertices[mesh.faces]
    light = np.clip((1 + _normals(corners) @ _LIGHT) / 2, 0, 1) ** 1.5
    shades = np.outer(_DARKEST + (1 - _DARKEST) * light, colors.to_rgb(_COLOR))
    # Edges in the colour of the face hide the gaps between anti-aliased triangles.
    ax.add_collection3d(
        art3d.Poly3DCollection(corners, facecolors=shades, edgecolors=shades, lw=0.2)
    )
    low, high = mesh.vertices.min(axis=0), mesh.vertices.max(axis=0)
    ax.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), zlim=(low[2], high[2]))
    ax.set_box_aspect(high - low, zoom=_ZOOM)
    ax.set_axis_off()
    return ax


def _normals(corners: Array) -> Array:
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    lengths = np.linalg.norm(normals, axis=1, keepdims=True)
    return np.asarray(normals / np.where(lengths > 0, lengths, 1))


def _import_matplotlib() -> tuple[Any, Any, Any]:
    try:
        from matplotlib import colors, pyplot
        from mpl_toolkits.mplot3d import art3d
    except ImportError:
        raise ImportError(
            'ImplicitSurface.plot needs matplotlib. Run: pip install "corevec[plot]"'
        ) from None
    return pyplot, colors, art3d


__all__ = ["draw_mesh"]
