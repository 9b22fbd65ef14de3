"""Which machinery solves a set of problems: the span of a basis, or the core set.

A probe decides (`bases.probe`). If the kernel is numerically of low rank on these rows,
the weights of all rows are solved in that span; otherwise, or if the span's rigorous
bound does not reach `tol`, the core set grows. Both give the same `Outcome`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from corevec._runtime.progress import Progress, logger
from corevec._runtime.types import Array
from corevec.certificates.scan import Question, Subset, look
from corevec.data.sources import Source
from corevec.exceptions import KernelError
from corevec.kernels import AnyKernel
from corevec.models.basis import Basis, basis_of_rows, probe
from corevec.models.certificate import Certificate, relative_gap
from corevec.models.expansion import KernelExpansion
from corevec.models.result import Outcome, Settings
from corevec.problems.family import Floor, Problem
from corevec.solvers.coreset import loop as coreset
from corevec.solvers.coreset.selection import FIRST_SUBSET
from corevec.solvers.subspace import iterative as subspace
from corevec.solvers.subspace import low_rank as span
from corevec.solvers.subspace.sample_start import Fit, present_there
from corevec.solvers.subspace.working_set import view_that_fits

# Regressions up to this size are solved exactly by the core set, within a second.
SUBSPACE_ROWS = 2000
# A basis is tried after a core set that was too small, up to this many rows: adult's
# gap falls from 0.75 to 0.02 in 6 s, that of 200,000 rows with one in a hundred rare
# from 0.9 to 0.009 in 40 s; covtype (522,911 rows) gains nothing in 55 s.
FALLBACK_ROWS = 300_000
# ... and only if the core set left more than this: a basis of half as many rows does
# not improve on less (an imbalanced set stood at 0.002, and 11 s brought nothing).
FALLBACK_GAP = 0.02
# A core set that spans the functions starts with so many rows, and doubles while that
# lowers the objective by this share.
SMALLEST_CORE, PAYS = 100, 0.01
# A core set is tried after a basis if the violated rows fill at most so much of it: a
# full one, 4096 entries, takes 10 s on cpu_act, where SVR takes 0.5 s.
CORE_SHARE = 0.6
# Samples that the span is solved on before the first pass over all rows.
SPAN_SAMPLES = (2000, 32_000, 128_000)


@dataclass(frozen=True)
class Warm:
    """What an earlier fit leaves for the next: its functions and its core rows.

    `same_rows` says that row numbers still mean the same rows.
    """

    functions: KernelExpansion
    support: list[Array]
    multipliers: list[Array]
    same_rows: bool
    offsets: Array | None = None


def fit(
    problems: list[Problem],
    source: Source,
    kernel: AnyKernel,
    settings: Settings,
    progress: Progress,
    *,
    low_rank: str | bool = "auto",
    warm: Warm | None = None,
    weights: str = "auto",
) -> Outcome:
    """Solve `problems` over the rows of `source`, to `settings.tol` if possible.

    `weights` says which rows decide the weights: "core" the core set alone, "all" all
    rows, in the span of a core set; "auto" the core set, and all rows where it is too
    small.
    """
    rng = np.random.default_rng(settings.random_state)
    paper = settings.ball_epsilon is not None
    size = settings.sampling
    if isinstance(size, int) and not paper and size < source.n_rows:
        return _fit_on_sample(
            problems, source, kernel, settings, progress, rng, low_rank, warm, weights
        )
    spans = not paper and low_rank is not False
    attempts: list[Outcome] = []
    if spans:
        first = _fit_in_span(
            problems, source, kernel, settings, progress, rng, low_rank, warm
        )
        if first is not None:
            attempts.append(first)
            if _is_final(first, progress):
                return first
    if weights == "all" and not paper:
        attempts.append(_fit_in_core(problems, source, kernel, settings, progress, rng))
        return _best(attempts, settings.tol)
    spans = spans and weights == "auto"
    tried = spans and _is_regression(problems, source)
    if tried:
        found = _fit_in_subspace(problems, source, kernel, settings, progress, rng)
        if found is not None:
            attempts.append(found[0])
            if found[1] is None or _is_final(found[0], progress):
                return _best(attempts, settings.tol)
            warm = found[1]
    start = _warm_cores(problems, source, kernel, warm, rng)
    may_fall_back = spans and not tried and _may_fall_back(problems, source)
    attempts.append(
        coreset.run(problems, source, kernel, settings, progress, start, may_fall_back)
    )
    if may_fall_back and _is_too_large(attempts[-1]):
        found = _fit_in_subspace(problems, source, kernel, settings, progress, rng)
        if found is not None:
            attempts.append(found[0])
    return _best(attempts, settings.tol)


def _fit_on_sample(
    problems: list[Problem],
    source: Source,
    kernel: AnyKernel,
    settings: Settings,
    progress: Progress,
    rng: np.random.Generator,
    low_rank: str | bool,
    warm: Warm | None,
    weights: str,
) -> Outcome:
    """Solve on a random sample, each row standing for n/m rows; claim no more."""
    size = settings.sampling
    assert isinstance(size, int)
    sample = Subset(source, source.draw(rng, size))
    size = sample.n_rows
    ratio = source.n_rows / size
    scaled = [replace(problem, slack=problem.slack * ratio) for problem in problems]
    n_rows, progress.n_rows = progress.n_rows, size
    outcome = fit(
        scaled,
        sample,
        kernel,
        replace(settings, sampling="auto"),
        progress,
        low_rank=low_rank,
        warm=None if warm is None else replace(warm, same_rows=False),
        weights=weights,
    )
    progress.n_rows = n_rows
    outcome.certificates = [
        _of_sample(found, source.n_rows, size, progress.passes)
        for found in outcome.certificates
    ]
    return outcome


def _of_sample(
    found: Certificate, n_rows: int, size: int, passes: float
) -> Certificate:
    """Return what a certificate of `size` sampled rows says about all: no bound."""
    return replace(
        found,
        problem=(
            f"{found.problem}; only a random sample of {size:,} rows was looked at, "
            f"each standing for {n_rows / size:.3g}: on it the relative gap was "
            f"{found.relative_gap:.2e}, about the other rows nothing is known"
        ),
        primal=np.inf,
        dual=0.0,
        relative_gap=np.inf,
        n_rows=n_rows,
        n_verified=size,
        passes=passes,
        confidence=0.0,
        dual_bound="sample",
        converged=False,
        stopped_by="sample" if found.converged else found.stopped_by,
    )


def _fit_in_span(
    problems: list[Problem],
    source: Source,
    kernel: AnyKernel,
    settings: Settings,
    progress: Progress,
    rng: np.random.Generator,
    low_rank: str | bool,
    warm: Warm | None,
) -> Outcome | None:
    """Return the outcome of the low-rank path, or None where it does not apply."""
    hard = any(problem.is_hard for problem in problems)
    if (
        hard
        or kernel.name == "sigmoid"
        or (low_rank == "auto" and source.n_rows < span.MIN_ROWS)
    ):
        return None
    basis = probe(source, kernel, rng)
    if basis is None:
        return None
    logger.info("the kernel has numerical rank %d on these rows", len(basis))
    start = None if warm is None else _warm_weights(problems, basis, warm)
    samples = _samples(source, rng)
    if start is not None:  # of rows that live elsewhere a few, to know their place
        samples = [] if source.draws_cheaply else samples[:1]
    fits, basis, stopped_by = span.solve(
        problems, source, basis, samples, settings.tol, progress, start
    )
    if not np.isfinite(max(one.primal for one in fits)):
        return None
    if any(span.radius_sq(one, basis) < 0 for one in fits):
        return None  # R^2 >= 0 binds, which the core set's solver knows how to treat
    functions = span.expansion(fits, basis)
    width = [len(basis) + int(one.problem.has_bias) for one in fits]
    norms = [float(one.v[:w] @ one.v[:w]) for one, w in zip(fits, width, strict=True)]
    return Outcome(
        functions=functions,
        certificates=span.certificates(
            fits, functions, settings.tol, progress, stopped_by
        ),
        offsets=np.array([float(f.v[-1]) * f.problem.has_offset for f in fits]),
        norms_sq=np.array(norms),
        support=[basis.rows.index] * len(fits),
        multipliers=[],
        n_core=[len(basis)] * len(fits),
    )


def _may_fall_back(problems: list[Problem], source: Source) -> bool:
    """Whether a basis is there for problems that outgrow the core set."""
    few = source.n_rows <= FALLBACK_ROWS
    return few and all(one.floor is not Floor.RADIUS for one in problems)


def _is_too_large(outcome: Outcome) -> bool:
    """Whether the core set was too small."""
    found = outcome.certificates
    full = any(one.stopped_by == "max_core" for one in found)
    return full and max(one.relative_gap for one in found) > FALLBACK_GAP


def _is_regression(problems: list[Problem], source: Source) -> bool:
    """Whether a basis comes before the core set: a regression of many rows.

    With noise above its tube most rows of a regression have multipliers.
    """
    many = source.n_rows > SUBSPACE_ROWS
    return many and all(problem.response is not None for problem in problems)


def _fit_in_subspace(
    problems: list[Problem],
    source: Source,
    kernel: AnyKernel,
    settings: Settings,
    progress: Progress,
    rng: np.random.Generator,
) -> tuple[Outcome, Warm | None] | None:
    """Return the outcome in the span of a basis, and a start for the core set.

    No start where more rows are violated than a core set can hold; None where this
    does not apply.
    """
    if kernel.name == "sigmoid":
        return None
    view, scaled = view_that_fits(problems, source, rng)
    source = view if view.n_rows == source.n_rows else source
    n_present = len(present_there(scaled, view))
    size = subspace.basis_size(
        n_present, settings.max_core, source.memory_budget, len(problems)
    )
    basis = subspace.choose_basis(scaled, view, kernel, size, progress, rng)
    if basis is None:
        return None
    return _solve_in(problems, scaled, source, view, basis, settings, progress, rng)


def _fit_in_core(
    problems: list[Problem],
    source: Source,
    kernel: AnyKernel,
    settings: Settings,
    progress: Progress,
    rng: np.random.Generator,
) -> Outcome:
    """Return the weights of all rows in the span of a core set.

    The core set doubles while that lowers the objective by more than `PAYS`.
    """
    view, scaled = view_that_fits(problems, source, rng)
    source = view if view.n_rows == source.n_rows else source
    budget = source.memory_budget
    most = subspace.basis_size(view.n_rows, settings.max_core, budget, len(problems))
    size, best = min(most, max(1, most // 4, SMALLEST_CORE)), None
    while True:
        rows = coreset.core_rows(problems, source, kernel, size, settings, progress)
        basis, is_definite = basis_of_rows(rows, kernel, source.workers)
        if basis is None or not is_definite:
            raise KernelError(
                f"the {kernel.name} kernel is not positive definite on the core rows, "
                "so that they span no space. Use weights='core'."
            )
        found, _ = _solve_in(
            problems, scaled, source, view, basis, settings, progress, rng
        )
        before = np.inf if best is None else _objective(best)
        if best is None or _objective(found) < before:
            best = found
        paid = _objective(found) < (1 - PAYS) * before
        if size >= most or not paid or _is_final(best, progress):
            return best
        size = min(2 * size, most)


def _objective(outcome: Outcome) -> float:
    return sum(one.primal for one in outcome.certificates)


def _solve_in(
    problems: list[Problem],
    scaled: list[Problem],
    source: Source,
    view: Source,
    basis: Basis,
    settings: Settings,
    progress: Progress,
    rng: np.random.Generator,
) -> tuple[Outcome, Warm | None]:
    """Return the weights of all rows of `view` in the span of `basis`."""
    logger.info("solving over all rows in the span of %d of them", len(basis))
    fits, stopped_by = subspace.solve(scaled, view, basis, settings.tol, progress, rng)
    functions = subspace.expansion(fits, basis)
    if view is source:
        subspace.prove(fits, source, basis, progress)
    else:
        _measure_on_all(problems, fits, functions, source, progress)
    outcome = Outcome(
        functions=functions,
        certificates=subspace.certificates(
            fits, functions, settings.tol, progress, stopped_by
        ),
        offsets=np.array([fit.offset for fit in fits]),
        norms_sq=np.array([float(fit.weights @ fit.weights) for fit in fits]),
        support=[basis.rows.index] * len(fits),
        multipliers=[],
        n_core=[len(basis)] * len(fits),
    )
    room = coreset.core_room(settings, source, len(fits))
    if view is not source or max(one.n_violated for one in fits) > CORE_SHARE * room:
        return outcome, None
    entries = [fit.violated(source) for fit in fits]
    numbers = [np.zeros(len(few)) for few in entries]
    return outcome, Warm(functions, entries, numbers, same_rows=True)


def _measure_on_all(
    problems: list[Problem],
    fits: list[Fit],
    functions: KernelExpansion,
    source: Source,
    progress: Progress,
) -> None:
    """Set the primal values over all rows; nothing is proved from below."""
    nothing = np.empty(0, dtype=np.int64)
    questions = [
        Question(problem, nothing, ((1.0, fit.offset),))
        for problem, fit in zip(problems, fits, strict=True)
    ]
    seen = look(source, functions, questions)
    progress.rows_looked_at += source.n_rows
    for fit, one in zip(fits, seen, strict=True):
        regular = float(fit.weights @ fit.weights) / 2
        fit.primal = regular + fit.problem.price * fit.offset + float(one.loss[0])
        fit.dual = fit.problem.least


def _samples(source: Source, rng: np.random.Generator) -> list[Array]:
    return [source.draw(rng, size) for size in source.sample_sizes(SPAN_SAMPLES)]


def _warm_weights(
    problems: list[Problem], basis: Basis, warm: Warm
) -> list[Array] | None:
    """Return start weights whose functions agree with the old on the basis rows."""
    if warm.functions.coef.shape[1] != len(problems):
        return None
    values = warm.functions.evaluate(basis.rows, warm.functions.prepared())
    start = []
    for t, problem in enumerate(problems):
        if problem.has_offset and warm.offsets is None:
            return None
        bias = float(warm.functions.intercept[t])
        weights = basis.features((values[:, t] - bias)[None, :])[0]
        if problem.has_bias:
            weights = np.append(weights, bias)
        if problem.has_offset and warm.offsets is not None:
            weights = np.append(weights, warm.offsets[t])
        start.append(weights)
    return start


def _warm_cores(
    problems: list[Problem],
    source: Source,
    kernel: AnyKernel,
    warm: Warm | None,
    rng: np.random.Generator,
) -> list[tuple[Array, Array]] | None:
    """Return first core rows: the old ones, or the rows the old functions fail on."""
    if warm is None or warm.functions.coef.shape[1] != len(problems):
        return None
    if warm.same_rows and len(warm.multipliers) == len(problems):
        pairs = zip(problems, warm.support, warm.multipliers, strict=True)
        return [_still_there(*pair, source, kernel) for pair in pairs]
    view: Source = source
    if source.n_rows > coreset.SMALL:
        view = Subset(source, source.draw(rng, FIRST_SUBSET))
    nothing = np.empty(0, dtype=np.int64)
    questions = [Question(problem, nothing, n_worst=100) for problem in problems]
    looks = look(view, warm.functions, questions)
    return [(seen.worst, np.zeros(len(seen.worst))) for seen in looks]


def _still_there(
    problem: Problem, entries: Array, b: Array, source: Source, kernel: AnyKernel
) -> tuple[Array, Array]:
    """Return the old core entries that have a positive weight in the new problem."""
    keep = problem.terms(source.take(problem.rows_of(entries)), kernel).omega > 0
    return entries[keep], b[keep]


def _is_final(outcome: Outcome, progress: Progress) -> bool:
    done = all(certificate.converged for certificate in outcome.certificates)
    return done or progress.spent() is not None


def _best(attempts: list[Outcome], tol: float) -> Outcome:
    """Return the functions with the least primal value, with all that was proved.

    A dual value that any attempt reached bounds the same optimum.
    """
    best = min(attempts, key=lambda one: sum(c.primal for c in one.certificates))
    for t, own in enumerate(best.certificates):
        other = max((one.certificates[t] for one in attempts), key=lambda c: c.dual)
        if other.dual > own.dual and not own.converged:
            gap = relative_gap(own.primal, other.dual)
            best.certificates[t] = replace(
                own,
                dual=other.dual,
                dual_bound=other.dual_bound,
                relative_gap=gap,
                converged=gap <= tol,
                stopped_by="tol" if gap <= tol else own.stopped_by,
            )
    return best
