"""Fits that are cut short and go on from their file."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

from corevec import (
    SVDD,
    CoreVectorClassifier,
    CoreVectorOneClass,
    CoreVectorRegressor,
    methods,
)
from corevec._runtime import RoundState
from corevec.exceptions import InvalidInputError, NotCertifiedWarning
from corevec.models import Checkpoint, Saved

N = 9_000


def rows():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(N, 4))
    return X, np.where(X[:, 0] > 0, "right", "left"), np.sin(X[:, 0])


X, SIDE, NUMBER = rows()
# No low rank: many rounds of a growing core set.
CORE = {"gamma": 0.5, "random_state": 0, "method": "coreset"}
MODELS = {
    "classifier": (CoreVectorClassifier(C=10.0, **CORE), SIDE),
    "three classes": (
        CoreVectorClassifier(C=10.0, **CORE),
        np.digitize(X[:, 0], [-1, 1]),
    ),
    "regressor": (
        CoreVectorRegressor(C=1.0, tube=0.1, **CORE),
        NUMBER,
    ),
    "one class": (CoreVectorOneClass(C=1.0, **CORE), None),
    "ball": (
        SVDD(
            kernel="poly",
            degree=2,
            random_state=0,
            method=methods.CoreSet(batch=1, init="any"),
        ),
        None,
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_fit_cut_short_goes_on_to_the_same_answer(name, tmp_path):
    model, y = MODELS[name]
    path = tmp_path / "fit.npz"
    whole = clone(model).fit(X, y)
    most = max(1, len(whole.history_) // 2)
    first = clone(model).set_params(checkpoint=path, max_iter=most)
    with pytest.warns(NotCertifiedWarning, match="max_iter"):
        first.fit(X, y)
    assert path.exists()
    second = clone(model).set_params(checkpoint=str(path)).fit(X, y)
    found, wanted = second.certificate_, whole.certificate_
    assert found.converged
    slack = 1e-9 * abs(wanted.primal)
    assert found.dual <= wanted.primal + slack
    assert wanted.dual <= found.primal + slack
    assert not path.exists()  # a certified fit needs it no more
    assert len(second.history_) < len(whole.history_)


@pytest.mark.parametrize(
    ("model", "y"),
    [
        (
            CoreVectorClassifier(
                gamma=0.5, random_state=0, method=methods.FewVectors(30)
            ),
            SIDE,
        ),
        (
            CoreVectorRegressor(
                gamma=0.5,
                random_state=0,
                C=1.0,
                tube=0.0,
                method=methods.FewVectors(30),
            ),
            NUMBER,
        ),
    ],
    ids=["classifier", "regressor"],
)
def test_chosen_vectors_are_kept(model, y, tmp_path):
    path = tmp_path / "fit.npz"
    whole = clone(model).set_params(checkpoint=path, tol=1e-6).fit(X, y)
    assert path.exists()  # 30 vectors do not meet that gap
    again = clone(model).set_params(checkpoint=path, tol=1e-6).fit(X, y)
    assert again.certificate_.primal == pytest.approx(
        whole.certificate_.primal, rel=1e-6
    )
    assert {tuple(one) for one in again.support_vectors_} == {
        tuple(one) for one in whole.support_vectors_
    }


def test_a_search_for_a_share_of_outliers_goes_on(tmp_path):
    path, few = tmp_path / "fit.npz", X[:2500]
    # A bound on the core set: the exact machine has no rounds to go on from.
    given = {"nu": 0.05, "gamma": 0.3, "method": methods.CoreSet(max_vectors=2400)}
    model = CoreVectorOneClass(random_state=0, **given)
    most = len(clone(model).fit(few).history_) // 2
    with pytest.warns(NotCertifiedWarning):
        clone(model).set_params(checkpoint=path, max_iter=most).fit(few)
    assert path.exists()
    assert json.loads(header(path))["more"]["C"] > 0
    second = clone(model).set_params(checkpoint=path).fit(few)
    assert second.certificate_.converged
    share = np.mean(second.predict(few) == -1)
    assert share == pytest.approx(0.05, abs=2e-3)


def test_low_rank_fits_go_on_too(tmp_path):
    path = tmp_path / "fit.npz"
    board = np.random.default_rng(0).random((20_000, 2)) * 4
    y = board.astype(int).sum(axis=1) % 2
    model = CoreVectorClassifier(C=1000.0, gamma=0.5, tol=1e-7, random_state=0)
    with pytest.warns(NotCertifiedWarning):
        clone(model).set_params(checkpoint=path, max_iter=1).fit(board, y)
    second = clone(model).set_params(checkpoint=path, tol=1e-3).fit(board, y)
    assert second.certificate_.converged
    assert second.certificate_.dual_bound == "projection"


def test_sparse_rows_are_kept_as_they_are(tmp_path):
    path = tmp_path / "fit.npz"
    values = sparse.csr_matrix(np.where(np.abs(X) > 1, X, 0.0))
    model = CoreVectorClassifier(C=10.0, checkpoint=path, **CORE)
    with pytest.warns(NotCertifiedWarning):
        clone(model).set_params(max_iter=3).fit(values, SIDE)
    saved = Checkpoint(path, json.loads(header(path))["asked"]).read()
    assert sparse.issparse(saved.values)
    rows_there = values[saved.index]
    assert (saved.values != rows_there).nnz == 0


def header(path):
    with np.load(path) as file:
        return file["header"].tobytes().decode()


def test_another_fit_is_refused(tmp_path):
    path = tmp_path / "fit.npz"
    model = CoreVectorClassifier(C=10.0, checkpoint=path, max_iter=2, **CORE)
    with pytest.warns(NotCertifiedWarning):
        model.fit(X, SIDE)
    for change, named in (
        ({"C": 11.0}, "C is 10.0 there and 11.0 here"),
        ({"gamma": 1.0}, "gamma"),
    ):
        with pytest.raises(InvalidInputError, match=f"another fit: {named}"):
            clone(model).set_params(**change).fit(X, SIDE)
    with pytest.raises(InvalidInputError, match="rows is 9000 there and 8999 here"):
        clone(model).fit(X[1:], SIDE[1:])
    assert path.exists()  # nothing is lost by an error


def own_kernel():
    """Return a function that is new in every process."""

    def kernel(A, B):
        return np.exp(-0.5 * ((A[:, None] - B[None]) ** 2).sum(axis=2))

    return kernel


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"C": 10.0}, {"C": 10}),
        ({"C": 10.0}, {"C": np.float64(10)}),
        (
            {"method": methods.CoreSet(max_vectors=60)},
            {"method": methods.CoreSet(max_vectors=2000)},
        ),
        (
            {"class_weight": {"left": 1, "right": 2}},
            {"class_weight": {"right": 2.0, "left": 1.0}},
        ),
        ({"kernel": own_kernel()}, {"kernel": own_kernel()}),
        (
            {"random_state": np.random.RandomState(0)},
            {"random_state": np.random.RandomState(0)},
        ),
    ],
    ids=["whole", "numpy", "max_vectors", "order", "function", "generator"],
)
def test_what_means_the_same_goes_on(before, after, tmp_path):
    path = tmp_path / "fit.npz"
    model = CoreVectorClassifier(C=10.0, checkpoint=path, **CORE)
    with pytest.warns(NotCertifiedWarning):
        clone(model).set_params(max_iter=3, **before).fit(X[:2000], SIDE[:2000])
    assert path.exists()
    found = clone(model).set_params(**after).fit(X[:2000], SIDE[:2000])
    assert found.certificate_.converged


def test_other_vectors_of_the_same_shape_are_another_fit(tmp_path):
    """Their texts leave out most entries, the ones that differ among them."""
    path = tmp_path / "fit.npz"
    vectors = X[:400].copy()
    asked = {"gamma": 0.5, "tol": 1e-9, "checkpoint": path, "random_state": 0}
    CoreVectorClassifier(method=methods.FewVectors(basis=vectors), **asked).fit(X, SIDE)
    other = vectors.copy()
    other[200] += 1
    with pytest.raises(InvalidInputError, match="another fit: method__basis"):
        CoreVectorClassifier(method=methods.FewVectors(basis=other), **asked).fit(
            X, SIDE
        )


def test_a_place_that_cannot_be_written_is_told_at_once(tmp_path):
    (tmp_path / "file").write_text("no folder")
    model = CoreVectorClassifier(checkpoint=tmp_path / "file" / "fit.npz")
    with pytest.raises(InvalidInputError, match=r"fit\.npz' cannot be written"):
        model.fit(X[:100], SIDE[:100])
    assert not hasattr(model, "history_")


def test_a_disk_that_fails_later_does_not_end_the_fit(tmp_path, caplog):
    """The folder goes away after the first round, and a file takes its place."""
    folder = tmp_path / "folder"
    model = CoreVectorClassifier(C=10.0, **CORE).fit(X[:500], SIDE[:500])
    state = RoundState(lambda: model._functions)
    file = Checkpoint(folder / "fit.npz", {"C": 10.0})
    file.on_round({"round": 1, "exact": True}, state)
    assert file.read().header["round"] == 1
    (folder / "fit.npz").unlink()
    folder.rmdir()
    folder.write_text("in the way")
    file.on_round({"round": 2, "exact": True}, state)
    assert "was not written" in caplog.text


@pytest.mark.parametrize("content", [b"", b"not a zip", b"PK\x03\x04 cut short"])
def test_a_damaged_file_is_named(content, tmp_path):
    path = tmp_path / "fit.npz"
    path.write_bytes(content)
    model = CoreVectorClassifier(checkpoint=path)
    with pytest.raises(InvalidInputError, match="no checkpoint"):
        model.fit(X[:100], SIDE[:100])


def last(value):
    return lambda array: np.r_[array[:-1], np.array([value], array.dtype)]


ARRAYS = {
    "column beyond": ("csr_indices", last(4), "indices"),
    "column negative": ("csr_indices", last(-1), "indices"),
    "starts beyond": ("csr_indptr", last(10**6), "ind"),
    "fewer starts": ("csr_indptr", lambda a: a[:-1], "index pointer"),
    "more columns": ("shape", last(5), "values has shape"),
    "fewer numbers": ("index", lambda a: a[:-1], "values has shape"),
    "a row beyond": ("index", last(N), "index holds numbers that are no rows"),
    "numbers of floats": ("index", lambda a: a + 0.5, "index has shape"),
    "fewer coefficients": ("coef", lambda a: a[:-1], "coef has shape"),
    "coefficients of float32": ("coef", lambda a: a.astype("f4"), "coef has shape"),
    "more intercepts": ("intercept", lambda a: np.r_[a, a], "intercept has shape"),
    "an entry beyond": ("entries_0", last(2 * N), "entries_0 holds numbers that are"),
    "an entry before": ("entries_0", last(-1), "entries_0 holds numbers that are no"),
    "fewer multipliers": ("multipliers_0", lambda a: a[1:], "multipliers_0 has shape"),
}


@pytest.fixture(scope="module")
def sparse_checkpoint(tmp_path_factory):
    """Return rows, a model, and the arrays of the checkpoint of its fit."""
    path = tmp_path_factory.mktemp("sparse") / "fit.npz"
    values = sparse.csr_matrix(np.where(np.abs(X) > 1, X, 0.0))
    model = CoreVectorClassifier(C=10.0, checkpoint=path, **CORE)
    with pytest.warns(NotCertifiedWarning):
        clone(model).set_params(max_iter=3).fit(values, SIDE)
    with np.load(path) as file:
        return values, model, dict(file)


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_that_do_not_fit_together_are_refused(name, sparse_checkpoint, tmp_path):
    """The compiled loops do not look at the ends of arrays."""
    values, model, arrays = sparse_checkpoint
    key, change, words = ARRAYS[name]
    np.savez(tmp_path / "bad.npz", **{**arrays, key: change(arrays[key])})
    model = clone(model).set_params(checkpoint=tmp_path / "bad.npz")
    with pytest.raises(InvalidInputError, match=rf"or is damaged \(.*{words}"):
        model.fit(values, SIDE)


def test_a_checkpoint_is_a_path():
    with pytest.raises(InvalidInputError, match="checkpoint=3"):
        CoreVectorClassifier(checkpoint=3).fit(X[:100], SIDE[:100])


WRITER = """
import sys
import numpy as np
from corevec.models import Checkpoint, Saved
file = Checkpoint(sys.argv[1], {"C": 1})
for number in range(10**9):
    part = np.full((20_000, 5), float(number))
    file.write(Saved(part, np.arange(20_000), part[:, :1], np.zeros(1),
                     header={"asked": {"C": 1}, "round": number}))
"""


def test_a_writer_killed_at_any_moment_leaves_a_whole_round(tmp_path):
    path = tmp_path / "fit.npz"
    rng = np.random.default_rng(0)
    for _ in range(4):
        writer = subprocess.Popen([sys.executable, "-c", WRITER, str(path)])
        end = time.monotonic() + 60
        while not path.exists() and time.monotonic() < end:
            time.sleep(0.01)
        time.sleep(0.2 * rng.random())
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        saved = Checkpoint(path, {"C": 1}).read()
        assert isinstance(saved, Saved)
        assert (saved.values == saved.header["round"]).all()
        os.remove(path)
