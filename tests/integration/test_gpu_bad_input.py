"""Bad rows on a device end in an error that names who, what was given, what to do."""

import re

import numpy as np
import pytest
from sklearn.base import clone

torch = pytest.importorskip("torch", reason="torch is not installed (corevec[gpu])")

import corevec  # noqa: E402
from corevec import (  # noqa: E402
    SVDD,
    CoreVectorClassifier,
    CoreVectorOneClass,
    CoreVectorRanker,
    CoreVectorRegressor,
    InvalidInputError,
    StreamingBallClassifier,
    StreamingBallOneClass,
    certify,
    methods,
)

N = 60
RNG = np.random.default_rng(1)
X = RNG.normal(size=(N, 3))
Y = (X[:, 0] > 0).astype(np.int64)
Z = np.sin(X[:, 0])
CLASSIFIERS = (CoreVectorClassifier,)
REGRESSORS = (CoreVectorRegressor,)
DETECTORS = CoreVectorOneClass, SVDD
ALL = CLASSIFIERS + REGRESSORS + DETECTORS
tensor = torch.as_tensor


def target_of(kind):
    if kind in DETECTORS:
        return None
    return tensor(Z if kind in REGRESSORS else Y)


def made(kind, **params):
    """Return a small model."""
    return kind(**params)


def refuses(kind, *parts):
    """Expect an error with the class's name and every one of the parts in its text."""
    return pytest.raises(ValueError, match=with_all(kind.__name__, *parts))


def with_all(*parts):
    return "(?is)" + "".join(f"(?=.*{re.escape(part)})" for part in parts)


def spoiled(value, row=3):
    rows = X.copy()
    rows[row, 1] = value
    return tensor(rows)


@pytest.fixture(scope="module")
def fitted():
    """A classifier from every place: each must refuse and accept the same rows."""
    classifier = CoreVectorClassifier
    return {
        "NumPy": classifier(random_state=0).fit(X, Y),
        "tensors": classifier(random_state=0).fit(tensor(X), tensor(Y)),
        "device": classifier(random_state=0, device="cpu").fit(X, Y),
    }


FROM = pytest.mark.parametrize("place", ["NumPy", "tensors", "device"])


# --- Rows -----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize(
    ("value", "word"), [(np.nan, "NaN"), (np.inf, "infinity"), (-np.inf, "infinity")]
)
def test_the_first_row_that_is_not_finite_is_named(kind, value, word):
    with refuses(kind, f"contains {word} in row 3.", "drop or impute"):
        made(kind).fit(spoiled(value), target_of(kind))


def test_numbers_whose_sum_overflows_are_finite():
    """The quick look is a sum: where it is infinite the numbers decide."""
    rows = X.copy()
    rows[:2] = 1.5e308
    model = CoreVectorClassifier(gamma=1.0).fit(tensor(rows), tensor(Y))
    assert model.predict(tensor(rows)).shape == (N,)


@FROM
def test_a_row_to_predict_that_is_not_finite_is_named(place, fitted):
    for method in ("predict", "decision_function"):
        with refuses(CoreVectorClassifier, "NaN in row 17.", "drop or impute"):
            getattr(fitted[place], method)(spoiled(np.nan, 17))


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("shape", [(), (N,), (N, 3, 1)])
def test_rows_of_the_wrong_dimension_are_refused(kind, shape):
    rows = tensor(np.resize(X, shape))
    with refuses(kind, f"X has {len(shape)} dimension", "rows x columns", "reshape"):
        made(kind).fit(rows, target_of(kind))


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize(("rows", "columns"), [(0, 3), (N, 0)])
def test_no_rows_and_no_columns_are_refused(kind, rows, columns):
    y = target_of(kind)
    with refuses(kind, f"shape=({rows}, {columns})", "minimum of 1"):
        made(kind).fit(tensor(X[:rows, :columns]), None if y is None else y[:rows])


@pytest.mark.parametrize("kind", ALL)
def test_complex_rows_are_refused(kind):
    with refuses(kind, "complex", "X"):
        made(kind).fit(tensor(X.astype(complex)), target_of(kind))


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta")
@pytest.mark.parametrize("layout", ["to_sparse", "to_sparse_csr"])
def test_sparse_tensors_are_refused(layout):
    rows = getattr(tensor(X), layout)()
    with refuses(CoreVectorClassifier, "layout sparse", "to_dense", "CSR matrix"):
        CoreVectorClassifier().fit(rows, tensor(Y))


@FROM
def test_rows_to_predict_are_compared_with_those_of_the_fit(place, fitted):
    for rows, words in (
        (X[:, :2], ("2 features", "expecting 3")),
        (X[0], ("1 dimension", "reshape")),
        (X[:0], ("shape=(0, 3)", "minimum of 1")),
        (X.astype(complex), ("complex",)),
    ):
        with refuses(CoreVectorClassifier, *words):
            fitted[place].predict(tensor(rows))


@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8", "bool", "float16"])
def test_rows_of_other_numbers_are_those_of_float64(dtype):
    rows = np.abs(4 * X).astype(dtype)
    wanted = CoreVectorClassifier(random_state=0).fit(rows.astype(float), Y)
    found = CoreVectorClassifier(random_state=0).fit(tensor(rows), tensor(Y))
    values = found.decision_function(tensor(rows))
    assert values.dtype == torch.float64
    known = wanted.decision_function(rows.astype(float))
    assert values.numpy() == pytest.approx(known, abs=1e-9)


def test_tensors_with_gradients_are_taken_as_they_are(fitted):
    model = CoreVectorClassifier(random_state=0)
    model.fit(tensor(X).requires_grad_(), tensor(Y))
    found = model.decision_function(tensor(X).requires_grad_())
    assert not found.requires_grad
    assert found.equal(fitted["tensors"].decision_function(tensor(X)))
    target = tensor(Z).requires_grad_()
    own = CoreVectorRegressor(random_state=0).fit(tensor(X), target)
    assert own.certificate_.converged
    assert not target.grad_fn


# --- Devices --------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("device", ["nonsense", "cuda:77", 3.5])
def test_a_device_that_is_not_there_is_refused(kind, device):
    y = target_of(kind)
    y = None if y is None else y.numpy()
    with refuses(kind, f"device={device!r} cannot be used", "'cuda'", "or None"):
        made(kind, device=device).fit(X, y)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_a_gpu_that_is_not_there_is_refused(fitted):
    with refuses(CoreVectorClassifier, "device='cuda' cannot be used", "sees a GPU"):
        CoreVectorClassifier(device="cuda").fit(X, Y)
    model = CoreVectorClassifier(random_state=0).fit(X, Y).set_params(device="cuda")
    with refuses(CoreVectorClassifier, "device='cuda' cannot be used"):
        model.predict(X)
    with refuses(CoreVectorClassifier, "device='cuda'", "on 'cpu'", "X.to('cuda')"):
        CoreVectorClassifier(device="cuda").fit(tensor(X), tensor(Y))


def test_a_device_may_be_torchs_own_object(fitted):
    model = CoreVectorClassifier(random_state=0, device=torch.device("cpu")).fit(X, Y)
    assert np.array_equal(model.predict(X), fitted["NumPy"].predict(X))


def inner_products(a, b):
    return a @ b.T


@pytest.mark.parametrize(
    "kernel", ["precomputed", inner_products], ids=["precomputed", "callable"]
)
def test_kernels_without_a_name_need_rows_here(kernel):
    K = X @ X.T if isinstance(kernel, str) else X
    model = CoreVectorClassifier(kernel=kernel)
    with refuses(CoreVectorClassifier, "kernel"):
        model.fit(tensor(K), tensor(Y))
    with refuses(CoreVectorClassifier, "device='cpu'", "kernel=", "device=None"):
        model.set_params(device="cpu").fit(K, Y)


@pytest.mark.parametrize(
    "kind", [CoreVectorRanker, StreamingBallClassifier, StreamingBallOneClass]
)
def test_estimators_that_take_no_tensors_say_so(kind):
    with refuses(kind, "tensor", "X.cpu().numpy()"):
        kind().fit(tensor(X), tensor(Y))


# --- Labels, targets, weights ---------------------------------------------------------


@pytest.mark.parametrize("kind", CLASSIFIERS + REGRESSORS)
def test_lengths_that_differ_are_refused(kind):
    y = target_of(kind)
    with refuses(kind, "inconsistent", "X has 60 rows", "y 59"):
        made(kind).fit(tensor(X), y[:-1])
    with refuses(kind, "inconsistent", "X has 60 rows", "sample_weight 59"):
        made(kind).fit(tensor(X), y, sample_weight=torch.ones(N - 1))


@pytest.mark.parametrize("kind", CLASSIFIERS + REGRESSORS)
def test_targets_are_asked_for(kind):
    with refuses(kind, "requires y to be passed", "give y"):
        made(kind).fit(tensor(X), None)


@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_words_beside_tensors_are_refused(kind):
    with refuses(kind, "y must be numbers", "<U", "np.unique"):
        made(kind).fit(tensor(X), np.where(Y, "yes", "no"))


@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_one_class_alone_is_refused(kind):
    with refuses(kind, "only 1 class", "(0)", "CoreVectorOneClass"):
        made(kind).fit(tensor(X), tensor(0 * Y))
    with refuses(kind, "only 1 class", "(1)", "positive weight"):
        made(kind).fit(tensor(X), tensor(Y), sample_weight=tensor(1.0 * Y))


@pytest.mark.parametrize("kind", CLASSIFIERS)
@pytest.mark.parametrize(
    ("labels", "words"),
    [
        (Z, ["unknown label type", "continuous"]),
        (np.where(Y, np.nan, 1.0), ["y[", "nan", "drop such rows"]),
        (np.stack([Y, Y], axis=1), ["1d array", "2 labels", "one column"]),
        (Y.astype(complex), ["complex", "y"]),
    ],
    ids=["continuous", "nan", "two columns", "complex"],
)
def test_labels_that_are_none_are_refused(kind, labels, words):
    with pytest.raises(ValueError, match=with_all(*words)):
        made(kind).fit(tensor(X), tensor(labels))


@pytest.mark.parametrize("kind", REGRESSORS)
@pytest.mark.parametrize(
    ("targets", "words"),
    [
        (np.where(Y, np.inf, 1.0), ["y[", "inf", "drop such rows"]),
        (np.ones((N, 2, 2)), ["y has 3 dimensions"]),
        (Z.astype(complex), ["complex", "y"]),
    ],
    ids=["infinite", "three dimensions", "complex"],
)
def test_targets_that_are_none_are_refused(kind, targets, words):
    with refuses(kind, *words):
        made(kind).fit(tensor(X), tensor(targets))


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int8, torch.float32])
def test_labels_keep_their_type(dtype):
    y = tensor(Y).to(dtype)
    model = CoreVectorClassifier(C=1e3, random_state=0).fit(tensor(X), y)
    found = model.predict(tensor(X))
    assert found.dtype == dtype
    assert found.equal(y)


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize(
    ("weights", "words"),
    [
        (np.zeros(N), ["zero for all 60 rows", "positive weight"]),
        (np.where(np.arange(N) == 7, -2.0, 1), ["sample_weight[7] = -2", "negative"]),
        (np.where(np.arange(N) == 7, np.nan, 1), ["sample_weight[7] = nan", "drop"]),
        (np.ones((N, 2)), ["sample_weight", "2 columns", "one weight per row"]),
    ],
    ids=["zeros", "negative", "nan", "two columns"],
)
def test_weights_that_are_none_are_refused(kind, weights, words):
    with refuses(kind, *words):
        made(kind).fit(tensor(X), target_of(kind), sample_weight=tensor(weights))


def test_a_number_is_the_weight_of_every_row():
    wanted = CoreVectorClassifier(random_state=0).fit(X, Y, sample_weight=2.0)
    for weight in (2.0, 2, torch.tensor(2.0)):
        found = CoreVectorClassifier(random_state=0)
        found.fit(tensor(X), tensor(Y), sample_weight=weight)
        primal = wanted.certificate_.primal
        assert found.certificate_.primal == pytest.approx(primal, rel=1e-9)


# --- Certificates ---------------------------------------------------------------------


@FROM
def test_certify_asks_for_labels_that_the_model_knows(place, fitted):
    with refuses(CoreVectorClassifier, "not fitted on: [2]", "knows [0, 1]"):
        certify(fitted[place], tensor(X), tensor(Y + 1))
    with refuses(CoreVectorClassifier, "requires y", "give y"):
        certify(fitted[place], tensor(X))
    with refuses(CoreVectorClassifier, "NaN in row 3"):
        certify(fitted[place], spoiled(np.nan), tensor(Y))


def test_errors_of_rows_on_a_device_are_errors_of_values():
    with pytest.raises(InvalidInputError):
        CoreVectorClassifier().fit(spoiled(np.nan), tensor(Y))


# --- What moves to a device, or would be ignored there --------------------------------


@pytest.mark.parametrize("kind", [CoreVectorClassifier, CoreVectorRegressor])
def test_targets_of_another_length_are_refused_beside_moved_rows(kind):
    target = Y if kind is CoreVectorClassifier else Z
    model = made(kind, device="cpu").fit(X, target)
    with refuses(kind, "X has 40 rows", "y has 60"):
        certify(model, X[:40], target)
    with refuses(kind, "requires y"):
        certify(model, X)


def test_cells_look_at_the_tensors_they_predict():
    model = CoreVectorClassifier(
        gamma=1.0, random_state=0, method=methods.Cells(30)
    ).fit(X, Y)
    with refuses(CoreVectorClassifier, "NaN in row 3"):
        model.predict(spoiled(np.nan))


def test_cells_of_a_cluster_refuse_a_device():
    da = pytest.importorskip("dask.array")
    rows, labels = da.from_array(X, chunks=(20, 3)), da.from_array(Y, chunks=20)
    with refuses(CoreVectorClassifier, "solved in this process", "device=None"):
        CoreVectorClassifier(gamma=1.0, device="cpu", method=methods.Cells(30)).fit(
            rows, labels
        )


def test_words_of_a_cluster_are_refused_beside_a_device():
    da = pytest.importorskip("dask.array")
    rows = da.from_array(X, chunks=(20, 3))
    words = da.from_array(np.where(Y, "a", "b"), chunks=20)
    with pytest.raises(InvalidInputError, match="must be numbers"):
        CoreVectorClassifier(device="cpu").fit(rows, words)


def test_files_are_not_predicted_here_where_a_device_was_asked_for(tmp_path):
    np.save(tmp_path / "X.npy", X)
    model = CoreVectorClassifier(device="cpu").fit(X, Y)
    with refuses(CoreVectorClassifier, "np.memmap", "device=None"):
        model.predict(corevec.open(tmp_path / "X.npy"))


def test_a_checkpoint_goes_on_without_the_device_it_was_written_with(tmp_path):
    path = tmp_path / "fit.npz"
    first = CoreVectorClassifier(
        C=1e4,
        gamma=2.0,
        max_iter=1,
        random_state=0,
        checkpoint=path,
        method=corevec.methods.CoreSet(),
    )
    with pytest.warns(corevec.NotCertifiedWarning):
        first.set_params(device="cpu", tol=1e-9, method__batch=1).fit(X, Y)
    assert path.exists()
    again = clone(first).set_params(device=None, max_iter=None).fit(X, Y)
    assert again.certificate_.converged


@pytest.mark.parametrize(
    "labels",
    [
        tensor(np.stack([Y, Y], axis=1))[:, 0],  # every second number
        Y.astype(np.uint16),
        Y.astype(">i4"),
    ],
    ids=["strided", "uint16", "big endian"],
)
def test_labels_of_any_layout_will_do(labels):
    rows = tensor(X) if isinstance(labels, torch.Tensor) else X
    device = None if isinstance(labels, torch.Tensor) else "cpu"
    found = CoreVectorClassifier(random_state=0, device=device).fit(rows, labels)
    wanted = CoreVectorClassifier(random_state=0).fit(X, Y)
    assert np.array_equal(np.asarray(found.predict(rows)), wanted.predict(X))
