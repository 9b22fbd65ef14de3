"""
A curve through noisy points
============================

Core Vector Regression with an automatic tube: 10,000 noisy points, the learned curve,
its tube, and the few rows that carry it.
"""

import matplotlib.pyplot as plt
import numpy as np

from corevec import CoreVectorRegressor

rng = np.random.default_rng(0)
X = rng.uniform(-4, 4, size=(10_000, 1))
truth = np.sin(2 * X[:, 0]) + 0.3 * X[:, 0]
y = truth + 0.25 * rng.normal(size=len(X))

model = CoreVectorRegressor(C=10, mu=0.03, gamma=1.0, random_state=0).fit(X, y)
print(f"tube {model.tube_:.2f}, {len(model.support_)} rows in the model")
print(f"off the truth by {np.sqrt(np.mean((model.predict(X) - truth) ** 2)):.3f}")

# %%
# A smaller ``mu`` makes a wider tube and a smaller model.

line = np.linspace(-4, 4, 400)
learned = model.predict(line[:, None])
figure, axes = plt.subplots(figsize=(8, 4.2), layout="constrained")
axes.scatter(X[::10, 0], y[::10], s=3, color="0.75", label="rows, 1 in 10")
axes.fill_between(
    line, learned - model.tube_, learned + model.tube_, alpha=0.2, label="tube"
)
axes.plot(line, learned, lw=2, label="learned curve")
axes.plot(line, np.sin(2 * line) + 0.3 * line, "k--", lw=1, label="truth")
kept = model.support_
axes.scatter(
    X[kept, 0], y[kept], s=30, color="gold", edgecolors="black", label="in the model"
)
axes.legend(fontsize=8)
axes.set_title(f"certified gap {model.certificate_.relative_gap:.0e}")
