"""
Clusters from one ball
======================

The smallest ball around the rows in the space of a Gaussian kernel, seen from the
columns, is a set of contours around clouds of rows (Ben-Hur, Horn, Siegelmann and
Vapnik 2001). Two rows belong together if the segment between them stays inside.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components
from sklearn.datasets import make_circles, make_moons
from sklearn.neighbors import NearestNeighbors

from corevec import SVDD

FEW, NEIGHBOURS, STEPS = 400, 12, 12
rings, _ = make_circles(3000, factor=0.35, noise=0.05, random_state=0)
moons, _ = make_moons(3000, noise=0.06, random_state=0)
X = np.vstack([rings, moons + np.array([2.9, -0.25])])
ball = SVDD(gamma=60.0, random_state=0).fit(X)

# %%
# 400 rows are joined with near neighbours where the segment stays inside the ball;
# every other row goes with the nearest of these.

some = np.random.default_rng(0).choice(len(X), FEW, replace=False)
near = NearestNeighbors(n_neighbors=NEIGHBOURS).fit(X[some])
i = np.repeat(np.arange(FEW), NEIGHBOURS)
j = near.kneighbors(return_distance=False).ravel()
joined = np.ones(len(i), dtype=bool)
for share in np.linspace(0, 1, STEPS + 2)[1:-1]:
    between = (1 - share) * X[some][i] + share * X[some][j]
    joined &= ball.decision_function(between) >= 0
graph = coo_matrix((np.ones(joined.sum()), (i[joined], j[joined])), (FEW, FEW))
of_some = connected_components(graph, directed=False)[1]
labels = of_some[near.kneighbors(X, 1, return_distance=False)[:, 0]]
print("rows of the clusters:", np.bincount(labels).tolist())

# %%
# The contour of the ball, and the clusters.

low, high = X.min(axis=0) - 0.3, X.max(axis=0) + 0.3
x, y = np.meshgrid(np.linspace(low[0], high[0], 300), np.linspace(low[1], high[1], 150))
inside = ball.decision_function(np.column_stack([x.ravel(), y.ravel()]))
figure, axes = plt.subplots(figsize=(8, 4), layout="constrained")
axes.scatter(*X[::2].T, s=3, c=labels[::2], cmap="tab10")
axes.contour(x, y, inside.reshape(x.shape), levels=[0], colors="black")
axes.set_aspect("equal")
axes.set_title(f"{labels.max() + 1} clusters, {len(ball.support_)} support vectors")
