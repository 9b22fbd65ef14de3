"""Fits by cells keep limits of time and memory, and stop at an interrupt."""

import json
import subprocess
import sys

import numpy as np
import pytest
from cells_twin import NEAR, board, machine, waves
from watched_memory import told_by

from corevec import (
    CoreVectorClassifier,
    CoreVectorOneClass,
    CoreVectorRegressor,
    NotCertifiedWarning,
    methods,
)
from corevec._runtime import Progress
from corevec.data.sources import Workers, as_source, row_statistics
from corevec.kernels import make_kernel
from corevec.problems import Labels, two_class
from corevec.solvers.cells import CellsTask, solve

# --- time -----------------------------------------------------------------------------


def solved_until(is_enough, n_trees=1, weights=None):
    """Return a fit of a board that is asked to stop, its rows, and their labels.

    `is_enough` is asked with every record, as a callback is.
    """
    X, y = board(1200)
    y[X[:, 0] < 1] = 1  # some cells have one class
    source = as_source(X, 2**28, Workers(1))
    kernel = make_kernel("rbf", NEAR["gamma"], 3, 0.0, row_statistics(source))
    problem = two_class(Labels(len(X), y, weights), NEAR["C"], 1, 0)
    progress = Progress(len(X), listeners=[lambda record, _: is_enough(record)])
    rng = np.random.default_rng(0)
    task = CellsTask([problem], source, kernel, size=60, n_trees=n_trees, rng=rng)
    return solve(task, progress), X, y


@pytest.mark.parametrize("weighted", [False, True])
def test_cells_that_are_not_reached_predict_the_mean_label_of_their_rows(weighted):
    weights = None
    if weighted:
        weights = np.random.default_rng(1).integers(1, 4, 1200).astype(float)
    half = lambda record: record["core"] >= record["cells"] // 2  # noqa: E731
    found, X, y = solved_until(half, weights=weights)
    (tree,) = found.forest.trees
    cells, signs = tree.tree.cells_of(X), np.where(y == 1, 1, -1)
    values = found.forest.values(as_source(X))[:, 0]
    model = CoreVectorClassifier(**NEAR)
    s = np.ones(len(X)) if weights is None else weights
    n_skipped = 0
    for number, cell in enumerate(np.unique(cells)):
        here = cells == cell
        if np.isfinite(found.gaps[number]):
            wanted, _ = machine(X[here], signs[here], X[here], model, s[here])
        else:
            wanted = np.full(here.sum(), np.average(signs[here], weights=s[here]))
            n_skipped += here.sum()
        assert values[here] == pytest.approx(wanted, abs=1e-6)
    assert not found.is_complete
    assert 0 < found.n_skipped == n_skipped < len(X)
    assert np.isfinite(found.gaps).sum() >= found.n_cells // 2


def test_a_later_tree_that_is_not_finished_is_left_out():
    n_whole = len(solved_until(lambda record: False)[0].gaps)
    seen = []

    def during_the_second(record):
        seen.append(record)
        return sum(one["core"] == n_whole for one in seen) and record["core"] < n_whole

    found, X, _ = solved_until(during_the_second, n_trees=3)
    assert len(found.forest.trees) == 1
    assert (found.is_complete, found.n_skipped) == (False, 0)
    assert np.isfinite(found.gaps).all()
    whole, _, _ = solved_until(lambda record: False)
    source = as_source(X)
    assert np.array_equal(found.forest.values(source), whole.forest.values(source))


def test_a_warning_counts_the_trees_that_are_left_out():
    X, y = board(400)
    model = CoreVectorClassifier(
        max_iter=1, method=methods.Cells(50, n_trees=4), **NEAR
    )
    with pytest.warns(NotCertifiedWarning, match="after 1 of 4 trees"):
        model.fit(X, y)
    assert model.certificate_.stopped_by == "max_iter"
    assert model.certificate_.relative_gap < 1e-6
    assert model.n_cells_ == 8


def colours(n):
    return board(n, classes=4)


@pytest.mark.parametrize(
    ("model", "data", "least"),
    [
        (CoreVectorClassifier(multi_class="ovr"), colours, 0.6),
        (CoreVectorClassifier(multi_class="ovo"), colours, 0.6),
        (CoreVectorRegressor(tube=0.1), waves, 0.6),
        (CoreVectorRegressor(), waves, 0.6),
    ],
    ids=["ovr", "ovo", "fixed tube", "automatic tube"],
)
def test_without_time_every_cell_predicts_a_constant(model, data, least):
    """Cells of 20 rows: their majorities and means are a good model by themselves."""
    X, y, *_ = data(2000)
    model.set_params(max_time=1e-9, n_jobs=1, random_state=0, method=methods.Cells(20))
    words = f"{type(model).__name__} stopped by max_time after the cells of "
    with pytest.warns(NotCertifiedWarning, match=words):
        model.fit(X, y)
    assert model.score(X, y) > least
    found = model.certificate_
    assert (found.stopped_by, found.converged) == ("max_time", False)
    assert (found.relative_gap, found.n_rows) == (np.inf, 2000)
    cells = model._forest.trees[0].tree.cells_of(X)
    pure = [len(set(y[cells == cell])) == 1 for cell in range(cells.max() + 1)]
    assert found.n_verified == np.isin(cells, np.flatnonzero(pure)).sum() < 1000
    assert "in time" in found.problem
    assert "converged" not in str(found)
    assert "Nothing is proved" in found._repr_html_() or "no bound" in str(found)


def test_a_detector_without_time_accepts_all_rows():
    X = np.random.default_rng(0).normal(size=(500, 2))
    model = CoreVectorOneClass(
        C=1.0, max_time=1e-9, random_state=0, method=methods.Cells(50)
    )
    with pytest.warns(NotCertifiedWarning, match="stopped by max_time"):
        model.fit(X)
    assert (model.predict(X) == 1).all()


def test_a_short_time_limit_is_kept_and_the_warning_counts_solved_rows():
    rng = np.random.default_rng(0)
    X = rng.random((8000, 3))
    y = rng.integers(0, 2, 8000)  # nothing to learn: every row is in the margin
    model = CoreVectorClassifier(
        C=100.0, gamma=50.0, n_jobs=1, method=methods.Cells(500)
    )
    model.fit(X[:1000], y[:1000])  # compile before the clock
    whole = model.fit(X, y).certificate_.seconds
    model.set_params(max_time=whole / 8)
    with pytest.warns(NotCertifiedWarning, match="of 8,000 rows"):
        model.fit(X, y)
    found = model.certificate_
    assert found.seconds < 0.8 * whole
    assert found.n_verified < 8000
    solved = int(model.history_[-1]["core"])
    count = f"{solved} were solved in time" if solved else "none was solved in time"
    assert f"16 local problems, one per cell of at most 500 rows: {count}" in (
        found.problem
    )


INTERRUPTED = """
import json, os, signal, threading, warnings
import numpy as np
from corevec import CoreVectorClassifier, methods

warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
X, y = rng.random((10_000, 4)), rng.integers(0, 2, 10_000)
model = CoreVectorClassifier(method=methods.Cells(300), C=100.0, gamma=50.0, n_jobs=2)
model.fit(X[:1000], y[:1000])            # compile before the clock
model.fit(X, y)
one_tree = model.certificate_.seconds
alarm = threading.Timer(one_tree / 6, os.kill, (os.getpid(), signal.SIGINT))
alarm.start()
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    model.set_params(method__n_trees=9).fit(X, y)
found = model.certificate_
print(json.dumps(dict(
    stopped_by=found.stopped_by, converged=found.converged,
    trees=len(model._forest.trees), n_verified=found.n_verified,
    finite=bool(np.isfinite(model.decision_function(X)).all()),
    ratio=found.seconds / one_tree, warned=[w.category.__name__ for w in caught],
)))
"""


@pytest.mark.slow
def test_an_interrupt_acts_between_cells():
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout.strip().splitlines()[-1])
    assert result["stopped_by"] == "interrupt"
    assert not result["converged"]
    assert (result["trees"], result["finite"]) == (1, True)
    assert result["n_verified"] < 10_000
    assert result["ratio"] < 1
    assert result["warned"] == ["NotCertifiedWarning"]


# --- memory ---------------------------------------------------------------------------


SCRIPT = """
import numpy as np
from corevec import CoreVectorClassifier, methods

X, y = np.load(sys.argv[1], mmap_mode="r"), np.load(sys.argv[2])
model = CoreVectorClassifier(C=100.0, gamma=0.01, method=methods.Cells(500),
                             memory_budget=2**25,
                             n_jobs=2, random_state=0)
model.fit(X[:1500], y[:1500]).predict(X[:1500])       # compile, start the threads
before = anonymous()
threading.Thread(target=watch, daemon=True).start()
model.fit(X, y)
fit_peak, peak[0] = peak[0], 0.0
right = float((model.predict(X) == y).mean())
running = False
print(json.dumps(dict(before=before, fit=fit_peak, predict=peak[0], right=right,
                      cells=model.n_cells_, size=model._forest.n_bytes / 2**20)))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self/status")
def test_a_fit_needs_memory_only_for_its_model_and_the_cells_being_solved(tmp_path):
    """96 MB in a file; the cells are long in one column and cut across it."""
    n, d = 60_000, 400
    rng = np.random.default_rng(0)
    X = 0.05 * rng.standard_normal((n, d), dtype=np.float32)
    y = rng.integers(0, 2, n)
    X[:, 0] += 8 * y
    X[:, 1] = 4000 * rng.random(n)
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", y)
    del X
    result = told_by(SCRIPT, tmp_path / "X.npy", tmp_path / "y.npy")
    (tmp_path / "X.npy").unlink()
    assert result["cells"] == 128
    assert result["right"] > 0.99
    # The model twice (cell by cell, then stacked), 32 MB of budget, the kernel
    # matrices of two cells, the allocator.
    assert result["fit"] - result["before"] < 2 * result["size"] + 64
    # The model, and its vectors once more, prepared (`Cells.points`).
    assert result["predict"] - result["before"] < 2 * result["size"] + 64
