"""
Intervals that hold on new rows
===============================

Quantile regressions give an interval for each row. On new rows it holds less often than
on the training rows; conformal prediction (here MAPIE's split conformal) widens it by
what held-out rows ask for.
"""

import matplotlib.pyplot as plt
import numpy as np
from mapie.regression import SplitConformalRegressor

from corevec import CoreVectorRegressor

rng = np.random.default_rng(0)
X = rng.uniform(-3, 3, size=(3000, 1))
y = np.sin(2 * X[:, 0]) + (0.1 + 0.15 * abs(X[:, 0])) * rng.normal(size=3000)
train, held, new = slice(0, 300), slice(1000, 1500), slice(1500, None)

# %%
# Two quantiles: the width follows the noise.

ends = [
    CoreVectorRegressor(C=3, gamma=4.0, loss="quantile", level=t).fit(
        X[train], y[train]
    )
    for t in (0.05, 0.95)
]
low, high = (end.predict(X[new]) for end in ends)
print(
    f"quantiles: {np.mean((low <= y[new]) & (y[new] <= high)):.3f} of new rows inside"
)

# %%
# Widened by hand: both ends move by the 0.9-quantile of how far held-out rows lie
# outside (Romano, Patterson and Candes 2019).

miss = np.maximum(
    ends[0].predict(X[held]) - y[held], y[held] - ends[1].predict(X[held])
)
margin = np.quantile(miss, 0.9)
low, high = low - margin, high + margin
print(f"widened:   {np.mean((low <= y[new]) & (y[new] <= high)):.3f}")

# %%
# MAPIE around one regression: the same promise, one width for all rows.

model = CoreVectorRegressor(C=3, gamma=4.0, tube=0.0).fit(X[train], y[train])
conformal = SplitConformalRegressor(model, confidence_level=0.9, prefit=True)
_, both = conformal.conformalize(X[held], y[held]).predict_interval(X[new])
inside = (both[:, 0, 0] <= y[new]) & (y[new] <= both[:, 1, 0])
print(f"MAPIE:     {np.mean(inside):.3f}")

# %%
# The two beside each other.

order = np.argsort(X[new, 0])
x = X[new, 0][order]
figure, axes = plt.subplots(figsize=(8, 4.2), layout="constrained")
axes.scatter(X[new, 0], y[new], s=3, color="0.7")
axes.fill_between(x, low[order], high[order], alpha=0.3, label="quantiles, widened")
axes.plot(x, both[order, :, 0], color="tab:orange", lw=1.5)
axes.plot([], [], color="tab:orange", label="MAPIE, one width")
axes.legend()
