"""Estimators with the interface of scikit-learn, and `certify` and `compress`."""

from corevec.estimators._base import certify
from corevec.estimators.classify import CoreVectorClassifier
from corevec.estimators.compress import CompressedModel, compress
from corevec.estimators.detect import SVDD, CoreVectorOneClass
from corevec.estimators.rank import CoreVectorRanker
from corevec.estimators.regress import CoreVectorRegressor
from corevec.estimators.stream import StreamingBallClassifier, StreamingOneClass
from corevec.estimators.structural import StructuralSVM
from corevec.estimators.subspace import SubspaceClassifier, SubspaceRegressor
from corevec.estimators.transform import CoreSetNystroem

__all__ = [
    "SVDD",
    "CompressedModel",
    "CoreSetNystroem",
    "CoreVectorClassifier",
    "CoreVectorOneClass",
    "CoreVectorRanker",
    "CoreVectorRegressor",
    "StreamingBallClassifier",
    "StreamingOneClass",
    "StructuralSVM",
    "SubspaceClassifier",
    "SubspaceRegressor",
    "certify",
    "compress",
]
