"""A curve through 20,000 noisy points: fit, certify, draw.

Generates one column of data, fits it with corevec, and writes ``docs/regression.png``:
the points, the learned curve, its tube, and the few rows that carry it.
"""

import time
from pathlib import Path

import numpy as np

from corevec import CoreVectorRegressor

ROWS, NOISE = 20_000, 0.25
PICTURE = Path("regression.png")


def curve(x):
    return np.sin(2 * x) + 0.3 * x


def noisy_rows(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-4, 4, size=(n, 1))
    return X, curve(X[:, 0]) + NOISE * rng.standard_normal(n)


def draw(model, X, y, path):
    """Draw a tenth of the rows, the curve, its tube and the support vectors."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    line = np.linspace(-4, 4, 600)
    learned = model.predict(line[:, None])
    figure, axes = plt.subplots(figsize=(8, 4.2), layout="constrained")
    axes.scatter(
        X[::10, 0], y[::10], s=3, color="0.75", label="training rows (1 in 10)"
    )
    axes.fill_between(
        line,
        learned - model.tube_,
        learned + model.tube_,
        color="tab:blue",
        alpha=0.18,
        label=f"tube, ±{model.tube_:.2f}",
    )
    axes.plot(line, curve(line), "k--", lw=1.2, label="the function behind the data")
    axes.plot(line, learned, color="tab:blue", lw=2, label="learned curve")
    axes.scatter(
        model.support_vectors_[:, 0],
        y[model.support_],
        s=30,
        color="gold",
        edgecolors="black",
        linewidths=0.7,
        zorder=3,
        label=f"{len(model.support_)} rows in the model",
    )
    axes.set_title(
        f"{len(y):,} rows, certified gap {model.certificate_.relative_gap:.0e}"
    )
    axes.set(xlabel="x", ylabel="y")
    axes.legend(fontsize=8, loc="upper left")
    figure.savefig(path, dpi=120)


def main():
    X, y = noisy_rows(ROWS)
    start = time.perf_counter()
    model = CoreVectorRegressor(C=10, mu=0.03, gamma=1.0, random_state=0).fit(X, y)
    seconds = time.perf_counter() - start

    X_test, y_test = noisy_rows(5_000, seed=1)
    inside = np.mean(np.abs(y_test - model.predict(X_test)) <= model.tube_)
    off = np.sqrt(np.mean((model.predict(X_test) - curve(X_test[:, 0])) ** 2))
    print(f"{ROWS:,} rows in {seconds:.2f} s, {len(model.support_)} rows in the model")
    print(f"distance from the function behind the data: {off:.3f} (noise {NOISE})")
    print(f"tube ±{model.tube_:.3f}, {inside:.0%} of new points inside\n")
    print(model.certificate_)
    draw(model, X, y, PICTURE)
    print(f"\nPicture: {PICTURE.resolve()}")


if __name__ == "__main__":
    main()
