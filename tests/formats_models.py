"""One small fitted model of every kind, for the tests of model files."""

import functools
import warnings

import numpy as np
from scipy import sparse
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.datasets import make_moons
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, StandardScaler

import corevec
from corevec import methods, reference, svm

# What a model may be asked; each model has some of them.
QUESTIONS = (
    "predict",
    "decision_function",
    "score_samples",
    "transform",
    "distance",
    "predict_proba",
)


def rows():
    """Return 80 rows of two columns, and labels in words."""
    X, y = make_moons(80, noise=0.2, random_state=0)
    return X, np.where(y == 1, "über", "under")


def three_classes():
    X, _ = rows()
    return X, np.digitize(X[:, 0] + X[:, 1], [0.2, 1.0])


def sphere():
    points = np.random.default_rng(0).normal(size=(150, 3))
    return points / np.linalg.norm(points, axis=1)[:, None]


def _classifiers():
    X, y = rows()
    X3, y3 = three_classes()
    weights = {"über": 2.0, "under": 0.5}
    yield (
        corevec.CoreVectorClassifier(C=3.0, class_weight=weights, random_state=0),
        X,
        y,
    )
    yield corevec.CoreVectorClassifier(multi_class="ovo", random_state=7), X3, y3
    yield corevec.CoreVectorClassifier(kernel="normalized-poly", coef0=1.0), X3, y3
    yield corevec.CoreVectorClassifier(random_state=0), sparse.csr_matrix(X), y
    yield corevec.CoreVectorClassifier(gamma=np.float32(0.5)), X.astype("f4"), y
    yield (
        corevec.CoreVectorClassifier(
            random_state=np.random.RandomState(3), method=methods.FewVectors(9)
        ),
        X,
        y,
    )
    yield (
        corevec.CoreVectorClassifier(
            loss="hinge", method=methods.FewVectors(basis=X[:7])
        ),
        X,
        y,
    )
    yield corevec.StreamingBallClassifier(kernel="rbf", budget=12), X3, y3
    yield corevec.StreamingBallClassifier(), X3, y3
    yield corevec.StreamingClassifier(budget=12), X3, y3
    yield corevec.StreamingClassifier(kernel="linear", budget=12), X3, y3
    yield corevec.StructuralSVM(cost_matrix=[[0, 1, 2], [1, 0, 1], [2, 1, 0]]), X3, y3
    for name in reference.__all__:
        model = getattr(reference, name)()
        if "random_state" in model.get_params():
            model.set_params(random_state=0)
        yield model, X, y
    yield make_pipeline(MinMaxScaler(), corevec.CoreVectorClassifier()), X, y
    yield make_pipeline(MaxAbsScaler(), reference.SMO()), sparse.csr_matrix(X), y


def _others():
    X, _ = rows()
    target = X[:, 0] ** 2
    yield corevec.CoreVectorRegressor(C=10.0, random_state=0), X, target
    yield (
        corevec.CoreVectorRegressor(kernel="laplacian"),
        X,
        np.stack([target, X[:, 1]], 1),
    )
    yield (
        corevec.CoreVectorRegressor(
            random_state=0, C=1.0, tube=0.0, method=methods.FewVectors(9)
        ),
        X,
        target,
    )
    yield corevec.CoreVectorRanker(random_state=0), X, np.round(target)
    yield corevec.CoreVectorOneClass(nu=0.2, random_state=0), X, None
    yield corevec.SVDD(C=0.1), X, None
    yield corevec.SVDD(kernel="linear"), X, None
    yield corevec.StreamingOneClass(nu=0.1, random_state=0), X, None
    yield corevec.StreamingOneClass(kernel="linear"), sparse.csr_matrix(X), None
    yield corevec.CoreSetNystroem(20, random_state=0), X, None
    yield corevec.ImplicitSurface(scales=2, kernel="rbf"), sphere(), None
    yield make_pipeline(StandardScaler(), corevec.CoreVectorRegressor()), X, target


def _machines():
    X, y = rows()
    X3, y3 = three_classes()
    yield svm.SVC(C=3.0, random_state=np.random.RandomState(3)), X3, y3
    yield svm.SVC(class_weight={"über": 2.0, "under": 0.5}), sparse.csr_matrix(X), y
    yield svm.SVC(kernel="precomputed"), X @ X.T + 1, y
    yield svm.NuSVC(kernel="poly", coef0=1.0, nu=0.3, probability=True), X, y
    yield svm.SVR(kernel="linear"), X, X[:, 0] ** 2
    yield svm.NuSVR(nu=0.3), sparse.csr_matrix(X), X[:, 0] ** 2
    yield svm.OneClassSVM(nu=0.2), X, None


def _around():
    X, y = rows()
    cells = corevec.CoreVectorClassifier(method=methods.Cells(size=20), random_state=0)
    yield cells, X, y
    yield CalibratedClassifierCV(corevec.CoreVectorClassifier(), cv=2), X, y
    columns = ColumnTransformer(
        [("s", StandardScaler(), [1]), ("r", "passthrough", [0])]
    )
    yield make_pipeline(columns, corevec.CoreVectorOneClass(nu=0.2)), X, None


def _compressed():
    X, y = rows()
    yield corevec.CoreVectorClassifier(random_state=0), X, y
    yield corevec.CoreVectorRegressor(random_state=0), X, X[:, 0]
    yield corevec.SVDD(C=0.1), X, None
    yield corevec.CoreVectorRanker(random_state=0), X, np.round(X[:, 0])


def _named():
    tables = (
        (_classifiers, "{}"),
        (_others, "{}"),
        (_compressed, "Compressed-{}"),
        (_machines, "{}"),
        (_around, "{}"),
    )
    for table, form in tables:
        for model, X, y in table():
            last = model[-1] if hasattr(model, "steps") else model
            yield form.format(type(last).__name__), model, X, y


_UNFITTED = {f"{i}-{name}": rest for i, (name, *rest) in enumerate(_named())}
# The last are compared in tests of their own, and fuzzed with the others.
FUZZED = tuple(_UNFITTED)
NAMES = FUZZED[: -len(list(_around()))]


def numbered(name):
    """Return the first entry of this name, whatever number it has in the list."""
    return next(one for one in FUZZED if one.partition("-")[2] == name)


def fitted_model(name):
    """Return a fitted model, and rows to ask it about."""
    return fitted_case(name)[:2]


@functools.cache
def fitted_case(name):
    """Return a fitted model, its rows and its labels or None."""
    model, X, y = _UNFITTED[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", corevec.NotCertifiedWarning)
        warnings.filterwarnings("ignore", "The `probability` parameter", FutureWarning)
        model = model.fit(X) if y is None else model.fit(X, y)
    if "Compressed" in name:
        model = corevec.compress(model, 5)
    return model, X, y


def answers(model, X):
    """Return everything that a model says about rows."""
    found = {}
    for name in QUESTIONS:
        if hasattr(model, name):
            value = getattr(model, name)(X)
            found[name] = value.toarray() if sparse.issparse(value) else value
    return found
