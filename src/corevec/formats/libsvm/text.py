"""The text of LIBSVM model files, and its writer.

A header of ``keyword value ...`` lines, the line ``SV``, then one line per support
vector: its coefficients (one per other class) and its entries ``index:value``. The
value of the machine for classes i < j (in the order of ``label``) is above 0 for i.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import IO, Any

import numpy as np
from scipy import sparse

from corevec._runtime.types import Array

CLASSIFIERS = ("c_svc", "nu_svc")
REGRESSORS = ("epsilon_svr", "nu_svr")
SVM_TYPES = (*CLASSIFIERS, "one_class", *REGRESSORS)
# Names in LIBSVM, and in this package.
KERNELS = {
    "linear": "linear",
    "polynomial": "poly",
    "rbf": "rbf",
    "sigmoid": "sigmoid",
    "precomputed": "precomputed",
}
# The parameters that each kernel needs, in the order of the file.
PARAMETERS = {
    "linear": (),
    "polynomial": ("degree", "gamma", "coef0"),
    "rbf": ("gamma",),
    "sigmoid": ("gamma", "coef0"),
    "precomputed": (),
}


@dataclass(frozen=True)
class LibsvmText:
    """The content of a LIBSVM model file.

    Attributes
    ----------
    svm_type, kernel_type : str
        LIBSVM's words.
    parameters : dict
        Those of `PARAMETERS` that the kernel needs.
    rho : ndarray
        What is taken off each machine's sum; one per pair of classes.
    labels, counts : ndarray of int64, or None
        Classes in the order of the file, and the support vectors of each; None where
        there are none.
    extras : dict
        The lines ``probA``, ``probB`` and ``prob_density_marks``, as numbers: kept and
        written again, used for nothing.
    coef : ndarray of shape (n_vectors, n_classes - 1)
        Coefficients as in the lines of the file.
    vectors : csr_matrix of shape (n_vectors, n_columns)
        Support vectors; as many columns as the largest index. Of a precomputed kernel
        one column: the number of the training row, from 1 (``0:number`` in the file).
    """

    svm_type: str
    kernel_type: str
    parameters: dict[str, float]
    rho: Array
    labels: Array | None
    counts: Array | None
    coef: Array
    vectors: Any
    extras: dict[str, Array] = field(default_factory=dict)

    @property
    def n_classes(self) -> int:
        """Number of classes; 2 if there are none, as in LIBSVM."""
        return 2 if self.labels is None else len(self.labels)

    @property
    def is_precomputed(self) -> bool:
        """Whether the vectors are numbers of training rows."""
        return self.kernel_type == "precomputed"

    @property
    def row_numbers(self) -> Array:
        """Training rows of a precomputed kernel, from 0."""
        return np.asarray(self.vectors.toarray().ravel() - 1, dtype=np.int64)


def write_text(text: LibsvmText, file: IO[bytes]) -> None:
    """Write a model: numbers with all digits, vectors in the shortest form."""
    for line in _header(text):
        file.write(line.encode("ascii") + b"\n")
    for line in _vector_lines(text):
        file.write(line.encode("ascii") + b" \n")


def _header(text: LibsvmText) -> Iterator[str]:
    yield f"svm_type {text.svm_type}"
    yield f"kernel_type {text.kernel_type}"
    for name in PARAMETERS[text.kernel_type]:
        value = text.parameters[name]
        yield f"{name} {int(value) if name == 'degree' else format(value, '.17g')}"
    yield f"nr_class {text.n_classes}"
    yield f"total_sv {len(text.coef)}"
    yield f"rho {_numbers(text.rho)}"
    if text.labels is not None:
        yield f"label {' '.join(str(int(label)) for label in text.labels)}"
    for name, values in text.extras.items():
        yield f"{name} {_numbers(values)}"
    if text.counts is not None:
        yield f"nr_sv {' '.join(str(int(count)) for count in text.counts)}"
    yield "SV"


def _numbers(values: Array) -> str:
    return " ".join(format(value, ".17g") for value in np.ravel(values).tolist())


def _vector_lines(text: LibsvmText) -> Iterator[str]:
    rows = sparse.csr_matrix(text.vectors)
    rows.sort_indices()
    first = 0 if text.is_precomputed else 1
    for number, coef in enumerate(text.coef.tolist()):
        part = slice(rows.indptr[number], rows.indptr[number + 1])
        entries = [
            f"{column + first}:{_shortest(value)}"
            for column, value in zip(
                rows.indices[part].tolist(), rows.data[part].tolist(), strict=True
            )
            if value != 0
        ]
        yield " ".join([*(format(c, ".17g") for c in coef), *entries])


def _shortest(value: float) -> str:
    """Return the shortest text that is read as exactly this number.

    In the form that C's ``%.8g`` has where eight do: so svm-train writes vectors, and
    its files come out again.
    """
    text = repr(value)
    if not text.endswith(".0"):
        return text
    few = format(value, ".8g")
    return few if float(few) == value else text


__all__ = [
    "CLASSIFIERS",
    "KERNELS",
    "LibsvmText",
    "PARAMETERS",
    "REGRESSORS",
    "SVM_TYPES",
    "write_text",
]
