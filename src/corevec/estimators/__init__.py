"""Estimators with the interface of scikit-learn, and `certify` and `compress`.

The names below the estimators are for other rooms and for tests.
"""

from corevec.estimators._base import CoreVectorEstimator, certify
from corevec.estimators._cells import values_for_labels
from corevec.estimators._compressed import Form
from corevec.estimators._dataset import Dataset
from corevec.estimators._parameters import (
    check_choice,
    check_count,
    check_flag,
    check_gamma,
    check_gap,
    check_number,
    check_parameters,
    check_positive,
)
from corevec.estimators._validation import (
    CHECKS,
    check_same_names,
    check_square,
    named,
    validated,
)
from corevec.estimators.classify import CoreVectorClassifier
from corevec.estimators.compress import CompressedModel, compress, refuse_cells
from corevec.estimators.detect import SVDD, CoreVectorOneClass
from corevec.estimators.methods import BY_NAME as METHODS_BY_NAME
from corevec.estimators.methods import Method, method_of
from corevec.estimators.rank import CoreVectorRanker
from corevec.estimators.regress import CoreVectorRegressor
from corevec.estimators.search import CoreVectorClassifierCV, CoreVectorRegressorCV
from corevec.estimators.stream import StreamingBallClassifier, StreamingOneClass
from corevec.estimators.structural import StructuralSVM
from corevec.estimators.transform import CoreSetNystroem

__all__ = [
    "CHECKS",
    "SVDD",
    "CompressedModel",
    "CoreSetNystroem",
    "CoreVectorClassifier",
    "CoreVectorClassifierCV",
    "CoreVectorEstimator",
    "CoreVectorOneClass",
    "CoreVectorRanker",
    "CoreVectorRegressor",
    "CoreVectorRegressorCV",
    "Dataset",
    "Form",
    "METHODS_BY_NAME",
    "Method",
    "StreamingBallClassifier",
    "StreamingOneClass",
    "StructuralSVM",
    "certify",
    "check_choice",
    "check_count",
    "check_flag",
    "check_gamma",
    "check_gap",
    "check_number",
    "check_parameters",
    "check_positive",
    "check_same_names",
    "check_square",
    "compress",
    "method_of",
    "named",
    "refuse_cells",
    "validated",
    "values_for_labels",
]
