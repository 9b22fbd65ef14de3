"""Consistency checks of the trees and machines of cells from a file.

See `_sound.py`. The loop that goes down a tree and the vectors of a cell are found by
numbers that a file gives: each is checked against the arrays that are there.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from corevec.formats.native.validate import (
    Wrong,
    _check_fields,
    _fit_together,
    check_floats,
    check_sound,
)
from corevec.kernels import Kernel
from corevec.solvers.cells.forest import Cells, Forest
from corevec.solvers.cells.tree import Tree

# Maximum depth of a tree: 2^40 cells exceed any file.
DEEPEST = 40


@check_sound.register
def _(made: Tree, wrong: Wrong) -> None:
    _check_fields(made, wrong)
    # An 8-bit NumPy number would overflow to 0 cells.
    if type(made.depth) is not int or not 0 <= made.depth <= DEEPEST:
        wrong(f"depth must be a whole number from 0 to {DEEPEST}")
    n_nodes = (1 << int(made.depth)) - 1
    check_floats(made.directions, (n_nodes, None), "directions", wrong)
    check_floats(made.thresholds, (n_nodes,), "thresholds", wrong)
    _check_finite(made.directions, "directions", wrong)
    # Infinite where a node could not be split: all rows go to the left.
    if np.isnan(made.thresholds).any():
        wrong("thresholds must be numbers")


@check_sound.register
def _(made: Cells, wrong: Wrong) -> None:
    if not isinstance(made.tree, Tree):
        wrong("tree must be a Tree")
    if not isinstance(made.kernel, Kernel):
        wrong("kernel must be a kernel of rows")
    _fit_together(made.kernel, made.basis, wrong)
    n_vectors, columns = made.basis.values.shape
    if made.tree.directions.shape[1] != columns:
        wrong(
            f"the directions of the tree have {made.tree.directions.shape[1]} columns, "
            f"the vectors {columns}"
        )
    check_floats(made.coef, (n_vectors, None), "coef", wrong)
    n_outputs = made.coef.shape[1]
    shape = (made.tree.n_cells, n_outputs)
    check_floats(made.intercepts, shape, "intercepts", wrong)
    _check_starts(made, wrong)
    values = made.basis.values
    for name, numbers in (
        ("coef", made.coef),
        ("intercepts", made.intercepts),
        ("basis", values.data if sparse.issparse(values) else values),
    ):
        _check_finite(numbers, name, wrong)


def _check_starts(made: Cells, wrong: Wrong) -> None:
    starts, n_vectors = made.starts, made.basis.values.shape[0]
    right = isinstance(starts, np.ndarray) and starts.dtype == np.int64
    if not right or starts.shape != (made.tree.n_cells + 1,):
        wrong(f"starts must hold an int64 per cell of {made.tree.n_cells}, and one")
    if starts[0] != 0 or starts[-1] != n_vectors or (np.diff(starts) < 0).any():
        wrong(f"starts must go from 0 to the {n_vectors} vectors and never back")


@check_sound.register
def _(made: Forest, wrong: Wrong) -> None:
    trees = made.trees
    right = isinstance(trees, tuple) and all(isinstance(one, Cells) for one in trees)
    if not right or not trees:
        wrong("trees must be a tuple of cells")
    first = trees[0]
    for one in trees[1:]:
        same = one.n_outputs == first.n_outputs
        if not same or one.basis.values.shape[1] != first.basis.values.shape[1]:
            wrong("trees must have the same outputs and columns")


def _check_finite(numbers: Any, what: str, wrong: Wrong) -> None:
    if not np.isfinite(numbers).all():
        wrong(f"{what} must be finite")


__all__ = ["DEEPEST"]
