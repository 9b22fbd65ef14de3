"""Implicit surfaces: points -> field -> mesh."""

from corevec.surfaces.field import Field as Field
from corevec.surfaces.field import Frame as Frame
from corevec.surfaces.implicit import ImplicitSurface
from corevec.surfaces.mesh import Mesh
from corevec.surfaces.mesh import check_lattice_memory as check_lattice_memory
from corevec.surfaces.mesh import lattice_bytes as lattice_bytes
from corevec.surfaces.mesh import zero_set as zero_set
from corevec.surfaces.normals import estimate_normals as estimate_normals
from corevec.surfaces.normals import make_cloud as make_cloud
from corevec.surfaces.targets import winding_numbers as winding_numbers

__all__ = ["ImplicitSurface", "Mesh"]
