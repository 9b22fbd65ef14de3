"""One rare row in a hundred: class_weight="balanced", beside scikit-learn's SVC."""

import time

from sklearn.datasets import make_classification
from sklearn.metrics import balanced_accuracy_score, recall_score
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from corevec import CoreVectorClassifier

ROWS, TEST_ROWS = 30_000, 20_000
SHAPE = {"C": 1.0, "gamma": 0.05}


def rows():
    """Return training and test part, one row in 101 of the rare class."""
    X, y = make_classification(
        ROWS + TEST_ROWS,
        n_features=10,
        n_informative=8,
        n_redundant=0,
        n_clusters_per_class=4,
        weights=[100 / 101],
        flip_y=0.0,
        class_sep=1.5,
        random_state=0,
    )
    X = StandardScaler().fit_transform(X)
    return X[:ROWS], y[:ROWS], X[ROWS:], y[ROWS:]


def report(name, model, X, y, X_test, y_test):
    start = time.perf_counter()
    model.fit(X, y)
    seconds = time.perf_counter() - start
    predicted = model.predict(X_test)
    print(
        f"{name:34}{seconds:8.2f} s{balanced_accuracy_score(y_test, predicted):10.1%}"
        f"{recall_score(y_test, predicted):10.1%}{len(model.support_):8,}"
    )


def main():
    X, y, X_test, y_test = rows()
    CoreVectorClassifier().fit(X[:3000], y[:3000])  # compile before the clock
    print(f"{ROWS:,} rows, {y.sum()} of them rare; {TEST_ROWS:,} test rows\n")
    print(f"{'':34}{'fit':>10}{'balanced':>10}{'rare':>10}{'SVs':>8}")
    for name, model in (
        ("corevec", CoreVectorClassifier(**SHAPE, random_state=0)),
        (
            "corevec, class_weight='balanced'",
            CoreVectorClassifier(**SHAPE, class_weight="balanced", random_state=0),
        ),
        ("SVC, class_weight='balanced'", SVC(**SHAPE, class_weight="balanced")),
    ):
        report(name, model, X, y, X_test, y_test)


if __name__ == "__main__":
    main()
