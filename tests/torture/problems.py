"""Random rows, weights, places and parameters: what an estimator may be given."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

SHAPES = ("normal", "grid", "duplicates", "constant column", "wide column", "one row")
PLACES = ("C", "C", "C", "F", "float32", "csr", "csr32", "memmap", "torch", "dask")
KERNELS = (
    *("rbf", "rbf", "rbf", "laplacian", "inverse-distance", "linear", "poly"),
    *("sigmoid", "normalized-poly", "normalized-linear"),
)


@dataclass
class Data:
    """Rows as float64 numbers that are exactly those of the place, and a target."""

    X: np.ndarray
    classes: np.ndarray
    targets: np.ndarray
    groups: np.ndarray
    weights: np.ndarray | None
    place: str
    kernel: dict[str, Any]
    words: dict[str, Any] = field(default_factory=dict)


def rows(rng, n):
    """Return rows of some shape, unit, offset and place, and what was drawn."""
    d = int(rng.choice([1, 2, 3, 5, 8, 9, 12, 30]))
    shape = str(rng.choice(SHAPES, p=[0.4, 0.15, 0.15, 0.1, 0.15, 0.05]))
    X = rng.normal(size=(n, d))
    if shape == "grid":
        X = rng.integers(-1, 2, size=(n, d)).astype(float)
    elif shape == "duplicates":
        X = X[rng.integers(0, max(1, n // 3), size=n)]
    elif shape == "constant column":
        X[:, 0] = rng.choice([0.0, 1.0, 1e9])
    elif shape == "wide column":
        X[:, -1] *= 10.0 ** rng.uniform(2, 9)
    elif shape == "one row":
        X[:] = X[0]
    place = str(
        rng.choice(PLACES, p=[0.2, 0.15, 0.15, 0.1, 0.08, 0.1, 0.04, 0.08, 0.08, 0.02])
    )
    if "csr" in place:
        X = np.where(rng.random(X.shape) < 0.5, X, 0.0)
    scale = 10.0 ** rng.uniform(-8, 8) if rng.random() < 0.5 else 1.0
    offset = (
        float(rng.choice([0, 0, 0, 1, 1e3, 1e6, 1e9])) if "csr" not in place else 0.0
    )
    X = X * scale + offset * rng.choice([1.0, scale])
    if place in ("float32", "csr32"):
        X = X.astype(np.float32).astype(np.float64)
    drawn = {"n": n, "d": d, "shape": shape, "scale": scale, "offset": offset}
    return X, place, drawn


def kernel(rng, X):
    """Return the parameters of a kernel whose values are neither all 0 nor all 1."""
    name = str(rng.choice(KERNELS))
    if name in ("linear", "normalized-linear"):
        return {"kernel": name}
    some = X[rng.integers(0, len(X), 40)] - X[rng.integers(0, len(X), 40)]
    typical = float(np.median((some**2).sum(axis=1))) or 1.0
    if name in ("rbf", "laplacian", "inverse-distance"):
        return {"kernel": name, "gamma": 10.0 ** rng.uniform(-3, 3) / typical}
    largest = float((X**2).sum(axis=1).max()) or 1.0
    gamma = 10.0 ** rng.uniform(-1, 1) / largest
    found = {
        "kernel": name,
        "gamma": gamma,
        "coef0": float(rng.choice([0.0, 1.0, 0.3])),
    }
    return found if name == "sigmoid" else {**found, "degree": int(rng.integers(1, 6))}


def weights(rng, n):
    """Return weights of the rows, or None."""
    kind = rng.choice(["none", "none", "few", "wide", "zeros"])
    if kind == "none":
        return None
    if kind == "few":
        return rng.choice([0.0, 0.5, 1.0, 2.0], size=n)
    s = 10.0 ** rng.uniform(-6, 6, size=n)
    return s * (rng.random(n) < 0.7) if kind == "zeros" else s


def data(rng):
    """Return one random data set with targets of every kind."""
    n = int(
        rng.choice([10, 20, 40, 80, 150, 300], p=[0.2, 0.25, 0.25, 0.15, 0.1, 0.05])
    )
    X, place, drawn = rows(rng, n)
    direction = rng.normal(size=X.shape[1])
    spread = X.std(axis=0)
    score = ((X - X.mean(axis=0)) / np.where(spread > 0, spread, 1)) @ direction
    score = score + rng.choice([0.0, 0.3, 3.0]) * rng.normal(size=n)
    n_classes = int(rng.choice([2, 2, 2, 3, 5]))
    order = np.argsort(np.argsort(score, kind="stable"), kind="stable")
    classes = order * n_classes // n
    if rng.random() < 0.2:  # the same row with opposite labels
        classes = rng.integers(0, n_classes, n)
    classes[:n_classes] = np.arange(n_classes)
    unit = 10.0 ** rng.uniform(-8, 8) if rng.random() < 0.3 else 1.0
    targets = unit * (np.sin(score) + 0.1 * rng.normal(size=n))
    targets = targets + float(rng.choice([0, 0, 1, 1e6])) * unit
    if rng.random() < 0.03:
        targets[:] = targets[0]
    groups = rng.integers(0, max(1, n // 8), n)
    s = weights(rng, n)
    if s is not None:
        s[: n_classes + 2] = np.maximum(s[: n_classes + 2], 1e-6)
    found = Data(X, classes, targets, groups, s, place, kernel(rng, X))
    found.words = {**drawn, "place": place, **found.kernel}
    return found


def place_of(found, folder, X=None):
    """Return the rows in the place that was drawn."""
    X = found.X if X is None else X
    place = found.place
    if place == "F":
        return np.asfortranarray(X)
    if place == "float32":
        return X.astype(np.float32)
    if place in ("csr", "csr32"):
        rows = sparse.csr_matrix(X)
        return rows.astype(np.float32) if place == "csr32" else rows
    if place == "memmap":
        path = Path(tempfile.mkdtemp(dir=folder)) / "rows.npy"
        np.save(path, X)
        return np.load(path, mmap_mode="r")
    if place == "torch":
        import torch

        return torch.as_tensor(X)
    if place == "dask":
        import dask.array

        return dask.array.from_array(X, chunks=(max(1, len(X) // 2), X.shape[1]))
    return np.ascontiguousarray(X)
