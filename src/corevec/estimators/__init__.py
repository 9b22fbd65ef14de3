"""Thin scikit-learn classes over the engine."""

from corevec.estimators._base import certify
from corevec.estimators.classify import CoreVectorClassifier
from corevec.estimators.detect import SVDD, CoreVectorOneClass
from corevec.estimators.rank import CoreVectorRanker
from corevec.estimators.regress import CoreVectorRegressor

__all__ = [
    "SVDD",
    "CoreVectorClassifier",
    "CoreVectorOneClass",
    "CoreVectorRanker",
    "CoreVectorRegressor",
    "certify",
]
