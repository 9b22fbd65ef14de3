"""
Imbalanced classes
==================

One row in a hundred is of the rare class. ``class_weight="balanced"`` gives it the
weight of the others.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import make_classification
from sklearn.metrics import (
    PrecisionRecallDisplay,
    balanced_accuracy_score,
    recall_score,
)
from sklearn.preprocessing import StandardScaler

from corevec import CoreVectorClassifier

X, y = make_classification(
    12_000,
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
X, X_test, y, y_test = X[:6000], X[6000:], y[:6000], y[6000:]
print(f"{y.sum()} of {len(y):,} rows are rare")

# %%
# The same machine with and without weights.

figure, axes = plt.subplots(figsize=(6, 4.6), layout="constrained")
for weight in (None, "balanced"):
    model = CoreVectorClassifier(gamma=0.05, class_weight=weight, random_state=0)
    predicted = model.fit(X, y).predict(X_test)
    print(
        f"class_weight={weight!s:9} balanced accuracy "
        f"{balanced_accuracy_score(y_test, predicted):.3f}, rare rows found "
        f"{recall_score(y_test, predicted):.3f}"
    )
    PrecisionRecallDisplay.from_estimator(
        model, X_test, y_test, ax=axes, name=f"class_weight={weight}"
    )
