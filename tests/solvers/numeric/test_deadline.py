"""The time limit inside a step: refused work, and the share of what is left."""

import numpy as np
import pytest

from corevec._runtime import Progress
from corevec.solvers.numeric import (
    Deadline,
    DualProblem,
    OutOfTime,
    SmoRule,
    newton,
    smo,
)


def begun(seconds_ago, max_time):
    progress = Progress(10, max_time=max_time)
    progress.started -= seconds_ago
    return progress


def test_without_a_limit_nothing_is_refused():
    for deadline in (Deadline.of(Progress(1)), Deadline.of_certificate(Progress(1))):
        deadline.check(1e9)
        assert not deadline.is_set
        assert deadline.left == np.inf


def test_work_that_would_end_too_late_is_refused():
    deadline = Deadline.of(begun(5.0, max_time=100.0))
    deadline.check(90.0)
    with pytest.raises(OutOfTime):
        deadline.check(96.0)
    half = Deadline.of(begun(20.0, max_time=100.0), share=0.5)
    assert half.seconds == pytest.approx(60.0, abs=1.0)


def test_a_spent_limit_leaves_a_little_for_the_certificate():
    progress = begun(10.05, max_time=10.0)
    assert Deadline.of(progress).is_over()
    late = Deadline.of_certificate(progress)
    assert 0 < late.left < 2.0  # 20 % of the limit
    least = Deadline.of_certificate(begun(60.0, max_time=10.0))
    assert 0 < least.left < 0.5


def smo_in_parts(problem, start, deadline):
    return smo(problem, start, SmoRule(steps_between_checks=10), deadline)


@pytest.mark.parametrize("solve", [newton, smo_in_parts])
def test_a_small_programme_is_left_at_the_deadline(solve):
    n = 300
    X = np.random.default_rng(0).normal(size=(n, 3))
    K = np.exp(-((X[:, None] - X) ** 2).sum(axis=2))
    problem = DualProblem(K, np.full(n, 1e-6), np.ones(n))
    start = np.zeros(n)
    untimed, timed = (
        solve(problem, start, Deadline.of(Progress(n, max_time=limit)))
        for limit in (None, 1e3)
    )
    assert timed.dual == pytest.approx(untimed.dual, rel=1e-6)
    with pytest.raises(OutOfTime):
        solve(problem, start, Deadline.of(begun(2.0, max_time=1.0)))
