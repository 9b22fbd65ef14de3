"""The same answer from every place where rows can live."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from spark_session import session

import corevec
from corevec import (
    SVDD,
    CoreVectorClassifier,
    CoreVectorOneClass,
    CoreVectorRegressor,
    StreamingBallClassifier,
    StreamingBallOneClass,
    certify,
    methods,
)
from corevec.exceptions import InvalidInputError, NotCertifiedWarning

da = pytest.importorskip("dask.array")
pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyarrow.parquet")
pytestmark = pytest.mark.filterwarnings(
    "ignore:PySpark does not yet fully support pandas:FutureWarning"
)

N, D = 6_000, 5
UNEVEN = {1: (N,), 2: (17, N - 17), 7: (1, 2_999, 300, 700, 999, 1, 1_000)}
PLACES = ("csr", "memmap", "parquet", "libsvm", "dask-1", "dask-2", "dask-7", "spark")
# Tables in memory: what they are becomes an array before anything is computed.
TABLES = ("polars", "duckdb", "pyarrow")


def make_rows():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(N, D))
    X[:, 3] *= rng.random(N) < 0.5  # zeros, for CSR
    label = np.where(X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=N) > 0, 7, 2)
    number = np.sin(X[:, 0]) + 0.1 * rng.normal(size=N)
    weight = rng.integers(0, 3, N).astype(float)
    return X, label, number, weight


X, LABEL, NUMBER, WEIGHT = make_rows()
SIDE = np.where(X[:, 0] > 0, "right", "left")
BOARD = np.random.default_rng(4).random((N, 2)) * 4
SQUARE = BOARD.astype(int).sum(axis=1) % 2


def place(name, folder, target, weight=None):
    """Return (X, y, sample_weight) as `fit` takes them, for rows in one place."""
    if name == "csr":
        return sparse.csr_matrix(X), target, weight
    if name == "memmap":
        np.save(folder / "X.npy", X)
        return np.load(folder / "X.npy", mmap_mode="r"), target, weight
    if name.startswith("dask"):
        sizes = UNEVEN[int(name[-1])]
        lazy = da.from_array(X, chunks=(sizes, (2, D - 2)))
        column = None if target is None else da.from_array(target, chunks=999)
        return lazy, column, weight
    if name == "libsvm":
        from sklearn.datasets import dump_svmlight_file

        y = np.zeros(N) if target is None else target
        y = y if y.dtype.kind != "U" else np.where(y == "right", 1, 0)
        dump_svmlight_file(X, y, str(folder / "rows.svm"), zero_based=False)
        return corevec.open(folder / "rows.svm"), None, None
    table = {f"x{j}": X[:, j] for j in range(D)}
    table |= {} if target is None else {"y": target}
    table |= {} if weight is None else {"w": weight}
    named = {"target": "y"} if target is not None else {}
    named |= {"sample_weight": "w"} if weight is not None else {}
    if name == "spark":
        frame = session().createDataFrame(pa.table(table))
        return corevec.open(frame, **named), None, None
    if name in TABLES:
        features = pa.table({f"x{j}": X[:, j] for j in range(D)})
        if name == "polars":
            return pytest.importorskip("polars").from_arrow(features), target, weight
        if name == "duckdb":
            return pytest.importorskip("duckdb").from_arrow(features), target, weight
        return features, target, weight
    from pyarrow import parquet

    parquet.write_table(pa.table(table), folder / "a.parquet", row_group_size=1_700)
    return corevec.open(folder / "a.parquet", **named), None, None


CERTIFIED = {
    "classifier of low rank": (CoreVectorClassifier(C=10.0, gamma=0.02), LABEL),
    "classifier of high rank": (CoreVectorClassifier(C=10.0, gamma=0.3), SIDE),
    "balanced": (
        CoreVectorClassifier(C=1.0, gamma=0.2, class_weight="balanced"),
        LABEL,
    ),
    "regressor": (CoreVectorRegressor(C=1.0, gamma=0.1, tube=0.1), NUMBER),
    "regressor, automatic tube": (CoreVectorRegressor(C=1.0, gamma=0.1, mu=1), NUMBER),
    "one class": (CoreVectorOneClass(C=0.1, gamma=0.2), None),
    "one class by share": (CoreVectorOneClass(nu=0.02, gamma=0.2), None),
    "hard ball": (SVDD(kernel="linear"), None),
    "soft ball": (SVDD(C=1e-3, kernel="linear"), None),
}
SPANNED = {
    "subspace, pursuit": (
        CoreVectorClassifier(C=1.0, gamma=0.2, method=methods.FewVectors(20)),
        LABEL,
    ),
    "subspace, Nystroem": (
        CoreVectorClassifier(
            gamma=0.2, method=methods.FewVectors(50, basis="nystroem")
        ),
        LABEL,
    ),
    "subspace, hinge": (
        CoreVectorClassifier(loss="hinge", gamma=0.2, method=methods.FewVectors(10)),
        LABEL,
    ),
    "subspace regressor": (
        CoreVectorRegressor(C=1.0, gamma=0.2, tube=0.0, method=methods.FewVectors(20)),
        NUMBER,
    ),
}


def fitted(model, rows):
    return clone(model).set_params(random_state=0).fit(*rows)


@pytest.fixture(scope="module")
def in_memory():
    """The fits of the dense rows, each made once."""
    kept = {}

    def of(name, model, *more):
        if name not in kept:
            kept[name] = fitted(model, (X, *more))
        return kept[name]

    return of


# The search for a share of outliers fits ten times; the others are variants of models
# that every place is tried with: two places are enough for them.
SLOW = dict.fromkeys(
    ("one class by share", "balanced", "regressor, automatic tube"),
    ("parquet", "dask-7"),
)


@pytest.mark.parametrize(
    ("name", "where"),
    [(name, where) for name in CERTIFIED for where in SLOW.get(name, PLACES)]
    + [("classifier of high rank", where) for where in TABLES],
)
def test_certified_models_are_the_same_from_every_place(
    name, where, tmp_path, in_memory
):
    model, target = CERTIFIED[name]
    wanted = in_memory(name, model, target).certificate_
    found = fitted(model, place(where, tmp_path, target)).certificate_
    assert wanted.converged
    assert found.converged
    assert (found.n_verified, found.n_rows) == (N, N)
    if name != "one class by share":  # its C depends on a random sample
        # Both optima are the same number: each bound holds for the other model.
        slack = 1e-9 * abs(wanted.primal)
        assert found.problem == wanted.problem
        assert found.dual <= wanted.primal + slack
        assert wanted.dual <= found.primal + slack


@pytest.mark.filterwarnings("ignore::corevec.exceptions.NotCertifiedWarning")
@pytest.mark.parametrize("where", PLACES)
@pytest.mark.parametrize("name", SPANNED)
def test_models_of_few_vectors_are_the_same_from_every_place(
    name, where, tmp_path, in_memory
):
    """They are brought into memory where they fit: the same work, the same model."""
    model, target = SPANNED[name]
    wanted = in_memory(name, model, target)
    if where in ("csr", "libsvm"):  # other arithmetic: other vectors, after many steps
        wanted = fitted(model, (sparse.csr_matrix(X), target))
    found = fitted(model, place(where, tmp_path, target))
    assert found.certificate_.primal == pytest.approx(
        wanted.certificate_.primal, rel=1e-6
    )
    assert found.certificate_.n_verified == N


@pytest.mark.parametrize("where", ["memmap", "parquet", "dask-2", "dask-7", "spark"])
def test_weights_are_those_of_the_rows_from_every_place(where, tmp_path, in_memory):
    model = CoreVectorClassifier(C=1.0, gamma=0.2)
    wanted = in_memory("weighted", model, LABEL, WEIGHT).certificate_
    found = fitted(model, place(where, tmp_path, LABEL, WEIGHT)).certificate_
    assert found.converged
    assert found.dual <= wanted.primal
    assert wanted.dual <= found.primal


@pytest.mark.parametrize("where", PLACES)
def test_predictions_and_certificates_of_new_rows(where, tmp_path, in_memory):
    model = in_memory("plain", CoreVectorClassifier(C=1.0, gamma=0.2), LABEL)
    rows, y, _ = place(where, tmp_path, LABEL)
    assert np.array_equal(np.asarray(model.predict(rows)), model.predict(X))
    values = np.asarray(model.decision_function(rows))
    assert values == pytest.approx(model.decision_function(X), abs=1e-9)
    found, wanted = certify(model, rows, y), certify(model, X, LABEL)
    assert found.primal == pytest.approx(wanted.primal, rel=1e-9)
    # Rows of a text file are not recognised as those of the fit: its multipliers are
    # not known again, and the violations prove less.
    if where == "libsvm":
        assert 0 < found.dual <= wanted.primal
    else:
        assert found.dual == pytest.approx(wanted.dual, rel=1e-6)


@pytest.mark.parametrize("where", ["parquet", "dask-1", "dask-2", "dask-7", "spark"])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_one_pass_over_partitions_keeps_its_promise(where, kernel, tmp_path):
    """A merged ball holds the rows of all partitions, within the promised radius."""
    model = StreamingBallClassifier(kernel=kernel, budget=200, n_balls=1)
    plain = clone(model).fit(X, LABEL)
    rows, y, _ = place(where, tmp_path, LABEL)
    found = clone(model).fit(rows, y)
    assert list(found.classes_) == [2, 7]
    assert found.n_rows_seen_ == N
    # Both hold the smallest ball's rows, so no radius is below the other's lower one.
    assert found.radius_ >= plain.lower_radius_
    assert plain.radius_ >= found.lower_radius_
    if where in ("parquet", "dask-1"):  # one partition: the same pass, in blocks
        assert found.radius_ == pytest.approx(plain.radius_, rel=1e-9)
    own = found.predict(rows)
    if where not in ("parquet", "spark"):  # whose columns have names, which arrays lack
        assert np.array_equal(np.asarray(own), found.predict(X))


def test_a_streaming_detector_of_partitions(tmp_path):
    rows, _, _ = place("dask-7", tmp_path, None)
    found, plain = (
        StreamingBallOneClass(C=np.inf).fit(rows),
        StreamingBallOneClass(C=np.inf).fit(X),
    )
    assert found.n_rows_seen_ == N
    assert found.radius_ >= plain.lower_radius_
    assert (found.score_samples(rows).compute() == found.score_samples(X)).all()


def test_predictions_of_dask_rows_are_lazy(tmp_path, in_memory):
    rows, _, _ = place("dask-7", tmp_path, None)
    model = in_memory("plain", CoreVectorClassifier(C=1.0, gamma=0.2), LABEL)
    for lazy in (model.predict(rows), model.decision_function(rows)):
        assert isinstance(lazy, da.Array)
        assert lazy.shape == (N,)
        assert lazy.chunks[0] == UNEVEN[7]
    third = np.digitize(X[:, 0], [-0.5, 0.5])
    several = fitted(CoreVectorClassifier(C=1.0, gamma=0.1), (X, third))
    assert several.decision_function(rows).shape == (N, len(several.classes_))
    detector = fitted(SVDD(kernel="linear"), (X,))
    assert isinstance(detector.predict(rows), da.Array)
    assert isinstance(detector.distance(rows), da.Array)


def test_data_frames_keep_their_names():
    pd = pytest.importorskip("pandas")
    dd = pytest.importorskip("dask.dataframe")
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(D)])
    frame["y"] = np.where(LABEL == 7, "seven", "two")
    lazy = dd.from_pandas(frame, npartitions=3)
    model = CoreVectorClassifier(C=1.0, gamma=0.2, random_state=0)
    model.fit(lazy.drop(columns="y"), lazy["y"])
    assert list(model.feature_names_in_) == [f"x{j}" for j in range(D)]
    assert list(model.classes_) == ["seven", "two"]
    predicted = model.predict(lazy.drop(columns="y"))
    assert isinstance(predicted, da.Array)
    own = model.predict(frame.drop(columns="y"))
    assert np.array_equal(predicted.compute(), own)
    with pytest.raises(InvalidInputError, match="feature names should match"):
        model.predict(lazy.drop(columns="y").rename(columns={"x0": "z"}))


@pytest.mark.parametrize(
    ("model", "target"),
    [
        (CoreVectorClassifier(C=10.0, gamma=1.0), SQUARE),
        (CoreVectorRegressor(C=1.0, gamma=1.0, tube=0.1), np.sin(BOARD[:, 0])),
        (CoreVectorRegressor(C=1.0, gamma=1.0, mu=0.1), np.sin(BOARD[:, 0])),
        (SVDD(C=1e-3, gamma=1.0), None),
    ],
    ids=["classifier", "regressor", "automatic tube", "soft ball"],
)
def test_rows_that_do_not_fit_are_worked_on_where_they_are(model, target):
    """With a small budget no rows are brought: Newton's steps come from passes."""
    rows = da.from_array(BOARD, chunks=(UNEVEN[7], (2,)))
    wanted = fitted(model, (BOARD, target)).certificate_
    small = clone(model).set_params(memory_budget=2**17)
    found = fitted(small, (rows, target)).certificate_
    assert found.converged
    assert found.dual_bound == "projection"
    assert found.dual <= wanted.primal
    assert wanted.dual <= found.primal


def test_few_vectors_of_rows_that_do_not_fit(tmp_path):
    """The vectors come from a sample; the weights are those of all rows."""
    rows, y, _ = place("dask-7", tmp_path, LABEL)
    asked = {"C": 1.0, "gamma": 0.2, "method": methods.FewVectors(20, basis="nystroem")}
    model = CoreVectorClassifier(memory_budget=2**17, random_state=0, **asked)
    found = model.fit(rows, y)
    given = methods.FewVectors(basis=found.support_vectors_)
    own = CoreVectorClassifier(random_state=0, **asked | {"method": given})
    wanted = own.fit(X, LABEL).certificate_
    assert found.certificate_.primal == pytest.approx(wanted.primal, rel=1e-3)
    assert found.certificate_.n_verified == N


def test_the_hinge_says_that_it_needs_its_rows(tmp_path):
    rows, y, _ = place("dask-2", tmp_path, LABEL)
    model = CoreVectorClassifier(
        loss="hinge", memory_budget=2**17, method=methods.FewVectors(10)
    )
    with pytest.raises(InvalidInputError, match="loss='squared_hinge'"):
        model.fit(rows, y)


def test_traffic_is_in_the_history_and_in_the_log(tmp_path, caplog):
    rows, y, _ = place("dask-2", tmp_path, SIDE)
    model = CoreVectorClassifier(C=10.0, gamma=0.3, verbose=2)
    with caplog.at_level("INFO", logger="corevec"):
        found = fitted(model, (rows, y))
    assert all(one["bytes_sent"] >= 0 for one in found.history_)
    assert sum(one["computes"] for one in found.history_) > 0
    assert "MB out" in caplog.text


def test_a_round_sends_the_core_rows_and_little_else():
    """1000 core rows of 50 columns are 0.4 MB; a round stays below a megabyte."""
    rng = np.random.default_rng(0)
    wide = rng.normal(size=(5_000, 50))
    side = wide[:, 0] + wide[:, 1] ** 2 > 1
    model = CoreVectorClassifier(
        C=1.0, gamma=0.01, method=methods.CoreSet(max_vectors=1000, sampling="full")
    )
    with pytest.warns(NotCertifiedWarning, match="max_vectors"):
        found = fitted(model, (da.from_array(wide, chunks=(900, 50)), side))
    assert found.history_[-1]["core"] == 1000
    for one in found.history_[1:]:
        assert 0 < one["bytes_sent"] + one["bytes_received"] < 1e6


BAD = {
    "y of another length": (
        lambda: (da.ones((10, 2), chunks=5), np.ones(9)),
        "inconsistent numbers of samples",
    ),
    "no y": (lambda: (da.ones((10, 2), chunks=5), None), "requires y to be passed"),
    "NaN": (
        lambda: (da.full((10, 2), np.nan, chunks=5), np.arange(10) % 2),
        r"X contains NaN in row [05]",
    ),
    "one class": (
        lambda: (da.ones((10, 2), chunks=5), np.ones(10)),
        "y holds only 1 class",
    ),
    "negative weights": (
        lambda: (da.ones((10, 2), chunks=5), np.arange(10) % 2, -np.ones(10)),
        r"sample_weight\[[05]\] = -1 is negative",
    ),
    "no weight": (
        lambda: (da.ones((10, 2), chunks=5), np.arange(10) % 2, np.zeros(10)),
        "zero for all 10 rows",
    ),
    "one dimension": (
        lambda: (da.ones(10, chunks=5), np.arange(10) % 2),
        "Reshape your data",
    ),
    "no rows": (lambda: (da.ones((0, 2)), np.empty(0)), "0 sample"),
    "numbers for classes": (
        lambda: (da.ones((20_000, 1), chunks=5_000), np.arange(20_000) / 7),
        "continuous",
    ),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_rows_elsewhere_are_named(what):
    given, message = BAD[what]
    with pytest.raises(ValueError, match=message):
        CoreVectorClassifier().fit(*given())


def test_an_uncertified_fit_elsewhere_warns(tmp_path):
    rows, y, _ = place("dask-2", tmp_path, LABEL)
    model = CoreVectorClassifier(
        C=1e4, gamma=5.0, method=methods.CoreSet(max_vectors=50)
    )
    with pytest.warns(NotCertifiedWarning, match="max_vectors"):
        model.fit(rows, y)
    assert model.certificate_.n_verified == N
