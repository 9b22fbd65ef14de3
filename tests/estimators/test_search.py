"""gamma and C by cross-validation: the choice of a grid search, in the same form."""

import signal

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import make_blobs, make_friedman1, make_moons
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from corevec import (
    CoreVectorClassifier,
    CoreVectorClassifierCV,
    CoreVectorRegressor,
    CoreVectorRegressorCV,
    NotCertifiedWarning,
)
from corevec.exceptions import InvalidInputError

GRID = {"C": [0.1, 1, 10, 100], "gamma": [0.03, 0.3, 3, 30]}
AXES = {"Cs": GRID["C"], "gammas": GRID["gamma"]}


@pytest.fixture(scope="module")
def moons():
    return make_moons(400, noise=0.25, random_state=0)


@pytest.fixture(scope="module")
def friedman():
    X, y = make_friedman1(300, noise=1.0, random_state=0)
    return X, 100 * y + 1000


# scikit-learn's folds of three rows of a class warn of few members.
@pytest.mark.filterwarnings("ignore::corevec.NotCertifiedWarning")
@pytest.mark.filterwarnings("ignore:The least populated class:UserWarning")
@parametrize_with_checks(
    [
        CoreVectorClassifierCV(Cs=[1, 10], gammas=["scale"], cv=3),
        CoreVectorRegressorCV(Cs=[1, 10], gammas=["scale"], cv=3),
    ]
)
def test_every_check_of_scikit_learn_passes(estimator, check):
    check(estimator)


def assert_same_choice(search, grid):
    """The scores agree up to the noise, and the choice is within a standard error."""
    table = grid.cv_results_
    at = [table["params"].index(one) for one in search.cv_results_["params"]]
    own = search.cv_results_["mean_test_score"]
    error = table["std_test_score"][grid.best_index_] / np.sqrt(grid.n_splits_)
    assert np.abs(own - table["mean_test_score"][at]).max() <= error
    chosen = table["mean_test_score"][at[search.best_index_]]
    assert chosen >= grid.best_score_ - error
    assert search.best_params_ == search.cv_results_["params"][search.best_index_]


def test_the_choice_is_that_of_a_grid_search_over_the_classifier(moons):
    search = CoreVectorClassifierCV(**AXES).fit(*moons)
    grid = GridSearchCV(CoreVectorClassifier(), GRID, cv=5).fit(*moons)
    assert len(search.cv_results_["params"]) == 16
    assert_same_choice(search, grid)
    assert search.certificate_.converged
    assert search.best_estimator_.get_params()["C"] == search.best_params_["C"]
    np.testing.assert_array_equal(
        search.predict(moons[0]), search.best_estimator_.predict(moons[0])
    )


@pytest.mark.parametrize("more", [{}, {"tube": 50.0}], ids=["automatic", "fixed"])
def test_the_choice_is_that_of_a_grid_search_over_the_regressor(friedman, more):
    search = CoreVectorRegressorCV(**AXES, **more).fit(*friedman)
    grid = GridSearchCV(CoreVectorRegressor(**more), GRID, cv=5).fit(*friedman)
    assert_same_choice(search, grid)


@pytest.mark.parametrize("multi_class", ["ovo", "ovr"])
def test_several_classes_are_scored_as_the_classifier_scores_them(multi_class):
    X, y = make_blobs(240, centers=5, cluster_std=2.5, random_state=0)
    # Not so narrow that all machines of a held-out row are their biases.
    grid = GRID | {"gamma": [0.003, 0.03, 0.3]}
    y = np.array(["ant", "bee", "cat", "dog", "elk"])[y]
    form = {"multi_class": multi_class, "class_weight": "balanced"}
    axes = {"Cs": grid["C"], "gammas": grid["gamma"]}
    search = CoreVectorClassifierCV(**axes, **form).fit(X, y)
    grid = GridSearchCV(CoreVectorClassifier(**form), grid, cv=5).fit(X, y)
    assert_same_choice(search, grid)
    assert list(search.classes_) == sorted(set(y))
    assert search.decision_function(X).shape == (240, 5)


def test_the_table_has_the_columns_of_scikit_learns(moons):
    search = CoreVectorClassifierCV(**AXES, cv=3).fit(*moons)
    grid = GridSearchCV(CoreVectorClassifier(), GRID, cv=3).fit(*moons)
    found, table = search.cv_results_, grid.cv_results_
    assert set(found) - set(table) == {"iter", "n_resources"}
    assert set(table) - set(found) == {
        "std_fit_time",
        "mean_score_time",
        "std_score_time",
    }
    assert found["params"] == table["params"]
    splits = np.column_stack([found[f"split{k}_test_score"] for k in range(3)])
    np.testing.assert_allclose(found["mean_test_score"], splits.mean(axis=1))
    np.testing.assert_allclose(found["std_test_score"], splits.std(axis=1))
    assert found["rank_test_score"][search.best_index_] == 1
    order = np.argsort(found["rank_test_score"])
    assert (np.diff(found["mean_test_score"][order]) <= 0).all()


def test_halving_drops_on_samples_only_what_is_worse_by_more_than_the_noise():
    X, y = make_moons(2000, noise=0.25, random_state=1)
    search = CoreVectorClassifierCV(**AXES, halving=True).fit(X, y)
    full = CoreVectorClassifierCV(**AXES, halving=False).fit(X, y)
    found = search.cv_results_
    assert set(found["n_resources"]) > {2000}
    assert np.count_nonzero(found["n_resources"] == 2000) < 8
    at = full.cv_results_["params"].index(search.best_params_)
    error = full.cv_results_["std_test_score"][full.best_index_] / np.sqrt(5)
    assert full.cv_results_["mean_test_score"][at] >= full.best_score_ - error
    best = found["n_resources"] == 2000
    assert found["rank_test_score"][best].max() < found["rank_test_score"][~best].min()


def test_the_default_grid_finds_a_gamma_far_from_scale():
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 8, size=(1200, 2))
    y = (np.floor(X).sum(axis=1) % 2).astype(int)  # a board of 8 x 8 fields
    search = CoreVectorClassifierCV(cv=3).fit(X[:800], y[:800])
    plain = CoreVectorClassifier().fit(X[:800], y[:800])
    assert search.score(X[800:], y[800:]) > 0.85
    assert plain.score(X[800:], y[800:]) < 0.7


def test_sparse_rows_and_a_kernel_matrix_get_the_scores_of_dense_rows(moons):
    X, y = moons
    dense = CoreVectorClassifierCV(Cs=GRID["C"], gammas=[3.0]).fit(X, y)
    rows = CoreVectorClassifierCV(Cs=GRID["C"], gammas=[3.0])
    rows.fit(sparse.csr_matrix(X), y)
    matrix = CoreVectorClassifierCV(Cs=GRID["C"], kernel="precomputed")
    matrix.fit(rbf_kernel(X, gamma=3.0), y)
    expected = dense.cv_results_["mean_test_score"]
    np.testing.assert_allclose(rows.cv_results_["mean_test_score"], expected)
    # Separate fits end elsewhere within the tolerance: a row of 80 in a fold.
    found = matrix.cv_results_["mean_test_score"]
    np.testing.assert_allclose(found, expected, atol=2 / 400)


def test_rows_beyond_the_memory_budget_are_fitted_fold_by_fold(moons):
    X, y = moons
    shared = CoreVectorClassifierCV(Cs=[1, 10], gammas=[3.0]).fit(X, y)
    small = CoreVectorClassifierCV(Cs=[1, 10], gammas=[3.0], memory_budget=2**18)
    small.fit(X, y)
    expected = shared.cv_results_["mean_test_score"]
    found = small.cv_results_["mean_test_score"]
    np.testing.assert_allclose(found, expected, atol=0.02)


def test_a_weight_of_two_is_the_row_given_twice(moons):
    X, y = moons[0][:120], moons[1][:120]
    weight = np.ones(120)
    weight[:30] = 2.0
    weight[30:40] = 0.0
    folds = [
        (np.flatnonzero(np.arange(120) % 3 != k), np.arange(k, 120, 3))
        for k in range(3)
    ]
    rows = np.repeat(np.arange(120), weight.astype(int))
    repeated = [
        tuple(np.flatnonzero(np.isin(rows, part)) for part in pair) for pair in folds
    ]
    weighted = CoreVectorClassifierCV(**AXES, cv=folds).fit(X, y, weight)
    twice = CoreVectorClassifierCV(**AXES, cv=repeated).fit(X[rows], y[rows])
    np.testing.assert_allclose(
        weighted.cv_results_["mean_test_score"],
        twice.cv_results_["mean_test_score"],
        atol=1 / 40,
    )
    own = weighted.cv_results_["split0_test_score"] * weight[::3].sum()
    np.testing.assert_allclose(own, own.round(), atol=1e-9)  # whole weights are right


def test_groups_and_splitters_are_those_of_scikit_learn(moons):
    groups = np.arange(400) % 7
    search = CoreVectorClassifierCV(Cs=[1], gammas=[3.0], cv=GroupKFold(7))
    search.fit(*moons, groups=groups)
    grid = GridSearchCV(
        CoreVectorClassifier(), {"C": [1], "gamma": [3.0]}, cv=GroupKFold(7)
    ).fit(*moons, groups=groups)
    assert search.n_splits_ == 7
    assert_same_choice(search, grid)


def test_a_named_scorer_and_a_function_score_alike(moons):
    given = {"Cs": [1, 10], "gammas": [3.0], "cv": KFold(4)}
    named = CoreVectorClassifierCV(**given, scoring="roc_auc").fit(*moons)

    def area(model, X, y):
        from sklearn.metrics import roc_auc_score

        return roc_auc_score(y, model.decision_function(X))

    own = CoreVectorClassifierCV(**given, scoring=area).fit(*moons)
    np.testing.assert_allclose(
        named.cv_results_["mean_test_score"],
        own.cv_results_["mean_test_score"],
        atol=5e-3,
    )
    assert named.score(*moons) == area(named, *moons)


def test_tubes_and_kernels_can_be_chosen_from(friedman):
    search = CoreVectorRegressorCV(
        Cs=[1, 10], kernel="poly", degree=2, coef0=1.0, mu=[0.1, 0.6], gammas=[0.1]
    )
    search.fit(*friedman)
    assert search.cv_results_["param_mu"].tolist() == [0.1, 0.1, 0.6, 0.6]
    assert search.best_estimator_.mu == search.best_params_["mu"]
    linear = CoreVectorRegressorCV(Cs=[1, 10], kernel="linear").fit(*friedman)
    assert len(linear.cv_results_["params"]) == 2


def test_the_time_limit_leaves_the_best_so_far():
    X, y = make_moons(3000, noise=0.3, random_state=0)
    search = CoreVectorClassifierCV(max_time=1e-3)
    with pytest.warns(NotCertifiedWarning) as noted:
        search.fit(X, y)
    assert noted[0].message.stopped_by == "max_time" == search.stopped_by_
    assert search.predict(X).shape == (3000,)


def test_ctrl_c_leaves_the_best_so_far(moons):
    calls = []

    def scoring(model, X, y):
        calls.append(len(y))
        if len(calls) == 3:
            signal.raise_signal(signal.SIGINT)
        return model.score(X, y)

    search = CoreVectorClassifierCV(Cs=[1], gammas=[3.0, 0.3], cv=2, scoring=scoring)
    with pytest.warns(NotCertifiedWarning) as noted:
        search.fit(*moons)
    assert noted[0].message.stopped_by == "interrupt" == search.stopped_by_
    assert len(calls) == 3
    assert search.cv_results_["params"] == [search.best_params_]
    assert search.certificate_.converged


def test_it_is_a_step_of_a_pipeline_and_survives_clone(moons):
    search = CoreVectorClassifierCV(Cs=[1, 10], gammas=["scale", 1.0], cv=3)
    model = make_pipeline(StandardScaler(), search).fit(*moons)
    assert model.score(*moons) > 0.85
    assert clone(search).get_params() == search.get_params()
    assert model[-1].best_params_["gamma"] in ("scale", 1.0)


def test_without_a_refit_there_is_no_model(moons):
    search = CoreVectorClassifierCV(Cs=[1], gammas=[3.0], refit=False).fit(*moons)
    assert search.best_params_ == {"C": 1, "gamma": 3.0}
    assert not hasattr(search, "predict")
    assert not hasattr(search, "classes_")


@pytest.mark.parametrize(
    "given",
    [
        {"Cs": 0},
        {"Cs": [1, -1]},
        {"Cs": "many"},
        {"gammas": "best"},
        {"gammas": [0.0]},
        {"scoring": "speed"},
        {"halving": "always"},
        {"refit": "yes"},
    ],
    ids=str,
)
def test_a_wrong_parameter_is_refused_by_its_name(moons, given):
    with pytest.raises(InvalidInputError) as caught:
        CoreVectorClassifierCV(**given).fit(*moons)
    assert caught.value.parameter == next(iter(given))


def test_weights_need_a_scorer_that_takes_them(moons):
    search = CoreVectorClassifierCV(
        Cs=[1], gammas=[3.0], scoring=lambda model, X, y: model.score(X, y)
    )
    with pytest.raises(InvalidInputError) as caught:
        search.fit(*moons, sample_weight=np.full(400, 2.0))
    assert caught.value.parameter == "scoring"


def test_a_fold_that_lacks_a_class_has_the_machines_of_the_others(moons):
    """The scores are those of models that are fitted fold by fold."""
    X, y = moons[0][:90], np.append(moons[1][:89], 2)
    folds = KFold(3)
    search = CoreVectorClassifierCV(cv=folds, Cs=[1, 10], gammas=[1.0], halving=False)
    table = search.fit(X, y).cv_results_
    for params, score in zip(table["params"], table["mean_test_score"], strict=True):
        model = CoreVectorClassifier(**params)
        each = [model.fit(X[a], y[a]).score(X[b], y[b]) for a, b in folds.split(X)]
        assert score == pytest.approx(np.mean(each), abs=0.04)  # one row of a fold


def test_folds_without_anything_to_learn_have_no_score(moons):
    X, y = moons[0][:90], (np.arange(90) >= 60).astype(int)  # a fold has one class
    search = CoreVectorClassifierCV(cv=KFold(3), Cs=[1], gammas=[1.0])
    table = search.fit(X, y).cv_results_
    scores = [table[f"split{k}_test_score"][0] for k in range(3)]
    assert np.isnan(scores).tolist() == [False, False, True]
    weights = np.where(np.arange(90) < 60, 1.0, 0.0)
    search = CoreVectorRegressorCV(cv=KFold(3), Cs=[1], gammas=[1.0])
    table = search.fit(X, X[:, 0], sample_weight=weights).cv_results_
    scores = [table[f"split{k}_test_score"][0] for k in range(3)]
    assert np.isnan(scores).tolist() == [False, False, True]


def test_rows_that_no_fold_can_learn_are_refused_by_cv(moons):
    X, y = moons[0][:40], np.arange(40) >= 20
    alone = np.eye(40)[0]
    for given, weights in (
        ({"cv": KFold(2)}, None),
        ({"cv": 30}, None),
        ({"cv": 3}, alone),
    ):
        with pytest.raises(InvalidInputError) as caught:
            CoreVectorClassifierCV(**given).fit(X, y, sample_weight=weights)
        assert caught.value.parameter == "cv"
        assert "CoreVectorClassifierCV" in str(caught.value)
    with pytest.raises(InvalidInputError, match="1e\\+160"):
        CoreVectorRegressorCV().fit(X, np.where(y, 1e160, 0.0))
