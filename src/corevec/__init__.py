"""Kernel machines on very large data, each with a certificate."""

from corevec.certificate import Certificate
from corevec.estimators import (
    SVDD,
    CompressedModel,
    CoreSetNystroem,
    CoreVectorClassifier,
    CoreVectorOneClass,
    CoreVectorRanker,
    CoreVectorRegressor,
    StreamingBallClassifier,
    StreamingOneClass,
    StructuralSVM,
    SubspaceClassifier,
    SubspaceRegressor,
    certify,
    compress,
)
from corevec.exceptions import (
    CorevecError,
    InvalidInputError,
    KernelError,
    NotCertifiedWarning,
)
from corevec.surfaces import ImplicitSurface

__version__ = "0.1.0"

__all__ = [
    "Certificate",
    "CompressedModel",
    "CoreSetNystroem",
    "CoreVectorClassifier",
    "CoreVectorOneClass",
    "CoreVectorRanker",
    "CoreVectorRegressor",
    "CorevecError",
    "ImplicitSurface",
    "InvalidInputError",
    "KernelError",
    "NotCertifiedWarning",
    "SVDD",
    "StreamingBallClassifier",
    "StreamingOneClass",
    "StructuralSVM",
    "SubspaceClassifier",
    "SubspaceRegressor",
    "certify",
    "compress",
]
