"""CoreVectorRegressor among scikit-learn's tools; warm starts; certify; limits."""

import pickle

import naive
import numpy as np
import pandas as pd
import pytest
import strategies
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from small_regression import FORMS, X, Y, Z, regressor, room_of

from corevec import (
    CoreVectorRegressor,
    NotCertifiedWarning,
    certify,
    methods,
)

RNG = np.random.default_rng(1)


def form_name(form):
    return str(form.get("tube", "auto"))


# --- the company of scikit-learn and pandas -------------------------------------------


def test_grid_search_finds_a_good_width():
    rows, y = strategies.friedman(300)
    grid = {"gamma": [1e-5, 0.5], "C": [1.0, 10.0], "mu": [0.05, 0.3]}
    search = GridSearchCV(CoreVectorRegressor(random_state=0), grid, cv=3)
    search.fit(rows, y)
    assert search.best_params_["gamma"] == 0.5
    assert search.best_score_ > 0.8


def test_a_pipeline_with_a_scaler_scores_by_cross_validation():
    pipe = make_pipeline(StandardScaler(), CoreVectorRegressor(C=10.0, random_state=0))
    assert cross_val_score(pipe, X * [1, 1e4, 1e-4], Y, cv=3).mean() > 0.6


def test_pandas_rows_keep_their_names():
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    model = regressor().fit(frame, pd.Series(Y))
    assert list(model.feature_names_in_) == ["a", "b", "c"]
    np.testing.assert_allclose(model.predict(frame), regressor().fit(X, Y).predict(X))
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame.rename(columns={"a": "z"}))


@pytest.mark.parametrize("form", FORMS, ids=form_name)
def test_a_pickled_model_predicts_bit_alike(form):
    model = regressor(**form).fit(X, np.column_stack([Y, -Y]))
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(Z), model.predict(Z))
    np.testing.assert_array_equal(again.tube_, model.tube_)
    assert str(again.certificate_) == str(model.certificate_)


def test_score_is_the_share_of_variance_explained():
    model = regressor().fit(X, Y)
    truth = np.sin(Z[:, 0]) + 0.5 * Z[:, 1]
    left = ((model.predict(Z) - truth) ** 2).sum()
    whole = ((truth - truth.mean()) ** 2).sum()
    assert model.score(Z, truth) == pytest.approx(1 - left / whole)


# --- warm starts ----------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS, ids=form_name)
@pytest.mark.parametrize("method", ["auto", "coreset"])
def test_a_warm_path_of_C_ends_where_cold_fits_end(form, method):
    shape = form | {"tol": 1e-6, "method": method}
    warm = regressor(warm_start=True, **shape)
    for C in (1.0, 10.0, 100.0, 1.0):
        warm.set_params(C=C).fit(X, Y)
        cold = regressor(**shape | {"C": C}).fit(X, Y)
        assert warm.certificate_.converged
        assert warm.certificate_.primal == pytest.approx(
            cold.certificate_.primal, rel=3e-6
        )
        apart = np.abs(warm.predict(Z) - cold.predict(Z)).max()
        assert apart <= room_of(warm, cold)


def test_a_warm_start_with_other_rows_targets_or_tube_is_not_misled():
    changes = [
        ({}, X[:60], Y[:60]),
        ({}, X, -Y),
        ({}, X, 1e3 * Y + 5),
        ({"mu": 0.2}, X, Y),
        ({"tube": "paper"}, X, Y),
        ({"tube": 0.1}, X, Y),
        ({"tube": "auto", "gamma": 0.1}, X, Y),
        ({}, X, np.column_stack([Y, Y**2])),
        ({}, X[:, :2], Y),
    ]
    warm = regressor(warm_start=True, tol=1e-6).fit(X, Y)
    for params, rows, y in changes:
        warm.set_params(**params).fit(rows, y)
        cold = clone(warm).set_params(warm_start=False).fit(rows, y)
        assert warm.certificate_.converged
        assert warm.certificate_.primal == pytest.approx(
            cold.certificate_.primal, rel=3e-6
        )


# --- the certificate on given rows ----------------------------------------------------


@pytest.mark.parametrize("form", FORMS, ids=form_name)
def test_certifying_the_training_rows_repeats_the_certificate(form):
    s = RNG.choice([0.0, 1.0, 2.0], size=len(X))
    for weight in (None, s):
        model = regressor(**form | {"tol": 1e-6}).fit(X, Y, sample_weight=weight)
        again = certify(model, X, Y, sample_weight=weight)
        assert again.primal == pytest.approx(model.certificate_.primal, rel=2e-6)
        assert again.dual == pytest.approx(model.certificate_.dual, rel=2e-6)
        assert again.n_rows == again.n_verified == len(X)


def test_certifying_several_targets_has_a_part_for_each():
    many = np.column_stack([Y, 10 * X[:, 2] ** 2])
    model = regressor(tol=1e-6).fit(X, many)
    again = certify(model, X, many)
    assert len(again.parts) == 2
    for part, known in zip(again.parts, model.certificate_.parts, strict=True):
        assert part.primal == pytest.approx(known.primal, rel=2e-6)


@pytest.mark.parametrize("form", FORMS, ids=form_name)
def test_certify_bounds_the_optimum_of_other_rows(form):
    model = regressor(**form | {"tol": 0.1}).fit(X, Y)
    rows, y = X[:50] * 1.1, Y[:50] + 0.3
    found = certify(model, rows, y)
    # The problem of these rows is in the model's own units of y, or in theirs.
    candidates = []
    for mean, scale in (
        (
            float(np.ravel(model.target_mean_)[0]),
            float(np.ravel(model.target_scale_)[0]),
        ),
        (y.mean(), y.std()),
    ):
        z, K = (y - mean) / scale, naive.gram(rows, gamma=0.5)
        if "mu" in form:
            candidates.append(naive.fixed_tube(K, z, 3.0, form["tube"] / scale))
        else:
            free = "tube" in form
            candidates.append(naive.automatic_tube(K, z, 3.0, 0.05, free=free))
    assert any(
        found.dual <= twin.primal * (1 + 1e-8)
        and found.primal >= twin.dual * (1 - 1e-8)
        for twin in candidates
    )
    assert found.n_rows == 50


@pytest.mark.parametrize(
    ("limit", "reason"),
    [
        ({"max_iter": 1}, "max_iter"),
        ({"method__max_vectors": 5}, "max_vectors"),
        ({"max_time": 1e-9}, "max_time"),
    ],
)
@pytest.mark.parametrize("form", FORMS, ids=form_name)
def test_a_limit_ends_the_run_with_a_warning_and_its_name(limit, reason, form):
    rows, y = strategies.friedman(700)
    model = regressor(method=methods.CoreSet(batch=1), C=100.0, **form)
    model.set_params(**limit)
    with pytest.warns(NotCertifiedWarning, match=f"CoreVectorRegressor.*{reason}"):
        model.fit(rows, y)
    certificate = model.certificate_
    assert not certificate.converged
    assert certificate.stopped_by == reason
    assert certificate.primal >= certificate.dual
    assert np.isfinite(model.predict(rows)).all()
