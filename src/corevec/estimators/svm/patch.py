"""`patch_sklearn`: the classes of this room in place of scikit-learn's, and back."""

from __future__ import annotations

from typing import Any

import sklearn.svm

from corevec.estimators.svm.classify import SVC, NuSVC
from corevec.estimators.svm.detect import OneClassSVM
from corevec.estimators.svm.regress import SVR, NuSVR

_OURS: dict[str, Any] = {
    "SVC": SVC,
    "NuSVC": NuSVC,
    "SVR": SVR,
    "NuSVR": NuSVR,
    "OneClassSVM": OneClassSVM,
}
# scikit-learn's own classes, as they were before any patch.
_THEIRS: dict[str, Any] = {}


def patch_sklearn() -> None:
    """Let ``sklearn.svm.SVC`` and its siblings be those of `corevec.svm`.

    For code that cannot be edited: call this before that code is imported. ``from
    sklearn.svm import SVC`` then gives `corevec.svm.SVC`, and so it is with ``NuSVC``,
    ``SVR``, ``NuSVR`` and ``OneClassSVM``. Names that were imported before keep
    scikit-learn's classes; models of both kinds can be used side by side. A second call
    changes nothing.

    See Also
    --------
    unpatch_sklearn : Restores scikit-learn's classes.

    Examples
    --------
    >>> import corevec
    >>> corevec.patch_sklearn()
    >>> from sklearn.svm import SVC
    >>> SVC.__module__.startswith("corevec")
    True
    >>> corevec.unpatch_sklearn()
    """
    for name, cls in _OURS.items():
        found = getattr(sklearn.svm, name)
        if found is not cls:
            _THEIRS[name] = found
            setattr(sklearn.svm, name, cls)


def unpatch_sklearn() -> None:
    """Let ``sklearn.svm.SVC`` and its siblings be scikit-learn's own again.

    Without an earlier `patch_sklearn` nothing changes.

    See Also
    --------
    patch_sklearn : Replaces scikit-learn's classes.
    """
    while _THEIRS:
        setattr(sklearn.svm, *_THEIRS.popitem())
