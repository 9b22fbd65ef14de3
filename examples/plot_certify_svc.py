"""
How good is somebody else's SVC?
================================

``certify`` measures the duality gap of a fitted model of another library: here
scikit-learn's ``SVC``, stopped after more and more steps.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC

from corevec import certify

rng = np.random.default_rng(0)
X = 4 * rng.random((1500, 2))
y = np.floor(X).sum(axis=1).astype(int) % 2

steps = [300, 1_000, 3_000, 10_000, 30_000, 100_000]
found = []
for limit in steps:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the point of the example
        model = SVC(C=1000, gamma=1.0, max_iter=limit).fit(X, y)
    found.append(certify(model, X, y))
    print(
        f"{limit:7,} steps: gap {found[-1].relative_gap:.1e}, {model.score(X, y):.3f}"
    )
print(found[-1])

# %%
# The optimum lies between the two lines.

figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
axes.loglog(steps, [one.primal for one in found], "o-", label="primal")
axes.loglog(steps, [max(one.dual, 1.0) for one in found], "o-", label="dual")
axes.set(xlabel="max_iter of SVC", ylabel="objective")
axes.legend()
