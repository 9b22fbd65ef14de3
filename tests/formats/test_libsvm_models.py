"""LIBSVM model files, against the real svm-train and svm-predict."""

import shutil
import subprocess
import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import (
    dump_svmlight_file,
    load_diabetes,
    load_digits,
    load_iris,
    make_moons,
)
from sklearn.exceptions import NotFittedError
from sklearn.multiclass import OneVsOneClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.svm import SVC, SVR, NuSVC, NuSVR, OneClassSVM

import corevec.svm
from corevec import InvalidInputError, formats, methods, reference
from corevec.formats import load_libsvm, save_libsvm

needs_libsvm = pytest.mark.skipif(
    shutil.which("svm-predict") is None or shutil.which("svm-train") is None,
    reason="svm-train and svm-predict are not installed (apt-get install libsvm-tools)",
)
KERNELS = {
    "linear": {"kernel": "linear"},
    "poly": {"kernel": "poly", "gamma": 0.3, "coef0": 0.7, "degree": 2},
    "rbf": {"kernel": "rbf", "gamma": 0.4},
    "sigmoid": {"kernel": "sigmoid", "gamma": 0.05, "coef0": -0.1},
}
LETTERS = {
    "linear": ("-t", "0"),
    "poly": ("-t", "1", "-g", "0.3", "-r", "0.7", "-d", "2"),
    "rbf": ("-t", "2", "-g", "0.4"),
    "sigmoid": ("-t", "3", "-g", "0.05", "-r", "-0.1"),
}
# svm-predict sums in another order; 1e-9 is some 1e7 roundings of numbers near 1.
SAME = {"rtol": 1e-9, "atol": 1e-9}


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def svm_predict(folder, path, X):
    """Return what the real program says about the rows of X."""
    dump_svmlight_file(X, np.zeros(X.shape[0]), str(folder / "rows"), zero_based=False)
    out = folder / "out"
    run("svm-predict", "-q", str(folder / "rows"), str(path), str(out))
    return np.loadtxt(out, ndmin=1)


def svm_train(folder, X, y, *letters):
    """Return the path of a model that the real program fitted."""
    dump_svmlight_file(X, y, str(folder / "train"), zero_based=False)
    path = folder / "theirs.model"
    run("svm-train", "-q", *letters, str(folder / "train"), str(path))
    return path


def fitted(model, X, y=None):
    """Fit; whether it was certified is not what is tested here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", corevec.NotCertifiedWarning)
        return model.fit(X, y)


def saved(folder, model):
    path = folder / "ours.model"
    save_libsvm(model, path)
    return path


def two_classes():
    X, y = make_moons(150, noise=0.25, random_state=0)
    return X, np.where(y == 1, 7, -3)


def targets():
    X, y = load_diabetes(return_X_y=True)
    return MinMaxScaler((-1, 1)).fit_transform(X)[:150], (y[:150] - 150) / 80


def iris():
    X, y = load_iris(return_X_y=True)
    return StandardScaler().fit_transform(X), y


def digits():
    X, y = load_digits(return_X_y=True)
    return X[:600], y[:600]


# Our models in their program ------------------------------------------------------


@needs_libsvm
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("rows", ["dense", "csr"])
def test_svm_predict_gives_our_labels_for_two_classes(kernel, rows, tmp_path):
    X, y = two_classes()
    X = sparse.csr_matrix(X) if rows == "csr" else X
    model = corevec.CoreVectorClassifier(**KERNELS[kernel], random_state=0)
    fitted(model, X, y)
    path = saved(tmp_path, model)
    assert set(svm_predict(tmp_path, path, X)) == {7, -3}
    np.testing.assert_array_equal(svm_predict(tmp_path, path, X), model.predict(X))
    values = load_libsvm(path).decision_function(X)
    np.testing.assert_allclose(values, model.decision_function(X), **SAME)


@needs_libsvm
@pytest.mark.parametrize(
    "model",
    [
        corevec.CoreVectorClassifier(
            C=0.5, random_state=0, method=methods.FewVectors(100, basis="coreset")
        ),
        corevec.CoreVectorClassifier(random_state=0, method=methods.FewVectors(12)),
        corevec.StreamingBallClassifier(),
        corevec.StreamingBallClassifier(kernel="rbf"),
        corevec.StructuralSVM(),
        *(getattr(reference, name)(random_state=0) for name in ("LASVM", "Pegasos")),
        *(getattr(reference, name)() for name in ("SMO", "SimpleSVM")),
        reference.BallVectorMachine(random_state=0),
        SVC(C=3.0),
        NuSVC(nu=0.3),
    ],
    ids=lambda m: f"{type(m).__name__}-{getattr(m, 'kernel', '')}",
)
def test_svm_predict_gives_the_labels_of_every_two_class_model(model, tmp_path):
    X, y = two_classes()
    fitted(model, X, y)
    path = saved(tmp_path, model)
    np.testing.assert_array_equal(svm_predict(tmp_path, path, X), model.predict(X))
    found = load_libsvm(path)
    np.testing.assert_array_equal(found.predict(X), model.predict(X))
    np.testing.assert_allclose(
        found.decision_function(X), model.decision_function(X), **SAME
    )


@needs_libsvm
@pytest.mark.parametrize(
    "model",
    [
        corevec.CoreVectorRegressor(C=10.0, gamma=0.4, random_state=0),
        corevec.CoreVectorRegressor(C=10.0, kernel="linear", random_state=0),
        corevec.CoreVectorRegressor(kernel="poly", coef0=1.0, degree=2, gamma=0.3),
        corevec.CoreVectorRegressor(
            random_state=0, C=1.0, tube=0.0, method=methods.FewVectors(15)
        ),
        SVR(gamma=0.4),
        SVR(kernel="sigmoid", gamma=0.02),
        NuSVR(),
    ],
    ids=lambda m: f"{type(m).__name__}-{m.kernel}",
)
def test_svm_predict_gives_our_targets(model, tmp_path):
    X, y = targets()
    fitted(model, X, y)
    path = saved(tmp_path, model)
    np.testing.assert_allclose(svm_predict(tmp_path, path, X), model.predict(X), **SAME)
    np.testing.assert_allclose(load_libsvm(path).predict(X), model.predict(X), **SAME)


@needs_libsvm
@pytest.mark.parametrize(
    "model",
    [
        corevec.CoreVectorOneClass(nu=0.2, random_state=0),
        corevec.CoreVectorOneClass(C=0.5, kernel="poly", coef0=1.0, random_state=0),
        corevec.SVDD(C=0.05, random_state=0),
        corevec.StreamingBallOneClass(),
        OneClassSVM(nu=0.2),
    ],
    ids=lambda m: f"{type(m).__name__}-{m.kernel}",
)
def test_svm_predict_finds_our_outliers(model, tmp_path):
    X, _ = two_classes()
    fitted(model, X)
    path = saved(tmp_path, model)
    values = model.decision_function(X)
    clear = np.abs(values) > 1e-9  # LIBSVM counts 0 as outside, we as inside
    assert clear.sum() > 140
    np.testing.assert_array_equal(
        svm_predict(tmp_path, path, X)[clear], model.predict(X)[clear]
    )
    np.testing.assert_allclose(load_libsvm(path).decision_function(X), values, **SAME)


def test_a_ranker_is_written_as_the_regression_of_its_scores(tmp_path):
    X, y = two_classes()
    model = corevec.CoreVectorRanker(random_state=0).fit(X[:60], y[:60])
    found = load_libsvm(saved(tmp_path, model))
    np.testing.assert_allclose(found.predict(X), model.predict(X), **SAME)


def without_ties(values):
    """Return the rows on which one class has more votes than any other."""
    votes = np.round(values)
    top = np.sort(votes, axis=1)
    return top[:, -1] > top[:, -2]


@needs_libsvm
@pytest.mark.parametrize(
    "model",
    [
        corevec.CoreVectorClassifier(multi_class="ovo", gamma=1e-3, random_state=0),
        corevec.CoreVectorClassifier(
            multi_class="ovo",
            gamma=1e-3,
            random_state=0,
            method=methods.FewVectors(40, basis="coreset"),
        ),
        OneVsOneClassifier(corevec.CoreVectorClassifier(gamma=1e-3, random_state=0)),
        OneVsOneClassifier(
            corevec.CoreVectorClassifier(
                gamma=1e-3, random_state=0, method=methods.FewVectors(8)
            )
        ),
        OneVsOneClassifier(SVC(kernel="linear")),
        SVC(gamma=1e-3),
        NuSVC(nu=0.05, gamma=1e-3),
    ],
    ids=["core", "all rows", "wrapper", "wrapped span", "wrapped SVC", "SVC", "NuSVC"],
)
def test_svm_predict_votes_as_we_do_among_six_classes(model, tmp_path):
    X, y = load_digits(n_class=6, return_X_y=True)
    X, y = X[:240], y[:240]
    fitted(model, X, y)
    path = saved(tmp_path, model)
    theirs = svm_predict(tmp_path, path, X)
    found = load_libsvm(path)
    np.testing.assert_array_equal(found.predict(X), theirs)
    one_winner = without_ties(found.decision_function(X))
    assert one_winner.mean() > 0.9
    if not isinstance(model, SVC | NuSVC):
        np.testing.assert_array_equal(theirs[one_winner], model.predict(X)[one_winner])
        np.testing.assert_allclose(
            found.decision_function(X), model.decision_function(X), rtol=1e-7, atol=1e-7
        )
    else:
        np.testing.assert_array_equal(theirs, model.predict(X))


# Their models here ----------------------------------------------------------------


@needs_libsvm
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("kind", ["0", "1"])
def test_we_give_the_labels_of_svm_train(kernel, kind, tmp_path):
    X, y = two_classes()
    path = svm_train(tmp_path, X, y, "-s", kind, "-n", "0.3", *LETTERS[kernel])
    model = load_libsvm(path)
    np.testing.assert_array_equal(model.predict(X), svm_predict(tmp_path, path, X))
    assert model.classes_.tolist() == [-3, 7]
    np.testing.assert_array_equal(
        model.predict(X), model.classes_[(model.decision_function(X) > 0).astype(int)]
    )


@needs_libsvm
@pytest.mark.parametrize("first", [7, -3])
def test_the_sign_follows_the_classes_whichever_came_first(first, tmp_path):
    X, y = two_classes()
    order = np.argsort(y != first, kind="stable")  # LIBSVM takes the first it meets
    path = svm_train(tmp_path, X[order], y[order], "-g", "0.4")
    assert f"label {first} " in path.read_text()
    model = load_libsvm(path)
    ours = SVC(gamma=0.4).fit(X, y)
    # svm-train writes eight digits of a vector and works with a gamma of seven.
    np.testing.assert_allclose(
        model.decision_function(X), ours.decision_function(X), atol=2e-3
    )
    assert (model.dual_coef_ > 0).sum() == model.n_support_[1]


@needs_libsvm
@pytest.mark.parametrize("data", [iris, digits])
@pytest.mark.parametrize("kind", ["0", "1"])
def test_we_vote_as_libsvm_does(data, kind, tmp_path):
    X, y = data()
    X, y = X[::3], 10 * y[::3] - 5
    shuffled = np.random.default_rng(0).permutation(len(y))
    path = svm_train(
        tmp_path, X[shuffled], y[shuffled], "-s", kind, "-n", "0.05", "-g", "0.001"
    )
    model = load_libsvm(path)
    assert model.text_.labels.tolist() != sorted(model.text_.labels.tolist())
    assert model.classes_.tolist() == sorted(set(y.tolist()))
    assert model.n_support_.sum() == len(model.support_vectors_)
    rows = X.mean(axis=0) + X.std() * np.random.default_rng(1).normal(size=X.shape)
    if data is digits:  # three classes seldom tie, ten do
        assert not without_ties(model.decision_function(rows)).all()
    np.testing.assert_array_equal(
        model.predict(rows), svm_predict(tmp_path, path, rows)
    )


@needs_libsvm
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("kind", ["3", "4"])
def test_we_give_the_targets_of_svm_train(kernel, kind, tmp_path):
    X, y = targets()
    path = svm_train(tmp_path, X, y, "-s", kind, *LETTERS[kernel])
    np.testing.assert_allclose(
        load_libsvm(path).predict(X), svm_predict(tmp_path, path, X), **SAME
    )


@needs_libsvm
@pytest.mark.parametrize("kernel", KERNELS)
def test_we_find_the_outliers_of_svm_train(kernel, tmp_path):
    X, y = two_classes()
    path = svm_train(tmp_path, X, y, "-s", "2", "-n", "0.2", *LETTERS[kernel])
    model = load_libsvm(path)
    clear = np.abs(model.decision_function(X)) > 1e-9
    np.testing.assert_array_equal(
        model.predict(X)[clear], svm_predict(tmp_path, path, X)[clear]
    )
    assert set(model.predict(X)) == {1, -1}
    np.testing.assert_allclose(
        model.score_samples(X) - model.offset_, model.decision_function(X), **SAME
    )


@needs_libsvm
def test_rows_far_from_the_origin_keep_their_distances(tmp_path):
    X, y = two_classes()
    model = corevec.CoreVectorClassifier(gamma=0.4, random_state=0).fit(X + 1e6, y)
    path = saved(tmp_path, model)
    np.testing.assert_array_equal(
        svm_predict(tmp_path, path, X + 1e6), model.predict(X + 1e6)
    )


@needs_libsvm
@pytest.mark.parametrize(
    ("kind", "chances"),
    [
        ("0", "0"),
        ("1", "0"),
        ("2", "0"),
        ("3", "0"),
        ("4", "0"),
        ("0", "1"),
        ("3", "1"),
    ],
)
def test_a_file_of_svm_train_comes_out_again(kind, chances, tmp_path):
    X, y = iris()
    letters = ("-s", kind, "-b", chances, "-n", "0.1", "-g", "0.25")
    path = svm_train(tmp_path, X, y, *letters)
    model = load_libsvm(path)
    again = tmp_path / "again.model"
    save_libsvm(model, again)
    assert again.read_text() == path.read_text()
    assert ("probA" in model.text_.extras) == (chances == "1")


@needs_libsvm
@pytest.mark.parametrize("rows", ["dense", "csr"])
def test_a_model_of_svm_train_can_be_certified_on_rows_of_many_digits(rows, tmp_path):
    X, y = two_classes()
    model = load_libsvm(svm_train(tmp_path, X, y, "-c", "2", "-g", "0.5"))
    model.set_params(C=2.0)
    X = sparse.csr_matrix(X) if rows == "csr" else X
    with pytest.raises(InvalidInputError, match="support vector 0 of the LibsvmClass"):
        corevec.certify(model, X, y)
    found = corevec.certify(model.match_rows(X), X, y)
    assert found.converged
    assert found.relative_gap < 1e-3
    with pytest.raises(InvalidInputError, match="eight digits"):
        model.match_rows(X[:50])


# The file alone -------------------------------------------------------------------


def test_what_is_written_and_read_is_the_same_to_the_last_bit(tmp_path):
    X, y = two_classes()
    model = corevec.CoreVectorClassifier(random_state=0).fit(X * np.pi, y)
    path = saved(tmp_path, model)
    found = load_libsvm(path)
    order = np.argsort(model.dual_coef_[0] < 0, kind="stable")
    np.testing.assert_array_equal(found.text_.coef[:, 0], model.dual_coef_[0, order])
    np.testing.assert_array_equal(
        found.text_.vectors.toarray(), model.support_vectors_[order]
    )
    np.testing.assert_array_equal(found.intercept_, model.intercept_)
    assert found.text_.labels.tolist() == [7, -3]  # the first is the positive side
    again = tmp_path / "again"
    save_libsvm(found, again)
    assert again.read_bytes() == path.read_bytes()


def test_the_attributes_are_those_of_scikit_learn(tmp_path):
    X, y = load_digits(return_X_y=True)
    theirs = SVC(gamma=1e-3).fit(X[:300], y[:300])
    found = load_libsvm(saved(tmp_path, theirs), n_features=64)
    np.testing.assert_array_equal(found.dual_coef_, theirs.dual_coef_)
    np.testing.assert_array_equal(found.intercept_, theirs.intercept_)
    np.testing.assert_array_equal(found.n_support_, theirs.n_support_)
    np.testing.assert_array_equal(
        found.support_vectors_.toarray()
        if sparse.issparse(found.support_vectors_)
        else found.support_vectors_,
        theirs.support_vectors_,
    )
    np.testing.assert_allclose(
        found.decision_function(X), theirs.decision_function(X), **SAME
    )
    assert found.get_params()["gamma"] == 1e-3
    assert found.fit(X, y) is found


def test_classes_in_another_order_are_the_same_machines(tmp_path):
    """The file's order of the classes is turned around by hand."""
    X, y = iris()
    ours = load_libsvm(saved(tmp_path, SVC(gamma=0.4).fit(X, y)))
    text = ours.text_
    ends = np.cumsum(text.counts)
    first, middle, last = np.split(np.arange(len(text.coef)), ends[:-1])
    # Labels 2, 0, 1: pairs (2, 0), (2, 1), (0, 1) with the signs of the first two
    # turned; each vector's coefficients go to the other classes in the new order.
    rows = np.concatenate([last, first, middle])
    coef = np.concatenate(
        [
            -text.coef[last],  # of 2: against 0, against 1
            np.column_stack([-text.coef[first, 1], text.coef[first, 0]]),
            np.column_stack([-text.coef[middle, 1], text.coef[middle, 0]]),
        ]
    )
    rho = np.array([-text.rho[1], -text.rho[2], text.rho[0]])
    lines = (tmp_path / "ours.model").read_text().split("SV\n")
    vectors = [line.split(" ", 2)[2] for line in lines[1].splitlines()]
    header = [
        "svm_type c_svc",
        "kernel_type rbf",
        "gamma 0.40000000000000002",
        "nr_class 3",
        f"total_sv {len(rows)}",
        "rho " + " ".join(repr(float(v)) for v in rho),
        "label 2 0 1",
        f"nr_sv {len(last)} {len(first)} {len(middle)}",
        "SV",
    ]
    body = [
        f"{a!r} {b!r} {vectors[row]}"
        for row, (a, b) in zip(rows, coef.tolist(), strict=True)
    ]
    turned = tmp_path / "turned"
    turned.write_text("\n".join([*header, *body, ""]))
    found = load_libsvm(turned)
    np.testing.assert_array_equal(found.predict(X), ours.predict(X))
    np.testing.assert_array_equal(found.classes_, ours.classes_)
    np.testing.assert_array_equal(found.dual_coef_, ours.dual_coef_)
    np.testing.assert_array_equal(found.intercept_, ours.intercept_)
    np.testing.assert_allclose(
        found.decision_function(X), ours.decision_function(X), **SAME
    )


def test_missing_columns_are_zeros_unless_their_number_was_told(tmp_path):
    X, y = targets()
    X = X.copy()
    X[:, -1] = 0.0
    model = SVR(gamma=0.4).fit(X, y)
    path = saved(tmp_path, model)
    found = load_libsvm(path)
    assert found.n_features_in_ == 9
    wider = np.hstack([X, np.ones((len(X), 3))])
    np.testing.assert_allclose(found.predict(X), model.predict(X), **SAME)
    # Each column of ones multiplies every value of the kernel by exp(-gamma).
    far = np.exp(-3 * 0.4) * (model.predict(X) - model.intercept_) + model.intercept_
    np.testing.assert_allclose(found.predict(wider), far, **SAME)
    np.testing.assert_allclose(found.predict(sparse.csr_matrix(wider)), far, **SAME)
    told = load_libsvm(path, n_features=10)
    np.testing.assert_allclose(told.predict(X), model.predict(X), **SAME)
    with pytest.raises(ValueError, match="X has 13 features, but LibsvmRegressor is"):
        told.predict(wider)
    with pytest.raises(InvalidInputError, match="n_features=3"):
        load_libsvm(path, n_features=3)


@pytest.mark.parametrize(
    ("model", "told", "wanted"),
    [
        (SVC(C=2.0, gamma=0.4), {"C": 2.0}, None),
        (NuSVC(nu=0.3, gamma=0.4), {"nu": 0.3}, None),
        (SVR(C=2.0, epsilon=0.2, gamma=0.4), {"C": 2.0, "epsilon": 0.2}, None),
        (NuSVR(C=2.0, nu=0.3, gamma=0.4), {"C": 2.0, "nu": 0.3}, None),
        (OneClassSVM(nu=0.2, gamma=0.4), {"nu": 0.2}, None),
        (
            corevec.CoreVectorClassifier(C=2.0, gamma=0.4, random_state=0),
            {"C": 2.0, "loss": "squared_hinge", "bias": "penalized"},
            "squared hinge, penalised bias",
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_model_that_was_read_can_be_certified(model, told, wanted, tmp_path):
    X, y = two_classes()
    model.fit(X, y)
    found = load_libsvm(saved(tmp_path, model), n_features=2).set_params(**told)
    theirs = corevec.certify(model, X, y)
    ours = corevec.certify(found, X, y)
    assert wanted is None or wanted in ours.problem
    np.testing.assert_allclose(ours.primal, theirs.primal, rtol=1e-6)
    np.testing.assert_allclose(ours.dual, theirs.dual, rtol=1e-6)
    assert 0 <= ours.relative_gap < 0.01


def test_several_classes_that_were_read_can_be_certified(tmp_path):
    X, y = iris()
    model = SVC(C=2.0, gamma=0.4).fit(X, y)
    found = load_libsvm(saved(tmp_path, model)).set_params(C=2.0)
    ours, theirs = corevec.certify(found, X, y), corevec.certify(model, X, y)
    assert len(ours.parts) == 3
    assert ours.converged
    np.testing.assert_allclose(ours.relative_gap, theirs.relative_gap, rtol=1e-6)


@pytest.mark.parametrize("n_classes", [3, 5])
def test_vectors_in_pairs_that_share_no_class_are_listed_several_times(
    n_classes, tmp_path, rng
):
    """Any matrix of coefficients comes out as the same machines."""
    from corevec.formats import LibsvmText, Machines, listed_by_class
    from corevec.kernels import Rows

    n_pairs = n_classes * (n_classes - 1) // 2
    coef = rng.normal(size=(20, n_pairs)) * (rng.random((20, n_pairs)) < 0.4)
    vectors = rng.normal(size=(20, 3))
    order, counts, packed = listed_by_class(coef, n_classes)
    text = LibsvmText(
        "c_svc",
        "linear",
        {},
        np.zeros(n_pairs),
        np.arange(n_classes),
        counts,
        packed,
        sparse.csr_matrix(vectors[order]),
    )
    rows = rng.normal(size=(7, 3))
    values = Machines(text, 3).values(Rows(rows, np.arange(7)))
    np.testing.assert_allclose(values, rows @ vectors.T @ coef, **SAME)


# Refusals -------------------------------------------------------------------------


def refused(tmp_path, model, words):
    with pytest.raises(InvalidInputError, match=words):
        save_libsvm(model, tmp_path / "no.model")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kernel", ["laplacian", "inverse-distance", "normalized-poly"])
def test_kernels_that_libsvm_lacks_are_refused(kernel, tmp_path):
    X, y = two_classes()
    model = corevec.CoreVectorClassifier(kernel=kernel, coef0=1.0).fit(X, y)
    refused(tmp_path, model, f"does not have the kernel '{kernel}', only linear, poly")


def test_functions_as_kernels_are_refused(tmp_path):
    X, y = two_classes()
    model = corevec.CoreVectorClassifier(kernel=lambda A, B: A @ B.T).fit(X, y)
    refused(tmp_path, model, "does not have the kernel 'callable'")


@pytest.mark.parametrize(
    "model",
    [
        corevec.CoreVectorClassifier(multi_class="ovr"),
        corevec.StreamingBallClassifier(),
        reference.SMO(),
    ],
    ids=lambda m: type(m).__name__,
)
def test_one_machine_per_class_is_refused_with_the_way_out(model, tmp_path):
    X, y = iris()
    words = "3 classes, one machine per class against the rest.*multi_class='ovo'"
    refused(tmp_path, model.fit(X, y), words)


def test_other_models_are_refused_with_the_reason(tmp_path):
    X, y = two_classes()
    with pytest.raises(NotFittedError, match="CoreVectorClassifier"):
        save_libsvm(corevec.CoreVectorClassifier(), tmp_path / "no.model")
    words = np.where(y == 7, "yes", "no")
    model = corevec.CoreVectorClassifier().fit(X, words)
    refused(tmp_path, model, r"classes \['no', 'yes'\] cannot be written.*LabelEnc")
    model = corevec.CoreVectorClassifier().fit(X, y * 2**30)
    refused(tmp_path, model, r"classes \[-3221225472, 7516192768\] cannot be written")
    model = corevec.CoreVectorRegressor().fit(X, X)
    refused(tmp_path, model, "has 2 targets and LIBSVM one")
    model = corevec.SVDD(kernel="linear").fit(X)
    refused(tmp_path, model, "holds k\\(x, x\\), which varies with the linear kernel")
    model = make_pipeline(StandardScaler(), corevec.CoreVectorClassifier()).fit(X, y)
    refused(tmp_path, model, "no place for its other steps. Save its last step")
    refused(tmp_path, StandardScaler().fit(X), "a StandardScaler was given")
    refused(tmp_path, corevec.CoreSetNystroem().fit(X), "a CoreSetNystroem was given")
    refused(tmp_path, SVC, "a SVC was given|a type was given")
    pairs = OneVsOneClassifier(corevec.CoreVectorClassifier()).fit(*iris())
    refused(tmp_path, pairs, "different kernels .*Give gamma as a number")


def test_a_folder_that_is_not_there_is_named(tmp_path):
    X, y = two_classes()
    model = SVC().fit(X, y)
    with pytest.raises(InvalidInputError, match=r"folder .*nowhere"):
        save_libsvm(model, tmp_path / "nowhere" / "a.model")
    with pytest.raises(InvalidInputError, match="is a folder; give a file"):
        save_libsvm(model, tmp_path)
    with pytest.raises(FileNotFoundError, match=r"load_libsvm: .*absent"):
        load_libsvm(tmp_path / "absent")
    with pytest.raises(InvalidInputError, match="SVC"):
        load_libsvm(model)


def test_certify_asks_for_what_a_libsvm_file_does_not_hold(tmp_path):
    X = load_iris().data[:60]
    save_libsvm(OneClassSVM(gamma=0.5, nu=0.2).fit(X), tmp_path / "m")
    loaded = load_libsvm(tmp_path / "m")
    with pytest.raises(InvalidInputError, match=r"nu=None must be .*set_params\(nu="):
        corevec.certify(loaded, X)
    assert corevec.certify(loaded.set_params(nu=0.2), X).relative_gap < 1e-2


@pytest.mark.parametrize(
    "model",
    [
        SVC(kernel="precomputed"),
        corevec.svm.NuSVC(kernel="precomputed", nu=0.2),
        corevec.CoreVectorClassifier(kernel="precomputed", multi_class="ovo"),
        corevec.CoreVectorRegressor(kernel="precomputed"),
    ],
    ids=lambda model: type(model).__name__,
)
def test_a_matrix_as_kernel_is_written_by_the_numbers_of_rows(model, tmp_path):
    X, y = load_iris(return_X_y=True)
    K, path = X @ X.T, tmp_path / "model"
    save_libsvm(model.fit(K, y), path)
    assert "kernel_type precomputed\n" in path.read_text()
    found = load_libsvm(path)
    # The sums of some hundred terms of up to 100.
    assert np.allclose(found.predict(K), model.predict(K), rtol=1e-10)
    formats.save(found, tmp_path / "model.npz")
    assert (formats.load(tmp_path / "model.npz").predict(K) == found.predict(K)).all()
    few = K[:5, : found.n_features_in_ - 1]
    with pytest.raises(InvalidInputError, match="training rows"):
        found.predict(few)
    if isinstance(model, SVC):
        assert corevec.certify(found.set_params(C=1.0), K, y).converged
