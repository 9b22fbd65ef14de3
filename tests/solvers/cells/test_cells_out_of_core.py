"""Cells of out-of-core rows are loaded in groups and have the same solutions.

The twin has the rows in memory, takes the cell of each row from the model's tree, and
solves every cell.
"""

from __future__ import annotations

import tracemalloc

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
    da,
    from_memory,
    place,
    two_threads,
)
from scipy import sparse
from sklearn.base import clone

import corevec
from corevec import (
    SVDD,
    CoreVectorClassifier,
    CoreVectorOneClass,
    CoreVectorRegressor,
    NotCertifiedWarning,
    methods,
)
from corevec._runtime import Progress
from corevec.data.sources import Coded, Workers, remote_source, row_statistics
from corevec.exceptions import InvalidInputError
from corevec.kernels import make_kernel
from corevec.problems import Labels, one_class, two_class
from corevec.solvers.cells import CellsTask, OutOfCoreRows, solve

PLACES = ("parquet", "libsvm", "dask-1", "dask-3", "dask-csr")


@pytest.fixture(autouse=True, scope="module")
def _threads():
    with two_threads():
        yield


THIRD = np.digitize(X[:, 0] + X[:, 1], [-0.7, 0.7])


def assert_same_machines(model, X, target=None, weight=None):
    """Compare vectors, coefficients and what was proved; return the cells' sizes."""
    sizes, primal = [], 0.0
    for one, fits in from_memory(model, X, target, weight):
        for cell, fit in enumerate(fits):
            here = slice(*one.starts[cell : cell + 2])
            assert np.array_equal(one.basis.index[here], fit.basis.index)
            assert one.coef[here] == pytest.approx(fit.coef, abs=1e-8)
            primal += float(fit.primal.sum()) / len(model._forest.trees)
            sizes.append(fit.n_rows)
    assert model.certificate_.primal == pytest.approx(primal, rel=1e-8)
    return np.array([n for n in sizes if n])


MODELS = {
    "classifier": (CoreVectorClassifier(C=5.0, gamma=0.5), LABEL, PLACES),
    "three classes": (CoreVectorClassifier(gamma=0.5), THIRD, ("parquet", "dask-3")),
    "regressor": (CoreVectorRegressor(gamma=0.5, tube=0.1), NUMBER, PLACES[:3]),
    "its own tube": (CoreVectorRegressor(gamma=0.5, mu=0.1), NUMBER, ("dask-3",)),
    "detector": (CoreVectorOneClass(C=0.1, gamma=0.5), None, PLACES[1:4]),
    "by share": (CoreVectorOneClass(nu=0.1, gamma=0.5), None, ("parquet",)),
}


@pytest.mark.parametrize(
    ("name", "where"), [(name, where) for name in MODELS for where in MODELS[name][2]]
)
def test_groups_of_cells_give_the_machines_of_rows_in_memory(name, where, tmp_path):
    model, target, _ = MODELS[name]
    rows = place(where, tmp_path, X, target)
    found = clone(model).set_params(**OUT_OF_CORE).fit(*rows)
    certificate = found.certificate_
    # One pass that counts, and one for each of six groups or more.
    assert certificate.passes >= 7
    assert certificate.passes == round(certificate.passes)
    assert (certificate.n_verified, certificate.n_rows) == (N, N)
    assert certificate.relative_gap < 1e-9
    assert not certificate.converged
    assert certificate.stopped_by == "cells"
    here = sparse.csr_matrix(X) if where in ("libsvm", "dask-csr") else X
    sizes = assert_same_machines(found, here, target)
    assert sizes.sum() == N
    assert found.n_cells_ == len(sizes)
    assert sizes.max() <= 80  # twice what was asked for
    assert sizes.min() >= 14
    assert 28 <= np.median(sizes) <= 57  # within a factor of sqrt(2)
    values = getattr(found, "decision_function", found.predict)
    there, wanted = np.asarray(values(rows[0])), values(_named(X, where))
    assert there == pytest.approx(wanted, abs=1e-9)


def _named(values, where):
    if where != "parquet":
        return values
    pd = pytest.importorskip("pandas")
    return pd.DataFrame(values, columns=[f"x{j}" for j in range(values.shape[1])])


@pytest.mark.parametrize("where", ["parquet", "dask-3"])
@pytest.mark.parametrize("n_trees", [1, 2])
def test_rows_of_weight_zero_are_absent_and_others_count(where, n_trees, tmp_path):
    model = CoreVectorClassifier(gamma=0.5, **OUT_OF_CORE)
    model.set_params(method=methods.Cells(40, n_trees=n_trees))
    model.fit(*place(where, tmp_path, X, LABEL, WEIGHT))
    sizes = assert_same_machines(model, X, LABEL, WEIGHT)
    assert sizes.sum() == n_trees * np.count_nonzero(WEIGHT)
    assert (WEIGHT[model.support_] > 0).all()


def test_a_class_of_weight_zero_is_absent(tmp_path):
    model = CoreVectorClassifier(gamma=0.5, class_weight={0: 0.0, 1: 2.0, 2: 1.0})
    model.set_params(**OUT_OF_CORE).fit(*place("dask-3", tmp_path, X, THIRD))
    sizes = assert_same_machines(model, X, THIRD)
    assert sizes.sum() == np.count_nonzero(THIRD)


def test_source_threads_and_groups_do_not_change_the_model(tmp_path):
    """The same sample, hence the same tree, from a file and from partitions."""
    trees = OUT_OF_CORE | {"method": methods.Cells(40, n_trees=2)}
    model = CoreVectorClassifier(gamma=0.5, **trees)
    first = clone(model).fit(*place("parquet", tmp_path, X, LABEL))
    for where, n_jobs in (("dask-1", 1), ("dask-3", 3)):
        other = clone(model).set_params(n_jobs=n_jobs)
        other.fit(*place(where, tmp_path, X, LABEL))
        for a, b in zip(first._forest.trees, other._forest.trees, strict=True):
            assert np.array_equal(a.tree.directions, b.tree.directions)
            assert np.array_equal(a.tree.thresholds, b.tree.thresholds)
            assert np.array_equal(a.basis.index, b.basis.index)
            assert a.coef == pytest.approx(b.coef, abs=1e-8)


@pytest.mark.parametrize("where", ["parquet", "dask-3"])
def test_certifying_the_same_rows_repeats_the_certificate(where, tmp_path):
    rows = place(where, tmp_path, X, LABEL)
    model = CoreVectorClassifier(C=5.0, gamma=0.5, **OUT_OF_CORE).fit(*rows)
    found, wanted = corevec.certify(model, *rows), model.certificate_
    assert (found.n_verified, found.n_rows) == (N, N)
    assert found.primal == pytest.approx(wanted.primal, rel=1e-9)
    assert found.dual == pytest.approx(wanted.dual, rel=1e-9)


@pytest.mark.parametrize(("budget", "passes"), [(2**18, 1), (2**17, None)])
def test_a_large_sample_partitions_the_rows_with_one_counting_pass(budget, passes):
    """A part with fewer than 32 sampled rows may exceed half a group: split again."""
    labels = Labels(N)
    lazy = da.from_array(X, chunks=(700, D))
    source = remote_source("test", lazy, None, None).using(budget, Workers(1))
    rng = np.random.default_rng(0)
    remote = OutOfCoreRows([one_class(labels, 1.0)], source, 40, rng)
    parts = remote.partition(rng, random=False)
    assert parts.counts.sum() == N
    assert np.array_equal(np.bincount(parts.top.cells_of(X)), parts.counts)
    assert parts.counts.max() <= budget // 4 // 64 // 2
    assert parts.n_passes == passes or (passes is None and parts.n_passes > 1)


def test_progress_counts_the_cells_of_all_groups(tmp_path):
    model = CoreVectorClassifier(gamma=0.5, **OUT_OF_CORE)
    history = model.fit(*place("dask-3", tmp_path, X, LABEL)).history_
    done = [one["core"] for one in history]
    passes = [one["passes"] for one in history]
    assert done == sorted(done)
    assert passes == sorted(passes)
    assert done[-1] == history[-1]["cells"] == model.n_cells_
    assert sum(one["bytes_received"] for one in history) > 64 * N


# --- what does not go -----------------------------------------------------------------


def test_a_cell_beyond_the_memory_budget_is_refused(tmp_path):
    model = CoreVectorClassifier(**OUT_OF_CORE | {"method": methods.Cells(300)})
    with pytest.raises(InvalidInputError, match=r"Raise it to 1\.54e\+05 or more"):
        model.fit(*place("parquet", tmp_path, X, LABEL))
    model.set_params(memory_budget=1.6e5).fit(*place("parquet", tmp_path, X, LABEL))
    assert model.certificate_.n_verified == N


def test_rows_that_change_from_pass_to_pass_are_noticed():
    def drawn(block):
        return np.random.default_rng().normal(size=block.shape)

    lazy = da.ones((N, D), chunks=(1000, D)).map_blocks(drawn, dtype=float)
    with pytest.raises(InvalidInputError, match="pass to pass"):
        CoreVectorClassifier(gamma=0.5, **OUT_OF_CORE).fit(lazy, LABEL)


# --- time -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "target"),
    [
        (CoreVectorClassifier(C=5.0, gamma=0.5), LABEL),
        (CoreVectorRegressor(C=5.0, gamma=0.5, mu=0.1), NUMBER),
        (CoreVectorOneClass(nu=0.1, gamma=0.5), None),
    ],
    ids=["classifier", "regressor", "detector"],
)
def test_parts_that_are_not_reached_are_solved_on_a_sample(model, target, tmp_path):
    rows = place("dask-3", tmp_path, X, target)
    short = clone(model).set_params(**OUT_OF_CORE, max_time=1e-6)
    with pytest.warns(NotCertifiedWarning, match="0 of 3,000 rows"):
        short.fit(*rows)
    found = short.certificate_
    assert found.n_verified == 0
    assert found.relative_gap == np.inf
    assert found.stopped_by == "max_time"
    if isinstance(model, CoreVectorOneClass):
        assert np.mean(short.predict(X) == -1) == pytest.approx(0.1, abs=0.01)
        return
    # Machines of 8 to 16 rows for each part, better than any constant prediction.
    constant = 0.0 if target is NUMBER else np.mean(target == 2)
    assert short.score(X, target) > constant + 0.2


def stopped(stop_at):
    """Return two trees; a listener stops the fit at some round."""
    lazy = da.from_array(X, chunks=(1000, D))
    with Workers(1) as workers:
        source = remote_source("test", lazy, LABEL, None).using(BUDGET, workers)
        problem = two_class(Labels(N, codes=Coded(np.array([2, 7]))), 1.0, 1, 0)
        progress = Progress(N)
        progress.listeners.append(lambda record, _: record["round"] == stop_at)
        kernel = make_kernel("rbf", 0.5, statistics=row_statistics(source))
        how = 40, 2, np.random.default_rng(0)
        solved = solve(CellsTask([problem], source, kernel, *how), progress)
        return solved, [one["core"] for one in progress.history]


def test_a_stop_ends_the_first_tree_early_and_leaves_a_later_one_out():
    whole, done = stopped(None)
    n_first = 1 + int(np.argmin(np.diff(done)))  # the second tree counts from one
    assert (whole.is_complete, whole.n_skipped, len(whole.forest.trees)) == (True, 0, 2)
    early, _ = stopped(3)
    (one,) = early.forest.trees
    sizes = np.bincount(one.tree.cells_of(X), minlength=one.tree.n_cells)
    assert not early.is_complete
    assert 0 < early.n_skipped < N
    assert early.n_skipped == sizes[sizes > 0][np.isinf(early.gaps)].sum()
    late, _ = stopped(n_first + 3)
    assert (late.is_complete, late.n_skipped) == (False, 0)
    assert np.array_equal(late.forest.trees[0].coef, whole.forest.trees[0].coef)
    assert len(late.forest.trees) == 1


# --- chosen inside --------------------------------------------------------------------


@pytest.mark.parametrize("where", ["parquet", "dask-3"])
def test_gamma_is_tuned_on_a_few_cells(where, tmp_path):
    model = CoreVectorClassifier(
        **OUT_OF_CORE | {"method": methods.Cells(40, tune=True)}
    )
    model.fit(*place(where, tmp_path, X, LABEL))
    assert model.history_[-1]["tuned_error"] < 0.2
    assert model.history_[-1]["gamma"] == model.gamma_
    shown = clone(model).set_params(gamma=model.gamma_, C=model.C_)
    assert shown.fit(X, LABEL).score(X, LABEL) > 0.9
    assert_same_machines(model.set_params(gamma=model.gamma_), X, LABEL)


@pytest.mark.filterwarnings("ignore::corevec.exceptions.NotCertifiedWarning")
def test_auto_compares_cells_with_a_global_model():
    rng = np.random.default_rng(0)
    board = rng.random((10_500, 2)) * 24
    colour = board.astype(int).sum(axis=1) % 2
    limits = {"max_time": 5.0}
    model = CoreVectorClassifier(
        C=100.0, gamma=2.0, method=methods.Cells("auto"), **limits
    )
    model.set_params(memory_budget=2**19, random_state=0, n_jobs=1)
    model.fit(da.from_array(board, chunks=(4000, 2)), colour)
    assert model.choice_["choice"] == "cells"
    assert model.choice_["cells_error"] < model.choice_["global_error"] - 0.003
    assert model.certificate_.n_verified == 10_500


# --- memory ---------------------------------------------------------------------------


def test_memory_holds_one_group_and_the_model(tmp_path):
    """Rows of 7.2 MB in a file, two megabytes of budget."""
    n, d, budget = 30_000, 30, 2**21
    model = CoreVectorClassifier(gamma=0.01, **OUT_OF_CORE)
    model.fit(*place("parquet", tmp_path, X, LABEL))  # what is made or loaded once
    rng = np.random.default_rng(0)
    rows, side = rng.normal(size=(n, d)), rng.integers(0, 2, n)
    rows[:, 0] += 60.0 * side
    remote = place("parquet", tmp_path, rows, side)
    del rows
    model.set_params(memory_budget=budget, method=methods.Cells(100))
    tracemalloc.start()
    try:
        model.fit(*remote)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert model.certificate_.n_verified == n
    assert model.certificate_.passes > 15
    # The budget, and the model: its tree while it is put together, its vectors twice,
    # cell by cell and stacked.
    assert peak < budget + 3 * model._forest.n_bytes
    assert peak < n * d * 8 / 2


def test_a_ball_per_cell_would_be_the_one_class_machine_of_the_cell():
    """Why SVDD has no cells (docs/decisions/0012): R^2 - d^2 = u (f - 1), one u."""
    few, asked = X[:200], {"gamma": 0.3, "tol": 1e-10}
    ball = SVDD(C=0.1, **asked).fit(few)
    machine = CoreVectorOneClass(C=0.4, **asked).fit(few)
    own, values = ball.decision_function(X), machine.score_samples(X) - 1.0
    unit = float(own @ values / (values @ values))
    assert unit > 0
    assert own == pytest.approx(unit * values, abs=1e-6)
