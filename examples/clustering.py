"""Support vector clustering on the kernel ball, and the radius of the margin bound.

The smallest ball around the rows in the space of a Gaussian kernel, seen from the
columns, is a set of contours around clouds of rows (Ben-Hur, Horn, Siegelmann, Vapnik
2001; the CVM paper's section 3 names it). Two rows belong together if a path between
them stays inside. 20,000 rows are fitted; 400 of them are joined where the segment to a
near neighbour stays inside, and every other row goes with the nearest of those.

The same ball has the R of the radius-margin bound: R^2 |w|^2 bounds the leave-one-out
errors of a machine without slack, so it can choose a kernel's width without a
validation set. Writes ``docs/clustering.png``.
"""

import time
from pathlib import Path

import numpy as np
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components
from sklearn.datasets import make_circles, make_moons
from sklearn.neighbors import NearestNeighbors

from corevec import SVDD

ROWS, GAMMA = 20_000, 60.0
FEW, NEIGHBOURS, STEPS = 400, 12, 12
PICTURE = Path("clustering.png")


def two_rings_and_two_moons(n, seed=0):
    rings, _ = make_circles(n // 2, factor=0.35, noise=0.05, random_state=seed)
    moons, _ = make_moons(n - n // 2, noise=0.06, random_state=seed)
    return np.vstack([rings, moons + np.array([2.9, -0.25])])


def segments_inside(ball, starts, ends):
    """Return which segments between rows stay inside the ball."""
    inside = np.ones(len(starts), dtype=bool)
    for share in np.linspace(0, 1, STEPS + 2)[1:-1]:
        inside &= ball.decision_function((1 - share) * starts + share * ends) >= 0
    return inside


def clusters(ball, X, seed=0):
    """Return a number for each row: that of its cluster, -1 for rows outside."""
    held = np.flatnonzero(ball.decision_function(X) >= 0)
    some = np.random.default_rng(seed).choice(held, FEW, replace=False)
    near = NearestNeighbors(n_neighbors=NEIGHBOURS).fit(X[some])
    i = np.repeat(np.arange(FEW), NEIGHBOURS)
    j = near.kneighbors(return_distance=False).ravel()
    joined = segments_inside(ball, X[some][i], X[some][j])
    graph = coo_matrix((np.ones(joined.sum()), (i[joined], j[joined])), (FEW, FEW))
    of_some = connected_components(graph, directed=False)[1]
    labels = np.full(len(X), -1)
    labels[held] = of_some[near.kneighbors(X[held], 1, return_distance=False)[:, 0]]
    return labels


def draw(ball, X, labels, path):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    low, high = X.min(axis=0) - 0.3, X.max(axis=0) + 0.3
    columns, lines = (
        np.linspace(low[0], high[0], 500),
        np.linspace(low[1], high[1], 250),
    )
    x, y = np.meshgrid(columns, lines)
    inside = ball.decision_function(np.column_stack([x.ravel(), y.ravel()]))
    figure, axes = plt.subplots(figsize=(8, 4), layout="constrained")
    axes.scatter(*X[::5].T, s=3, c=labels[::5], cmap="tab10")
    axes.contour(x, y, inside.reshape(x.shape), levels=[0], colors="black")
    axes.set_title(
        f"{len(X):,} rows, {labels.max() + 1} clusters, "
        f"{len(ball.support_)} support vectors"
    )
    axes.set_aspect("equal")
    figure.savefig(path, dpi=120)


def main():
    X = two_rings_and_two_moons(ROWS)
    start = time.perf_counter()
    ball = SVDD(gamma=GAMMA, random_state=0).fit(X)
    labels = clusters(ball, X)
    seconds = time.perf_counter() - start
    sizes = np.bincount(labels[labels >= 0])
    print(f"{ROWS:,} rows in {seconds:.1f} s: clusters of {sizes.tolist()}")
    print(f"{(labels < 0).mean():.1%} of the rows outside the ball\n")
    for gamma in (0.5, 5.0, 50.0):
        radius = SVDD(gamma=gamma, random_state=0).fit(X[:2000]).radius_
        print(f"gamma {gamma:>4}: R^2 of the radius-margin bound {radius**2:.3f}")
    draw(ball, X, labels, PICTURE)
    print(f"\nPicture: {PICTURE.resolve()}")


if __name__ == "__main__":
    main()
