"""The zip file around a model: ``header.json`` and one .npy entry per array.

It is an .npz: ``numpy.load(path)["array_0"]`` works. Sizes are looked at before
anything is read, so that no file can make the reader take more memory than it is
allowed to.
"""

from __future__ import annotations

import json
import math
import zipfile
from pathlib import Path
from typing import IO, Any, NoReturn

import numpy as np
from numpy.lib import format as npy

from corevec._runtime.types import Array
from corevec.exceptions import InvalidInputError
from corevec.formats._limits import HEADER_LIMIT
from corevec.formats.native.encode import PLAIN_KINDS

HEADER = "header.json"
# The earliest date of a zip file: the same model gives the same bytes.
_DATE = (1980, 1, 1, 0, 0, 0)
# Deflate expands one byte to at most 1032 (technical notes of zlib).
_MOST_EXPANSION = 1032
_CHUNK = 1 << 20


def entry_name(number: int) -> str:
    """Return the name of the entry of an array."""
    return f"array_{number}.npy"


def write_archive(file: IO[bytes], header: dict[str, Any], arrays: list[Array]) -> None:
    """Write the header and the arrays, uncompressed, because few numbers repeat."""
    text = json.dumps(header, allow_nan=False, ensure_ascii=True).encode("ascii")
    if len(text) > HEADER_LIMIT:
        raise InvalidInputError(
            f"save: all but the arrays takes {len(text):,} bytes, more than the "
            f"format's {HEADER_LIMIT:,}. A long history_ may be the reason: set "
            "model.history_ = []."
        )
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        archive.writestr(zipfile.ZipInfo(HEADER, _DATE), text)
        for number, array in enumerate(arrays):
            info = zipfile.ZipInfo(entry_name(number), _DATE)
            with archive.open(info, "w", force_zip64=True) as entry:
                npy.write_array(entry, array, allow_pickle=False)


class ArchiveReader:
    """A container file, opened; every error names the file and the entry.

    zipfile, zlib and NumPy, which reads an array's header as Python's tokens, raise
    errors of a dozen kinds on damaged files: all of them are caught.
    """

    def __init__(self, who: str, path: Path, memory_limit: float):
        self.who, self.path, self.memory_limit = who, path, memory_limit

    def read(self) -> tuple[dict[str, Any], list[Array]]:
        """Return the header and the arrays."""
        self._check_start()
        try:
            archive = zipfile.ZipFile(self.path)
        except Exception as error:
            self.wrong(
                f"the zip file is cut off or damaged ({error}). Fetch or save it again"
            )
        with archive:
            entries = self._entries(archive)
            header = self._header(archive, entries[HEADER])
            arrays = [
                self._array(archive, entries[entry_name(number)])
                for number in range(len(entries) - 1)
            ]
        return header, arrays

    def wrong(self, what: str) -> NoReturn:
        """Raise an error that names the file."""
        raise InvalidInputError(f"{self.who}: {self.path}: {what}.")

    def _check_start(self) -> None:
        with self.path.open("rb") as file:
            start = file.read(16)
        if start.startswith(b"PK\x03\x04"):
            return
        if not start:
            self.wrong("the file is empty")
        hint = ""
        if start.startswith(b"svm_type"):
            hint = ". It is a LIBSVM model: use corevec.formats.load_libsvm"
        elif start.startswith(b"\x80"):
            hint = ". It looks like a pickle, which is never opened here"
        self.wrong(f"this is no corevec model, which starts with the bytes 'PK'{hint}")

    def _entries(self, archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
        """Return the entries by name, after a check of their names and sizes."""
        found: dict[str, zipfile.ZipInfo] = {}
        for info in archive.infolist():
            if info.filename in found:
                self.wrong(f"the entry {info.filename!r:.60} is there twice")
            found[info.filename] = info
        if HEADER not in found:
            self.wrong(
                f"there is no entry {HEADER!r}: a zip file, but no corevec model"
            )
        expected = {HEADER, *(entry_name(n) for n in range(len(found) - 1))}
        strange = sorted(set(found) - expected)
        if strange:
            self.wrong(
                f"the entry {strange[0]!r:.60} does not belong to a corevec model, or "
                f"one of the {len(found) - 1} arrays before it is missing"
            )
        self._check_sizes(found)
        return found

    def _check_sizes(self, found: dict[str, zipfile.ZipInfo]) -> None:
        if found[HEADER].file_size > HEADER_LIMIT:
            self.wrong(
                f"{HEADER} is said to be {found[HEADER].file_size:,} bytes long, more "
                f"than the {HEADER_LIMIT:,} that are read"
            )
        on_disk = self.path.stat().st_size
        for info in found.values():
            packed = info.compress_size
            if packed > on_disk or info.file_size > _MOST_EXPANSION * (packed + 1):
                self.wrong(
                    f"the entry {info.filename} is said to hold {info.file_size:,} "
                    f"bytes, more than the {min(packed, on_disk):,} packed ones of a "
                    f"file of {on_disk:,} bytes can make"
                )
        total = sum(info.file_size for info in found.values())
        if total > self.memory_limit:
            self.wrong(
                f"its entries are said to hold {total:,} bytes, more than "
                f"memory_limit={self.memory_limit:,.0f}. Give a larger memory_limit "
                "if you trust the file"
            )

    def _header(
        self, archive: zipfile.ZipFile, info: zipfile.ZipInfo
    ) -> dict[str, Any]:
        try:
            text = archive.read(info)
        except Exception as error:
            self._damaged(info, error)
        try:
            header = json.loads(text.decode("utf-8"), parse_constant=_refuse)
        except (ValueError, RecursionError) as error:
            self.wrong(f"{HEADER} is no JSON that can be read ({error!s:.200})")
        if not isinstance(header, dict):
            self.wrong(f"{HEADER} must hold an object")
        return header

    def _array(self, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Array:
        try:
            with archive.open(info) as entry:
                return self._read_array(entry, info)
        except InvalidInputError:
            raise
        except Exception as error:
            self._damaged(info, error)

    def _read_array(self, entry: IO[bytes], info: zipfile.ZipInfo) -> Array:
        """Return an array, after a check of its header against the entry size."""
        version = npy.read_magic(entry)
        if version not in ((1, 0), (2, 0)):
            self.wrong(f"{info.filename} has .npy version {version}, not 1.0 or 2.0")
        read = (
            npy.read_array_header_1_0
            if version == (1, 0)
            else npy.read_array_header_2_0
        )
        shape, is_fortran, dtype = read(entry)
        if dtype.kind not in PLAIN_KINDS or dtype.hasobject:
            self.wrong(
                f"{info.filename} is an array of {dtype!s:.60}; only numbers and "
                "strings are read"
            )
        size = math.prod(shape) * dtype.itemsize
        left = info.file_size - entry.tell()
        if any(n < 0 for n in shape) or size != left:
            self.wrong(
                f"{info.filename} is said to have shape {shape!s:.60} of {dtype}, "
                f"which is {size:,} bytes, but {left:,} are there"
            )
        order: Any = "F" if is_fortran else "C"
        if size == 0:
            return np.empty(shape, dtype=dtype, order=order)
        data = np.empty(size, dtype=np.uint8)
        at = 0
        while part := entry.read(_CHUNK):  # the last one compares the checksum
            data[at : at + len(part)] = np.frombuffer(part, dtype=np.uint8)
            at += len(part)
        if at != size:
            self.wrong(f"{info.filename} ends after {at:,} of {size:,} bytes")
        return data.view(dtype).reshape(shape, order=order)

    def _damaged(self, info: zipfile.ZipInfo, error: Exception) -> NoReturn:
        self.wrong(
            f"the entry {info.filename} is cut off or damaged ({error!s:.200}). Fetch "
            "or save the file again"
        )


def _refuse(word: str) -> NoReturn:
    raise ValueError(f"{word} is no JSON number")


__all__ = ["ArchiveReader", "write_archive"]
