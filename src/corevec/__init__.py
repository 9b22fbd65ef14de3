"""Kernel machines on very large data, each with a certificate.

Names are imported when they are first used: the command line answers ``--help`` without
Numba, which takes a second to load.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from corevec.data.sources.opening import open as open
    from corevec.estimators._base import certify
    from corevec.estimators.classify import CoreVectorClassifier
    from corevec.estimators.compression import CompressedModel, compress
    from corevec.estimators.detect import SVDD, CoreVectorOneClass
    from corevec.estimators.explanation import Explanation, explain
    from corevec.estimators.rank import CoreVectorRanker
    from corevec.estimators.regress import CoreVectorRegressor
    from corevec.estimators.search import CoreVectorClassifierCV, CoreVectorRegressorCV
    from corevec.estimators.stream import StreamingBallClassifier, StreamingBallOneClass
    from corevec.estimators.stream_classify import StreamingClassifier
    from corevec.estimators.stream_detect import StreamingOneClass
    from corevec.estimators.stream_regress import StreamingRegressor
    from corevec.estimators.structural import StructuralSVM
    from corevec.estimators.svm import patch_sklearn, unpatch_sklearn
    from corevec.estimators.transform import CoreSetNystroem
    from corevec.exceptions import (
        CorevecError,
        InvalidInputError,
        KernelError,
        NotCertifiedWarning,
        RowsLostError,
    )
    from corevec.models.certificate import Certificate
    from corevec.surfaces import ImplicitSurface

__version__ = "0.2.0"

__all__ = [
    "Certificate",
    "CompressedModel",
    "CoreSetNystroem",
    "CoreVectorClassifier",
    "CoreVectorClassifierCV",
    "CoreVectorOneClass",
    "CoreVectorRanker",
    "CoreVectorRegressor",
    "CoreVectorRegressorCV",
    "CorevecError",
    "Explanation",
    "ImplicitSurface",
    "InvalidInputError",
    "KernelError",
    "NotCertifiedWarning",
    "RowsLostError",
    "SVDD",
    "StreamingBallClassifier",
    "StreamingBallOneClass",
    "StreamingClassifier",
    "StreamingOneClass",
    "StreamingRegressor",
    "StructuralSVM",
    "certify",
    "compress",
    "explain",
    "patch_sklearn",
    "unpatch_sklearn",
]

# Where the names that are no estimators live. `open` is not in __all__: a star import
# would replace the builtin.
_ROOMS = {
    "Certificate": "corevec.models.certificate",
    "CorevecError": "corevec.exceptions",
    "ImplicitSurface": "corevec.surfaces",
    "InvalidInputError": "corevec.exceptions",
    "KernelError": "corevec.exceptions",
    "NotCertifiedWarning": "corevec.exceptions",
    "RowsLostError": "corevec.exceptions",
    "open": "corevec.data.sources.opening",
    "patch_sklearn": "corevec.estimators.svm",
    "unpatch_sklearn": "corevec.estimators.svm",
}
# Rooms for the user: `corevec.formats.save` works after `import corevec`.
_OPEN = (
    "formats",
    "methods",
    "plots",
    "reference",
    "report",
    "streams",
    "surfaces",
    "svm",
)


def __getattr__(name: str) -> Any:
    if name in _OPEN:
        return import_module(f"corevec.{name}")
    if name not in __all__ and name not in _ROOMS:
        raise AttributeError(f"module 'corevec' has no attribute {name!r}")
    value = getattr(import_module(_ROOMS.get(name, "corevec.estimators")), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, *_ROOMS, *_OPEN, "__version__"})
