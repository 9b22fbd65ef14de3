"""Several devices in one process: each works on a part of the rows."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

from corevec import (
    SVDD,
    CoreVectorClassifier,
    CoreVectorOneClass,
    CoreVectorRegressor,
    InvalidInputError,
    certify,
    methods,
)

torch = pytest.importorskip("torch")
da = pytest.importorskip("dask.array")

N = 6_000
BOARD = np.random.default_rng(0).random((N, 2)) * 4
SQUARE = np.where(BOARD.astype(int).sum(axis=1) % 2, "odd", "even")
WAVE = np.sin(BOARD[:, 0])
MODELS = {
    "classifier": (CoreVectorClassifier(C=10.0, gamma=1.0), SQUARE),
    "regressor": (CoreVectorRegressor(C=1.0, gamma=1.0, tube=0.1), WAVE),
    "ball": (SVDD(C=1e-3, gamma=1.0), None),
    "detector": (CoreVectorOneClass(C=0.1, gamma=0.2), None),
}


def fitted(model, device, rows, y):
    asked = {"device": device, "random_state": 0}
    return clone(model).set_params(**asked).fit(rows, y)


SMALL = ("classifier", "regressor", "ball")  # what converges in 128 kB


@pytest.mark.parametrize(
    ("name", "budget", "rows"),
    [
        *((name, 2**17, BOARD) for name in SMALL),
        *((name, 2**28, BOARD) for name in MODELS),
        ("classifier", 2**28, sparse.csr_matrix(BOARD)),
    ],
    ids=lambda one: one if isinstance(one, str | int) else type(one).__name__,
)
def test_several_devices_give_the_optimum_of_one(name, budget, rows):
    """With the small budget the rows do not fit the host: passes do all the work."""
    model, y = MODELS[name]
    model = clone(model).set_params(memory_budget=budget)
    wanted = fitted(model, "cpu", rows, y).certificate_
    for devices in (["cpu", "cpu"], ("cpu", "cpu", "cpu")):
        model_of_all = fitted(model, devices, rows, y)
        found = model_of_all.certificate_
        assert found.converged
        assert found.n_verified == N
        # Both optima are the same number: each bound holds for the other model.
        slack = 1e-9 * abs(wanted.primal)
        assert found.dual <= wanted.primal + slack
        assert wanted.dual <= found.primal + slack
    again = certify(model_of_all, rows, y)
    assert again.primal == pytest.approx(found.primal, rel=1e-9)
    several = model_of_all.predict(rows)
    one = model_of_all.set_params(device=None).predict(rows)
    assert (one == several).all() or one == pytest.approx(several, rel=1e-9)


def test_few_vectors_of_several_devices():
    few = methods.FewVectors(20, basis=BOARD[:20])
    model = CoreVectorClassifier(gamma=1.0, method=few)
    wanted = fitted(model, "cpu", BOARD, SQUARE).certificate_.primal
    found = fitted(model, ["cpu", "cpu"], BOARD, SQUARE).certificate_.primal
    assert found == pytest.approx(wanted, rel=1e-6)


def test_devices_that_cannot_be_are_refused():
    model = CoreVectorClassifier()
    bad = {"must name one to 6000 devices": [], "device='no' cannot": ["cpu", "no"]}
    for message, devices in bad.items():
        with pytest.raises(InvalidInputError, match=message):
            fitted(model, devices, BOARD, SQUARE)
    rows = da.from_array(BOARD, chunks=(1_000, 2))
    with pytest.raises(InvalidInputError, match="device="):
        fitted(model, ["cpu", "cpu"], rows, da.from_array(SQUARE, chunks=1_000))
