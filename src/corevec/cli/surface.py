"""``corevec surface``: points to a mesh."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from corevec.cli.console import OutputOptions, certificate_fields
from corevec.cli.data import ReadingOptions, read_table
from corevec.cli.errors import ExitCode, data_error, reading, usage_error, writing
from corevec.cli.fitting import (
    Stages,
    explained,
    in_bytes,
    or_nothing,
    state_of,
    was_interrupted,
)
from corevec.cli.models import check_model_name, replaced_when_done
from corevec.cli.parameters import model_of

Points = Annotated[str, typer.Argument(metavar="POINTS", help="File of points, or -.")]
Mesh = Annotated[
    Path, typer.Argument(metavar="MESH", help="Mesh to write: .ply, .obj or .stl.")
]
_BLANK_TEXT = (".xyz", ".pts", ".asc", ".xyzn")


@dataclass(frozen=True)
class SurfaceOptions:
    """Options of ``corevec surface`` beside those of the file and of the estimator.

    Parameters
    ----------
    resolution : CELLS
        Cells along the longest side of the box.
    set_ : NAME=VALUE
        name=value of any parameter; may be repeated.
    """

    resolution: int = 128
    set_: list[str] | None = None


def surface(
    points: Points,
    mesh: Mesh,
    options: ReadingOptions,
    out: OutputOptions,
    parameters: dict[str, str],
    how: SurfaceOptions,
) -> ExitCode:
    """Fit an implicit surface to points and write it as a triangle mesh.

    Points are three columns, x y z, or six with normals: CSV, npy, npz, Parquet, or
    text with blanks between (.xyz, .pts, .asc). Needs scikit-image (pip install
    "corevec[surface]").

    Examples
    --------
      corevec surface bunny.xyz bunny.ply
      corevec surface scan.npy scan.obj --resolution 256 --tube 0.5
      corevec surface points.csv mesh.stl --formulation one-set
    """
    from corevec import ImplicitSurface

    model = model_of(ImplicitSurface, parameters, how.set_, out.verbosity)
    if mesh.suffix.lower() not in (".ply", ".obj", ".stl"):
        raise usage_error(f"{str(mesh)!r} must end in .ply, .obj or .stl.")
    check_model_name(mesh)
    stages = Stages()
    with or_nothing(mesh):
        with stages.stage("read"):
            rows = _points(points, options)
        out.say(f"read    {points}: {len(rows):,} points")
        with stages.stage("fit"), explained(points, model):
            model.fit(rows[:, :3], rows[:, 3:] if rows.shape[1] == 6 else None)
        # A refused resolution is an error of usage, a missing package one of writing.
        with stages.stage("mesh"), writing(mesh):
            found = model.mesh(how.resolution)
    with writing(mesh), replaced_when_done(mesh) as part:
        found.save(part)
    _say(model, found, mesh, stages, out)
    out.result(
        command="surface",
        points=len(rows),
        mesh=str(mesh),
        vertices=len(found.vertices),
        faces=len(found.faces),
        certificate=certificate_fields(model.certificate_),
        **stages.fields(),
    )
    if was_interrupted(model):
        out.warn(f"interrupted: {mesh} is the surface of the scales fitted so far.")
        return ExitCode.INTERRUPTED
    return ExitCode.OK


def _say(
    model: Any, found: Any, mesh: Path, stages: Stages, out: OutputOptions
) -> None:
    out.say(f"fit     {model.n_support_:,} vectors, {stages.seconds['fit']:.2f} s")
    for line in state_of(model):
        out.say(f"        {line}")
    out.say(
        f"wrote   {mesh}: {len(found.vertices):,} vertices, {len(found.faces):,} "
        f"triangles, {in_bytes(mesh.stat().st_size)}"
    )


def _points(name: str, options: ReadingOptions) -> Any:
    if Path(name).suffix.lower() in _BLANK_TEXT and options.format == "auto":
        rows = _blank_text(name)
    else:
        rows = read_table(name, options).X
    rows = rows.toarray() if hasattr(rows, "toarray") else rows
    if rows.shape[1] not in (3, 6):
        raise data_error(
            f"{name}: {rows.shape[1]} columns; expected 3 (x y z), or 6 with normals."
        )
    return rows


def _blank_text(name: str) -> Any:
    import numpy as np

    try:
        with reading(ExitCode.BAD_DATA):
            return np.loadtxt(name, ndmin=2)
    except ValueError as error:
        raise data_error(f"{name}: {error}.") from error
