"""Spark data frames: roles of columns, lazy predictions, errors, a pipeline, a kill."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from spark_session import session

import corevec
from benchmarks.processes import answer_of
from corevec import (
    CoreVectorClassifier,
    CoreVectorOneClass,
    CoreVectorRanker,
    CoreVectorRegressor,
    InvalidInputError,
    StreamingBallClassifier,
    methods,
    svm,
)

pa = pytest.importorskip("pyarrow")
pytestmark = pytest.mark.filterwarnings(
    "ignore:PySpark does not yet fully support pandas:FutureWarning"
)

N = 3_000
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 3))
LABEL = np.where(X[:, 0] * X[:, 1] > 0, "same", "other")
NAMES = ["a", "b.c", "d"]
MODEL = CoreVectorClassifier(C=10.0, gamma=0.3, random_state=0)


@pytest.fixture(scope="module")
def spark():
    return session()


@pytest.fixture(scope="module")
def frame(spark):
    columns = {name: X[:, j] for j, name in enumerate(NAMES)}
    weight = np.arange(N) % 3 * 1.0
    table = pa.table({**columns, "label": LABEL, "id": np.arange(N), "w": weight})
    return spark.createDataFrame(table)


@pytest.fixture(scope="module")
def vectors(frame):
    """The features as vectors of pyspark.ml, every second one sparse."""
    from pyspark.ml.linalg import Vectors

    def row(one):
        values = [one["a"], one["b.c"], one["d"]]
        places = {j: value for j, value in enumerate(values) if value}
        dense = one["id"] % 2
        vector = Vectors.dense(values) if dense else Vectors.sparse(3, places)
        return vector, one["label"]

    return frame.rdd.map(row).toDF(["features", "label"]).persist()


@pytest.fixture(scope="module")
def fitted(frame):
    return MODEL.fit(frame.drop("id", "w"), target="label")


def values_of(frame, column):
    return np.array([row[column] for row in frame.select(column).collect()])


def test_predictions_are_a_lazy_column_beside_all_others(frame, fitted):
    plain = CoreVectorClassifier(C=10.0, gamma=0.3, random_state=0).fit(X, LABEL)
    assert list(fitted.feature_names_in_) == NAMES
    assert list(fitted.classes_) == ["other", "same"]
    lazy = fitted.predict(frame)
    assert lazy.columns == [*frame.columns, "prediction"]
    assert (values_of(lazy, "prediction") == plain.predict(X)).all()
    found = values_of(fitted.decision_function(frame), "decision_function")
    # Both are within the certified gap of one optimum.
    assert found == pytest.approx(plain.decision_function(X), abs=0.05)
    with pytest.raises(InvalidInputError, match="'prediction' already"):
        fitted.predict(lazy)
    with pytest.raises(InvalidInputError, match=r"no column 'b\.c'"):
        fitted.predict(frame.drop("b.c"))


def test_several_classes_have_a_column_of_arrays(frame):
    from pyspark.sql import functions as F

    third = frame.withColumn("third", F.floor(F.col("id") / 1_000))
    model = clone_of(C=1.0, gamma=0.1).fit(
        corevec.open(third, target="third", columns=["a", "d"])
    )
    found = values_of(model.decision_function(third), "decision_function")
    assert found.shape == (N, 3)


def clone_of(**parameters):
    return CoreVectorClassifier(random_state=0, **parameters)


def test_features_may_be_one_column_of_vectors_or_arrays(vectors, fitted):
    from pyspark.ml.functions import vector_to_array

    model = clone_of(C=10.0, gamma=0.3).fit(vectors, target="label")
    assert not hasattr(model, "feature_names_in_")
    wanted, found = fitted.certificate_, model.certificate_
    assert found.converged
    assert found.primal == pytest.approx(wanted.primal, rel=1e-3)
    own = values_of(model.predict(vectors), "prediction")
    assert (own == model.predict(X)).all()
    arrays = vectors.select(vector_to_array("features").alias("x"), "label")
    again = clone_of(C=10.0, gamma=0.3).fit(arrays, target="label")
    assert again.certificate_.primal == pytest.approx(found.primal, rel=1e-9)


def test_weights_are_a_column(frame):
    chosen = corevec.open(frame, target="label", sample_weight="w", columns=NAMES)
    found = clone_of(C=1.0, gamma=0.3).fit(chosen).certificate_
    plain = clone_of(C=1.0, gamma=0.3).fit(X, LABEL, np.arange(N) % 3 * 1.0)
    wanted = plain.certificate_
    assert found.dual <= wanted.primal
    assert wanted.dual <= found.primal


def test_a_round_leaves_nothing_of_the_length_of_the_data(frame, spark):
    """The answers of 40 partitions are merged by sevens; the driver gets kilobytes."""
    from pyspark.sql import functions as F

    rows = spark.range(0, 20_000, 1, 40).select(
        (F.rand(1) * 4).alias("u"), (F.rand(2) * 4).alias("v")
    )
    board = rows.withColumn("y", (F.floor("u") + F.floor("v")) % 2)
    model = clone_of(C=10.0, gamma=1.0, memory_budget=2**17)
    found = model.fit(board, target="y").certificate_
    assert found.converged
    assert found.n_verified == 20_000
    # One answer has 0.4 MB: 40 would be 16.
    assert max(one["bytes_received"] for one in model.history_[1:]) < 3e6
    source = corevec.open(board, target="y")
    held = source.take(np.arange(20_000))
    wanted = clone_of(C=10.0, gamma=1.0).fit(held.values, held.columns["target"])
    assert found.dual <= wanted.certificate_.primal
    assert wanted.certificate_.dual <= found.primal


def test_other_estimators_take_the_frame(frame):
    rows = frame.drop("id", "w")
    ball = StreamingBallClassifier(budget=100).fit(rows, target="label")
    assert ball.n_rows_seen_ == N
    features = rows.drop("label")
    detector = CoreVectorOneClass(C=0.1, gamma=0.2, random_state=0).fit(features)
    assert detector.certificate_.converged
    regressor = CoreVectorRegressor(gamma=0.2, random_state=0)
    assert regressor.fit(features, target="d").certificate_.n_verified == N
    cells = clone_of(gamma=0.3, method=methods.Cells(500))
    cells.fit(rows, target="label")
    assert (values_of(cells.predict(rows), "prediction") == LABEL).mean() > 0.95


def test_what_a_frame_cannot_be_is_said(spark, frame):
    from pyspark.sql import functions as F

    half = F.when(F.col("a") > 0, 1.5)
    bad = {
        r"'e' .* holds string .*StringIndexer": frame.withColumn("e", F.lit("u")),
        r"'e' .* holds date .*datediff": frame.withColumn("e", F.current_date()),
        r"'e' has a null in row": frame.withColumn("e", half),
        r"has no rows": frame.filter("id < 0"),
        r"no column is left": frame.select("label"),
    }
    for message, rows in bad.items():
        with pytest.raises(InvalidInputError, match=message):
            CoreVectorClassifier().fit(rows, target="label")
    with pytest.raises(InvalidInputError, match="'z' is not a column"):
        CoreVectorClassifier().fit(frame, target="z")
    with pytest.raises(InvalidInputError, match="Name their columns"):
        CoreVectorClassifier().fit(frame, LABEL)
    with pytest.raises(InvalidInputError, match="must be in memory"):
        svm.SVC().fit(frame, LABEL)


def test_a_score_is_measured_where_the_rows_are(frame, vectors, fitted):
    """The labels and weights are columns; the frame may have others beside."""
    table = pa.table({name: X[:, j] for j, name in enumerate(NAMES)})
    right = fitted.predict(table) == LABEL
    weight = np.arange(N) % 3
    assert fitted.score(frame, target="label") == pytest.approx(right.mean())
    found = fitted.score(frame, sample_weight="w", target="label")
    assert found == pytest.approx(np.average(right, weights=weight))
    chosen = corevec.open(frame, target="label", columns=NAMES)
    assert fitted.score(chosen) == pytest.approx(right.mean())
    nameless = clone_of(C=10.0, gamma=0.3).fit(X, LABEL)
    assert nameless.score(vectors, target="label") == nameless.score(X, LABEL)
    compressed = corevec.compress(fitted, n_vectors=20)
    wanted = (compressed.predict(table) == LABEL).mean()
    assert compressed.score(frame, target="label") == pytest.approx(wanted)


def test_the_r2_of_a_frame_is_that_of_the_array(frame):
    rows = frame.select("a", "`b.c`", "d")
    model = CoreVectorRegressor(gamma=0.2, random_state=0).fit(rows, target="d")
    found = model.score(frame, target="d", sample_weight="w")
    weight = np.arange(N) % 3 * 1.0
    names = list(model.feature_names_in_)
    own = pa.table({name: X[:, NAMES.index(name)] for name in names})
    assert found == pytest.approx(model.score(own, X[:, 2], weight), rel=1e-12)


def test_a_score_without_its_column_says_how(frame, fitted):
    for y in (None, LABEL, "label"):
        with pytest.raises(InvalidInputError, match=r"score\(frame, target='label'"):
            fitted.score(frame, y)
    with pytest.raises(InvalidInputError, match="'z' is not a column"):
        fitted.score(frame, target="z")
    with pytest.raises(InvalidInputError, match="type that the model was fitted on"):
        fitted.score(frame, target="id")
    ranker = CoreVectorRanker(tol=0.1)
    ranker.fit(X[:200], np.arange(200) % 2)
    with pytest.raises(InvalidInputError, match="pairs are counted in memory"):
        ranker.score(frame, LABEL)


def test_rows_that_are_others_in_each_pass_are_refused(spark):
    def random(batches):
        for batch in batches:
            values = pa.array(np.random.default_rng().normal(size=batch.num_rows))
            sides = pa.array(np.arange(batch.num_rows) % 2)
            yield pa.RecordBatch.from_arrays([values, sides], ["a", "y"])

    rows = spark.range(1_000).mapInArrow(random, "a double, y long")
    with pytest.raises(InvalidInputError, match=r"other rows than .*persist\(\)"):
        CoreVectorClassifier().fit(rows, target="y")


def test_a_stage_of_a_pipeline_is_saved_and_loaded_with_it(frame, fitted, tmp_path):
    from pyspark.ml import PipelineModel

    from corevec.spark import SparkPredictor

    scaled = make_pipeline(StandardScaler(), clone_of(C=1.0))
    scaled.fit(pa.table({name: X[:, j] for j, name in enumerate(NAMES)}), LABEL)
    values = SparkPredictor(fitted, "decision_function")
    stages = PipelineModel([SparkPredictor(scaled), values])
    found = stages.transform(frame)
    stages.save(str(tmp_path / "pipeline"))
    loaded = PipelineModel.load(str(tmp_path / "pipeline")).transform(frame)
    for column in ("prediction", "decision_function"):
        assert (values_of(loaded, column) == values_of(found, column)).all()
    table = pa.table({name: X[:, j] for j, name in enumerate(NAMES)})
    assert (values_of(loaded, "prediction") == scaled.predict(table)).all()


@pytest.mark.slow
def test_a_worker_killed_in_the_middle_of_a_fit_changes_nothing(spark):
    """A real cluster: a master and two workers, of which one is killed with all it has.

    In a process of its own, which the benchmark `spark_cluster` starts, too.
    """
    job = {"kind": "killed", "n": 200_000, "partition": 25_000, "workers": 2}
    job |= {"memory": "1500m", "executor_memory": "1g"}
    job |= {"params": {"C": 100.0, "gamma": 1.0}}
    found = answer_of("benchmarks.spark_process", job, 900)
    assert found["converged"]
    assert found["n_verified"] == job["n"]
    assert 0 < found["killed_at"] < found["fit_seconds"]
    assert found["primal"] == pytest.approx(found["undisturbed"]["primal"], rel=1e-9)
