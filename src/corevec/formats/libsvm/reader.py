"""Reader of LIBSVM model files; errors name the file and the line."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from scipy import sparse

from corevec._runtime.types import Array
from corevec.data.readers.base import BadRecordError, finite_number, shown
from corevec.data.readers.text import WholeLines
from corevec.exceptions import InvalidInputError
from corevec.formats.libsvm.text import (
    CLASSIFIERS,
    KERNELS,
    PARAMETERS,
    SVM_TYPES,
    LibsvmText,
)

WHO = "load_libsvm"
_CHUNK = 1 << 20
# 16 MiB: a dense vector of 800,000 entries. The fields of a longer line would take
# gigabytes.
LONGEST_LINE = 1 << 24
MOST_COLUMNS = 2**31 - 1  # LIBSVM's indices are C integers
_EXTRAS = ("probA", "probB", "prob_density_marks")
_NUMBERS = ("rho", *_EXTRAS, "gamma", "coef0")
_WHOLE = ("nr_class", "total_sv", "label", "nr_sv", "degree")
_WORDS = ("svm_type", "kernel_type")
_KEYWORDS = (*_WORDS, *_NUMBERS, *_WHOLE)
# The entries of a line in their usual form. The pattern is unambiguous, so that no line
# causes backtracking.
_ENTRIES = re.compile(
    r"(?:[1-9]\d{0,9}:[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)? )*", re.ASCII
)
_LONGEST_NUMBER = 1000  # a complete double has 767 digits after leading zeros
_INTEGER = re.compile(r"[+-]?\d{1,18}", re.ASCII)
_ROW_NUMBER = re.compile(r"0:([1-9]\d{0,9})", re.ASCII)
_ENTRY = re.compile(r"([+-]?\d{1,18}):(\S+)", re.ASCII)
_MARKS = {
    b"PK\x03\x04": "a zip file, as corevec's own models are: use corevec.formats.load",
    b"\x80": "a pickle, which this function does not open",
    b"\x89HDF": "an HDF5 file",
}


class _Lines:
    """The lines of a file as lists of fields, with a counter."""

    def __init__(self, lines: WholeLines, path: Path):
        self.path, self.number = path, 0
        self._lines = lines

    def __iter__(self) -> Iterator[list[str]]:
        while self._lines.more():
            block = bytes(self._lines.whole_lines())
            self._lines.skip_all()
            for line in block.split(b"\n")[:-1]:
                self.number += 1
                if self.number == 1:
                    self._refuse_other_files(line)
                yield line.decode("ascii", "backslashreplace").split()

    def wrong(self, what: str, line: int | None = None) -> NoReturn:
        number = self.number if line is None else line
        raise InvalidInputError(f"{WHO}: {self.path}, line {number}: {what}")

    def _refuse_other_files(self, line: bytes) -> None:
        for mark, kind in _MARKS.items():
            if line.startswith(mark):
                self.wrong(f"this is no LIBSVM model but {kind}.")


def read_text(path: Path, memory_limit: float) -> LibsvmText:
    """Return the content of a LIBSVM model file, after a check of every line."""
    with WholeLines(WHO, path, _CHUNK, LONGEST_LINE) as opened:
        lines = _Lines(opened, path)
        words = iter(lines)
        header = _Header(lines)
        for line in words:
            if line == ["SV"]:
                break
            header.take(line)
        else:
            lines.wrong(
                "the file ends before its line 'SV'. "
                + ("It is empty. " if lines.number == 0 else "")
                + "A LIBSVM model starts with 'svm_type ...'; is it cut off?",
                max(lines.number, 1),
            )
        header.check()
        return _read_vectors(header, words, memory_limit)


class _Header:
    """The lines before ``SV``."""

    def __init__(self, lines: _Lines):
        self.lines = lines
        self.found: dict[str, Any] = {}
        self.at: dict[str, int] = {}

    def take(self, words: list[str]) -> None:
        """Parse one line."""
        if not words:
            self.lines.wrong("an empty line in the header. Remove it.")
        keyword, values = words[0], words[1:]
        if keyword not in _KEYWORDS:
            hint = ""
            if self.lines.number == 1:
                hint = " Is this a model, or a data file?"
            self.lines.wrong(
                f"{shown(keyword)} is no keyword of a LIBSVM model. Known are "
                f"{', '.join(_KEYWORDS)}, and 'SV' before the vectors.{hint}"
            )
        if keyword in self.found:
            self.lines.wrong(
                f"{keyword} is there twice, first in line {self.at[keyword]}. Keep one."
            )
        if not values:
            self.lines.wrong(f"{keyword} has no value. Write it behind the keyword.")
        self.at[keyword] = self.lines.number
        self.found[keyword] = self._parsed(keyword, values)

    def _parsed(self, keyword: str, values: list[str]) -> Any:
        if keyword in _NUMBERS:
            try:
                numbers = [_number(v, f"behind {keyword}") for v in values]
            except BadRecordError as bad:
                self.lines.wrong(f"{bad}.")
            return numbers
        if keyword in _WHOLE:
            for value in values:
                if not _INTEGER.fullmatch(value):
                    self.lines.wrong(
                        f"expected a whole number behind {keyword}, got {shown(value)}."
                    )
            return [int(value) for value in values]
        return " ".join(values)

    def check(self) -> None:
        """Raise for the first entry that is missing or inconsistent."""
        self._word("svm_type", SVM_TYPES)
        self._word("kernel_type", tuple(KERNELS))
        for name in PARAMETERS[self.found["kernel_type"]]:
            self._one(name)
        self._kernel()
        self._counts()

    def wrong(self, keyword: str, what: str) -> NoReturn:
        """Raise an error that names the line of a keyword."""
        self.lines.wrong(what, self.at.get(keyword))

    def _there(self, name: str) -> Any:
        if name not in self.found:
            self.wrong(
                name,
                f"{name} is missing from the header above. A LIBSVM model with "
                f"svm_type {self.found.get('svm_type', '...')} needs it.",
            )
        return self.found[name]

    def _word(self, name: str, allowed: tuple[str, ...]) -> None:
        value = self._there(name)
        if value not in allowed:
            self.wrong(
                name, f"{name} {shown(value)} must be one of {', '.join(allowed)}."
            )

    def _one(self, name: str) -> Any:
        values = self._there(name)
        if len(values) != 1:
            self.wrong(name, f"{name} has {len(values)} values, expected one.")
        return values[0]

    def _kernel(self) -> None:
        if "gamma" in self.found and self._one("gamma") < 0:
            self.wrong("gamma", f"gamma {self._one('gamma'):g} must not be negative.")
        if "degree" in self.found and self._one("degree") < 0:
            self.wrong("degree", f"degree {self._one('degree')} must not be negative.")

    def _counts(self) -> None:
        k, total = self._one("nr_class"), self._one("total_sv")
        kind = self.found["svm_type"]
        is_classifier = kind in CLASSIFIERS
        if k < 2 or (k != 2 and not is_classifier):
            allowed = "at least 2" if is_classifier else f"2 for svm_type {kind}"
            self.wrong("nr_class", f"nr_class {k} must be {allowed}.")
        if total < 0:
            self.wrong("total_sv", f"total_sv {total} must not be negative.")
        self._length("rho", k * (k - 1) // 2)
        if not is_classifier:
            for name in ("label", "nr_sv"):
                if name in self.found:
                    self.wrong(name, f"{name} belongs to classifiers, not to {kind}.")
            return
        labels, counts = self._length("label", k), self._length("nr_sv", k)
        if len(set(labels)) < k:
            self.wrong("label", f"label {shown(' '.join(map(str, labels)))} repeats.")
        if max(abs(label) for label in labels) >= 2**31:
            self.wrong("label", "a label is beyond LIBSVM's 32-bit integers.")
        if min(counts) < 0 or sum(counts) != total:
            self.wrong(
                "nr_sv",
                f"nr_sv {shown(' '.join(map(str, counts)))} must be {k} counts with "
                f"the sum total_sv = {total}; the sum is {sum(counts)}.",
            )

    def _length(self, name: str, expected: int) -> Any:
        values = self._there(name) if expected else self.found.get(name, [])
        if len(values) != expected:
            self.wrong(
                name,
                f"{name} has {len(values)} values, but nr_class "
                f"{self.found['nr_class'][0]} needs {expected}.",
            )
        return values


class _VectorParts:
    """Coefficients and entries of the lines so far, in growing arrays."""

    def __init__(self, lines: _Lines, width: int, *, of_numbers: bool):
        self.lines, self.width, self.of_numbers = lines, width, of_numbers
        self.coef, self.values = array("d"), array("d")
        self.indices, self.indptr = array("q"), array("q", [0])

    @property
    def n_bytes(self) -> int:
        """Bytes of the numbers so far."""
        n = len(self.coef) + len(self.values) + len(self.indices) + len(self.indptr)
        return 8 * n

    def take(self, words: list[str]) -> None:
        """Parse the line of one support vector."""
        if len(words) < self.width:
            self.lines.wrong(
                f"expected {self.width} coefficient(s) in front of the vector's "
                f"entries, got {len(words)} word(s). Is the file cut off?"
            )
        try:
            for word in words[: self.width]:
                self.coef.append(_number(word, "as a coefficient"))
            entries = words[self.width :]
            if self.of_numbers:
                self._row_number(entries)
            elif not self._quick_entries(" ".join([*entries, ""])):
                self._entries(entries)
        except BadRecordError as bad:
            self.lines.wrong(f"{bad}.")

    def _quick_entries(self, text: str) -> bool:
        """Parse a well-formed line; return False for any other line."""
        if not _ENTRIES.fullmatch(text):
            return False
        parts = text.replace(":", " ").split()
        indices, values = array("q", map(int, parts[::2])), map(float, parts[1::2])
        numbers = array("d", values)
        at = np.frombuffer(indices, dtype=np.int64) if indices else np.empty(0)
        ascends = bool((np.diff(at) > 0).all()) and at.max(initial=0) <= MOST_COLUMNS
        if not ascends or not np.isfinite(numbers).all():
            return False
        self.indices.frombytes((at.astype(np.int64) - 1).tobytes())
        self.values.extend(numbers)
        self.indptr.append(len(self.indices))
        return True

    def _row_number(self, words: list[str]) -> None:
        """Parse the entry of a precomputed kernel, the number of a training row."""
        entry = _ROW_NUMBER.fullmatch(" ".join(words))
        if entry is None or int(entry[1]) > MOST_COLUMNS:
            raise BadRecordError(
                f"expected '0:number' behind the {self.width} coefficient(s), the "
                "number of a training row from 1 (kernel_type precomputed), got "
                f"{shown(' '.join(words))}"
            )
        self.indices.append(0)
        self.values.append(float(entry[1]))
        self.indptr.append(len(self.indices))

    def _entries(self, words: list[str]) -> None:
        """Parse the entries one by one, and raise for the first invalid one."""
        last = 0
        for word in words:
            entry = _ENTRY.fullmatch(word)
            if entry is None:
                raise BadRecordError(
                    f"expected 'index:value' behind the {self.width} coefficient(s), "
                    f"got {shown(word)}"
                )
            index = int(entry[1])
            if not last < index <= MOST_COLUMNS:
                raise BadRecordError(
                    f"index {index} follows {last}; indices start at 1, ascend, and "
                    f"end at {MOST_COLUMNS}"
                )
            last = index
            self.indices.append(index - 1)
            self.values.append(_number(entry[2], f"at index {index}"))
        self.indptr.append(len(self.indices))


def _number(word: str, place: str) -> float:
    """Return a finite number; a text with very many digits is an error."""
    if len(word) > _LONGEST_NUMBER:
        raise BadRecordError(f"the number {place}, {shown(word)}, is too long")
    return finite_number(word, place)


def _read_vectors(
    header: _Header, words: Iterator[list[str]], memory_limit: float
) -> LibsvmText:
    """Return the content of the file."""
    found = header.found
    parts = _read_lines(header, words, memory_limit)
    n, width = len(parts.indptr) - 1, parts.width
    indices = np.array(parts.indices, dtype=np.int64)
    columns = int(indices.max(initial=-1)) + 1
    vectors = sparse.csr_matrix(
        (np.array(parts.values), indices, np.array(parts.indptr)), shape=(n, columns)
    )
    return LibsvmText(
        svm_type=found["svm_type"],
        kernel_type=found["kernel_type"],
        parameters={name: found[name][0] for name in PARAMETERS[found["kernel_type"]]},
        rho=np.array(found.get("rho", []), dtype=np.float64),
        labels=_whole(found.get("label")),
        counts=_whole(found.get("nr_sv")),
        coef=np.array(parts.coef).reshape(n, width),
        vectors=vectors,
        extras={name: np.array(found[name]) for name in _EXTRAS if name in found},
    )


def _read_lines(
    header: _Header, words: Iterator[list[str]], memory_limit: float
) -> _VectorParts:
    """Return the numbers of the vectors, read line by line."""
    lines, found = header.lines, header.found
    total, start = found["total_sv"][0], header.lines.number
    of_numbers = found["kernel_type"] == "precomputed"
    parts = _VectorParts(lines, found["nr_class"][0] - 1, of_numbers=of_numbers)
    n = 0
    for line in words:
        if n == total:
            if line:
                lines.wrong(
                    f"more vectors than line {header.at['total_sv']}, total_sv "
                    f"{total}, says. Remove them, or mend total_sv and nr_sv."
                )
            continue
        parts.take(line)
        n += 1
        if parts.n_bytes > memory_limit:
            lines.wrong(
                f"the first {n} of {total} vectors take {parts.n_bytes:,} bytes, more "
                f"than memory_limit={memory_limit:,.0f}. Give a larger memory_limit if "
                "you trust the file."
            )
    if n < total:
        lines.wrong(
            f"the file ends after {n} of {total} support vectors (line 'SV' is line "
            f"{start}). It is cut off: fetch or write it again."
        )
    return parts


def _whole(values: list[int] | None) -> Array | None:
    return None if values is None else np.array(values, dtype=np.int64)


__all__ = ["read_text"]
