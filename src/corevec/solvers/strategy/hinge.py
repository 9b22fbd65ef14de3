"""The hinge loss in the span of few vectors, for one class or several.

Each class is a problem of its own (``solvers/cutting_plane``). Classes share a basis
that is chosen beforehand; one that grows with the cuts (CPSP) belongs to its class, and
the model's basis is their union.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from scipy import linalg, sparse

from corevec._runtime.progress import Progress
from corevec.certificates.dual_bounds import BoundRequest
from corevec.certificates.hinge import (
    HingeProblem,
    dual_value,
    hinge_problem,
    primal_value,
)
from corevec.data.sources import Source
from corevec.exceptions import InvalidInputError
from corevec.kernels import AnyKernel, Rows
from corevec.models.basis import basis_of_rows
from corevec.models.certificate import Certificate
from corevec.models.expansion import KernelExpansion
from corevec.models.result import FitResult, Settings
from corevec.problems.family import Problem
from corevec.solvers.basis.choose import BasisTask, Wanted, check_definite, choose
from corevec.solvers.cutting_plane.fits import (
    HingeOutcome,
    HingeTask,
    solve_in_basis,
    solve_pursuit,
)
from corevec.solvers.cutting_plane.loop import Rules
from corevec.solvers.cutting_plane.spaces import Growth
from corevec.solvers.strategy.few_vectors import WEIGHTS_TOL
from corevec.solvers.subspace.row_order import weighted_rows_on_host


def fit(
    problems: list[Problem],
    source: Source,
    kernel: AnyKernel,
    wanted: Wanted,
    settings: Settings,
    progress: Progress,
) -> FitResult:
    """Return the machines of all two-class problems, with the hinge as their loss."""
    check_definite(kernel)
    rng = np.random.default_rng(settings.random_state)
    source = _in_memory(source)
    present = weighted_rows_on_host(problems, source)
    size = wanted.size(len(present))
    rules = Rules(min(settings.tol, WEIGHTS_TOL))

    def task_of(problem: Problem) -> HingeTask:
        own = _hinge_problem(problem, source)
        return HingeTask(own, source, kernel, rules, wanted.certificate, rng)

    # The span of all rows holds the optimum: there is nothing to pursue.
    grows = wanted.basis in ("pursuit", "train") and size < len(present)
    if grows:
        growths = [
            Growth(share, from_training_rows=wanted.basis == "train")
            for share in _shares(size, len(problems))
        ]
        found = [
            solve_pursuit(task_of(problem), growth, progress)
            for problem, growth in zip(
                _in_turn(problems, progress), growths, strict=True
            )
        ]
    else:
        task = BasisTask(problems, source, kernel, wanted, settings, progress, rng)
        basis = choose(task)
        found = [
            solve_in_basis(task_of(problem), basis, progress)
            for problem in _in_turn(problems, progress)
        ]
    certificates = [_judged(one.certificates[0], settings.tol) for one in found]
    return _joined(found, certificates, shared=not grows)


def _shares(size: int, n_problems: int) -> list[int]:
    """Return the number of vectors of each class, `size` in all."""
    if size < n_problems:
        raise InvalidInputError(
            f"with loss='hinge' each of the {n_problems} classes grows vectors of its "
            f"own, and n_vectors allows {size}. Raise it to {n_problems} or more, "
            "or use a basis that classes share: 'nystroem', 'kmeans', 'rpcholesky', "
            "'cholesky' or 'coreset'."
        )
    each, more = divmod(size, n_problems)
    return [each + (t < more) for t in range(n_problems)]


def _in_turn(problems: list[Problem], progress: Progress) -> Iterator[Problem]:
    """Yield the problems, each with its share of the time and rounds that are left."""
    time, rounds = progress.max_time, progress.max_iter
    for t, problem in enumerate(problems):
        turns = len(problems) - t
        if time is not None:
            progress.max_time = progress.seconds + (time - progress.seconds) / turns
        if rounds is not None:
            done = len(progress.history)
            progress.max_iter = done + max(1, (rounds - done) // turns)
        yield problem
    progress.max_time, progress.max_iter = time, rounds


def _in_memory(source: Source) -> Source:
    """Return the rows of a remote source in memory: every cut has a number per row."""
    on_host = source.in_memory()
    if on_host is not None:
        return on_host
    raise InvalidInputError(
        f"loss='hinge' works on rows in memory, but {source!r} has more than "
        f"memory_budget={source.memory_budget:g} bytes allow to copy into memory. Use "
        "loss='squared_hinge', or raise memory_budget to four times the data.",
        parameter="loss",
    )


def verify(
    problem: Problem,
    function: KernelExpansion,
    source: Source,
    how: str,
    tol: float,
) -> Certificate:
    """Return the certificate of a function on all rows of `source`.

    The multipliers are C s_i of the violated rows, at their best scale: feasible, and
    near the optimum's where few rows lie on the margin itself.
    """
    progress = Progress(source.n_rows)
    source = _in_memory(source)
    own = _hinge_problem(problem, source)
    values = function.values(source)[:, 0]
    beta = np.where(own.sign * values < 1.0, own.omega, 0.0)
    basis = None
    if len(function.basis):
        basis, _ = basis_of_rows(function.basis, function.kernel, source.workers)
    primal = primal_value(own, function, source)
    request = BoundRequest(how)
    bound = dual_value(own, beta, source, function.kernel, basis, request)
    return Certificate.of(
        own.name,
        (primal, bound.value),
        progress,
        tol=tol,
        dual_bound=bound.kind,
        confidence=bound.confidence,
        passes=2.0,
    )


def _hinge_problem(problem: Problem, source: Source) -> HingeProblem:
    """Return a two-class problem with the hinge in place of its square."""
    assert problem.positive is not None
    classes = problem.positive, problem.negative
    given = problem.labels, problem.slack, *classes, source
    return hinge_problem(*given, has_bias=problem.has_bias)


def _joined(
    found: list[HingeOutcome], certificates: list[Certificate], *, shared: bool
) -> FitResult:
    """Return the outcomes of several classes as one."""
    functions = [one.functions for one in found]
    joint = functions[0]
    if len(found) > 1:
        each = [one.coef for one in functions]
        basis = joint.basis if shared else _union([f.basis for f in functions])
        coef = np.hstack(each) if shared else linalg.block_diag(*each)
        intercept = np.concatenate([one.intercept for one in functions])
        joint = KernelExpansion(joint.kernel, basis, coef, intercept)
    return FitResult(
        functions=joint,
        certificates=certificates,
        offsets=np.concatenate([one.offsets for one in found]),
        norms_sq=np.concatenate([one.norms_sq for one in found]),
        support=[joint.basis.index] * len(found),
        multipliers=[],
        n_core=[len(joint.basis)] * len(found),
    )


def _judged(certificate: Certificate, tol: float) -> Certificate:
    """Return the certificate for the tolerance and in the words of the estimator."""
    reached = certificate.relative_gap <= tol
    stopped_by = "tol" if reached else certificate.stopped_by
    if stopped_by == "max_vectors":
        stopped_by = "n_vectors"  # the weights in the span are solved
    return replace(certificate, converged=reached, stopped_by=stopped_by, tol=tol)


def _union(bases: list[Rows]) -> Rows:
    values = [one.values for one in bases]
    index = np.concatenate([one.index for one in bases])
    if all(sparse.issparse(one) for one in values):
        return Rows(sparse.vstack(values, format="csr"), index)
    # Pre-images are dense, also of sparse rows; a class may have none yet.
    dense = [one.toarray() if sparse.issparse(one) else one for one in values]
    return Rows(np.vstack(dense), index)
