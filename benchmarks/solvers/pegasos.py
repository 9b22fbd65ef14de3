"""One pass of Pegasos with one row a step (k = 1), written from its paper.

Shalev-Shwartz, Singer and Srebro, ICML 2007, figure 1: at step t, with the step length
1 / (lambda t),

    w <- (1 - 1/t) w + [y w'x < 1] y x / (lambda t)
    w <- w min(1, 1 / (sqrt(lambda) |w|))          (where `project`)

lambda = 1 / (C n). The paper draws the row of each step; a stream hands them out in its
order. The sum v = lambda t w changes by y x at violations only, so that a step costs
the entries of its row. The bias is section 4's first: a column of ones, penalised.
No maintained package was found that has this step rule (SGDClassifier's "optimal"
starts at another t).
"""

import numpy as np
from numba import njit
from scipy import sparse

from benchmarks.solvers._base import Solver, chosen
from benchmarks.solvers._one_pass import OnePass


@njit(cache=True, nogil=True)
def _steps(values, columns, starts, y, settings, v, state):
    """Walk over the rows. `v` ends with the bias; `state`: t, |v|^2, violations."""
    penalty, is_projected, one = settings
    t, square, violations = state
    limit = 1 / np.sqrt(penalty)
    for i in range(len(y)):
        dot, length = one * v[-1], one
        for p in range(starts[i], starts[i + 1]):
            dot += values[p] * v[columns[p]]
            length += values[p] * values[p]
        # w = v / (lambda t) of the step before; t = 0 has w = 0, a violation.
        if t == 0 or y[i] * dot < penalty * t:
            for p in range(starts[i], starts[i + 1]):
                v[columns[p]] += y[i] * values[p]
            v[-1] += one * y[i]
            square += 2 * y[i] * dot + length
            violations += 1
        t += 1
        if is_projected and np.sqrt(square) > limit * penalty * t:
            shrink = limit * penalty * t / np.sqrt(square)
            v *= shrink
            square *= shrink * shrink
    state[:] = t, square, violations


class Pegasos:
    """Two classes, -1 and 1; `partial_fit` goes on from the step it came to."""

    def __init__(self, penalty, project=True, fit_intercept=True):
        self.penalty = penalty
        self.project = project
        self.fit_intercept = fit_intercept
        self._v = None

    def partial_fit(self, X, y, classes=None):
        if self._v is None:
            self._v, self._state = np.zeros(X.shape[1] + 1), np.zeros(3)
        one = 1.0 if self.fit_intercept else 0.0
        settings = (float(self.penalty), bool(self.project), one)
        _steps(*_entries(X), np.asarray(y, np.float64), settings, self._v, self._state)
        return self

    @property
    def n_violations(self):
        return int(self._state[2])

    def predict(self, X):
        v = self._v[:-1]
        return np.where(X @ v + self._v[-1] > 0, 1, -1)


def _entries(X):
    """Return values, columns and row starts; a dense row has all its columns."""
    if sparse.issparse(X):
        return X.data, X.indices, X.indptr
    n, d = X.shape
    columns = np.tile(np.arange(d, dtype=np.int32), n)
    return np.ascontiguousarray(X).ravel(), columns, np.arange(0, n * d + 1, d)


def build(params, seed, threads):
    given = chosen(params, "fit_intercept", "project")

    def make(n_rows):
        return Pegasos(1 / (params.get("C", 1.0) * n_rows), **given)

    return OnePass(make, params.get("n_rows"))


def facts(one_pass, params):
    return {"n_support": one_pass.model.n_violations}


SOLVER = Solver("pegasos", "corevec", "numba", build, facts)
