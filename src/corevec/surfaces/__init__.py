"""Implicit surfaces: points -> field -> mesh."""

from corevec.surfaces.implicit import ImplicitSurface
from corevec.surfaces.mesh import Mesh

__all__ = ["ImplicitSurface", "Mesh"]
