"""What a container may hold of scikit-learn, around a model or before it.

By name, with the attributes that each has after fit. The parts of a calibrated
classifier are private classes of scikit-learn: one that a version does not have is left
out, and `save` refuses it by name.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sklearn import calibration
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.isotonic import IsotonicRegression
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    StandardScaler,
)

SKLEARN_ESTIMATORS: dict[type, tuple[str, ...]] = {
    CalibratedClassifierCV: ("calibrated_classifiers_", "classes_"),
    ColumnTransformer: (
        "_columns",
        "_n_features",
        "_remainder",
        "_transformer_to_input_indices",
        "output_indices_",
        "sparse_output_",
        "transformers_",
    ),
    FrozenEstimator: (),
    FunctionTransformer: (),  # "passthrough"; one with a function is refused
    IsotonicRegression: (
        "X_max_",
        "X_min_",
        "X_thresholds_",
        "increasing_",
        "y_thresholds_",
    ),
    MaxAbsScaler: ("max_abs_", "n_samples_seen_", "scale_"),
    MinMaxScaler: (
        "data_max_",
        "data_min_",
        "data_range_",
        "min_",
        "n_samples_seen_",
        "scale_",
    ),
    OneHotEncoder: (
        "_drop_idx_after_grouping",
        "_infrequent_enabled",
        "_n_features_outs",
        "categories_",
        "drop_idx_",
    ),
    Pipeline: (),
    SimpleImputer: ("_fill_dtype", "_fit_dtype", "indicator_", "statistics_"),
    StandardScaler: ("mean_", "n_samples_seen_", "scale_", "var_"),
}
SCALERS = (MaxAbsScaler, MinMaxScaler, StandardScaler)
# Computed from the other attributes when a file is read.
DERIVED: dict[type, str] = {IsotonicRegression: "f_"}


def calibration_parts() -> Iterator[tuple[type, tuple[str, ...], bool]]:
    """Yield the private parts of a calibrated classifier: class, attributes, kind.

    The last value says whether the class is an estimator.
    """
    for name, attributes, is_estimator in (
        ("_CalibratedClassifier", ("calibrators", "classes", "estimator", "method"), 0),
        ("_SigmoidCalibration", ("a_", "b_"), 1),
        ("_TemperatureScaling", ("beta_",), 1),
    ):
        cls = getattr(calibration, name, None)
        if cls is not None:
            yield cls, attributes, bool(is_estimator)


def derive(made: Any) -> None:
    """Compute the attribute of `DERIVED` of an estimator that was read."""
    if isinstance(made, IsotonicRegression) and "X_thresholds_" in vars(made):
        # As scikit-learn does after a pickle, which has no interpolator either.
        made._build_f(made.X_thresholds_, made.y_thresholds_)


__all__ = ["DERIVED", "SCALERS", "SKLEARN_ESTIMATORS", "calibration_parts", "derive"]
