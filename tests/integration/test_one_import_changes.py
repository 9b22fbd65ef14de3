"""Ten programs as tutorials of SVC write them, run with one import changed.

Each is a text with ``from sklearn.svm import ...`` (or ``from sklearn import svm``). It
runs twice, as it is and with corevec in that line, and leaves `answer`: numbers that
must agree, up to what the tolerance of both solvers allows.
"""

import textwrap
import warnings

import numpy as np
import pytest

IRIS_PIPELINE_AND_GRID = """
    from sklearn.datasets import load_iris
    from sklearn.model_selection import GridSearchCV, train_test_split
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC

    X, y = load_iris(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
    pipe = make_pipeline(StandardScaler(), SVC())
    grid = {"svc__C": [0.1, 1, 10], "svc__kernel": ["linear", "rbf"]}
    search = GridSearchCV(pipe, grid, cv=3).fit(X_train, y_train)
    answer = search.best_score_, search.score(X_test, y_test)
    model = search.best_estimator_[-1]
"""
DIGITS = """
    from sklearn import datasets, metrics, svm
    from sklearn.model_selection import train_test_split

    digits = datasets.load_digits()
    data = digits.images.reshape((len(digits.images), -1))[:800]
    X_train, X_test, y_train, y_test = train_test_split(
        data, digits.target[:800], test_size=0.5, shuffle=False
    )
    model = svm.SVC(gamma=0.001)
    model.fit(X_train, y_train)
    predicted = model.predict(X_test)
    answer = metrics.confusion_matrix(y_test, predicted)
"""
PCA_AND_SVC = """
    from sklearn.datasets import load_digits
    from sklearn.decomposition import PCA
    from sklearn.model_selection import train_test_split
    from sklearn.pipeline import make_pipeline
    from sklearn.svm import SVC

    X, y = load_digits(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(
        X[:600], y[:600], random_state=42
    )
    pca = PCA(n_components=20, whiten=True, svd_solver="full", random_state=42)
    svc = SVC(kernel="rbf", class_weight="balanced", C=5.0, gamma=0.02)
    pipe = make_pipeline(pca, svc).fit(X_train, y_train)
    model = pipe.named_steps["svc"]
    answer = pipe.score(X_test, y_test), len(model.support_vectors_) / 600
"""
SINE = """
    import numpy as np
    from sklearn.svm import SVR

    rng = np.random.RandomState(42)
    X = np.sort(5 * rng.rand(40, 1), axis=0)
    y = np.sin(X).ravel()
    y[::5] += 3 * (0.5 - rng.rand(8))
    models = [
        SVR(kernel="rbf", C=100, gamma=0.1, epsilon=0.1),
        SVR(kernel="linear", C=100, gamma="auto"),
        SVR(kernel="poly", C=100, gamma="auto", degree=3, epsilon=0.1, coef0=1),
    ]
    answer = [one.fit(X, y).score(X, y) for one in models], models[0].predict(X)
    model = models[0]
"""
OUTLIERS = """
    import numpy as np
    from sklearn import svm

    rng = np.random.RandomState(0)
    X = 0.3 * rng.randn(100, 2)
    X_train = np.r_[X + 2, X - 2]
    X_outliers = rng.uniform(low=-4, high=4, size=(20, 2))
    model = svm.OneClassSVM(nu=0.1, kernel="rbf", gamma=0.1)
    model.fit(X_train)
    n_error_train = (model.predict(X_train) == -1).sum()
    answer = [
        model.score_samples(X_outliers),
        model.decision_function(X_outliers),
        np.full(20, n_error_train / 10),
    ]
"""
UNBALANCED = """
    from sklearn.datasets import make_blobs
    from sklearn.svm import SVC

    X, y = make_blobs(
        n_samples=[500, 50],
        centers=[[0.0, 0.0], [2.0, 2.0]],
        cluster_std=[1.5, 0.5],
        random_state=0,
        shuffle=False,
    )
    plain = SVC(kernel="linear", C=1.0).fit(X, y)
    model = SVC(kernel="linear", class_weight={1: 10}).fit(X, y)
    answer = [plain.coef_, model.coef_, [plain.intercept_, model.intercept_]]
"""
OWN_KERNEL = """
    import numpy as np
    from sklearn import datasets, svm

    iris = datasets.load_iris()
    X, Y = iris.data[:, :2], iris.target

    def my_kernel(X, Y):
        M = np.array([[2, 0], [0, 1.0]])
        return np.dot(np.dot(X, M), Y.T)

    model = svm.SVC(kernel=my_kernel)
    model.fit(X, Y)
    answer = model.score(X, Y), model.decision_function(X[:5]).argmax(axis=1)
"""
GRAM_MATRIX = """
    import numpy as np
    from sklearn.datasets import make_classification
    from sklearn.model_selection import train_test_split
    from sklearn import svm

    X, y = make_classification(n_samples=100, random_state=0)
    X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
    model = svm.SVC(kernel="precomputed")
    gram_train = np.dot(X_train, X_train.T)
    model.fit(gram_train, y_train)
    gram_test = np.dot(X_test, X_train.T)
    answer = model.decision_function(gram_test)
"""
TEXTS = """
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.pipeline import Pipeline
    from sklearn.svm import SVC

    topics = {
        "space": "orbit rocket launch moon shuttle satellite engine crew".split(),
        "cooking": "onion garlic simmer butter oven taste salt engine".split(),
        "law": "court judge appeal statute verdict counsel crew taste".split(),
    }
    words = [(name, word) for name, own in topics.items() for word in own]
    texts = [
        f"{a} {b} and {c}"
        for i, (name, a) in enumerate(words)
        for b, c in [(words[i - 1][1], words[i - 2][1]), (a, words[i - 3][1])]
    ]
    labels = [name for name, _ in words for _ in range(2)]
    pipe = Pipeline([("tfidf", TfidfVectorizer()), ("clf", SVC(kernel="linear"))])
    pipe.fit(texts, labels)
    model = pipe["clf"]
    answer = model.coef_.toarray(), pipe.decision_function(["rocket court", "salt"])
"""
CALIBRATED = """
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.datasets import make_classification
    from sklearn.metrics import roc_auc_score
    from sklearn.model_selection import cross_val_score
    from sklearn.svm import SVC, NuSVR

    X, y = make_classification(n_samples=200, flip_y=0.1, random_state=1)
    model = SVC(C=0.5, random_state=0)
    calibrated = CalibratedClassifierCV(model, ensemble=False, cv=3).fit(X, y)
    model.fit(X, y)
    auc = cross_val_score(model, X, y, scoring="roc_auc", cv=4)
    r2 = NuSVR(nu=0.4).fit(X, y).score(X, y)
    answer = [calibrated.predict_proba(X)[:, 1], auc, r2]
"""
PROGRAMS = {
    "iris pipeline and grid": IRIS_PIPELINE_AND_GRID,
    "digits": DIGITS,
    "pca and svc": PCA_AND_SVC,
    "sine": SINE,
    "outliers": OUTLIERS,
    "unbalanced": UNBALANCED,
    "own kernel": OWN_KERNEL,
    "gram matrix": GRAM_MATRIX,
    "texts": TEXTS,
    "calibrated": CALIBRATED,
}


def changed(program):
    """Return the program with one line changed, the import."""
    lines = program.splitlines()
    places = [k for k, line in enumerate(lines) if "svm" in line and "import" in line]
    assert len(places) == 1
    line = lines[places[0]]
    if "from sklearn.svm import" in line:
        line = line.replace("sklearn.svm", "corevec.svm")
    else:  # svm is one of several names
        names = [name.strip() for name in line.split("import")[1].split(",")]
        others = ", ".join(name for name in names if name != "svm")
        line = "    from corevec import svm"
        line += f"; from sklearn import {others}" if others else ""
    lines[places[0]] = line
    return "\n".join(lines)


def run(program):
    """Return what a program leaves behind."""
    left = {}
    exec(compile(textwrap.dedent(program), "tutorial", "exec"), left)
    return left


def flat(answer):
    """Return the numbers of an answer in one vector."""
    if isinstance(answer, list | tuple):
        return np.concatenate([flat(part) for part in answer])
    return np.ravel(np.asarray(answer, dtype=float))


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_with_one_import_changed_does_what_it_did(name):
    program = PROGRAMS[name]
    before = run(program)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        after = run(changed(program))
    assert type(before["model"]).__module__.startswith("sklearn.")
    assert type(after["model"]).__module__.startswith("corevec.")
    assert after["model"].certificate_.converged
    wanted, found = flat(before["answer"]), flat(after["answer"])
    # Both stop at a violation of 1e-3, in units of the decision values.
    scale = max(1.0, float(np.abs(wanted).max()))
    assert found == pytest.approx(wanted, abs=5e-3 * scale)
