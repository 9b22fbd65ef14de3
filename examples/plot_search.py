"""
Choose gamma and C
==================

A search by cross-validation that computes one kernel matrix per gamma for all folds and
all C, and starts each fit from its neighbour.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.preprocessing import MinMaxScaler

from corevec import CoreVectorClassifierCV

X, y = load_digits(return_X_y=True)
X, y = MinMaxScaler().fit_transform(X)[:600], y[:600] % 2
Cs, gammas = [0.1, 1, 10, 100], [0.003, 0.01, 0.03, 0.1]
search = CoreVectorClassifierCV(Cs=Cs, gammas=gammas, cv=3, halving=False).fit(X, y)
print(search.best_params_, f"{search.best_score_:.3f}")
print(search.certificate_)

# %%
# The whole grid.

table = {
    (one["C"], one["gamma"]): score
    for one, score in zip(
        search.cv_results_["params"], search.cv_results_["mean_test_score"], strict=True
    )
}
grid = np.array([[table[C, gamma] for gamma in gammas] for C in Cs])
figure, axes = plt.subplots(figsize=(5.5, 4.4), layout="constrained")
picture = axes.imshow(grid, cmap="viridis", origin="lower")
axes.set_xticks(range(len(gammas)), gammas)
axes.set_yticks(range(len(Cs)), Cs)
axes.set(xlabel="gamma", ylabel="C", title="Accuracy, three folds")
figure.colorbar(picture)
