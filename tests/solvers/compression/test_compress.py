"""`compress`: few vectors, close to the original in the feature space."""

import itertools
import pickle

import naive
import numpy as np
import pytest
from scipy import optimize, sparse
from sklearn.base import clone, is_classifier, is_outlier_detector, is_regressor
from sklearn.datasets import make_blobs, make_classification, make_friedman1, make_moons
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR, NuSVC, NuSVR, OneClassSVM

from corevec import (
    SVDD,
    CoreVectorClassifier,
    CoreVectorOneClass,
    CoreVectorRanker,
    CoreVectorRegressor,
    InvalidInputError,
    KernelError,
    StreamingBallClassifier,
    StreamingBallOneClass,
)
from corevec.data.sources import Workers
from corevec.estimators import CompressedModel, compress
from corevec.kernels import Rows, make_kernel
from corevec.models import KernelExpansion
from corevec.solvers.compression import Budget, moving, reduce_expansion

RBF = {"kernel": "rbf", "gamma": 1.0}


def agreement(model, small, X):
    return (model.predict(X) == small.predict(X)).mean()


def brute_force(A, V, C, B, **kernel):
    """Return |sum a phi(v) - sum c phi(b)| per output, from one kernel matrix."""
    both = np.vstack([V, B])
    coef = np.vstack([A, -C])
    K = naive.gram(both, **kernel)
    return np.sqrt(np.einsum("it,ij,jt->t", coef, K, coef))


@pytest.fixture(scope="module")
def moons():
    return make_moons(1500, noise=0.3, random_state=0)


@pytest.fixture(scope="module")
def svc(moons):
    model = SVC(C=1.0, **RBF).fit(*moons)
    assert len(model.support_) > 300
    return model


@pytest.mark.parametrize(
    "params",
    [
        {"kernel": "rbf", "gamma": 0.3},
        {"kernel": "poly", "gamma": 0.3, "degree": 3, "coef0": 1.0},
        {"kernel": "linear"},
    ],
    ids=lambda p: p["kernel"],
)
@pytest.mark.parametrize("columns", [3, 12])
def test_the_gradient_is_that_of_differences(params, columns, rng):
    X, A = rng.normal(size=(50, columns)), rng.normal(size=(50, 2))
    functions = KernelExpansion(
        make_kernel(**params), Rows(X, np.arange(50)), A / 10, np.zeros(2)
    )
    work = moving(functions, 2, Budget(Workers(1), 2**28, 1))
    start = rng.normal(size=(2, columns)) * work.unit

    def value(flat):
        return work.value_and_gradient(flat.reshape(start.shape))[0]

    expected = optimize.approx_fprime(start.ravel(), value, 1e-6)
    found = work.value_and_gradient(start)[1]
    # Forward differences of 1e-6 have about 1e-6 of the second derivative as error.
    np.testing.assert_allclose(found, expected, atol=1e-4 * np.abs(expected).max())


def test_a_small_svc_agrees_with_the_large_one(svc, moons):
    small = compress(svc, 20, random_state=0)
    assert small.support_vectors_.shape == (20, 2)
    assert agreement(svc, small, moons[0]) > 0.97
    other, _ = make_moons(3000, noise=0.3, random_state=1)
    assert agreement(svc, small, other) > 0.97
    # |f(x) - f'(x)| <= |f - f'| sqrt(k(x, x)), and k(x, x) = 1.
    apart = np.abs(svc.decision_function(other) - small.decision_function(other))
    assert apart.max() <= small.distance_[0] * (1 + 1e-9)


def test_vectors_that_move_beat_the_rows_they_start_from(svc):
    rows = compress(svc, 20, max_iter=0, random_state=0)
    moved = compress(svc, 20, random_state=0)
    assert moved.relative_distance_[0] < 0.5 * rows.relative_distance_[0]
    known = {tuple(row) for row in svc.support_vectors_}
    assert all(tuple(row) in known for row in rows.support_vectors_)


@pytest.mark.parametrize("n_vectors", [3, 10, 30])
@pytest.mark.parametrize("columns", [2, 12])
def test_the_distance_is_the_norm_in_the_feature_space(n_vectors, columns):
    X, y = make_classification(
        400, columns, n_informative=2, n_redundant=0, class_sep=0.5, random_state=0
    )
    kernel = {"kernel": "rbf", "gamma": 0.5}
    model = SVC(**kernel).fit(X, y)
    small = compress(model, n_vectors, random_state=0)
    A, V = model.dual_coef_.T, model.support_vectors_
    expected = brute_force(A, V, small.dual_coef_.T, small.support_vectors_, **kernel)
    np.testing.assert_allclose(small.distance_, expected, rtol=1e-8)
    norm = brute_force(A, V, np.zeros((1, 1)), V[:1], **kernel)
    np.testing.assert_allclose(small.relative_distance_, expected / norm, rtol=1e-8)


def test_a_long_expansion_is_thinned_while_vectors_move(svc, moons):
    vectors, dual = svc.support_vectors_, svc.dual_coef_.T
    rows = Rows(vectors, np.arange(len(vectors)))
    functions = KernelExpansion(make_kernel(**RBF), rows, dual, svc.intercept_)

    def reduced(candidates):
        budget = Budget(Workers(1), 2**28, 100, candidates)
        return reduce_expansion(functions, 15, budget, np.random.default_rng(0))

    small, full = reduced(150), reduced(4000)
    assert small.distance[0] < 1.5 * full.distance[0]
    found, X = small.functions, moons[0]
    values = found.evaluate(Rows(X, np.arange(len(X))), found.prepared())[:, 0]
    assert (svc.predict(X) == (values > 0)).mean() > 0.97
    kept = found.coef, found.basis.values
    expected = brute_force(dual, vectors, *kept, **RBF)
    # What is reported is measured with all vectors.
    np.testing.assert_allclose(small.distance, expected, rtol=1e-6)


def test_kernel_values_that_do_not_fit_are_computed_again(svc):
    plain, tight = (
        compress(svc, 10, max_iter=20, memory_budget=budget, random_state=0)
        for budget in (2**28, 2**15)
    )
    np.testing.assert_allclose(
        tight.relative_distance_, plain.relative_distance_, rtol=1e-6
    )


def test_more_vectors_are_closer(svc):
    found = [
        compress(svc, k, random_state=0).relative_distance_[0]
        for k in (1, 2, 4, 8, 16, 32)
    ]
    assert all(b <= 1.02 * a for a, b in itertools.pairwise(found))
    assert found[-1] < 0.02 * found[0]


def test_as_many_vectors_as_different_ones_are_exact(rng):
    distinct = rng.normal(size=(12, 3))
    X = np.repeat(distinct, 6, axis=0)
    y = rng.integers(0, 2, size=len(X))
    model = SVC(kernel="rbf", gamma=0.7).fit(X, y)
    n_distinct = len(np.unique(model.support_vectors_, axis=0))
    assert n_distinct < len(model.support_)
    small = compress(model, n_distinct, random_state=0)
    assert len(small.support_vectors_) == n_distinct
    # The distance is a root of a difference of squares: 1e-8 is its rounding error.
    assert small.relative_distance_[0] < 1e-7
    np.testing.assert_allclose(
        small.decision_function(X), model.decision_function(X), atol=1e-7
    )


def test_no_more_vectors_than_asked_for_are_kept_as_they_are(svc, moons):
    same = compress(svc, 10_000)
    np.testing.assert_array_equal(same.support_vectors_, svc.support_vectors_)
    assert same.distance_.tolist() == [0.0]
    np.testing.assert_allclose(
        same.decision_function(moons[0]), svc.decision_function(moons[0]), atol=1e-9
    )


@pytest.fixture(scope="module")
def blobs():
    return make_blobs(900, 4, centers=5, cluster_std=3.0, random_state=0)


@pytest.mark.parametrize(
    # scikit-learn allows break_ties with "ovr" only.
    ("shape", "ties"),
    [("ovo", False), ("ovr", False), ("ovr", True)],
)
@pytest.mark.parametrize("machine", [SVC, NuSVC])
def test_pairs_of_classes_vote_as_in_scikit_learn(shape, ties, machine, blobs):
    X, y = blobs
    labels = np.array(list("edcba"))[y]
    params = {"nu": 0.3} if machine is NuSVC else {}
    model = machine(
        gamma=0.05, decision_function_shape=shape, break_ties=ties, **params
    ).fit(X, labels)
    same = compress(model, 10_000)
    np.testing.assert_allclose(
        same.decision_function(X), model.decision_function(X), atol=1e-8
    )
    np.testing.assert_array_equal(same.predict(X), model.predict(X))


def test_many_classes_share_few_vectors(blobs):
    X, y = blobs
    for model in (
        SVC(gamma=0.05).fit(X, y),
        CoreVectorClassifier(gamma=0.05, random_state=0).fit(X, y),
        CoreVectorClassifier(gamma=0.05, multi_class="ovo", random_state=0).fit(X, y),
    ):
        small = compress(model, 60, random_state=0)
        assert len(small.support_vectors_) == 60
        assert len(small.distance_) == len(model.intercept_)
        assert agreement(model, small, X) > 0.97
        assert small.decision_function(X).shape == model.decision_function(X).shape
        again = compress(small, 59, random_state=0)
        assert agreement(model, again, X) > 0.96


def test_regressors_one_target_and_several():
    X, y = make_friedman1(500, n_features=5, noise=0.1, random_state=0)
    for model in (
        SVR(gamma=0.5, C=10.0).fit(X, y),
        NuSVR(gamma=0.5, C=10.0).fit(X, y),
        CoreVectorRegressor(C=10.0, gamma=0.5, random_state=0).fit(X, y),
        CoreVectorRegressor(C=10.0, gamma=0.5, random_state=0).fit(
            X, np.column_stack([y, X[:, 0] - 100.0])
        ),
    ):
        small = compress(model, 60, random_state=0)
        assert is_regressor(small)
        there, here = model.predict(X), small.predict(X)
        assert there.shape == here.shape
        apart = np.abs(there - here).reshape(len(X), -1).max(axis=0)
        assert (apart <= small.distance_ * (1 + 1e-9)).all()
        assert (apart < 0.1 * there.std(axis=0)).all()


def test_detectors_keep_their_offset_and_balls_their_radius():
    X = np.random.default_rng(0).normal(size=(600, 3))
    far = np.vstack([X, X * 3.0])
    for model in (
        OneClassSVM(nu=0.3, gamma=0.2).fit(X),
        CoreVectorOneClass(C=0.1, gamma=0.2, random_state=0).fit(X),
        SVDD(C=0.05, gamma=0.2, random_state=0).fit(X),
        SVDD(C=0.01, kernel="poly", degree=2, coef0=1.0, gamma=0.3).fit(X),
    ):
        same = compress(model, 10_000)
        np.testing.assert_allclose(
            same.decision_function(far),
            model.decision_function(far),
            rtol=1e-6,
            atol=1e-8 * np.abs(model.decision_function(far)).max(),
        )
        np.testing.assert_allclose(
            same.score_samples(X), model.score_samples(X), atol=1e-8
        )
        small = compress(model, 25, random_state=0)
        assert is_outlier_detector(small)
        assert agreement(model, small, far) > 0.97


def test_a_classification_with_many_columns_agrees():
    X, y = make_classification(
        2000, 10, n_informative=2, n_redundant=0, n_clusters_per_class=1, random_state=0
    )
    model = SVC(gamma=0.02, C=0.1).fit(X, y)
    assert len(model.support_) > 300
    assert agreement(model, compress(model, 20, random_state=0), X) > 0.97


def test_a_ranker_keeps_its_order():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    model = CoreVectorRanker(gamma=0.2, random_state=0).fit(X, np.round(X[:, 0]))
    small = compress(model, 25, random_state=0)
    assert np.corrcoef(small.predict(X), model.predict(X))[0, 1] > 0.999


def test_sparse_rows_stay_sparse_where_dense_vectors_do_not_fit():
    X, y = make_classification(500, 60, n_informative=5, random_state=0)
    X = sparse.csr_matrix(np.where(np.abs(X) > 1.0, X, 0.0))
    model = SVC(gamma=0.02).fit(X, y)
    dense = SVC(gamma=0.02).fit(X.toarray(), y)
    small, other = (compress(m, 40, random_state=0) for m in (model, dense))
    # Two fits of libsvm, to 1e-3: what is done with them is the same.
    np.testing.assert_allclose(
        small.relative_distance_, other.relative_distance_, rtol=0.05
    )
    assert agreement(model, small, X) > 0.95
    # Not one dense vector fits, with what it takes to find it.
    tight = compress(model, 40, memory_budget=2**11, random_state=0)
    assert sparse.issparse(tight.support_vectors_)
    assert tight.relative_distance_[0] > small.relative_distance_[0]
    np.testing.assert_array_equal(tight.predict(X), tight.predict(X.toarray()))


@pytest.mark.parametrize("kernel", ["laplacian", "inverse-distance", "normalized-poly"])
def test_kernels_that_cannot_move_keep_the_best_rows(kernel, moons):
    X, y = moons[0][:500], moons[1][:500]
    model = CoreVectorClassifier(kernel=kernel, coef0=1.0, random_state=0).fit(X, y)
    small = compress(model, 6, random_state=0)
    known = {tuple(row) for row in model.support_vectors_}
    assert all(tuple(row) in known for row in small.support_vectors_)
    drawn = np.random.default_rng(0).choice(len(model.support_), 6, replace=False)
    V, B = model.support_vectors_, model.support_vectors_[drawn]
    params = {"kernel": kernel, "gamma": 1 / (2 * X.var()), "coef0": 1.0}
    K, across = naive.gram(B, **params), naive.gram(B, V, **params)
    C = np.linalg.lstsq(K, across @ model.dual_coef_.T, rcond=1e-12)[0]
    at_random = brute_force(model.dual_coef_.T, V, C, B, **params)
    assert small.distance_[0] < at_random[0]


def test_precomputed_and_callable_kernels(moons):
    X, y = moons[0][:400], moons[1][:400]
    K = naive.gram(X, **RBF)

    def called(A, B):
        return naive.gram(A, B, **RBF)

    expected = compress(SVC(**RBF).fit(X, y), 20, max_iter=0, random_state=0)
    for model, rows in (
        (SVC(kernel="precomputed").fit(K, y), K),
        (SVC(kernel=called).fit(X, y), X),
    ):
        small = compress(model, 20, X=rows, random_state=0)
        np.testing.assert_allclose(
            small.relative_distance_, expected.relative_distance_, rtol=1e-3
        )
        assert agreement(model, small, rows) > 0.9
        with pytest.raises(InvalidInputError, match=r"X=X_train"):
            compress(model, 20)
    ours = CoreVectorClassifier(kernel="precomputed", random_state=0).fit(K, y)
    assert agreement(ours, compress(ours, 60, random_state=0), K) > 0.97


def test_gamma_in_words_needs_no_rows(moons):
    X, y = moons
    model = SVC().fit(X, y)
    with pytest.raises(InvalidInputError, match=r"fitted on 2 columns"):
        compress(model, 20, X=X[:5])
    by_number = SVC(gamma=1 / (2 * X.var())).fit(X, y)
    # The rows chosen are the same; where they move to from there amplifies rounding.
    there = compress(model, 20, max_iter=0)
    given = compress(model, 20, X=X, max_iter=0)
    here = compress(by_number, 20, max_iter=0)
    for one in (there, given):
        np.testing.assert_allclose(
            one.relative_distance_, here.relative_distance_, rtol=1e-3
        )
    assert agreement(model, compress(SVC(gamma="auto").fit(X, y), 9_999), X) > 0.9


def test_models_without_vectors_and_functions_that_are_zero():
    X = np.arange(20.0).reshape(10, 2)
    flat = SVR(gamma=0.1).fit(X, np.full(10, 3.0))
    assert len(flat.support_) == 0
    np.testing.assert_allclose(compress(flat, 3).predict(X), 3.0)
    y = np.column_stack([np.sin(X[:, 0]), np.full(10, 5.0)])
    model = CoreVectorRegressor(gamma=0.1, random_state=0).fit(X, y)
    small = compress(model, 4, random_state=0)
    assert small.relative_distance_[1] == 0.0
    np.testing.assert_allclose(small.predict(X)[:, 1], 5.0)


def test_it_pickles_clones_and_ends_a_pipeline(svc, moons):
    X, y = moons
    small = compress(svc, 20, random_state=0)
    again = pickle.loads(pickle.dumps(small))
    np.testing.assert_array_equal(again.predict(X), small.predict(X))
    assert len(pickle.dumps(small)) < len(pickle.dumps(svc)) / 3
    assert is_classifier(small)
    assert small.score(X, y) > 0.9
    assert repr(small)
    with pytest.raises(NotFittedError):
        clone(small).predict(X)
    pipeline = make_pipeline(StandardScaler(), SVC(gamma=1.0)).fit(X, y)
    before = pipeline.predict(X)
    pipeline.steps[-1] = ("svc", compress(pipeline[-1], 20, random_state=0))
    assert (pipeline.predict(X) == before).mean() > 0.97
    assert pipeline[-1].fit(X, y) is pipeline[-1]
    with pytest.raises(ValueError, match="features"):
        small.predict(X[:, :1])


def test_the_same_seed_gives_the_same_vectors(svc):
    first, second = (compress(svc, 10, random_state=3) for _ in range(2))
    np.testing.assert_array_equal(first.support_vectors_, second.support_vectors_)


def test_rows_far_from_the_origin_lose_nothing(moons):
    X, y = moons
    shifted = SVC(**RBF).fit(X + 2.0**10, y)
    small = compress(shifted, 20, random_state=0)
    assert small.relative_distance_[0] < 0.02
    centred = shifted.support_vectors_ - 2.0**10, small.support_vectors_ - 2.0**10
    expected = brute_force(
        shifted.dual_coef_.T, centred[0], small.dual_coef_.T, centred[1], **RBF
    )
    # 2**10 takes ten of 52 bits from the rows themselves.
    np.testing.assert_allclose(small.distance_, expected, rtol=1e-5)


@pytest.mark.parametrize(
    "model",
    [
        StreamingBallClassifier(),
        StreamingBallClassifier(kernel="rbf", gamma=0.1, budget=60),
        StreamingBallOneClass(gamma=0.1),
    ],
    ids=["linear", "rbf", "one class"],
)
def test_a_streamed_model_with_all_its_vectors_is_itself(model):
    X, y = make_blobs(300, centers=3, n_features=3, cluster_std=2.5, random_state=0)
    small = compress(model.fit(X, y), 300)
    expected = model.decision_function(X)
    np.testing.assert_allclose(small.decision_function(X), expected, atol=1e-12)
    assert agreement(model, small, X) == 1.0


@pytest.mark.parametrize("n_vectors", [0, -3, 2.5, "ten", True, None])
def test_n_basis_must_be_a_whole_number(n_vectors, svc):
    with pytest.raises(InvalidInputError, match=r"n_vectors=.* whole number"):
        compress(svc, n_vectors)


def test_errors_say_what_is_accepted(moons):
    with pytest.raises(NotFittedError, match=r"this SVC is not fitted"):
        compress(SVC(gamma=1.0), 5)
    with pytest.raises(NotFittedError, match=r"this CoreVectorClassifier is not"):
        compress(CoreVectorClassifier(), 5)
    linear = LogisticRegression().fit(*moons)
    with pytest.raises(InvalidInputError, match=r"LogisticRegression.*SVC, NuSVC, SVR"):
        compress(linear, 5)
    with pytest.raises(InvalidInputError, match=r"max_iter=-1"):
        compress(SVC(gamma=1.0).fit(*moons), 5, max_iter=-1)
    with pytest.raises(KernelError, match="sigmoid"):
        compress(SVC(kernel="sigmoid", gamma=1.0).fit(*moons), 5)
    with pytest.raises(NotFittedError):
        CompressedModel().fit()
