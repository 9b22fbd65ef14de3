"""scikit-learn's support vector machines on corevec's exact solver.

``from corevec.svm import SVC`` in place of ``from sklearn.svm import SVC``. What is not
solved here is scikit-learn's own: `LinearSVC`, `LinearSVR` and `l1_min_c`.
"""

from sklearn.svm import LinearSVC, LinearSVR, l1_min_c

from corevec.estimators.svm import (
    SVC,
    SVR,
    NuSVC,
    NuSVR,
    OneClassSVM,
    patch_sklearn,
    unpatch_sklearn,
)

__all__ = [
    "LinearSVC",
    "LinearSVR",
    "NuSVC",
    "NuSVR",
    "OneClassSVM",
    "SVC",
    "SVR",
    "l1_min_c",
    "patch_sklearn",
    "unpatch_sklearn",
]
