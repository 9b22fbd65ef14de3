"""
Cells: many local machines
==========================

A fine checkerboard with one label in ten wrong: no small model fits it. A tree cuts the
rows into cells, and each has an exact machine of its own.
"""

import numpy as np

from corevec import CoreVectorClassifier, methods
from corevec.plots import DecisionMapDisplay

rng = np.random.default_rng(0)


def board(n_rows):
    X = 8 * rng.random((n_rows, 2))
    return X, np.floor(X).sum(axis=1).astype(int) % 2


X, y = board(20_000)
noisy = np.where(rng.random(len(y)) < 0.1, 1 - y, y)
model = CoreVectorClassifier(
    C=10, gamma=4.0, random_state=0, method=methods.Cells(500)
).fit(X, noisy)
X_test, y_test = board(10_000)
print(f"{model.n_cells_} cells, accuracy {model.score(X_test, y_test):.3f}")
print(model.certificate_)

# %%
# The map of all cells together.

display = DecisionMapDisplay.from_estimator(model, X, noisy, resolution=300)
display.ax_.set_title(f"{model.n_cells_} cells", loc="left")
