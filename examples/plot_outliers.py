"""
Outliers among many rows
========================

A one-class machine and the smallest ball of the same rows. Here are 30,000; a million
take the same code.
"""

import matplotlib.pyplot as plt
import numpy as np

from corevec import SVDD, CoreVectorOneClass
from corevec.plots import OneClassMapDisplay

ROWS = 30_000
rng = np.random.default_rng(0)
X = np.vstack(
    [rng.normal(size=(ROWS // 2, 2)), 0.5 * rng.normal(size=(ROWS // 2, 2)) + [3, 3]]
)

# %%
# ``nu`` is the share of rows to leave outside; the ball encloses all rows.

detector = CoreVectorOneClass(nu=0.02, gamma=0.5, random_state=0).fit(X)
print(f"outside: {np.mean(detector.predict(X) == -1):.3f}")
print(detector.certificate_)
ball = SVDD(gamma=0.5, random_state=0).fit(X)
print(f"radius {ball.radius_:.3f}, outside: {np.mean(ball.predict(X) == -1):.3f}")

# %%
# Level sets of both.

figure, axes = plt.subplots(1, 2, figsize=(13, 5), layout="constrained")
OneClassMapDisplay.from_estimator(detector, X, ax=axes[0])
OneClassMapDisplay.from_estimator(ball, X, ax=axes[1])
axes[0].set_title("CoreVectorOneClass(nu=0.02)", loc="left")
axes[1].set_title("SVDD(): no row outside", loc="left")
