"""`max_time` of a core set: rounds, systems and the pass that certifies."""

import time

import numpy as np
import pytest
import reading

from corevec import CoreVectorClassifier, methods
from corevec._runtime import Progress
from corevec.data.sources import Workers, as_source, row_statistics
from corevec.kernels import make_kernel
from corevec.models import Settings
from corevec.problems import Labels, two_class
from corevec.solvers import coreset

N = 12_000
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 3))
Y = (np.sin(2 * X[:, 0]) + RNG.normal(size=N) > 0).astype(int)


class SlowKernel:
    """A kernel function that takes its time for a block, and notes when that was."""

    def __init__(self, seconds):
        self.seconds, self.called = seconds, []

    def __call__(self, A, B):
        if len(A) != len(B):  # not for values of k(x, x)
            time.sleep(self.seconds)
            self.called.append(time.perf_counter())
        return np.exp(-((A[:, None] - B) ** 2).sum(axis=2))


def run(kernel, progress, memory_budget=2**28):
    source = as_source(X, memory_budget, Workers(1))
    problem = two_class(Labels(N, Y), 1.0, 1, 0)
    job = coreset.Job(source, kernel, Settings(random_state=0), progress)
    return coreset.run([problem], job)


def test_a_pass_that_does_not_fit_certifies_nothing():
    slow = SlowKernel(0.1)
    kernel = make_kernel(slow, 1.0, 3, 0.0, None)
    progress = Progress(N, max_time=0.5)
    found = run(kernel, progress, memory_budget=2**17)  # a block has 256 rows
    certificate = found.certificates[0]
    assert certificate.stopped_by == "max_time"
    assert (certificate.n_verified, certificate.converged) == (0, False)
    assert np.isinf(certificate.primal)
    assert np.isfinite(found.functions.coef).all()
    assert "no bound" in str(certificate)
    # A pass takes 5 s. One call may be under way at the deadline, which is 0.4 s late,
    # and a subset is scanned in eight blocks.
    begun = progress.started
    after = [t for t in slow.called if t - begun > 0.9 + slow.seconds]
    assert len(after) <= 10


def test_a_spent_limit_still_certifies_what_a_short_pass_measures():
    progress = Progress(N, max_time=1e-3)
    kernel = make_kernel("rbf", 0.5, 3, 0.0, row_statistics(as_source(X, 2**28)))
    found = run(kernel, progress).certificates[0]
    assert found.stopped_by == "max_time"
    assert found.n_verified == N
    assert found.dual <= found.primal < np.inf


def test_a_spent_limit_ends_before_another_system_is_solved():
    kernel = make_kernel("rbf", 0.5, 3, 0.0, row_statistics(as_source(X, 2**28)))
    progress = Progress(N, max_time=1e3)

    def spend(record, _):
        """Let the clock of the fit jump beyond the limit after the third round."""
        if record["round"] == 3:
            progress.started -= 1e3

    progress.listeners.append(spend)
    found = run(kernel, progress)
    assert len(progress.history) == 3
    certificate = found.certificates[0]
    assert certificate.stopped_by == "max_time"
    # The rows of the fourth round entered; the solution is that of the third.
    assert found.n_core[0] > progress.history[-1]["core"]
    assert len(found.support[0]) == progress.history[-1]["support"]
    assert certificate.dual == pytest.approx(progress.history[-1]["dual"], rel=1e-6)


def test_a_limit_that_does_not_bind_changes_nothing():
    given = {"random_state": 0, "tol": 0.05, "method": methods.CoreSet(qp="newton")}
    plain, timed = (
        reading.fit(
            CoreVectorClassifier(C=0.1, max_time=limit, **given), X[:2000], Y[:2000]
        )
        for limit in (None, 1e4)
    )
    assert np.array_equal(plain.support_, timed.support_)
    assert np.array_equal(plain.dual_coef_, timed.dual_coef_)
