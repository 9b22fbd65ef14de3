"""Duplicate rows that exceed the memory budget are merged block by block."""

from __future__ import annotations

import numpy as np
import pytest
from out_of_core_cells import (
    BUDGET,
    LABEL,
    NUMBER,
    OUT_OF_CORE,
    WEIGHT,
    D,
    N,
    X,
    from_memory,
    place,
    two_threads,
)

import corevec
from corevec import CoreVectorClassifier, CoreVectorRegressor
from corevec.data.sources import Workers
from corevec.exceptions import InvalidInputError
from corevec.kernels import Rows
from corevec.problems import Labels
from corevec.solvers.cells import DuplicateMerge, Tree


@pytest.fixture(autouse=True, scope="module")
def _threads():
    with two_threads():
        yield


def crowded(seed=0):
    """Return rows of which two thirds are duplicates, with both labels."""
    rng = np.random.default_rng(seed)
    few = X.copy()
    few[rng.permutation(N)[: 2 * N // 3]] = [0.5, 0.25, 0.0, 0.0, 1.0]
    return few, np.where(rng.random(N) < 0.3, 9 - LABEL, LABEL)


@pytest.mark.parametrize(
    ("where", "weighted"),
    [("parquet", True), ("libsvm", False), ("dask-3", False), ("dask-csr", True)],
)
def test_duplicates_beyond_the_memory_budget_are_merged(where, weighted, tmp_path):
    few, label = crowded()
    weight = WEIGHT if weighted else None
    if weighted:
        label = np.where(label == 7, "seven", "two")
    model = CoreVectorClassifier(C=5.0, gamma=0.5, **OUT_OF_CORE)
    model.fit(*place(where, tmp_path, few, label, weight))
    ((one, fits),) = from_memory(model, few, label, weight)
    largest = max(fits, key=lambda fit: fit.n_rows)
    assert largest.n_rows > 1000  # 512 fit
    # Coefficients of duplicates are not unique, but the values are.
    for cell, fit in enumerate(fits):
        here = slice(*one.starts[cell : cell + 2])
        if fit is not largest:
            assert one.coef[here] == pytest.approx(fit.coef, abs=1e-8)
        elif len(fit.basis):
            new = X[:50]
            values = _values(one.kernel, one.basis.values[here], one.coef[here], new)
            wanted = _values(one.kernel, fit.basis.values, fit.coef, new)
            assert values == pytest.approx(wanted, abs=1e-7)
        assert one.intercepts[cell] == pytest.approx(fit.intercept, abs=1e-8)
    wanted = sum(float(fit.primal.sum()) for fit in fits)
    assert model.certificate_.primal == pytest.approx(wanted, rel=1e-8)
    assert f"at most {largest.n_rows:,} rows" in model.certificate_.problem


def _values(kernel, values, coef, new):
    points = kernel.prepare_basis(Rows(values, np.arange(values.shape[0])))
    return kernel.times(kernel.prepare(Rows(new, np.arange(len(new)))), points, coef)


def test_duplicates_with_different_targets_are_solved_as_a_regression(tmp_path):
    few, _ = crowded()
    target = np.round(NUMBER * 4) / 4
    model = CoreVectorRegressor(gamma=0.5, tube=0.1, **OUT_OF_CORE)
    model.fit(*place("dask-3", tmp_path, few, target))
    ((_, fits),) = from_memory(model, few, target, None)
    wanted = sum(float(fit.primal.sum()) for fit in fits)
    assert model.certificate_.primal == pytest.approx(wanted, rel=1e-8)


def test_too_many_distinct_rows_among_duplicates_raise_an_error(tmp_path):
    """The message says to raise the memory budget."""
    top = Tree(np.zeros((0, D)), np.zeros(0), 0)
    merge = DuplicateMerge(top, Labels(N), part=0, max_rows=400)
    source = corevec.open(_saved(tmp_path)).using(BUDGET, Workers(1))
    with pytest.raises(InvalidInputError, match="rows lie so close"):
        source.reduce(merge, merge.join)


def _saved(folder):
    place("parquet", folder, X)
    return folder / "a.parquet"
