"""What a fit leaves on a disk after every round, to go on from on another machine.

One file in NumPy's npz format, without pickles: the functions as they are (basis rows,
coefficients), the multipliers of the core rows, and a header that says which fit it
belongs to. Written to a file beside it and put in its place at once, so that whoever
reads it finds one round or the next, never half of one.
"""

from __future__ import annotations

import json
import os
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from corevec.exceptions import InvalidInputError
from corevec.expansion import KernelExpansion
from corevec.kernels import AnyKernel, Rows
from corevec.progress import Progress

Array = npt.NDArray[Any]

FORMAT = 1
# Rounds on a few thousand rows take milliseconds: those are written once a second, a
# round that looked at all rows always.
SECONDS_BETWEEN = 1.0


@dataclass
class Saved:
    """The state of a fit after a round."""

    values: Any
    index: Array
    coef: Array
    intercept: Array
    offsets: Array | None = None
    support: list[Array] = field(default_factory=list)
    multipliers: list[Array] = field(default_factory=list)
    chosen: bool = False  # the basis will not change any more
    header: dict[str, Any] = field(default_factory=dict)

    def functions(self, kernel: AnyKernel) -> KernelExpansion:
        """Return the functions, with the kernel of these rows."""
        rows = Rows(self.values, self.index)
        return KernelExpansion(kernel, rows, self.coef, self.intercept)


class Checkpoint:
    """The file of one fit: `asked` says which, `listen` writes it."""

    def __init__(self, path: str | os.PathLike[str], asked: dict[str, Any]):
        self.path = Path(path)
        self.asked = asked
        self._written = -np.inf

    def read(self) -> Saved | None:
        """Return what an earlier run of this fit left, None where there is no file."""
        if not self.path.exists():
            return None
        try:
            with open(self.path, "rb") as opened:  # NumPy leaves a damaged one open
                file = np.load(opened, allow_pickle=False)
                saved = _unpacked({name: file[name] for name in file.files})
        except (
            AttributeError,  # an array, not an archive
            EOFError,
            KeyError,
            OSError,
            ValueError,
            zipfile.BadZipFile,
        ) as error:
            raise InvalidInputError(
                f"checkpoint={str(self.path)!r} is no checkpoint of corevec, or is "
                f"damaged ({type(error).__name__}: {error}). Remove it to start anew."
            ) from None
        self._check(saved.header)
        return saved

    def listen(self, progress: Progress, record: dict[str, Any]) -> None:
        """Write the state after a round, if it is worth it."""
        if progress.snapshot is None:
            return
        recent = monotonic() - self._written < SECONDS_BETWEEN
        if recent and not record.get("exact", False):
            return
        self.write(_state_of(progress, self.asked, record))

    def leave(self, progress: Progress) -> None:
        """Write the state that a fit ends with, whichever round it was."""
        if progress.history and progress.snapshot is not None:
            self.write(_state_of(progress, self.asked, progress.history[-1]))

    def write(self, saved: Saved) -> None:
        """Put this state in the place of the last one, at once."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        beside = self.path.with_name(f".{self.path.name}.{os.getpid()}.part")
        try:
            with open(beside, "wb") as file:
                arrays: dict[str, Any] = _packed(saved)
                np.savez(file, **arrays)
                file.flush()
                os.fsync(file.fileno())
            os.replace(beside, self.path)
        finally:
            beside.unlink(missing_ok=True)
        self._written = monotonic()

    def remove(self) -> None:
        """Remove the file of a fit that is done."""
        self.path.unlink(missing_ok=True)

    def _check(self, header: dict[str, Any]) -> None:
        there = header.get("asked", {})
        for name in sorted({*there, *self.asked}):
            mine, theirs = self.asked.get(name), there.get(name)
            if mine != theirs:
                raise InvalidInputError(
                    f"checkpoint={str(self.path)!r} belongs to another fit: {name} is "
                    f"{theirs!r} there and {mine!r} here. Remove the file to start "
                    "anew, or give another path."
                )


def _state_of(
    progress: Progress, asked: dict[str, Any], record: dict[str, Any]
) -> Saved:
    assert progress.snapshot is not None
    functions: KernelExpansion = progress.snapshot()
    cores = progress.cores() if progress.cores is not None else []
    return Saved(
        functions.basis.values,
        functions.basis.index,
        functions.coef,
        functions.intercept,
        None if progress.offsets is None else progress.offsets(),
        [entries for entries, _ in cores],
        [multipliers for _, multipliers in cores],
        progress.chosen,
        {"asked": asked, "round": record["round"], "more": progress.more},
    )


def _packed(saved: Saved) -> dict[str, Array]:
    header = {**saved.header, "format": FORMAT, "chosen": saved.chosen}
    text = json.dumps({**header, "cores": len(saved.support)}, default=str)
    arrays = {
        "header": np.frombuffer(text.encode(), dtype=np.uint8),
        "index": saved.index,
        "coef": saved.coef,
        "intercept": saved.intercept,
    }
    if saved.offsets is not None:
        arrays["offsets"] = saved.offsets
    if sparse.issparse(saved.values):
        rows = saved.values.tocsr()
        arrays["shape"] = np.array(rows.shape)
        for name in ("data", "indices", "indptr"):
            arrays[f"csr_{name}"] = getattr(rows, name)
    else:
        arrays["values"] = saved.values
    for t, (entries, b) in enumerate(
        zip(saved.support, saved.multipliers, strict=True)
    ):
        arrays[f"entries_{t}"], arrays[f"multipliers_{t}"] = entries, b
    return arrays


def _unpacked(arrays: dict[str, Array]) -> Saved:
    header = json.loads(arrays["header"].tobytes().decode())
    if header["format"] != FORMAT:
        raise ValueError(f"format {header['format']}, this version reads {FORMAT}")
    if "values" in arrays:
        values: Any = arrays["values"]
    else:
        parts = tuple(arrays[f"csr_{name}"] for name in ("data", "indices", "indptr"))
        values = sparse.csr_matrix(parts, shape=tuple(arrays["shape"]))
    cores = range(int(header.pop("cores")))
    return Saved(
        values,
        arrays["index"],
        arrays["coef"],
        arrays["intercept"],
        arrays.get("offsets"),
        [arrays[f"entries_{t}"] for t in cores],
        [arrays[f"multipliers_{t}"] for t in cores],
        bool(header.pop("chosen")),
        header,
    )
