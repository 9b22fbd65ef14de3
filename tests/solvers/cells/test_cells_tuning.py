"""A fit by cells chooses gamma, C, and whether cells are used at all."""

import tracemalloc
import warnings

import numpy as np
import pytest
from cells_twin import board, by_hand
from scipy import sparse

from corevec import CoreVectorClassifier, methods
from corevec._runtime import Progress
from corevec.data.sources import Workers, as_source, row_statistics
from corevec.kernels import make_kernel
from corevec.problems import Labels, two_class
from corevec.solvers import cells
from corevec.solvers.numeric import Deadline


def test_gamma_and_C_are_chosen_by_a_part_of_the_training_rows():
    X, y = board(2000)
    model = CoreVectorClassifier(
        random_state=0, method=methods.Cells(100, tune=True)
    ).fit(X, y)
    new, colour = board(1000, seed=1)
    assert model.score(new, colour) > 0.85
    # Machines of what was chosen, in every cell.
    model.set_params(gamma=model.gamma_, C=model.C_)
    wanted, _ = by_hand(model, X, np.where(y == 1, 1, -1)[:, None], new)
    assert model.decision_function(new) == pytest.approx(wanted[:, 0], rel=1e-5)
    model.set_params(gamma=2.0, method__tune=False).fit(X, y)
    assert not hasattr(model, "gamma_")
    assert not hasattr(model, "C_")


@pytest.mark.parametrize("n", [2, 8, 12])
def test_few_rows_can_be_tuned_too(n):
    X, y = np.arange(2.0 * n).reshape(n, 2), np.arange(n) % 2
    model = CoreVectorClassifier(
        random_state=0, method=methods.Cells(20, tune=True)
    ).fit(X, y)
    assert set(model.predict(X)) <= {0, 1}


def test_gamma_is_tuned_without_the_rows_of_weight_zero():
    X, y = board(800)
    s = np.where(X[:, 0] < 2, 0.0, 1.0)
    asked = {"random_state": 0, "method": methods.Cells(50, tune=True)}
    weighted = CoreVectorClassifier(**asked).fit(X, y, s)
    without = CoreVectorClassifier(**asked).fit(X[s > 0], y[s > 0])
    assert weighted.gamma_ == pytest.approx(without.gamma_)
    assert weighted.C_ == without.C_


@pytest.mark.filterwarnings("ignore::corevec.exceptions.NotCertifiedWarning")
def test_auto_chooses_cells_for_a_local_boundary_and_records_why():
    rng = np.random.default_rng(0)
    X = rng.random((12_000, 2)) * 24
    y = X.astype(int).sum(axis=1) % 2  # 24 x 24 squares
    # Little time: the global model is not what is looked at here.
    limits = {"max_time": 5.0}
    asked = {"C": 100.0, "gamma": 2.0, "random_state": 0} | limits
    model = CoreVectorClassifier(method=methods.Cells("auto"), **asked)
    few = model.fit(X[:2000], y[:2000])
    assert few.choice_ == {"choice": "global", "reason": "few rows"}
    assert not hasattr(few, "n_cells_")
    found = model.fit(X, y)
    assert set(found.choice_) == {"choice", "cells_error", "global_error"}
    better = found.choice_["cells_error"] < found.choice_["global_error"] - 0.003
    assert (found.choice_["choice"] == "cells") == better == hasattr(found, "n_cells_")
    assert found.history_[0]["choice"] == found.choice_["choice"]


def test_tuned_cells_are_also_compared_untuned(monkeypatch):
    """Cells are also judged with the untuned gamma and C of the global model."""
    monkeypatch.setattr("corevec.estimators._cells.AUTO_MIN_ROWS", 1000)
    monkeypatch.setattr("corevec.estimators._cells.DEFAULT_ROWS", 100)
    X = np.random.default_rng(0).random((2000, 2)) * 8
    y = X.astype(int).sum(axis=1) % 2
    limits = {"max_time": 2.0}
    model = CoreVectorClassifier(
        random_state=0, method=methods.Cells("auto", tune=True), **limits
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, y)
    choice = model.choice_
    assert choice["choice"] == "cells"
    assert choice["cells_gamma"] == model.gamma_ == choice["gamma"]
    assert choice["cells_C"] == model.C_
    assert choice["global_gamma"] == pytest.approx(1 / (2 * X.var()))
    assert choice["global_C"] == 1.0
    assert choice["cells_error"] < choice["cells_error_untuned"]
    assert model.history_[0]["cells_error_untuned"] == choice["cells_error_untuned"]


def test_a_wide_sparse_matrix_is_tuned_without_becoming_dense():
    n, d = 100, 1_000_000
    rng, y = np.random.default_rng(0), np.arange(n) % 2
    noise = sparse.random_array((n, d), density=1e-5, rng=rng)
    X = sparse.hstack([(3.0 * y + rng.random(n))[:, None], noise], format="csr")
    model = CoreVectorClassifier(
        random_state=0, n_jobs=1, method=methods.Cells(50, tune=True)
    )
    tracemalloc.start()
    try:
        model.fit(X, y)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert model.score(X, y) > 0.9
    # Some vectors as long as a row is wide, 8 MB each; 40 dense rows would be 320 MB.
    assert peak < 200e6


class Questions(Deadline):
    """A deadline that is over after so many questions, whatever the clock says."""

    def __init__(self, most):
        super().__init__(Progress(1, max_time=1e3), 1e3)
        self.__dict__["most"] = most

    def is_over(self, needed=0.0):
        self.__dict__["most"] -= 1
        return self.most < 0


def test_at_the_deadline_the_parts_solved_for_every_candidate_decide():
    X, y = board(1500)
    source = as_source(X, 2**28, Workers(1))
    problems = [two_class(Labels(len(X), y), 1.0, 1, 0)]
    rng = np.random.default_rng(0)
    parts = cells.trials(cells.grow(source, 60, rng)[1], rng)
    statistics = row_statistics(source)

    def tuned(some, most=None):
        def kernel_of(gamma):
            return make_kernel("rbf", gamma, 3, 0.0, statistics)

        deadline = None if most is None else Questions(most)
        found = cells.tune(problems, source, some, kernel_of, deadline)
        return found.gamma, found.C_factor, found.error

    # Twenty candidates on three parts, and some on a fourth, which does not count.
    unit = tuned(parts, 0)[0]
    assert tuned(parts, 0) == (unit, 5.0, pytest.approx(np.nan, nan_ok=True))
    few = tuned(parts, 3 * 20 + 7)
    everything = [
        (
            cells.mean_error(
                cells.with_C_times(problems, C),
                source,
                make_kernel("rbf", unit / 1.5 * gamma, 3, 0.0, statistics),
                parts[:3],
            ),
            unit / 1.5 * gamma,
            C,
        )
        for gamma in (0.5, 1.5, 4.5, 13.5, 40.0)
        for C in (1.0, 5.0, 25.0, 125.0)
    ]
    error, gamma, C = min(everything, key=lambda one: one[0])
    assert few == (pytest.approx(gamma), C, pytest.approx(error))
    assert tuned(parts, 10**6) == tuned(parts)
