"""scikit-learn's support vector machines, solved exactly: ``corevec.svm``."""

from corevec.estimators.svm._base import SupportVectorMachine
from corevec.estimators.svm._pairs import columns_of_pairs
from corevec.estimators.svm.classify import SVC, NuSVC
from corevec.estimators.svm.detect import OneClassSVM
from corevec.estimators.svm.patch import patch_sklearn, unpatch_sklearn
from corevec.estimators.svm.regress import SVR, NuSVR

__all__ = [
    "SVC",
    "SVR",
    "NuSVC",
    "NuSVR",
    "OneClassSVM",
    "SupportVectorMachine",
    "columns_of_pairs",
    "patch_sklearn",
    "unpatch_sklearn",
]
