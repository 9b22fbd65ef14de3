"""NumPy files: .npy with one array, .npz with X, y and sample_weight.

Nothing in them is executed, and no memory is allocated for a header that claims more
than the size of the file.
"""

from __future__ import annotations

import math
import os
import zipfile
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.lib import format as npy
from scipy import sparse

from corevec._runtime.checks import check_csr
from corevec._runtime.types import Array
from corevec.cli.errors import CliError, data_error

_CSR_PARTS = ("data", "indices", "indptr", "shape")


class Loaded(NamedTuple):
    """Rows, with labels and weights if the file has them."""

    X: Any
    y: Array | None = None
    sample_weight: Array | None = None


def load_npy(path: Path) -> Array:
    """Return the array of rows in a .npy file."""
    try:
        with path.open("rb") as file:
            _header(path, path.name, file)
        # Mapped first: a header that claims more than the size of the file is refused
        # before any memory is allocated.
        found = np.load(path, mmap_mode="r", allow_pickle=False)
        rows = checked_rows(path, "the array", np.asarray(found))
    except CliError:
        raise
    except Exception as error:  # NumPy parses the header as Python: many classes
        raise _damaged(path, error) from error
    return np.array(rows)


def load_npz(path: Path) -> Loaded:
    """Return X, y and sample_weight of a .npz file: dense, or SciPy's CSR parts."""
    try:
        with zipfile.ZipFile(path) as archive:
            arrays = {
                name.removesuffix(".npy"): _member(path, archive, name)
                for name in archive.namelist()
                if name.removesuffix(".npy")
                in ("X", "y", "sample_weight", "format", *_CSR_PARTS)
            }
            names = sorted(name.removesuffix(".npy") for name in archive.namelist())
    except CliError:
        raise
    except Exception as error:
        raise _damaged(path, error) from error
    if "X" in arrays:
        X = checked_rows(path, "X", arrays["X"])
    elif set(_CSR_PARTS) <= set(arrays):
        X = _csr(path, arrays)
    else:
        raise data_error(
            f"{path}: expected an array named X (and y), or SciPy's CSR parts "
            f"{', '.join(_CSR_PARTS)}; found {', '.join(names[:10]) or 'nothing'}."
        )
    n_rows = X.shape[0]
    labels = _column(path, "y", arrays.get("y"), n_rows, "iufbU")
    weights = _column(path, "sample_weight", arrays.get("sample_weight"), n_rows, "iuf")
    return Loaded(X, labels, weights)


def _member(path: Path, archive: zipfile.ZipFile, name: str) -> Array:
    """Return one array, after a check of its header against the size of the member."""
    size = archive.getinfo(name).file_size
    if size > _physical_memory():
        raise data_error(f"{path}: {name} holds {size:,} bytes, more than the memory.")
    with archive.open(name) as file:
        shape, dtype = _header(path, name, file)
        needed = math.prod(shape) * dtype.itemsize
        if needed > size:
            raise ValueError(f"{name} claims {needed:,} bytes and has {size:,}")
    with archive.open(name) as file:
        return np.asarray(npy.read_array(file, allow_pickle=False))


def _header(path: Path, name: str, file: IO[bytes]) -> tuple[tuple[int, ...], Any]:
    """Return the shape and dtype of an array; refuse an array of Python objects."""
    version = npy.read_magic(file)
    if version == (1, 0):
        shape, _, dtype = npy.read_array_header_1_0(file)
    elif version == (2, 0):
        shape, _, dtype = npy.read_array_header_2_0(file)
    else:
        raise ValueError(f"{name} has format version {version}")
    if dtype.hasobject:
        raise data_error(
            f"{path}: holds an object array, which could run code when it is loaded. "
            "Save numbers or text: array.astype(float)."
        )
    return shape, dtype


def checked_rows(path: Path, what: str, array: Array) -> Array:
    """Return rows of finite numbers; raise an error that names the first bad row."""
    if array.dtype.kind not in "iufb":
        raise data_error(
            f"{path}: {what} has dtype {array.dtype}, which is no number. Save it as "
            "float64 or float32."
        )
    if array.ndim != 2 or 0 in array.shape:
        raise data_error(
            f"{path}: {what} has shape {array.shape}; expected (rows, columns), at "
            "least one of each."
        )
    if array.dtype.kind != "f" or array.dtype.itemsize not in (4, 8):
        array = array.astype(np.float64)
    for start in range(0, len(array), 1 << 16):
        bad = ~np.isfinite(array[start : start + (1 << 16)])
        if bad.any():
            row, column = (int(i) for i in np.argwhere(bad)[0])
            raise data_error(
                f"{path}: {what}, row {start + row + 1}, column {column + 1}: "
                f"{array[start + row, column]} is not a finite number."
            )
    return array


def _csr(path: Path, arrays: dict[str, Array]) -> Any:
    try:
        format = str(arrays["format"].item().decode()) if "format" in arrays else "csr"
        if format != "csr":
            raise ValueError(f"format {format!r}, expected 'csr'")
        data, indices, indptr, shape = (arrays[name] for name in _CSR_PARTS)
        if shape.shape != (2,) or shape.dtype.kind not in "iu":
            raise ValueError("shape must be two whole numbers")
        size = (int(shape[0]), int(shape[1]))
        if min(size) < 1 or data.ndim != 1 or data.dtype.kind not in "iufb":
            raise ValueError(f"shape {size}, data of dtype {data.dtype}")
        if indices.dtype.kind not in "iu" or indptr.dtype.kind not in "iu":
            raise ValueError("indices and indptr must be whole numbers")
        X = sparse.csr_matrix((data, indices, indptr), shape=size, dtype=np.float64)
        check_csr(X)
    except (ValueError, TypeError, AttributeError, OverflowError) as error:
        raise data_error(f"{path}: not a CSR matrix of rows: {error}.") from error
    if not np.isfinite(X.data).all():
        place = int(np.flatnonzero(~np.isfinite(X.data))[0])
        row = int(np.searchsorted(X.indptr, place, side="right"))
        raise data_error(f"{path}: row {row}: {X.data[place]} is not a finite number.")
    X.sum_duplicates()
    return X


def _column(
    path: Path, name: str, array: Array | None, n_rows: int, kinds: str
) -> Array | None:
    if array is None:
        return None
    if array.dtype.kind not in kinds:
        raise data_error(
            f"{path}: {name} has dtype {array.dtype}; expected numbers"
            f"{' or text' if 'U' in kinds else ''}."
        )
    if array.shape != (n_rows,):
        raise data_error(
            f"{path}: {name} has shape {array.shape}, X {n_rows} rows; expected "
            f"({n_rows},)."
        )
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        row = int(np.flatnonzero(~np.isfinite(array))[0])
        raise data_error(f"{path}: {name}, row {row + 1}: {array[row]} is not finite.")
    return array


def _physical_memory() -> float:
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):  # Windows
        return math.inf


def _damaged(path: Path, error: Exception) -> Exception:
    reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    return data_error(f"{path}: is cut off or no NumPy file ({reason[:200]}).")
