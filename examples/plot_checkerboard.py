"""
Classify a checkerboard
=======================

The 4x4 checkerboard of the Core Vector Machine paper: 100,000 rows, a model of some
hundred vectors, and a certificate that says how far it is from the optimum. ``make
demo`` does the same with a million rows, beside scikit-learn's ``SVC``.
"""

import numpy as np

from corevec import CoreVectorClassifier
from corevec.plots import CoreVectorsDisplay

rng = np.random.default_rng(0)
X = 4 * rng.random((100_000, 2))
y = np.floor(X).sum(axis=1).astype(int) % 2

# %%
# ``C`` and ``gamma`` are those of the paper. The fit solves over all rows.

model = CoreVectorClassifier(C=1000, gamma=0.37, random_state=0).fit(X, y)
print(f"{model.score(X, y):.2%} right, {len(model.support_)} vectors")
print(model.certificate_)

# %%
# The rows that the model keeps, by the weight that each has in it.

CoreVectorsDisplay.from_estimator(model, X, y)
