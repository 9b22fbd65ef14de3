"""A function of rows applied to a Spark data frame, as a new column, lazily."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from functools import partial
from typing import Any

import numpy as np
from pyspark.sql import types as T

from corevec.data.readers._arrow import arrow
from corevec.data.sources.partitions import one_blas_thread
from corevec.data.sources.spark import as_arrays, feature_columns, laid_out
from corevec.data.sources.spark_tasks import WHO
from corevec.exceptions import InvalidInputError

# Names of pyspark.ml; the answers of other methods have the name of the method.
COLUMNS = {"predict": "prediction", "predict_proba": "probability"}
_TYPES = {"b": T.BooleanType, "i": T.LongType, "u": T.LongType, "f": T.DoubleType}
_VECTORS = "vectors"


def with_answers(model: Any, frame: Any, method: str, *others: Any, **more: Any) -> Any:
    """Return the frame with what a method of a model answers as one more column.

    The features are found by their names; those of a model without names are the only
    column of vectors. The method is tried on one row of zeros, for the type of its
    answers.
    """
    who, names = type(model).__name__, getattr(model, "feature_names_in_", None)
    one = copy(model)
    if hasattr(one, "n_jobs"):
        one.n_jobs = 1  # of each task
    function = partial(getattr(type(model), method), one, *others, **more)
    column = COLUMNS.get(method, method)
    if column in frame.columns:
        raise InvalidInputError(
            f"{who}: the Spark data frame has a column {column!r} already. Drop or "
            "rename it."
        )
    features = feature_columns(who, frame, names)
    _, layout = laid_out(who, frame, features, {})
    own, schema = list(frame.columns), frame.schema
    places = [own.index(one) for one in features]
    # `mapInArrow` does not find columns whose names have dots.
    frame = frame.toDF(*(f"c{j}" for j in range(len(own))))
    if layout.is_vector:
        kind = schema[features[0]].dataType
        frame = frame.withColumn(_VECTORS, as_arrays(f"c{places[0]}", kind))
        places = [len(own)]

    def rows_of(batch: Any) -> Any:
        if layout.is_vector:
            return layout.rows_of(batch.select(places), 0).values
        chosen = [batch.column(place) for place in places]
        # With names, which are checked.
        return arrow(WHO).Table.from_arrays(chosen, names=list(layout.names))

    answer = np.asarray(function(_zeros(layout)))
    kind = _type_of(answer)

    def go(batches: Iterator[Any]) -> Iterator[Any]:
        pa = arrow(WHO)
        for batch in batches:
            found = answer[:0]
            if batch.num_rows:
                found = _answered(function, rows_of(batch))
            found = pa.array(list(found) if found.ndim == 2 else found)
            arrays = [*batch.columns[: len(own)], found]
            yield pa.RecordBatch.from_arrays(arrays, [*own, column])

    return frame.mapInArrow(go, T.StructType([*schema.fields]).add(column, kind))


def _answered(function: Callable[[Any], Any], rows: Any) -> Any:
    with one_blas_thread:  # by its name: a lock does not travel with a function
        return np.asarray(function(rows))


def _zeros(layout: Any) -> Any:
    """Return one row as `function` takes it."""
    zeros = np.zeros((1, layout.n_features))
    if layout.is_vector:
        return zeros
    columns = {name: zeros[:, j] for j, name in enumerate(layout.names)}
    return arrow(WHO).table(columns)


def _type_of(answer: Any) -> Any:
    one = _TYPES.get(answer.dtype.kind, T.StringType)()
    return one if answer.ndim == 1 else T.ArrayType(one)
