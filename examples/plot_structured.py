"""
Structured outputs: a cost for each mistake
===========================================

A structural SVM is trained with the cost of each mistake. Here the classes are grades,
and a mistake costs the distance between them, so the machine prefers near misses.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import ConfusionMatrixDisplay

from corevec import StructuralSVM

rng = np.random.default_rng(0)
X = rng.normal(size=(3000, 4))
hidden = X @ [1.0, -0.5, 0.3, 0.0] + 0.5 * rng.normal(size=3000)
y = np.digitize(hidden, [-1.5, -0.5, 0.5, 1.5])
grades = np.arange(5)

# %%
# Crammer and Singer's machine with cost 1 for each mistake, and with the distance.

plain = StructuralSVM(C=0.01).fit(X[:2000], y[:2000])
by_distance = StructuralSVM(C=0.01, cost_matrix=abs(grades[:, None] - grades))
by_distance.fit(X[:2000], y[:2000])
figure, axes = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
names = ("cost 1", "cost = distance")
for name, model, ax in zip(names, (plain, by_distance), axes, strict=True):
    predicted = model.predict(X[2000:])
    cost = np.mean(abs(predicted - y[2000:]))
    print(f"{name:16} mean distance {cost:.3f}, {model.certificate_.relative_gap:.0e}")
    ConfusionMatrixDisplay.from_predictions(
        y[2000:], predicted, ax=ax, colorbar=False, cmap="Blues"
    )
    ax.set_title(f"{name}: mean distance {cost:.2f}")
