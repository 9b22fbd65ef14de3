"""Out-of-core sources of one training set, and its cells solved in memory."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import dump_svmlight_file

import corevec
from corevec import methods
from corevec.data.sources import Workers
from corevec.solvers.cells import rows_with_weight, solve_cell

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

N, D = 3_000, 5
# A row takes 40 bytes, and 24 more: 512 rows make a group, 3000 rows at least six.
BUDGET = 2**17
OUT_OF_CORE = {
    "memory_budget": BUDGET,
    "random_state": 0,
    "n_jobs": 1,
    "method": methods.Cells(40),
}


def two_threads():
    """Let Dask use two threads, whatever the machine."""
    return dask.config.set(scheduler="threads", num_workers=2)


def make_rows():
    rng = np.random.default_rng(3)
    X = np.round(rng.normal(size=(N, D)) * 1024) / 1024  # whole in a line of text
    X[:, 3] *= rng.random(N) < 0.5  # zeros, for CSR
    label = np.where(np.sin(3 * X[:, 0]) + X[:, 1] > 0, 7, 2)
    number = np.round(np.sin(2 * X[:, 0]) * 256 + 20 * rng.normal(size=N)) / 256
    return X, label, number, rng.integers(0, 3, N).astype(float)


X, LABEL, NUMBER, WEIGHT = make_rows()


def place(name, folder, X, target=None, weight=None):
    """Return (X, y, sample_weight) as `fit` takes them, for rows of one source."""
    if name.startswith("dask"):
        n_parts = 3 if name == "dask-csr" else int(name[-1])
        lazy = da.from_array(X, chunks=(-(-len(X) // n_parts), X.shape[1]))
        if name == "dask-csr":
            meta = sparse.csr_matrix((0, 0))
            lazy = lazy.map_blocks(sparse.csr_matrix, dtype=X.dtype, meta=meta)
        return lazy, target, weight
    if name == "libsvm":
        y = np.zeros(len(X)) if target is None else target
        dump_svmlight_file(X, y, str(folder / "rows.svm"), zero_based=False)
        return corevec.open(folder / "rows.svm"), None, None
    table = {f"x{j}": X[:, j] for j in range(X.shape[1])}
    table |= {} if target is None else {"y": target}
    table |= {} if weight is None else {"w": weight}
    named = {"target": "y"} if target is not None else {}
    named |= {"sample_weight": "w"} if weight is not None else {}
    parquet.write_table(pa.table(table), folder / "a.parquet", row_group_size=700)
    return corevec.open(folder / "a.parquet", **named), None, None


def from_memory(model, X, target, weight):
    """Yield each tree of the model with the solutions of its cells, from memory."""
    given = model._given(X, target, weight, Workers(1))
    problems, source = model._problems_for(given), given.source
    rows = rows_with_weight(problems, source)
    for one in model._forest.trees:
        cell_of = one.tree.cells_of(X)[rows]
        own = [rows[cell_of == cell] for cell in range(one.tree.n_cells)]
        yield one, [solve_cell(problems, source, one.kernel, few) for few in own]
