"""The widths, spacings and tubes of the scales of a surface.

All lengths are in unit coordinates: the diagonal of the box of the points is 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from corevec._runtime.types import Array

# Measured on the bunny (90 % of 35,947 points, spacing 0.005), one thread; "distance"
# is the mean distance of held-out points to the mesh, in % of the diagonal.

# Spacing of the points of the coarsest scale: about 1,000 points on most shapes.
COARSEST_SPACING = 0.03
# Points closer than this many tubes are redundant in the finest scale: of the 437,645
# points of the dragon, with a spacing of 0.0014, 121,745 remain.
TUBES_APART = 2.0
# Width of a kernel in spacings of its scale. 4, 8, 16: distance 0.081, 0.079, 0.079
# with 5,800, 5,600, 6,100 support vectors.
WIDTH = 8.0
# Tube of the finest scale if none is given. 0.003, 0.002, 0.0015, 0.001, 0.0007:
# distance 0.14, 0.10, 0.079, 0.063, 0.051 with 2,800, 4,400, 5,600, 7,100, 9,000
# support vectors in 2, 5, 6, 14, 26 s; below 0.0015 the core set of the last
# scale exceeds the default memory budget.
TUBE = 0.0015
# Ratio of the tubes of the coarsest and the finest scale. With 3 instead of 2 there are
# as many support vectors, but more of them in the last scale, where they are the most
# expensive (9 s instead of 6 s).
COARSE_TUBE = 2.0


@dataclass(frozen=True)
class Scale:
    """Parameters of one scale.

    Attributes
    ----------
    width : float
        Width of the kernel: gamma is ``width**-2``.
    spacing : float
        Spacing of its points, and distance of the signed locations from the surface.
    tube : float
        Errors of the field up to this value cost nothing.
    """

    width: float
    spacing: float
    tube: float


def plan_scales(
    spacing: float, n_scales: int, widths: Array | None, tube: float | None
) -> list[Scale]:
    """Return the scales, coarse to fine, for points with this spacing.

    `widths` and the finest `tube` replace the values derived from the spacing.
    """
    tube = TUBE if tube is None else tube
    finest = max(spacing, TUBES_APART * tube)
    spacings = _steps(max(COARSEST_SPACING, finest), finest, n_scales)
    tubes = _steps(COARSE_TUBE * tube, tube, n_scales)
    if widths is None:
        widths = WIDTH * spacings
    return [
        Scale(float(width), float(step), float(most))
        for width, step, most in zip(widths, spacings, tubes, strict=True)
    ]


def _steps(first: float, last: float, n: int) -> Array:
    """Return a geometric sequence of n values; only the last if n is 1."""
    return np.geomspace(first, last, n) if n > 1 else np.array([last])


__all__ = ["Scale", "plan_scales"]
