"""Estimators with few vectors: the parameters of the method beside the others."""

from corevec import CoreVectorClassifier, CoreVectorRegressor, methods

OF_METHOD = ("regulariser", "certificate")


def classifier(n_vectors=100, basis="pursuit", loss="squared_hinge", **parameters):
    """Return a classifier with few vectors."""
    given = {"loss": loss} | parameters
    return _made(CoreVectorClassifier, n_vectors, basis, given)


def rsvm(share=0.1, **parameters):
    """Return a Reduced SVM."""
    return CoreVectorClassifier(method=methods.FewVectors.rsvm(share), **parameters)


def lsvm(n_vectors, **parameters):
    """Return an LSVM."""
    return CoreVectorClassifier(method=methods.FewVectors.lsvm(n_vectors), **parameters)


def regressor(n_vectors=100, basis="pursuit", **parameters):
    """Return a regressor with few vectors, of the squared loss."""
    given = {"C": 1.0, "tube": 0.0} | parameters
    return _made(CoreVectorRegressor, n_vectors, basis, given)


def _made(kind, n_vectors, basis, parameters):
    own = {name: parameters.pop(name) for name in OF_METHOD if name in parameters}
    method = methods.FewVectors(n_vectors, basis=basis, **own)
    return kind(method=method, **parameters)
