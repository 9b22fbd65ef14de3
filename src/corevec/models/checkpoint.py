"""Checkpoints: the state of a fit on disk, from which any machine can resume it.

One file in NumPy's npz format, without pickles: the functions (basis rows and
coefficients), the multipliers of the core rows, and a header that says which fit it
belongs to. A temporary file replaces it in one step, so that a reader finds one round
or the next, never half of one.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from numbers import Integral, Real
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np
from scipy import sparse

from corevec._runtime.checks import check_csr
from corevec._runtime.progress import RoundState
from corevec._runtime.types import Array
from corevec.exceptions import InvalidInputError
from corevec.kernels import AnyKernel, Rows
from corevec.models.expansion import KernelExpansion

FORMAT = 1
# Rounds on a few thousand rows take milliseconds and are written once a second; a round
# that scanned all rows is always written.
SECONDS_BETWEEN = 1.0

logger = logging.getLogger("corevec")


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
    basis_is_final: bool = False  # a resumed fit keeps the basis vectors
    header: dict[str, Any] = field(default_factory=dict)

    def functions(self, kernel: AnyKernel) -> KernelExpansion:
        """Return the functions, given the kernel."""
        rows = Rows(self.values, self.index)
        return KernelExpansion(kernel, rows, self.coef, self.intercept)


class Checkpoint:
    """The checkpoint file of one fit.

    Parameters
    ----------
    path : str or path-like
        The file.
    asked : dict
        The parameters and the shape of the data: two runs of one fit agree in them.
    more : dict, optional
        What else the header keeps for a resumed fit.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        asked: dict[str, Any],
        more: dict[str, Any] | None = None,
    ):
        self.path = Path(path)
        self.asked, self.more = asked, more or {}
        self._written = -np.inf
        self._latest: tuple[dict[str, Any], RoundState] | None = None

    def read(self) -> Saved | None:
        """Return the state that an earlier run saved, None where there is no file."""
        if not self.path.exists():
            return None
        try:
            with open(self.path, "rb") as opened:  # NumPy would not close a damaged one
                file = np.load(opened, allow_pickle=False)
                saved = _unpacked({name: file[name] for name in file.files})
        except (
            AttributeError,  # an array, not an archive
            EOFError,
            KeyError,
            OSError,
            OverflowError,
            TypeError,
            ValueError,
            zipfile.BadZipFile,
        ) as error:
            raise self._damaged(error) from None
        self._check(saved.header)
        try:
            _check_arrays(saved, self.asked)
        except ValueError as error:
            raise self._damaged(error) from None
        return saved

    def _damaged(self, error: Exception) -> InvalidInputError:
        return InvalidInputError(
            f"checkpoint={str(self.path)!r} is no checkpoint of corevec, or is damaged "
            f"({type(error).__name__}: {error}). Remove it to start anew.",
            parameter="checkpoint",
        )

    def check_place(self) -> None:
        """Raise where no file can be written, before the fit begins."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._temporary.touch()
            self._temporary.unlink()
        except OSError as error:
            raise InvalidInputError(
                f"checkpoint={str(self.path)!r} cannot be written "
                f"({type(error).__name__}: {error}). Give a path in a folder that can.",
                parameter="checkpoint",
            ) from None

    def on_round(self, record: dict[str, Any], state: RoundState | None) -> None:
        """Write the state after a round, unless the last one is recent."""
        if state is None:
            return
        self._latest = record, state
        recent = monotonic() - self._written < SECONDS_BETWEEN
        if record.get("exact", False) or not recent:
            self._try_to_write(self._saved(record, state))

    def leave(self) -> None:
        """Write the state of the last round, at the end of a fit."""
        if self._latest is not None:
            self._try_to_write(self._saved(*self._latest))

    def write(self, saved: Saved) -> None:
        """Replace the file by one with this state, in one step."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        temporary = self._temporary
        try:
            with open(temporary, "wb") as file:
                arrays: dict[str, Any] = _packed(saved)
                np.savez(file, **arrays)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, self.path)
        finally:
            temporary.unlink(missing_ok=True)
        self._written = monotonic()

    def remove(self) -> None:
        """Remove the file, after a fit that converged."""
        self.path.unlink(missing_ok=True)

    def _saved(self, record: dict[str, Any], state: RoundState) -> Saved:
        functions: KernelExpansion = state.functions()
        cores = state.cores() if state.cores is not None else []
        header = {"asked": self.asked, "round": record["round"], "more": self.more}
        return Saved(
            functions.basis.values,
            functions.basis.index,
            functions.coef,
            functions.intercept,
            None if state.offsets is None else state.offsets(),
            [entries for entries, _ in cores],
            [multipliers for _, multipliers in cores],
            state.basis_is_final,
            header,
        )

    @property
    def _temporary(self) -> Path:
        return self.path.with_name(f".{self.path.name}.{os.getpid()}.part")

    def _try_to_write(self, saved: Saved) -> None:
        """Write, or log that it failed: a full disk is no reason to lose a fit."""
        try:
            self.write(saved)
        except OSError as error:
            logger.warning(
                "checkpoint=%r was not written (%s); the fit goes on, and the round "
                "before is kept",
                str(self.path),
                error,
            )

    def _check(self, header: dict[str, Any]) -> None:
        stored = header.get("asked", {})
        for name in sorted({*stored, *self.asked}):
            mine, theirs = self.asked.get(name), stored.get(name)
            if mine != theirs:
                raise InvalidInputError(
                    f"checkpoint={str(self.path)!r} belongs to another fit: {name} is "
                    f"{theirs!r} there and {mine!r} here. Remove the file to start "
                    "anew, or give another path.",
                    parameter="checkpoint",
                )


def described(value: Any) -> Any:
    """Return a parameter as JSON, the same for equal parameters in any process.

    10 equals 10.0. Functions and random generators are described by their names, not
    by their addresses; arrays by a digest, because their texts omit most entries.
    """
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        return float(value)
    if isinstance(value, Mapping):
        return {str(name): described(one) for name, one in value.items()}
    if isinstance(value, np.ndarray) and value.dtype != object:
        digest = hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()
        return f"array of {value.shape}, {value.dtype}, {digest[:16]}"
    return re.sub(" at 0x[0-9A-Fa-f]+", "", repr(value))


def _packed(saved: Saved) -> dict[str, Array]:
    header = {**saved.header, "format": FORMAT, "chosen": saved.basis_is_final}
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
        check_csr(values)
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


def _check_arrays(saved: Saved, asked: dict[str, Any]) -> None:
    """Raise ValueError where arrays do not match: compiled loops do not check."""
    values, n = saved.values, len(saved.index)
    if values.ndim != 2 or values.dtype not in (np.float32, np.float64):
        raise ValueError(f"values are {values.ndim}-dimensional, of {values.dtype}")
    columns = asked.get("columns", values.shape[1])
    _check_array("values", values, values.dtype, (n, columns))
    _check_array("coef", saved.coef, np.float64, (n, saved.coef.shape[-1]))
    _check_array("intercept", saved.intercept, np.float64, saved.coef.shape[1:])
    if saved.offsets is not None:
        _check_array("offsets", saved.offsets, np.float64, saved.offsets.shape[:1])
    _check_numbers("index", saved.index, -1, asked.get("rows"))
    for t, entries in enumerate(saved.support):
        # A regression has two entries per row: too low, too high.
        most = None if "rows" not in asked else 2 * asked["rows"]
        _check_numbers(f"entries_{t}", entries, 0, most)
        name = f"multipliers_{t}"
        _check_array(name, saved.multipliers[t], np.float64, entries.shape)


def _check_array(name: str, array: Any, dtype: Any, shape: tuple[int, ...]) -> None:
    if array.dtype != dtype or array.shape != shape:
        raise ValueError(
            f"{name} has shape {array.shape} of {array.dtype}, not {shape} of "
            f"{np.dtype(dtype)}"
        )


def _check_numbers(name: str, array: Array, least: int, most: int | None) -> None:
    """Check row numbers from `least` up to, but not including, `most`."""
    _check_array(name, array, np.int64, array.shape[:1])
    high = array.max(initial=least)
    if array.min(initial=least) < least or (most is not None and high >= max(most, 1)):
        raise ValueError(f"{name} holds numbers that are no rows")
