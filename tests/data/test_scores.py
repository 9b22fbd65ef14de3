"""Scores of rows that bring their target: those of scikit-learn on the arrays."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.metrics import accuracy_score, r2_score

import corevec
from corevec import CoreVectorClassifier, CoreVectorRegressor, InvalidInputError
from corevec.data.sources import Workers

pd = pytest.importorskip("pandas")
pa = pytest.importorskip("pyarrow")

N = 3_000
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 2))
LABEL = np.where(X[:, 0] * X[:, 1] + RNG.normal(size=N) / 4 > 0, "same", "other")
# Far from zero, where the sum of squares of the targets would lose their spread.
NUMBER = 1e9 + np.sin(3 * X[:, 0]) + RNG.normal(size=N) / 4
WEIGHT = RNG.integers(0, 3, N).astype(float)
NAMES = ["age", "income"]
TABLE = pd.DataFrame(X, columns=NAMES).assign(label=LABEL, number=NUMBER, w=WEIGHT)
CLASSIFIER = CoreVectorClassifier(gamma=0.5, random_state=0)
REGRESSOR = CoreVectorRegressor(gamma=0.5, random_state=0)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    found = tmp_path_factory.mktemp("scores") / "rows.parquet"
    TABLE.to_parquet(found, row_group_size=700)
    return found


CASES = {
    "classifier": (CLASSIFIER, "label", accuracy_score),
    "regressor": (REGRESSOR, "number", r2_score),
}


@pytest.mark.parametrize("kind", CASES)
@pytest.mark.parametrize("weight", [None, "w"])
def test_rows_of_a_file_have_the_score_of_the_array(path, kind, weight):
    model, target, wanted = CASES[kind]
    model = clone(model)
    model.fit(TABLE[NAMES], TABLE[target]).set_params(memory_budget=2**15)
    rows = corevec.open(path, target=target, sample_weight=weight, columns=NAMES)
    assert len(rows.using(2**15, Workers(1)).blocks()) > 3
    own = None if weight is None else WEIGHT
    expected = wanted(TABLE[target], model.predict(TABLE[NAMES]), sample_weight=own)
    # Squares of residuals of targets near 1e9 have 7 digits.
    assert model.score(rows) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("kind", CASES)
def test_a_table_is_scored_by_its_column(kind):
    model, target, wanted = CASES[kind]
    model = clone(model)
    rows = TABLE[[*NAMES, target, "w"]]
    model.fit(rows, target=target, sample_weight="w")
    expected = wanted(TABLE[target], model.predict(TABLE[NAMES]), sample_weight=WEIGHT)
    assert model.score(rows, target=target, sample_weight="w") == expected


def test_a_query_of_labels_is_computed_once():
    polars = pytest.importorskip("polars")
    rows = polars.from_pandas(TABLE).lazy()
    model = clone(CLASSIFIER).fit(TABLE[NAMES], LABEL)
    found = model.score(rows.select(NAMES), rows.select("label"), rows.select("w"))
    wanted = accuracy_score(LABEL, model.predict(TABLE[NAMES]), sample_weight=WEIGHT)
    assert found == wanted


def test_a_dask_frame_stays_lazy_where_its_column_is_the_target():
    dask = pytest.importorskip("dask.dataframe")
    rows = dask.from_pandas(TABLE[[*NAMES, "label", "w"]], npartitions=3)
    model = CoreVectorClassifier(gamma=0.5, random_state=0)
    model.fit(rows, target="label", sample_weight="w")
    # Rows on workers count what goes to them; rows that were loaded do not.
    assert model.history_[0]["bytes_sent"] > 0
    assert list(model.feature_names_in_) == NAMES
    wanted = clone(CLASSIFIER).fit(TABLE[NAMES], LABEL, WEIGHT).certificate_
    assert model.certificate_.dual <= wanted.primal
    assert wanted.dual <= model.certificate_.primal
    with pytest.raises(InvalidInputError, match="target='z' is not a column"):
        model.fit(rows, target="z")


def test_equal_targets_have_the_score_of_scikit_learn(path, tmp_path):
    model = CoreVectorRegressor(random_state=0).fit(TABLE[NAMES], TABLE["number"])
    TABLE[NAMES].assign(number=3.0).to_parquet(tmp_path / "same.parquet")
    rows = corevec.open(tmp_path / "same.parquet", target="number")
    assert model.score(rows) == r2_score(np.full(N, 3.0), model.predict(TABLE[NAMES]))


def test_rows_without_a_target_say_what_to_give(path):
    model = clone(CLASSIFIER).fit(TABLE[NAMES], LABEL)
    with pytest.raises(InvalidInputError, match="labels y are needed"):
        model.score(corevec.open(path, columns=NAMES))
    with pytest.raises(InvalidInputError, match="labels y are needed"):
        model.score(TABLE[NAMES])
    with pytest.raises(InvalidInputError, match="brings its own"):
        model.score(corevec.open(path, target="label", columns=NAMES), LABEL)
    with pytest.raises(InvalidInputError, match="type that the model was fitted on"):
        model.score(corevec.open(path, target="number", columns=NAMES))
