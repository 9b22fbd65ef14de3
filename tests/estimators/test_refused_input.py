"""What is no number, no weight and no parameter in range is refused by name."""

import warnings
from datetime import date

import numpy as np
import pytest
from scipy import sparse

from corevec import (
    SVDD,
    CoreSetNystroem,
    CoreVectorClassifier,
    CoreVectorOneClass,
    CoreVectorRanker,
    CoreVectorRegressor,
    InvalidInputError,
    KernelError,
    NotCertifiedWarning,
    StreamingBallClassifier,
    StructuralSVM,
    certify,
    methods,
    svm,
)

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 2))
T = X[:, 0] + 0.1 * RNG.normal(size=40)
Y = (T > 0).astype(int)
WHEN = np.datetime64("2026-11-18") + np.arange(40)
NOT_NUMBERS = {
    "masked": (np.ma.array(X, mask=X > 1), "masked"),
    "dates": (np.stack([WHEN, WHEN], axis=1), "dates"),
    "durations": ((100 * X).astype("m8[s]"), "durations"),
    "digits as text": (X.astype(str), "text"),
    "digits as bytes": (X.astype(str).astype("S"), "bytes"),
    "text as objects": (X.astype(str).astype(object), "text"),
    "dates as objects": (np.full((40, 2), date(2026, 11, 18), dtype=object), "dates"),
    "lists of text": (X.astype(str).tolist(), "text"),
    "a structured array": (np.zeros(40, dtype=[("a", float), ("b", float)]), "named"),
    "a dict": ({"a": X[:, 0]}, "dict"),
    "a list of dicts": ([{"a": 1.0}] * 40, "list"),
}
ESTIMATORS = [
    CoreVectorClassifier(),
    CoreVectorClassifier(method=methods.FewVectors(5)),
    StreamingBallClassifier(),
    StructuralSVM(),
    CoreSetNystroem(5),
    svm.SVC(),
    svm.SVR(),
    svm.OneClassSVM(),
]


@pytest.mark.parametrize("what", NOT_NUMBERS)
@pytest.mark.parametrize("model", ESTIMATORS, ids=lambda model: type(model).__name__)
def test_rows_that_are_no_numbers_are_refused(model, what):
    rows, word = NOT_NUMBERS[what]
    with pytest.raises(InvalidInputError, match=word) as caught:
        model.fit(rows, Y)
    assert type(model).__name__ in str(caught.value)


@pytest.mark.parametrize("what", NOT_NUMBERS)
def test_rows_to_predict_that_are_no_numbers_are_refused(what):
    rows, word = NOT_NUMBERS[what]
    for model in (svm.SVC().fit(X, Y), CoreVectorClassifier().fit(X, Y)):
        with pytest.raises(InvalidInputError, match=word):
            model.predict(rows)
    with pytest.raises(InvalidInputError, match=word):
        certify(model, rows, Y)


def frames():
    pd = pytest.importorskip("pandas")
    yield pd.date_range("2026", periods=40), "dates"
    yield pd.date_range("2026", periods=40, tz="UTC"), "dates"
    yield pd.to_timedelta(np.arange(40), "s"), "durations"
    yield ["1"] * 40, "text"
    yield [date(2026, 11, 18)] * 40, "dates"


def test_the_column_of_a_frame_that_holds_no_numbers_is_named():
    pd = pytest.importorskip("pandas")
    for column, word in frames():
        frame = pd.DataFrame({"a": X[:, 0], "when": column})
        with pytest.raises(InvalidInputError, match=f"'when' of X holds {word}"):
            CoreVectorClassifier().fit(frame, Y)


def test_columns_that_are_numbers_in_another_type_are_taken():
    pd = pytest.importorskip("pandas")
    whole = np.arange(40)
    for column in (
        whole,
        pd.array(whole, dtype="Int64"),
        whole > 3,
        pd.Categorical(whole % 2),
    ):
        frame = pd.DataFrame({"a": X[:, 0], "b": column})
        assert CoreVectorClassifier().fit(frame, Y).predict(frame).shape == (40,)
    for rows in (X > 0, X.astype(object), np.ma.array(X), X.tolist()):
        assert CoreVectorClassifier().fit(rows, Y).predict(rows).shape == (40,)


@pytest.mark.parametrize(
    ("y", "word"),
    [
        (np.ma.array(T, mask=T > 0), "masked"),
        (T.astype(str), "text"),
        (WHEN, "dates"),
    ],
)
def test_targets_that_are_no_numbers_are_refused(y, word):
    for model in (
        CoreVectorRegressor(),
        CoreVectorRegressor(C=1.0, tube=0.0, method=methods.FewVectors(5)),
        svm.SVR(),
    ):
        with pytest.raises(InvalidInputError, match=f"y .*{word}"):
            model.fit(X, y)


@pytest.mark.parametrize("model", [CoreVectorClassifier(), svm.SVC()], ids=str)
def test_labels_without_a_value_in_each_row_are_refused(model):
    with pytest.raises(InvalidInputError, match="y has masked"):
        model.fit(X, np.ma.array(Y, mask=T > 0))
    with pytest.raises(InvalidInputError, match="y is a sparse matrix"):
        model.fit(X, sparse.csr_matrix(Y[:, None]))


@pytest.mark.parametrize("weight", [1e101, 1e300, 1j])
def test_weights_of_the_machines_are_numbers_within_the_range(weight):
    weights = np.full(40, weight)
    for model in (svm.SVC(), svm.NuSVC(), svm.SVR(), svm.NuSVR(), svm.OneClassSVM()):
        with pytest.raises(InvalidInputError, match=r"sample_weight|[Cc]omplex"):
            model.fit(X, Y, sample_weight=weights)


def test_weights_that_all_count_as_nothing_are_refused():
    for model in (CoreVectorClassifier(), CoreVectorRanker(), SVDD()):
        with pytest.raises(InvalidInputError, match="zero for all"):
            model.fit(X, Y, sample_weight=np.full(40, 1e-310))


@pytest.mark.parametrize(
    "weights", [-1.0, [-1.0], -np.ones(40), -np.ones((40, 2))], ids=str
)
def test_a_negative_weight_is_called_negative_whatever_its_shape(weights):
    with pytest.raises(InvalidInputError, match=r"sample_weight\[0\] = -1 is negative"):
        CoreVectorClassifier().fit(X, Y, sample_weight=weights)


def test_weights_beyond_the_range_of_sums_are_refused():
    with pytest.raises(InvalidInputError, match=r"above 1e\+100"):
        CoreVectorOneClass().fit(X, sample_weight=np.full(40, 1e101))
    for model in (
        CoreVectorClassifier(),
        CoreVectorClassifier(method=methods.FewVectors(5)),
        SVDD(C=1.0),
    ):
        with pytest.raises(InvalidInputError, match="sum of sample_weight") as caught:
            model.fit(X, Y, sample_weight=np.full(40, 1e40))
        assert caught.value.parameter == "C"


@pytest.mark.parametrize(
    "model",
    [
        CoreVectorClassifier(method=methods.FewVectors(5)),
        CoreVectorRegressor(C=1.0, tube=0.0, method=methods.FewVectors(5)),
    ],
)
def test_weights_within_the_range_fit_without_numpys_warnings(model):
    weights = np.ones(40)
    weights[3] = 1e33  # C = 1: the sum is below 1e36
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotCertifiedWarning)
        model.set_params(max_time=5.0).fit(X, Y, weights)
    assert np.isfinite(model.certificate_.primal)


def test_a_weight_without_an_inverse_counts_as_nothing():
    weights = np.ones(40)
    weights[3] = 5e-324
    model = CoreVectorClassifier(random_state=0).fit(X, Y, weights)
    weights[3] = 0.0
    other = CoreVectorClassifier(random_state=0).fit(X, Y, weights)
    assert np.array_equal(model.decision_function(X), other.decision_function(X))


def test_weights_of_another_library_are_taken():
    torch = pytest.importorskip("torch")
    given = CoreVectorClassifier(random_state=0).fit(X, Y, torch.full((40,), 2.0))
    own = CoreVectorClassifier(random_state=0).fit(X, Y, np.full(40, 2.0))
    assert np.array_equal(given.decision_function(X), own.decision_function(X))


@pytest.mark.parametrize(
    "model",
    [
        CoreVectorClassifier(kernel="linear"),
        CoreVectorRegressor(kernel="poly", gamma=1.0),
        CoreVectorRegressor(kernel="linear", loss="expectile"),
        CoreVectorRanker(kernel="linear"),
        SVDD(kernel="linear"),
        svm.SVC(kernel="linear"),
        StreamingBallClassifier(kernel="poly", gamma=1.0),
        CoreSetNystroem(5, kernel="linear"),
    ],
    ids=str,
)
def test_kernel_values_whose_squares_are_no_numbers_are_refused(model):
    for rows in (1e60 * X, sparse.csr_matrix(1e90 * X)):
        with pytest.raises(KernelError, match="Scale the columns") as caught:
            model.fit(rows, Y)
        assert type(model).__name__ in str(caught.value)


@pytest.mark.parametrize("value", [1e-300, 1e300, float("inf")])
@pytest.mark.parametrize("name", ["C", "mu"])
def test_a_weight_of_the_loss_out_of_range_is_refused(name, value):
    with pytest.raises(InvalidInputError) as caught:
        CoreVectorRegressor(**{name: value}).fit(X, T)
    assert caught.value.parameter == name
    assert repr(value) in str(caught.value)


@pytest.mark.parametrize("value", [1e-100, 1e30])
@pytest.mark.parametrize("name", ["C", "mu"])
def test_the_ends_of_the_range_are_fitted(name, value):
    model = CoreVectorRegressor(**{name: value}, max_time=2.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotCertifiedWarning)
        model.fit(X, T)
    assert np.isfinite(model.predict(X)).all()


def test_no_thread_at_all_is_refused():
    for model in (CoreVectorClassifier(n_jobs=0), CoreSetNystroem(5, n_jobs=0)):
        with pytest.raises(InvalidInputError) as caught:
            model.fit(X, Y)
        assert caught.value.parameter == "n_jobs"


WORDS = ["".join(RNG.choice(list("abc"), size=5)) for _ in range(40)]
WITH_A = [word.count("a") > 1 for word in WORDS]


def letters(A, B):
    """Return the inner products of the numbers of letters, of lists of words."""
    own = [[[word.count(c) for c in "abc"] for word in words] for words in (A, B)]
    return np.array(own[0], dtype=float) @ np.array(own[1], dtype=float).T


@pytest.mark.parametrize("rows", [WORDS, np.array(WORDS)], ids=["list", "array"])
def test_a_kernel_function_takes_rows_that_are_no_vectors(rows):
    counts = np.array([[word.count(c) for c in "abc"] for word in WORDS], dtype=float)
    model = CoreVectorClassifier(kernel=letters, random_state=0).fit(rows, WITH_A)
    plain = CoreVectorClassifier(kernel="linear", random_state=0).fit(counts, WITH_A)
    assert certify(model, rows, WITH_A).converged
    # Both solve the same problem to a gap of 1e-3 at the least.
    assert np.mean(model.predict(rows) == plain.predict(counts)) > 0.95
    for other in (SVDD(kernel=letters), CoreVectorOneClass(kernel=letters)):
        assert other.fit(rows).predict(rows[:3]).shape == (3,)
    ranker = CoreVectorRanker(kernel=letters).fit(rows, counts[:, 0])
    assert ranker.predict(rows[:3]).shape == (3,)
    features = CoreSetNystroem(3, kernel=letters).fit(rows, WITH_A)
    assert features.transform(rows[:4]).shape[0] == 4


def test_a_kernel_function_may_return_a_sparse_matrix():
    def thin(A, B):
        return sparse.csr_matrix(A @ B.T)

    model = CoreVectorClassifier(kernel=thin, random_state=0).fit(X, Y)
    same = CoreVectorClassifier(kernel=lambda A, B: A @ B.T, random_state=0).fit(X, Y)
    assert np.array_equal(model.decision_function(X), same.decision_function(X))


@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly"])
@pytest.mark.parametrize("n_columns", [2, 12])
def test_a_model_without_support_vectors_is_certified(kernel, n_columns):
    rows = RNG.normal(size=(30, n_columns))
    inside = {"tube": 100.0, "kernel": kernel}
    for model in (
        CoreVectorRegressor(**inside),
        CoreVectorRegressor(method=methods.FewVectors(5), **inside),
    ):
        found = certify(model.fit(rows, rows[:, 0]), rows, rows[:, 0])
        assert found.converged
        assert found.primal == 0.0  # w = 0 and no row outside the tube


@pytest.mark.parametrize("exponent", [-160, -158, -150])
def test_a_hard_ball_of_kernel_values_near_the_least_number_is_refused(exponent, rng):
    X = rng.normal(size=(30, 3)) * 10.0**exponent
    with pytest.raises(KernelError, match=r"SVDD: a hard margin needs .* at least"):
        SVDD(kernel="linear").fit(X)
    # The radius goes with the rows, where their squares are numbers.
    radius = SVDD(kernel="linear").fit(X * 10.0**-exponent).radius_
    small = SVDD(kernel="linear").fit(X * 10.0 ** (-exponent - 120))
    assert small.certificate_.converged
    assert small.radius_ == pytest.approx(radius * 1e-120, rel=1e-3)


@pytest.mark.parametrize("exponent", [-300, -165, 155, 200])
@pytest.mark.parametrize("kernel", ["poly", "normalized-poly"])
def test_rows_whose_squares_are_no_numbers_are_refused_by_kernels_of_products(
    exponent, kernel, rng
):
    X = rng.normal(size=(30, 3)) * 10.0**exponent
    models = SVDD(C=0.1, kernel=kernel), CoreVectorClassifier(kernel=kernel)
    for model in models:
        told = f"{type(model).__name__}: the poly kernel overflows on these rows"
        with pytest.raises(KernelError, match=told):
            model.fit(X, np.arange(30) % 2)


def test_a_sample_without_rows_of_a_machine_is_refused(rng):
    # Two rows of five classes: the machines of the other pairs have no rows.
    X, y = rng.normal(size=(40, 2)), np.arange(40) % 5
    sample = methods.Sample(2)
    model = CoreVectorClassifier(kernel="sigmoid", method=sample, multi_class="ovo")
    with pytest.raises(InvalidInputError) as told:
        model.fit(X, y)
    assert told.value.parameter == "method"
    assert str(told.value).startswith("CoreVectorClassifier: among the 2 rows ")
