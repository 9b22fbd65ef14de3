"""
From SVC in one import
======================

``corevec.svm.SVC`` has the parameters and attributes of scikit-learn's, and a
certificate.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_iris
from sklearn.inspection import DecisionBoundaryDisplay
from sklearn.svm import SVC as TheirSVC

from corevec.svm import SVC

iris = load_iris()
X, y = iris.data[:, 2:], iris.target
ours, theirs = SVC(C=10).fit(X, y), TheirSVC(C=10).fit(X, y)
print(ours.n_support_, theirs.n_support_)
print(f"{np.mean(ours.predict(X) == theirs.predict(X)):.1%} of the answers agree")
print(ours.certificate_)

# %%
# scikit-learn's own pictures take either.

figure, axes = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
for name, model, ax in zip(
    ("corevec", "scikit-learn"), (ours, theirs), axes, strict=True
):
    DecisionBoundaryDisplay.from_estimator(
        model, X, response_method="predict", alpha=0.4, ax=ax
    )
    ax.scatter(*X.T, c=y, s=12, edgecolors="black", linewidths=0.3)
    ax.set(title=name, xlabel="petal length", ylabel="petal width")
