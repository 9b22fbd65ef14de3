"""StreamingOneClass: its score by linear algebra, its offset, its streams."""

import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics import roc_auc_score
from sklearn.utils.estimator_checks import parametrize_with_checks

from corevec import InvalidInputError, StreamingOneClass, certify, formats

REASON = "which rows are the core and the sample depends on their order"
ORDER = {
    "check_sample_weight_equivalence_on_dense_data": REASON,
    "check_sample_weight_equivalence_on_sparse_data": REASON,
}


@parametrize_with_checks(
    [
        StreamingOneClass(),
        StreamingOneClass(kernel="linear"),
        StreamingOneClass(budget=20),
    ],
    expected_failed_checks=lambda model: ORDER if model.budget == 20 else {},
)
def test_every_check_of_scikit_learn_passes(estimator, check):
    check(estimator)


def clouds(n=1000, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3)) + 4.0 * rng.integers(2, size=(n, 1))
    odd = rng.random(n) < 0.03
    X[odd] = rng.uniform(-8, 12, size=(odd.sum(), 3))
    return X, np.where(odd, -1, 1)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_the_score_is_the_variance_of_a_gaussian_process(kernel):
    X, _ = clouds(120)
    weights = np.random.default_rng(1).uniform(0.5, 2.0, 120)
    model = StreamingOneClass(C=2.0, kernel=kernel, gamma=0.1, budget=200)
    model.fit(X[:100], sample_weight=weights[:100])
    K = X @ X.T + 1
    if kernel == "rbf":
        K = np.exp(-0.1 * ((X[:, None] - X[None]) ** 2).sum(axis=2)) + 1
    seen, cross, own = K[:100, :100], K[100:, :100], K[100:, 100:].diagonal()
    inverse = np.linalg.inv(seen + np.diag(0.5 / weights[:100]))
    expected = own - np.einsum("ij,jk,ik->i", cross, inverse, cross)
    np.testing.assert_allclose(-model.score_samples(X[100:]), expected, atol=1e-5)


def test_the_offset_is_a_quantile_of_rows_as_if_unseen():
    X, _ = clouds(1500)
    model = StreamingOneClass(nu=0.1, budget=150, random_state=0).fit(X[:750])
    # 750 rows and the offset of 750 others: a deviation of 1.5 points.
    assert np.mean(model.predict(X[750:]) < 0) == pytest.approx(0.1, abs=0.045)
    assert model.set_params(nu=0.3).offset_ > model.set_params(nu=0.05).offset_


def test_outliers_are_found_in_one_pass():
    X, y = clouds(3000)
    model, scores = StreamingOneClass(budget=100), []
    for start in range(0, 3000, 200):
        if start:
            scores.append(model.score_samples(X[start : start + 200]))
        model.partial_fit(X[start : start + 200])
    assert len(model.support_vectors_) <= 100
    assert roc_auc_score(y[200:], np.concatenate(scores)) > 0.93


def test_sparse_rows_merges_files_and_pickles(tmp_path):
    X, _ = clouds(400)
    X[np.abs(X) < 0.3] = 0.0
    whole = StreamingOneClass(gamma=0.1).fit(X)
    thin = StreamingOneClass(gamma=0.1).fit(sparse.csr_matrix(X))
    np.testing.assert_allclose(thin.score_samples(X), whole.score_samples(X), atol=1e-6)
    left = StreamingOneClass(gamma=0.1).fit(X[:200])
    left.merge(StreamingOneClass(gamma=0.1).fit(X[200:]))
    np.testing.assert_allclose(left.score_samples(X), whole.score_samples(X), atol=1e-4)
    formats.save(whole, tmp_path / "m.corevec")
    for one in (
        formats.load(tmp_path / "m.corevec"),
        pickle.loads(pickle.dumps(whole)),
    ):
        again = StreamingOneClass(gamma=0.1).fit(X).partial_fit(X[:50])
        one.partial_fit(X[:50])
        np.testing.assert_array_equal(
            one.decision_function(X), again.decision_function(X)
        )


def test_what_it_does_not_have():
    X, _ = clouds(100)
    model = StreamingOneClass().fit(X)
    for name in ("coef_", "dual_coef_", "intercept_", "certificate_"):
        assert not hasattr(model, name)
    with pytest.raises(InvalidInputError, match="no objective to certify"):
        certify(model, X)
    with pytest.raises(InvalidInputError) as caught:
        StreamingOneClass(nu=1.5).fit(X)
    assert caught.value.parameter == "nu"
