"""Estimators with the interface of scikit-learn, and `certify` and `compress`.

A fit loads its own estimator and solvers, no others: names are imported when they are
asked for. Those of modules with an underscore are for other rooms and for tests.
"""

from corevec._runtime.rooms import on_demand

__all__, __getattr__ = on_demand(
    __name__,
    {
        "_base": "CoreVectorEstimator certify",
        "_cells": "values_for_labels",
        "_compressed": "Form",
        "_dataset": "Dataset",
        "_parameters": (
            "check_choice check_count check_flag check_gamma check_gap check_number "
            "check_parameters check_positive"
        ),
        "_validation": "CHECKS check_same_names check_square named validated",
        "classify": "CoreVectorClassifier",
        "compression": "CompressedModel compress refuse_cells",
        "detect": "SVDD CoreVectorOneClass",
        "explanation": "Explanation explain",
        "methods": "METHODS_BY_NAME Method method_of",
        "rank": "CoreVectorRanker",
        "regress": "CoreVectorRegressor",
        "search": "CoreVectorClassifierCV CoreVectorRegressorCV",
        "stream": "StreamingBallClassifier StreamingBallOneClass",
        "stream_classify": "StreamingClassifier",
        "stream_detect": "StreamingOneClass",
        "stream_regress": "StreamingRegressor",
        "structural": "StructuralSVM",
        "transform": "CoreSetNystroem",
    },
)
