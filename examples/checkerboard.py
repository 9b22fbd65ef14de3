"""A kernel machine on a million rows: train, certify, draw.

Run by ``make demo``. Generates the 4x4 checkerboard of the Core Vector Machine paper,
fits all of it with corevec and 20,000 rows of it with scikit-learn's SVC, and writes
``checkerboard.png``.
"""

import time
from pathlib import Path

import numpy as np
from sklearn.svm import SVC

from corevec import CoreVectorClassifier

ROWS, SVC_ROWS, TEST_ROWS = 1_000_000, 20_000, 100_000
C, GAMMA = 1000.0, 0.37  # the settings of the paper, section 5.1
PICTURE = Path("checkerboard.png")


def board(n_rows, seed):
    """Return points of the board [0, 4) x [0, 4) and the colour of their field."""
    X = np.random.default_rng(seed).random((n_rows, 2)) * 4
    return X, np.floor(X).sum(axis=1).astype(int) % 2


def timed_fit(model, X, y):
    start = time.perf_counter()
    model.fit(X, y)
    return time.perf_counter() - start


def draw(model, X, y, path):
    """Draw the learned board, a few training rows and the basis rows."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    side = np.linspace(0, 4, 401)
    grid = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    values = model.decision_function(grid).reshape(401, 401)
    figure, axes = plt.subplots(figsize=(6, 6.3), layout="constrained")
    # Twice the range: pale colours, in front of which the points are seen.
    axes.contourf(
        *(side, side, np.clip(values, -3, 3)), levels=25, cmap="RdBu_r", vmin=-6, vmax=6
    )
    axes.contour(side, side, values, levels=[0], colors="#26323f", linewidths=1.2)
    axes.scatter(*X[:3000].T, s=3, c=np.where(y[:3000], "#b2182b", "#2166ac"), lw=0)
    axes.scatter(*model.support_vectors_.T, s=42, c="gold", edgecolors="#26323f")
    # Grey on nothing: legible on white pages and on dark ones.
    axes.set_title(
        f"{ROWS:,} rows, {len(model.support_)} core vectors (gold), "
        f"certified gap {model.certificate_.relative_gap:.0e}",
        color="#7d8894",
    )
    axes.set(aspect="equal", xlim=(0, 4), ylim=(0, 4))
    axes.axis("off")
    figure.savefig(path, dpi=120, transparent=True)


def main():
    CoreVectorClassifier(C=C).fit(*board(6000, seed=9))  # compile before the clock
    X, y = board(ROWS, seed=0)
    X_test, y_test = board(TEST_ROWS, seed=1)

    ours = CoreVectorClassifier(C=C, gamma=GAMMA, random_state=0)
    our_seconds = timed_fit(ours, X, y)
    our_error = np.mean(ours.predict(X_test) != y_test)

    theirs = SVC(C=C, gamma=GAMMA)
    their_seconds = timed_fit(theirs, X[:SVC_ROWS], y[:SVC_ROWS])
    their_error = np.mean(theirs.predict(X_test) != y_test)

    print(f"4x4 checkerboard, C={C:g}, gamma={GAMMA}, {TEST_ROWS:,} test points\n")
    print(f"{'':24}{'corevec':>12}{'sklearn SVC':>14}")
    for name, a, b in [
        ("training rows", f"{ROWS:,}", f"{SVC_ROWS:,}"),
        ("seconds to fit", f"{our_seconds:.2f}", f"{their_seconds:.2f}"),
        ("vectors in the model", len(ours.support_), len(theirs.support_)),
        ("wrong on test points", f"{our_error:.2%}", f"{their_error:.2%}"),
    ]:
        print(f"{name:24}{a:>12}{b:>14}")
    found = ours.certificate_
    print(
        f"\nHow good is the model? Its training objective is at most "
        f"{found.relative_gap:.1e} (relative)\nabove the best that any solver could "
        f"reach; that was measured on {found.n_verified:,} of {found.n_rows:,} rows.\n"
    )
    print(found)
    draw(ours, X, y, PICTURE)
    print(f"\nPicture: {PICTURE.resolve()}")


if __name__ == "__main__":
    main()
