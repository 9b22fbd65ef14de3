"""Which widths, spacings, offsets and tubes the scales of a surface use.

All lengths here are in unit coordinates: the diagonal of the points' box is 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from corevec._runtime.types import Array

# Measured on the bunny (90 % of 35,947 points, spacing 0.005), one thread; "distance"
# is the mean of the held-out points to the mesh, in % of the diagonal.

# Spacing of the points that the coarsest scale sees: some 1,000 on most shapes.
COARSEST_SPACING = 0.03
# Points closer together than so many tubes tell the finest scale nothing new: of the
# dragon's 437,645, which are 0.0014 apart, 121,745 remain.
TUBES_APART = 2.0
# Width of a kernel in spacings of its scale. 4, 8, 16: distance 0.081, 0.079, 0.079
# with 5,800, 5,600, 6,100 support vectors.
WIDTH = 8.0
# Tube of the finest scale if none is given. 0.003, 0.002, 0.0015, 0.001, 0.0007:
# distance 0.14, 0.10, 0.079, 0.063, 0.051 with 2,800, 4,400, 5,600, 7,100, 9,000
# support vectors in 2, 5, 6, 14, 26 s; below 0.0015 the last scale's core set no
# longer fits the default memory budget.
TUBE = 0.0015
# How much wider the tube of the coarsest scale is. 3 instead of 2: as many support
# vectors, but more of them in the last scale, where they cost most (9 s, not 6).
COARSE_TUBE = 2.0


@dataclass(frozen=True)
class Scale:
    """What one scale is asked.

    Attributes
    ----------
    width : float
        Of the kernel: gamma is ``width**-2``.
    spacing : float
        Of the points that it is fitted to, and distance of the signed places from
        the surface.
    tube : float
        Errors of the field up to this are no errors.
    """

    width: float
    spacing: float
    tube: float


def plan_scales(
    spacing: float, n_scales: int, widths: Array | None, tube: float | None
) -> list[Scale]:
    """Return the scales, coarse to fine, for points with this spacing.

    `widths` and the finest `tube` replace what the spacing suggests.
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
    """Return n values that fall by the same factor; only the last if n is 1."""
    return np.geomspace(first, last, n) if n > 1 else np.array([last])


__all__ = ["Scale", "plan_scales"]
