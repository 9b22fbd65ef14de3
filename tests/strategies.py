"""Hypothesis strategies: small, nasty problems.

Each draws a seed and a shape and lets NumPy do the rest, which keeps an example cheap
and every array reproducible from the printed draw.
"""

from dataclasses import dataclass, field

import hypothesis.strategies as st
import naive
import numpy as np


def quadratic_features(X, Z):
    """Return (x.z)^2 + x.z / 2, a positive definite kernel given as a callable."""
    dot = np.asarray(X @ Z.T)
    return dot**2 + dot / 2


# Shapes are chosen so that max|k| stays near 1e3 at most on a standard cloud: what is
# tested is the solver, and a kernel of 1e10 has no digits left beside a slack of 1e-6.
KERNELS = [
    {"kernel": "rbf", "gamma": 0.5},
    {"kernel": "rbf", "gamma": 5.0},
    {"kernel": "laplacian", "gamma": 1.0},
    {"kernel": "inverse-distance", "gamma": 2.0},
    {"kernel": "linear"},
    {"kernel": "poly", "gamma": 0.5, "degree": 2, "coef0": 1.0},
    {"kernel": "normalized-poly", "gamma": 0.3, "degree": 3, "coef0": 1.0},
    {"kernel": quadratic_features},
]
DISTANCE_KERNELS = [k for k in KERNELS if k.get("gamma") and "coef0" not in k]


@dataclass
class Problem:
    """Rows, labels, weights and the parameters of one fit."""

    X: np.ndarray
    y: np.ndarray
    s: np.ndarray | None
    C: float
    kernel: dict = field(default_factory=dict)

    @property
    def K(self):
        return naive.gram(self.X, **self.kernel)

    @property
    def params(self):
        return {"C": self.C, **self.kernel}


@st.composite
def clouds(draw, min_rows=2, max_rows=24, max_columns=4, offsets=(0.0, 10.0)):
    """Rows with ties, duplicates, constant columns and offsets."""
    n = draw(st.integers(min_rows, max_rows))
    d = draw(st.integers(1, max_columns))
    rng = np.random.default_rng(draw(st.integers(0, 2**31)))
    flavour = draw(st.sampled_from(["normal", "grid", "duplicates", "constant column"]))
    X = rng.normal(size=(n, d))
    if flavour == "grid":
        X = rng.integers(-1, 2, size=(n, d)).astype(float)
    if flavour == "duplicates":
        X = X[rng.integers(0, max(1, n // 2), size=n)]
    if flavour == "constant column":
        X[:, 0] = 1.0
    return X + draw(st.sampled_from(offsets))


@st.composite
def labels(draw, n):
    """Labels -1 and +1, both present."""
    rng = np.random.default_rng(draw(st.integers(0, 2**31)))
    y = np.where(rng.random(n) < draw(st.sampled_from([0.1, 0.5])), -1, 1)
    y[rng.permutation(n)[:2]] = [-1, 1]
    return y


@st.composite
def weights(draw, y):
    """None, or weights with zeros, at least one positive weight in each class."""
    if draw(st.booleans()):
        return None
    rng = np.random.default_rng(draw(st.integers(0, 2**31)))
    s = rng.choice([0.0, 0.5, 1.0, 3.0], size=len(y))
    for label in np.unique(y):
        s[np.flatnonzero(y == label)[0]] = 1.0
    return s


def kernels(among=KERNELS):
    return st.sampled_from(among).map(dict)


def penalties(low=-3.0, high=6.0):
    """C, uniform in its logarithm."""
    return st.floats(low, high).map(lambda e: float(10**e))


@st.composite
def problems(draw, C=None, among=KERNELS, min_rows=2, max_rows=24, weighted=True):
    """A two-class problem; the detectors simply leave out y."""
    X = draw(clouds(min_rows=min_rows, max_rows=max_rows, offsets=(0.0, 2.0)))
    y = draw(labels(len(X)))
    s = draw(weights(y)) if weighted else None
    return Problem(X, y, s, draw(penalties() if C is None else C), draw(kernels(among)))


def checkerboard(n, seed=0, cells=4):
    """Return n rows uniform on [0, cells]^2 and the colour of their square."""
    X = np.random.default_rng(seed).random((n, 2)) * cells
    return X, np.where(np.floor(X).sum(axis=1) % 2 == 0, 1, -1)


@dataclass
class Regression:
    """Rows, targets, weights and the parameters of one regression."""

    X: np.ndarray
    y: np.ndarray
    s: np.ndarray | None
    C: float
    mu: float
    kernel: dict = field(default_factory=dict)
    bias: bool = True

    @property
    def K(self):
        return naive.gram(self.X, **self.kernel)

    @property
    def weight(self):
        return np.ones(len(self.y)) if self.s is None else self.s

    @property
    def units(self):
        """Return z, and the mean and deviation that lead back to y."""
        return naive.standardised(self.y, self.s, centre=self.bias)

    @property
    def z(self):
        return self.units[0]

    @property
    def params(self):
        return {
            "C": self.C,
            "mu": self.mu,
            "fit_intercept": self.bias,
            **self.kernel,
        }


@st.composite
def targets(draw, X):
    """Values that follow the rows, or do not, with ties and outliers, in any unit."""
    rng = np.random.default_rng(draw(st.integers(0, 2**31)))
    flavour = draw(st.sampled_from(["smooth", "noise", "ties", "outlier"]))
    y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=len(X))
    if flavour == "noise":
        y = rng.normal(size=len(X))
    if flavour == "ties":
        y = rng.integers(0, 3, size=len(X)).astype(float)
    if flavour == "outlier":
        y[0] += 20.0
    y[:2] += [0.5, -0.5] if y[0] == y[1] else 0.0  # never constant
    return draw(st.sampled_from([1.0, 1e-4, 1e3])) * (y + rng.choice([0.0, 3.0]))


@st.composite
def row_weights(draw, n):
    """None, or weights with zeros; the first two rows are always there."""
    if draw(st.booleans()):
        return None
    rng = np.random.default_rng(draw(st.integers(0, 2**31)))
    s = rng.choice([0.0, 0.5, 1.0, 3.0], size=n)
    s[:2] = 1.0
    return s


def expected_errors(low=-2.0, high=0.0):
    """Mu, uniform in its logarithm."""
    return st.floats(low, high).map(lambda e: float(10**e))


@st.composite
def regressions(draw, C=None, among=KERNELS, max_rows=20, weighted=True, mu=None):
    """A regression problem, one in four without a bias."""
    X = draw(clouds(min_rows=3, max_rows=max_rows, offsets=(0.0, 2.0)))
    return Regression(
        X,
        draw(targets(X)),
        draw(row_weights(len(X))) if weighted else None,
        draw(penalties(-3, 4) if C is None else C),
        draw(expected_errors() if mu is None else mu),
        draw(kernels(among)),
        draw(st.sampled_from([True, True, True, False])),
    )


def friedman(n, seed=0, noise=1.0):
    """Return n rows of Friedman's function of ten uniform columns (CVR paper, 4.1)."""
    rng = np.random.default_rng(seed)
    X = rng.random((n, 10))
    y = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2
    return X, y + 10 * X[:, 3] + 5 * X[:, 4] + noise * rng.normal(size=n)
