"""A fitted model as a stage of a Spark pipeline, which is saved and loaded with it."""

from __future__ import annotations

import base64
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import Any

from pyspark.ml import Transformer
from pyspark.ml.param import Param, Params, TypeConverters
from pyspark.ml.util import DefaultParamsReadable, DefaultParamsWritable

from corevec._runtime.checks import check_choice
from corevec.data.sources.spark_lazy import COLUMNS, with_answers
from corevec.exceptions import InvalidInputError
from corevec.formats import load, save

METHODS = ("predict", "decision_function", "predict_proba", "score_samples")


class SparkPredictor(
    Transformer, DefaultParamsReadable["SparkPredictor"], DefaultParamsWritable
):
    """Transformer of pyspark.ml that adds the predictions of a fitted model.

    Its parameter ``model`` is the text of a native model file (`corevec.formats.save`),
    so that `save` of a Spark pipeline writes it as JSON, with no code in it.

    Parameters
    ----------
    model : estimator
        What `corevec.formats.save` takes: a fitted model of corevec, or a pipeline of
        scikit-learn that ends with one.
    method : {"predict", "decision_function", "predict_proba", "score_samples"}, \
default="predict"
        Whose answers are added: as the column "prediction", "decision_function",
        "probability" or "score_samples".

    Examples
    --------
    >>> from corevec.spark import SparkPredictor  # doctest: +SKIP
    >>> stage = SparkPredictor(model)  # doctest: +SKIP
    >>> stage.transform(frame).select("prediction")  # doctest: +SKIP
    """

    model = Param(
        Params._dummy(),
        "model",
        "native model file, base64",
        typeConverter=TypeConverters.toString,
    )
    method = Param(
        Params._dummy(),
        "method",
        "whose answers are added",
        typeConverter=TypeConverters.toString,
    )

    def __init__(self, model: Any = None, method: str = "predict"):
        super().__init__()
        check_choice(type(self).__name__, "method", method, METHODS)
        self._set(method=method)
        if model is not None:
            self._set(model=_as_text(model))

    @property
    def estimator(self) -> Any:
        """The model."""
        if not self.isSet(self.model):
            raise InvalidInputError("SparkPredictor: no model was given.")
        return _from_text(self.getOrDefault(self.model))

    @property
    def output_column(self) -> str:
        """The name of the column that is added."""
        method = self.getOrDefault(self.method)
        return COLUMNS.get(method, method)

    def _transform(self, dataset: Any) -> Any:
        return with_answers(self.estimator, dataset, self.getOrDefault(self.method))


def _as_text(model: Any) -> str:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.npz"
        save(model, path)
        return base64.b64encode(path.read_bytes()).decode("ascii")


@lru_cache(maxsize=8)
def _from_text(text: str) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.npz"
        path.write_bytes(base64.b64decode(text))
        return load(path)


__all__ = ["SparkPredictor"]
