"""
Few vectors, weights from all rows
==================================

Noisy labels make an exact machine keep a large part of the rows. Ten vectors, placed
where they help most and weighted by all rows, are as accurate here.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import make_moons

from corevec import CoreVectorClassifier, methods
from corevec.plots import DecisionMapDisplay

X, y = make_moons(4000, noise=0.35, random_state=0)
X_test, y_test = make_moons(4000, noise=0.35, random_state=1)
exact = CoreVectorClassifier(C=10, gamma=1.0, random_state=0).fit(X, y)
few = CoreVectorClassifier(
    C=10, gamma=1.0, random_state=0, method=methods.FewVectors(10)
).fit(X, y)

figure, axes = plt.subplots(1, 2, figsize=(11, 4.6), layout="constrained")
for model, ax in zip((exact, few), axes, strict=True):
    found = model.certificate_
    text = f"{len(model.support_)} vectors, accuracy {model.score(X_test, y_test):.3f}"
    print(f"{text}, gap {found.relative_gap:.1e}, stopped by {found.stopped_by}")
    DecisionMapDisplay.from_estimator(model, X, y, ax=ax)
    ax.set_title(text, loc="left")
