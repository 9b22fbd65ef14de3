"""LIBSVM's files of a precomputed kernel: ``label 0:i 1:K(x_i, x_1) 2: ...``.

The number i is that of the row among the training rows, from 1; for rows to predict any
number will do.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from corevec.cli.data import ReadingOptions, Table, read_table
from corevec.cli.errors import data_error

_FORM = "a file of kernel values has rows like `label 0:i 1:K(x_i,x_1) 2:K(x_i,x_2)`"


def takes_kernel_values(model: Any) -> bool:
    """Whether a fitted model has a precomputed kernel."""
    kernel = getattr(model, "kernel", None)
    return isinstance(kernel, str) and kernel == "precomputed"


def read_kernel_values(name: str, options: ReadingOptions) -> tuple[Table, Any]:
    """Return kernel values against the training rows, and the numbers of the rows."""
    width = None if options.n_features is None else options.n_features + 1
    asked = replace(options, zero_based=True, dense=True, n_features=width)
    table = read_table(name, asked)
    return replace(table, X=table.X[:, 1:]), table.X[:, 0]


def read_training_matrix(name: str, options: ReadingOptions) -> tuple[Table, Any]:
    """Return the square matrix between the rows of a file, and their numbers."""
    import numpy as np

    table, numbers = read_kernel_values(name, options)
    columns = table.X.shape[1]
    whole = (numbers == np.floor(numbers)) & (numbers >= 1) & (numbers <= columns)
    if not whole.all():
        row = int(np.argmin(whole))
        raise data_error(
            f"{name}: row {row + 1} begins with 0:{numbers[row]:g}, but it needs its "
            f"number, from 1 to {columns}: {_FORM} (-t 4)."
        )
    numbers = numbers.astype(np.int64)
    if len(np.unique(numbers)) < len(numbers):
        twice = int(np.argmax(np.bincount(numbers)))
        raise data_error(f"{name}: two rows have the number {twice}: {_FORM} (-t 4).")
    return replace(table, X=np.ascontiguousarray(table.X[:, numbers - 1])), numbers
