"""The hinge solver against LIBSVM and independent optima."""

import numpy as np
import pytest
from sklearn.svm import SVC, SVR, NuSVC, NuSVR, OneClassSVM

from corevec._runtime import Progress
from corevec.data.sources import Workers, as_source, row_statistics
from corevec.kernels import make_kernel
from corevec.solvers.hinge import (
    HingeSettings,
    c_svc,
    epsilon_svr,
    nu_svc,
    nu_svr,
    one_class_nu,
    solve_boxes,
)

GAMMA = 0.5


def table(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    z = X[:, 0] + np.sin(2 * X[:, 1]) + 0.3 * rng.normal(size=n)
    return X, z, np.where(z > 0, 1.0, -1.0), rng.integers(1, 4, n) / 2


def solved(problem, X, tol=1e-8, **settings):
    with Workers(2) as workers:
        source = as_source(X, 1 << 28, workers)
        kernel = make_kernel("rbf", gamma=GAMMA, statistics=row_statistics(source))
        asked = HingeSettings(tol=tol, **settings)
        return solve_boxes([problem], source, kernel, asked, Progress(len(X)))[0]


@pytest.mark.parametrize("which", ["svc", "svr", "one-class", "nu-svc", "nu-svr"])
def test_functions_are_those_of_libsvm(which):
    X, z, y, s = table(200)
    rows, common = np.arange(len(X)), {"gamma": GAMMA, "tol": 1e-10}
    C, nu = 2.0, 0.3
    problem, rival, response = {
        "svc": (c_svc(rows, y, C * s), SVC(C=C, **common), y),
        "svr": (epsilon_svr(rows, z, C * s, 0.1), SVR(C=C, **common), z),
        "one-class": (one_class_nu(rows, s, nu), OneClassSVM(nu=nu, **common), None),
        "nu-svc": (nu_svc(rows, y, s, nu), NuSVC(nu=nu, **common), y),
        "nu-svr": (nu_svr(rows, z, C * s, nu, C), NuSVR(nu=nu, C=C, **common), z),
    }[which]
    found = solved(problem, X)
    assert found.certificate.converged
    rival.fit(X, response, sample_weight=s)
    is_regression = which.endswith("svr")
    expected = rival.predict(X) if is_regression else rival.decision_function(X)
    values = found.values[: len(X)] + found.bias
    if which == "nu-svc":
        values = values / found.width
    np.testing.assert_allclose(values, expected, atol=1e-4)
