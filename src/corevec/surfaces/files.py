"""Files of triangle meshes: PLY (binary), OBJ and STL (binary)."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from corevec._runtime.types import Array
from corevec.exceptions import InvalidInputError

_PLY_HEADER = """ply
format binary_little_endian 1.0
comment written by corevec
element vertex {vertices}
property double x
property double y
property double z
element face {faces}
property list uchar int vertex_indices
end_header
"""


def save_mesh(path: str | Path, vertices: Array, faces: Array) -> None:
    """Write the mesh in the format of the suffix of `path`."""
    path = Path(path)
    writer = _WRITERS.get(path.suffix.lower())
    if writer is None:
        known = ", ".join(_WRITERS)
        raise InvalidInputError(
            f"Mesh.save: {path.name!r} ends in {path.suffix!r}; the suffix determines "
            f"the format and must be one of {known}."
        )
    writer(path, vertices, faces)


def _write_ply(path: Path, vertices: Array, faces: Array) -> None:
    header = _PLY_HEADER.format(vertices=len(vertices), faces=len(faces))
    polygons = np.empty(len(faces), dtype=[("count", "u1"), ("corners", "<i4", 3)])
    polygons["count"] = 3
    polygons["corners"] = faces
    path.write_bytes(
        header.encode("ascii") + vertices.astype("<f8").tobytes() + polygons.tobytes()
    )


def _write_obj(path: Path, vertices: Array, faces: Array) -> None:
    with path.open("w", encoding="ascii", newline="\n") as file:
        file.write("# written by corevec\n")
        file.writelines(f"v {x:.9g} {y:.9g} {z:.9g}\n" for x, y, z in vertices.tolist())
        # OBJ counts vertices from 1.
        file.writelines(f"f {a} {b} {c}\n" for a, b, c in (faces + 1).tolist())


def _write_stl(path: Path, vertices: Array, faces: Array) -> None:
    """Write float32 triangles: STL has no other type, and no shared vertices."""
    corners = vertices[faces]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    lengths = np.linalg.norm(normals, axis=1, keepdims=True)
    fields = [("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("attribute", "<u2")]
    triangles = np.zeros(len(faces), dtype=fields)
    triangles["normal"] = normals / np.where(lengths > 0, lengths, 1)
    triangles["corners"] = corners
    header = b"written by corevec".ljust(80)
    count = np.array(len(faces), dtype="<u4").tobytes()
    path.write_bytes(header + count + triangles.tobytes())


_WRITERS = {".ply": _write_ply, ".obj": _write_obj, ".stl": _write_stl}


__all__ = ["save_mesh"]
