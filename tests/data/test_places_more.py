"""Remote rows as users give them: odd types, inconsistencies, empty partitions."""

from __future__ import annotations

import dask
import dask.array as da
import numpy as np
import pyarrow as pa
import pytest
from dask.callbacks import Callback
from dask.delayed import delayed
from pyarrow import parquet
from scipy import sparse
from sklearn.exceptions import NotFittedError

import corevec
from corevec import (
    CoreVectorClassifier,
    CoreVectorRegressor,
    StreamingBallClassifier,
    methods,
)
from corevec.data.sources import lost_rows_explained
from corevec.exceptions import InvalidInputError, RowsLostError

pd = pytest.importorskip("pandas")
dd = pytest.importorskip("dask.dataframe")

N = 1_200


def make_rows():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(N, 3))
    return X, (X[:, 0] + 0.3 * X[:, 1] > 0).astype(int)


X, Y = make_rows()
ROWS = da.from_array(X, chunks=(500, 3))
NAMES = ["a", "b", "c"]


def classifier(**asked):
    return CoreVectorClassifier(C=1.0, gamma=0.3, random_state=0, **asked)


@pytest.fixture(scope="module")
def plain():
    return classifier().fit(X, Y).certificate_


def assert_same_optimum(found, wanted):
    slack = 1e-9 * abs(wanted.primal)
    assert found.converged
    assert wanted.converged
    assert found.dual <= wanted.primal + slack
    assert wanted.dual <= found.primal + slack


def frame_of(where, folder):
    """Return a data frame with the rows, their labels, and columns of no use."""
    frame = pd.DataFrame(X, columns=NAMES)
    frame["y"], frame["leak"], frame["word"] = Y, 9.0 * Y, "text"
    if where == "pandas":
        return dd.from_pandas(frame, npartitions=4)
    for k in range(8):
        frame[k * 150 : (k + 1) * 150].to_parquet(folder / f"{k}.parquet")
    return dd.read_parquet(folder)


@pytest.mark.parametrize("where", ["pandas", "parquet"])
def test_chosen_columns_of_a_data_frame_are_those_of_the_fit(where, tmp_path, plain):
    """The others, the target among them, must not come along."""
    frame = frame_of(where, tmp_path)
    model = classifier().fit(frame[NAMES], frame["y"])
    assert model.support_vectors_.shape[1] == 3
    assert_same_optimum(model.certificate_, plain)
    other = classifier().fit(frame[NAMES], Y)
    assert_same_optimum(other.certificate_, plain)
    assert model.predict(frame[NAMES]).compute().shape == (N,)


@pytest.mark.parametrize("kind", ["array", "frame"])
def test_partitions_without_rows_are_predicted(kind):
    model = classifier().fit(X, Y)
    several = classifier().fit(X, np.digitize(X[:, 0], [-0.5, 0.5]))
    if kind == "array":
        rows = da.from_array(X, chunks=((500, 0, N - 500), (3,)))
        wanted = X
    else:
        frame = dd.from_pandas(pd.DataFrame(X, columns=NAMES), npartitions=3)
        rows = frame[frame["a"].cumsum() > frame["a"].cumsum()].to_dask_array()
        wanted = X[:0]
    assert len(rows.compute()) == len(wanted)
    for one in (model, several):
        found = one.decision_function(rows).compute()
        labels = one.predict(rows).compute()
        assert len(found) == len(labels) == len(wanted)
        if len(wanted):
            assert np.array_equal(labels, one.predict(wanted))
            assert found == pytest.approx(one.decision_function(wanted), abs=1e-9)


@pytest.mark.parametrize("size", [1e-200, 1e-160, 1e160, 1e200])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_targets_of_any_size(size, fit_intercept):
    model = CoreVectorRegressor(
        C=1.0, gamma=0.3, mu=0.3, fit_intercept=fit_intercept, random_state=0
    )
    few = X[:600]
    target = np.sin(few[:, 0]) + 2
    wanted = model.fit(few, target * size)
    moments = wanted.target_mean_, wanted.target_scale_
    found = model.fit(ROWS[:600], target * size)
    assert found.target_mean_ == pytest.approx(moments[0], rel=1e-12)
    assert found.target_scale_ == pytest.approx(moments[1], rel=1e-12)
    values = found.predict(few) / size
    assert np.abs(values - target).mean() < 0.2


def test_a_weight_of_all_rows_is_one_number():
    wanted = classifier().fit(X, Y, 2.0).certificate_
    assert_same_optimum(classifier().fit(ROWS, Y, 2.0).certificate_, wanted)


def test_a_column_of_labels_and_weights_in_files(tmp_path):
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", Y[:, None])
    rows = corevec.open(
        tmp_path / "X.npy",
        target=tmp_path / "y.npy",
        sample_weight=np.full((N, 1), 2.0),
    )
    wanted = classifier().fit(X, Y, np.full(N, 2.0)).certificate_
    assert_same_optimum(classifier().fit(rows).certificate_, wanted)


def lying(rows, columns):
    """Return an array whose partitions are not what Dask is told."""
    made = [delayed(X[k * 400 : k * 400 + rows]) for k in range(3)]
    parts = [da.from_delayed(one, (400, columns), dtype=float) for one in made]
    return da.concatenate(parts)


MIXED = np.where(Y == 1, "one", "two").astype(object)
MIXED[700] = None
NAN_ROWS = sparse.csr_matrix(np.where(np.abs(X) > 1, X, 0.0))
NAN_ROWS.data[300] = np.nan
NAN_ROW = int(np.searchsorted(NAN_ROWS.indptr, 300, "right")) - 1
BAD = {
    "complex": (lambda: (ROWS.astype(complex), Y), "Complex data not supported"),
    "text": (
        lambda: (da.full((N, 2), "a", chunks=(500, 2)), Y),
        "X must be numbers, but a partition is not: could not convert string",
    ),
    "missing labels": (lambda: (ROWS, MIXED), "labels y cannot be sorted"),
    "two labels": (lambda: (ROWS, np.c_[Y, Y]), "y should be a 1d array"),
    "two weights": (lambda: (ROWS, Y, np.ones((N, 2))), "sample_weight has 2 columns"),
    "too few rows": (lambda: (lying(350, 3), Y), r"\(350, 3\), .* for 400 rows x 3"),
    "too many columns": (lambda: (lying(400, 2), Y), r"\(400, 3\), .* 400 rows x 2"),
    "one task": (lambda: (delayed(X), Y), "expected a Dask array or data frame"),
    "labels of a task": (lambda: (ROWS, delayed(Y)), "y is Dask's Delayed"),
    "unknown columns": (
        lambda: (ROWS[:, (ROWS**2).sum(axis=0) > 0], Y),
        "how many columns X has",
    ),
    "NaN in CSR": (
        lambda: (
            ROWS.map_blocks(
                lambda block: NAN_ROWS[: len(block)], meta=sparse.csr_matrix((0, 0))
            ),
            Y,
        ),
        "X contains NaN in row",
    ),
}


@pytest.mark.parametrize("estimator", [CoreVectorClassifier, StreamingBallClassifier])
@pytest.mark.parametrize("what", BAD)
def test_what_partitions_cannot_be(what, estimator):
    given, message = BAD[what]
    with pytest.raises(InvalidInputError, match=message) as error:
        estimator().fit(*given())
    assert str(error.value).startswith(f"{estimator.__name__}: ")


def test_the_row_of_a_bad_entry_is_told_of_sparse_rows():
    rows = da.from_delayed(
        delayed(NAN_ROWS), (N, 3), dtype=float, meta=sparse.csr_matrix((0, 0))
    )
    with pytest.raises(InvalidInputError, match=f"NaN in row {NAN_ROW:,}\\."):
        classifier().fit(rows, Y)


def test_sparse_rows_of_huge_values_stay_sparse():
    """2 million columns: 1000 such rows as an array would be 16 GB."""
    columns = np.random.default_rng(0).integers(0, 2_000_000, 2_000)
    wide = sparse.csr_matrix(
        (np.full(2_000, 1e308), columns, np.arange(0, 2_001, 2)), (1_000, 2_000_000)
    )
    rows = da.from_delayed(
        delayed(wide), wide.shape, dtype=float, meta=sparse.csr_matrix((0, 0))
    )
    model = CoreVectorClassifier(
        gamma=1e-300, random_state=0, method=methods.FewVectors(2, basis="nystroem")
    )
    assert model.fit(rows, np.arange(1_000) % 2).n_features_in_ == 2_000_000


@pytest.mark.parametrize("model", [classifier(), StreamingBallClassifier()], ids=str)
def test_no_prediction_before_the_fit(model):
    with pytest.raises(NotFittedError):
        model.predict(ROWS)


def test_support_is_counted_without_another_pass():
    """Its rows were fetched for the fit, once."""
    tasks = []
    with (
        dask.config.set(scheduler="sync"),
        Callback(pretask=lambda key, *_: tasks.append(str(key))),
    ):
        model = classifier().fit(ROWS, Y)
    ours = [key for key in tasks if key.startswith("corevec-")]
    fetches = {key.split("-")[2] for key in ours if key.startswith("corevec-take")}
    assert len(fetches) == 1
    own = Y[model.support_]
    assert model.n_support_.tolist() == [(own == 0).sum(), (own == 1).sum()]


def test_a_loss_without_words_is_explained():
    with pytest.raises(RowsLostError, match="TimeoutError"), lost_rows_explained():
        raise TimeoutError


def test_the_same_partitions_give_the_same_bits():
    with dask.config.set(scheduler="threads", num_workers=2):
        first, second = classifier().fit(ROWS, Y), classifier().fit(ROWS, Y)
    assert np.array_equal(first.support_, second.support_)
    assert np.array_equal(first.dual_coef_, second.dual_coef_)


def test_columns_of_one_name_are_refused(tmp_path):
    numbers = pa.array([1.0, 2.0])
    table = pa.Table.from_arrays([numbers] * 4, names=["a", "a", "b", "y"])
    parquet.write_table(table, tmp_path / "rows.parquet")
    with pytest.raises(InvalidInputError, match=r"2 columns .*'a'"):
        corevec.open(tmp_path / "rows.parquet", target="y")
    rows = corevec.open(tmp_path / "rows.parquet", target="y", columns=["b"])
    assert rows.n_features == 1
    with pytest.raises(InvalidInputError, match=r"Give a list: \['b'\]"):
        corevec.open(tmp_path / "rows.parquet", target="y", columns="b")
