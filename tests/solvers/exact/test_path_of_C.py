"""One kernel matrix for every fold and every C: as exact as independent fits."""

import numpy as np
import pytest
from scipy import sparse

from corevec import CoreVectorClassifier, CoreVectorRegressor
from corevec.backend.loops.ascent import ascend
from corevec.data.sources import Workers
from corevec.kernels import Rows, make_kernel
from corevec.problems import AutomaticTube, Labels, regression, two_class
from corevec.solvers.exact import PathMatrix

CS = (0.1, 3.0, 100.0, 1e4)
GAMMA, TOL = 0.3, 1e-6


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(240, 4))
    z = np.sin(X[:, 0]) + X[:, 1] ** 2 / 3 + 0.3 * rng.normal(size=240)
    return X, z


@pytest.fixture(scope="module", params=["dense", "csr"])
def matrix(request, table):
    X = table[0] if request.param == "dense" else sparse.csr_matrix(table[0])
    kernel = make_kernel("rbf", GAMMA)
    with Workers(1) as workers:
        yield PathMatrix(Rows(X, np.arange(240)), kernel, TOL, workers)


def fold(k):
    weight = np.ones(240)
    weight[k::3] = 0.0
    return weight


def check_against(matrix, paths, independent):
    solved = matrix.solve(paths, lambda: True)
    for k, (path, points) in enumerate(zip(paths, solved, strict=True)):
        test = np.arange(k, 240, 3)
        for problem, point in zip(path, points, strict=True):
            primal = point.primal
            assert -1e-12 * primal <= primal - point.dual <= TOL * primal
            model, expected = independent(k, problem.slack, test)
            assert primal == pytest.approx(model.certificate_.primal, rel=2 * TOL)
            # |f - f*|^2 <= 2 (P - D), times k(x, x) + 1 = 2, for both functions.
            error = 2 * np.sqrt(4 * TOL * primal)
            found = matrix.values([point], test)[:, 0]
            np.testing.assert_allclose(found, expected, atol=error)


def test_classifiers_of_all_folds_and_Cs_are_those_of_independent_fits(matrix, table):
    X, z = table
    codes = (z > 0.3).astype(int)

    def independent(k, C, test):
        train = fold(k) > 0
        model = CoreVectorClassifier(C=C, gamma=GAMMA, tol=TOL)
        model.fit(X[train], codes[train])
        return model, model.decision_function(X[test])

    paths = [
        [two_class(Labels(240, codes, fold(k)), C, 1, 0) for C in CS] for k in range(3)
    ]
    check_against(matrix, paths, independent)


@pytest.mark.parametrize("tube", [0.1, AutomaticTube(0.3)], ids=["fixed", "automatic"])
def test_regressions_of_all_folds_and_Cs_are_those_of_independent_fits(
    matrix, table, tube
):
    X, z = table

    def independent(k, C, test):
        train = fold(k) > 0
        mean, scale = z[train].mean(), z[train].std()
        given = "auto" if isinstance(tube, AutomaticTube) else tube * scale
        model = CoreVectorRegressor(C=C, gamma=GAMMA, tol=TOL, tube=given)
        model.fit(X[train], z[train])
        return model, (model.predict(X[test]) - mean) / scale

    def problem(k, C):
        train = fold(k) > 0
        response = (z - z[train].mean()) / z[train].std()
        labels = Labels(240, sample_weight=fold(k))
        return regression(labels, C, response, tube)

    paths = [[problem(k, C) for C in CS] for k in range(3)]
    check_against(matrix, paths, independent)


def test_a_pair_of_classes_uses_its_own_rows_and_has_values_on_all(table):
    X, z = table
    codes = np.digitize(z, [0.0, 0.5, 1.0])
    kernel = make_kernel("rbf", GAMMA)
    with Workers(2) as workers:
        matrix = PathMatrix(Rows(X, np.arange(240)), kernel, TOL, workers)
        problem = two_class(Labels(240, codes, fold(0)), 10.0, 3, 1)
        ((point,),) = matrix.solve([[problem]], lambda: True)
        found = matrix.values([point], np.arange(240))[:, 0]
    own = np.isin(codes, (1, 3)) & (fold(0) > 0)
    assert np.isin(point.rows, np.flatnonzero(own)).all()
    model = CoreVectorClassifier(C=10.0, gamma=GAMMA, tol=TOL).fit(X[own], codes[own])
    primal = model.certificate_.primal
    expected = model.decision_function(X)
    np.testing.assert_allclose(found, expected, atol=2 * np.sqrt(4 * TOL * primal))


def test_a_stopped_path_is_not_completed(table):
    X, z = table
    with Workers(1) as workers:
        rows = Rows(X, np.arange(240))
        matrix = PathMatrix(rows, make_kernel("rbf", GAMMA), TOL, workers)
        labels = Labels(240, (z > 0).astype(int))
        path = [two_class(labels, C, 1, 0) for C in CS]
        assert matrix.solve([path], lambda: False) == [[]]


def test_coordinate_ascent_skips_rows_of_weight_zero(table):
    X, z = table
    K = np.exp(-GAMMA * ((X[:, None] - X) ** 2).sum(axis=2))
    sign, omega = np.where(z > 0.3, 1.0, -1.0), 10.0 * fold(0)
    b, g = np.zeros(240), np.full(240, -1.0)
    assert ascend(K, 1.0, sign, omega, b, g, 1e-3, 5000) >= 0
    few = omega > 0
    alone, own = np.zeros(few.sum()), np.full(few.sum(), -1.0)
    given = sign[few], omega[few], alone, own, 1e-3, 5000
    assert ascend(K[np.ix_(few, few)], 1.0, *given) >= 0
    np.testing.assert_allclose(b[few], alone, rtol=1e-9)
    assert not b[~few].any()
