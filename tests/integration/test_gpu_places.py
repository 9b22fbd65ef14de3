"""Rows on a device give the answer of rows in memory; here the device is the CPU."""

import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

torch = pytest.importorskip("torch", reason="torch is not installed (corevec[gpu])")

from corevec import (  # noqa: E402
    SVDD,
    CoreVectorClassifier,
    CoreVectorOneClass,
    CoreVectorRegressor,
    certify,
    methods,
)
from corevec.backend import arrays  # noqa: E402
from corevec.data.sources import TensorSource  # noqa: E402

pytestmark = pytest.mark.filterwarnings(
    "ignore::corevec.exceptions.NotCertifiedWarning"
)

N = 2_000
# One rounding of sums over N rows, and what a fit's decisions make of it: values of the
# functions are of size 1.
ROUNDING, CLOSE = 1e-10, 1e-6


def make_rows():
    rng = np.random.default_rng(5)
    # Numbers of float32, so that both precisions are the same rows; zeros, for CSR.
    X = rng.uniform(-2, 2, (N, 3)).astype(np.float32).astype(np.float64)
    X[:, 2] *= rng.random(N) < 0.5
    weight = rng.integers(0, 3, N).astype(float)
    targets = {
        "two": np.where(np.floor(X[:, :2]).sum(axis=1) % 2, 7, 2),
        "four": np.floor(X[:, 0] + 2).astype(np.int8),
        "number": np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=N),
        "numbers": np.stack([np.sin(X[:, 0]), X[:, 1] ** 2], axis=1),
        "none": None,
    }
    return X, targets, weight


X, TARGETS, WEIGHTS = make_rows()
WORDS = np.array(["no", "one", "", "three"])[TARGETS["four"]]
NEW = X[:400] + 0.125

LOW, CORE = {"gamma": 0.01, "method": "lowrank"}, {"gamma": 3.0, "method": "coreset"}
MODELS = {
    "classifier of low rank": (CoreVectorClassifier(C=10.0, **LOW), "two", False),
    "classifier by a core set": (CoreVectorClassifier(**CORE), "two", False),
    "one against the rest": (CoreVectorClassifier(C=10.0, **LOW), "four", True),
    "pairs": (
        CoreVectorClassifier(multi_class="ovo", class_weight="balanced", **LOW),
        "four",
        False,
    ),
    "weights of all rows": (
        CoreVectorClassifier(gamma=2.0, method=methods.FewVectors(99, basis="coreset")),
        "two",
        True,
    ),
    # Solved far beyond the default: elsewhere such fits agree to the tolerance only.
    "regressor": (CoreVectorRegressor(gamma=0.5, tol=1e-9), "number", True),
    "regressor by a core set": (
        CoreVectorRegressor(tube=0.2, gamma=1.0, method="coreset"),
        "number",
        False,
    ),
    "two targets": (
        CoreVectorRegressor(C=1.0, tube=0.1, gamma=0.5, tol=1e-9),
        "numbers",
        False,
    ),
    "one class": (CoreVectorOneClass(C=0.1, gamma=0.3), "none", True),
    "hard ball": (SVDD(gamma=0.3), "none", False),
    "soft ball": (SVDD(C=0.01, gamma=0.3), "none", False),
    "subspace": (
        CoreVectorClassifier(
            C=10.0, gamma=0.5, method=methods.FewVectors(15, basis="train")
        ),
        "two",
        True,
    ),
    "Nystroem": (
        CoreVectorClassifier(
            gamma=0.5, method=methods.FewVectors(60, basis="nystroem")
        ),
        "four",
        False,
    ),
    "subspace regressor": (
        CoreVectorRegressor(
            gamma=0.5, C=1.0, tube=0.0, method=methods.FewVectors(15, basis="train")
        ),
        "number",
        False,
    ),
}
OTHER_KERNELS = {
    "laplacian": {"gamma": 0.3},
    "inverse-distance": {"gamma": 0.3},
    "linear": {},
    "poly": {"gamma": 0.2, "degree": 2, "coef0": 1.0},
    "normalized-poly": {"gamma": 0.2, "degree": 3, "coef0": 1.0},
}


def tensor(a):
    return None if a is None else torch.as_tensor(a)


def arguments(name):
    _, target, weighted = MODELS[name]
    return TARGETS[target], WEIGHTS if weighted else None


def fitted(name, rows, y, weight, **params):
    model = clone(MODELS[name][0]).set_params(random_state=0, **params)
    return model.fit(rows, y, sample_weight=weight)


@pytest.fixture(scope="module")
def in_memory():
    """The fits of NumPy rows, each made once."""
    kept = {}

    def of(name):
        if name not in kept:
            kept[name] = fitted(name, X, *arguments(name))
        return kept[name]

    return of


def assert_same_certificate(found, wanted, close=CLOSE):
    assert found.problem == wanted.problem
    assert found.primal == pytest.approx(wanted.primal, rel=close)
    assert found.dual == pytest.approx(wanted.dual, rel=close)
    asked = "n_verified", "n_rows", "converged", "stopped_by", "dual_bound"
    assert [getattr(found, a) for a in asked] == [getattr(wanted, a) for a in asked]


def assert_bounds_hold(found, wanted):
    """Both optima are the same number: each bound holds for the other model."""
    slack = 1e-9 * abs(wanted.primal)
    assert found.dual <= wanted.primal + slack
    assert wanted.dual <= found.primal + slack


def methods(model):
    names = "decision_function", "predict", "score_samples"
    return [name for name in names if hasattr(model, name)]


def assert_same_values(model, wanted, rows, close=CLOSE):
    """Both models say the same of the new rows, here or there."""
    for method in methods(wanted):
        known, found = getattr(wanted, method)(NEW), getattr(model, method)(rows)
        if isinstance(rows, torch.Tensor):
            assert isinstance(found, torch.Tensor), method
            assert found.device == rows.device
        else:
            assert isinstance(found, np.ndarray), method
        assert arrays.dtype_of(found) == known.dtype
        assert found.shape == known.shape
        assert arrays.to_numpy(found) == pytest.approx(known, rel=close, abs=close)


# --- Every estimator ------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", MODELS)
def test_tensors_give_the_model_of_arrays(name, dtype, in_memory):
    wanted, rows = in_memory(name), tensor(X.astype(dtype))
    found = fitted(name, rows, *map(tensor, arguments(name)))
    assert_bounds_hold(found.certificate_, wanted.certificate_)
    assert_same_certificate(found.certificate_, wanted.certificate_)
    assert_same_values(found, wanted, tensor(NEW))
    assert_same_values(found, wanted, NEW)
    if hasattr(wanted, "classes_"):
        assert found.classes_.dtype == wanted.classes_.dtype
        assert np.array_equal(found.classes_, wanted.classes_)
    if hasattr(wanted, "support_"):
        assert isinstance(found.support_vectors_, np.ndarray)
        assert np.array_equal(X[found.support_], found.support_vectors_)


@pytest.mark.parametrize("name", MODELS)
def test_a_device_works_on_arrays(name, in_memory):
    wanted = in_memory(name)
    found = fitted(name, X, *arguments(name), device="cpu")
    assert_bounds_hold(found.certificate_, wanted.certificate_)
    assert_same_certificate(found.certificate_, wanted.certificate_)
    assert_same_values(found, wanted, NEW)


SOME = "classifier by a core set", "pairs", "regressor", "soft ball", "Nystroem"


@pytest.mark.parametrize("name", SOME)
def test_a_device_works_on_csr_rows(name):
    """Such rows are not centred, here or there: beside fits of CSR rows."""
    rows, new = map(sparse.csr_matrix, (X, NEW))
    found = fitted(name, rows, *arguments(name), device="cpu")
    wanted = fitted(name, rows, *arguments(name))
    assert_bounds_hold(found.certificate_, wanted.certificate_)
    assert_same_certificate(found.certificate_, wanted.certificate_)
    for method in methods(wanted):
        known = getattr(wanted, method)(new)
        assert getattr(found, method)(new) == pytest.approx(known, abs=CLOSE)


@pytest.mark.parametrize("kernel", OTHER_KERNELS)
def test_every_kernel_has_its_model_on_a_device(kernel):
    rows, y = X[:600], TARGETS["two"][:600]
    model = CoreVectorClassifier(kernel=kernel, random_state=0, **OTHER_KERNELS[kernel])
    wanted = clone(model).fit(rows, y)
    found = clone(model).fit(tensor(rows), tensor(y))
    assert_bounds_hold(found.certificate_, wanted.certificate_)
    values = found.decision_function(tensor(NEW)).numpy()
    assert values == pytest.approx(wanted.decision_function(NEW), abs=1e-5)


@pytest.mark.parametrize("name", ["classifier of low rank", "regressor", "soft ball"])
def test_rows_far_from_the_origin_lose_no_digits(name):
    y, weight = arguments(name)
    wanted = fitted(name, X + 1e5, y, weight)
    found = fitted(name, tensor(X + 1e5), tensor(y), tensor(weight))
    assert_bounds_hold(found.certificate_, wanted.certificate_)
    new = NEW + 1e5
    known = wanted.predict(new)
    assert found.predict(tensor(new)).numpy() == pytest.approx(known, abs=CLOSE)


@pytest.mark.parametrize(
    "layout",
    [
        lambda a: tensor(np.asfortranarray(a)),
        lambda a: tensor(np.repeat(a, 2, axis=0))[::2],
        lambda a: torch.cat([tensor(a), tensor(a)], dim=1)[:, :3],
    ],
    ids=["columns", "every second row", "part of the columns"],
)
def test_tensors_of_any_layout_serve(layout, in_memory):
    name = "classifier of low rank"
    found = fitted(name, layout(X), *map(tensor, arguments(name)))
    assert_same_certificate(found.certificate_, in_memory(name).certificate_)
    assert_same_values(found, in_memory(name), layout(NEW))


# --- Labels, weights, targets ---------------------------------------------------------


@pytest.mark.parametrize(
    "labels",
    [WORDS, TARGETS["four"] > 1, TARGETS["four"] * 2.0],
    ids=["words", "booleans", "floats"],
)
def test_labels_of_any_kind_go_with_a_device(labels):
    rows, labels = X[:500], labels[:500]
    model = CoreVectorClassifier(random_state=0)
    wanted = clone(model).fit(rows, labels)
    found = clone(model).set_params(device="cpu").fit(rows, labels)
    assert_same_certificate(found.certificate_, wanted.certificate_)
    assert found.classes_.dtype == wanted.classes_.dtype
    assert found.predict(NEW).dtype == labels.dtype
    assert np.array_equal(found.predict(NEW), wanted.predict(NEW))
    assert np.array_equal(found.n_support_, wanted.n_support_)
    if labels.dtype.kind != "U":
        there = clone(model).fit(tensor(rows), tensor(labels)).predict(tensor(NEW))
        assert there.dtype == tensor(labels).dtype
        assert np.array_equal(there.numpy(), wanted.predict(NEW))


def test_words_are_predicted_here():
    """A device holds no words: the rows' device is left for them."""
    model = CoreVectorClassifier(random_state=0, device="cpu")
    model.fit(X[:500], WORDS[:500])
    found = model.predict(tensor(NEW))
    assert np.array_equal(found, model.predict(NEW))


def test_a_weight_of_two_is_the_row_twice():
    model = CoreVectorClassifier(C=1.0, random_state=0, gamma=1.0)
    twice = np.repeat(np.arange(N), WEIGHTS.astype(int))
    once = clone(model).fit(tensor(X[twice]), tensor(TARGETS["two"][twice]))
    found = clone(model).fit(tensor(X), tensor(TARGETS["two"]), tensor(WEIGHTS))
    assert_bounds_hold(found.certificate_, once.certificate_)


def test_columns_may_be_arrays_beside_tensors(in_memory):
    name = "one against the rest"
    y, weight = arguments(name)
    for labels in (y, y.tolist()):
        found = fitted(name, tensor(X), labels, weight.tolist())
        assert_same_certificate(found.certificate_, in_memory(name).certificate_)


# --- Models that travel ---------------------------------------------------------------


@pytest.mark.parametrize("name", MODELS)
def test_certify_says_the_same_from_every_place(name, in_memory):
    y, weight = arguments(name)
    here = in_memory(name)
    there = fitted(name, *map(tensor, (X, y, weight)))
    for model in (here, there):
        wanted = certify(model, X, y, weight)
        found = certify(model, *map(tensor, (X, y, weight)))
        assert_same_certificate(found, wanted, ROUNDING)
    part = [None if a is None else a[:1000] for a in (X, y, weight)]
    assert_same_certificate(
        certify(here, *map(tensor, part)), certify(here, *part), CLOSE
    )


@pytest.mark.parametrize("name", ["classifier of low rank", "one class", "subspace"])
def test_nothing_of_the_device_is_in_a_pickle(name):
    model = fitted(name, *map(tensor, (X, *arguments(name))))
    model.predict(tensor(NEW))  # leaves prepared vectors there
    packed = pickle.dumps(model)
    assert b"torch" not in packed
    again = pickle.loads(packed)
    assert_same_values(again, model_here(model), NEW)
    assert_same_values(again, model_here(model), tensor(NEW))


def model_here(model):
    """Return the same functions in a model that never saw a tensor."""
    return pickle.loads(pickle.dumps(model))


def test_a_clone_knows_its_device_and_no_rows(in_memory):
    name = "classifier of low rank"
    model = fitted(name, X, *arguments(name), device="cpu")
    again = clone(model)
    assert again.device == "cpu"
    assert not hasattr(again, "certificate_")
    again.fit(X, *arguments(name))
    assert_same_certificate(again.certificate_, in_memory(name).certificate_)


def test_a_warm_start_goes_on_from_tensors():
    y = tensor(TARGETS["two"])
    model = CoreVectorClassifier(C=1.0, warm_start=True, random_state=0, **CORE)
    model.fit(tensor(X), y)
    model.set_params(C=2.0).fit(tensor(X), y)
    cold = clone(model).set_params(warm_start=False).fit(X, TARGETS["two"])
    assert model.certificate_.converged
    assert_bounds_hold(model.certificate_, cold.certificate_)


def test_scikit_learns_scores_take_tensors(in_memory):
    for name in ("classifier of low rank", "regressor"):
        y = arguments(name)[0]
        found = in_memory(name).score(tensor(X), tensor(y))
        assert found == pytest.approx(in_memory(name).score(X, y), abs=1e-12)


@pytest.mark.parametrize("name", ["classifier of low rank", "one class", "Nystroem"])
def test_workers_of_a_cluster_have_devices_of_their_own(name, in_memory):
    """Each partition is worked on as tensors; the client sees arrays."""
    da = pytest.importorskip("dask.array")
    y, weight = arguments(name)
    rows = da.from_array(X, chunks=(700, 3))
    found = fitted(name, rows, y, weight, device="cpu")
    plain = fitted(name, rows, y, weight)
    assert_same_certificate(found.certificate_, plain.certificate_)
    assert_bounds_hold(found.certificate_, in_memory(name).certificate_)
    lazy, known = found.decision_function(rows), plain.decision_function(X)
    assert lazy.compute() == pytest.approx(known, abs=CLOSE)


# --- Streamed rows --------------------------------------------------------------------

LITTLE = 60_000  # X has 48,000 bytes, more than half of it


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(TensorSource, "fewest_rows", 300)


@pytest.mark.parametrize("name", ["classifier of low rank", "regressor", "soft ball"])
@pytest.mark.parametrize("kind", ["NumPy", "memmap", "CSR"])
def test_streamed_rows_give_the_model_of_resident_ones(
    name, kind, tmp_path, small_blocks
):
    rows, options = X, {"memory_budget": LITTLE}
    if kind == "CSR":
        rows = sparse.csr_matrix(X)
    elif kind == "memmap":
        np.save(tmp_path / "X.npy", X)
        rows = np.load(tmp_path / "X.npy", mmap_mode="r")
    y, weight = arguments(name)
    found = fitted(name, rows, y, weight, device="cpu", **options)
    wanted = fitted(name, tensor(X), tensor(y), tensor(weight), **options)
    assert_bounds_hold(found.certificate_, wanted.certificate_)
    if kind != "CSR":
        assert_same_certificate(found.certificate_, wanted.certificate_)
        known = wanted.predict(tensor(X)).numpy()
        assert found.predict(rows) == pytest.approx(known, abs=CLOSE)
    own = certify(found, rows, y, weight)
    other = certify(found, *map(tensor, (X, y, weight)))
    assert_same_certificate(own, other, ROUNDING)


def test_arrays_that_may_not_be_written_serve(in_memory):
    """joblib hands such arrays to its processes."""
    name = "classifier of low rank"
    rows = X.copy()
    rows.flags.writeable = False
    found = fitted(name, rows, *arguments(name), device="cpu")
    assert_same_certificate(found.certificate_, in_memory(name).certificate_)
    assert_same_values(found, in_memory(name), NEW)
