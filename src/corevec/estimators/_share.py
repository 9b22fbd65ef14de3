"""The C of a one-class machine that leaves a share of the rows outside.

The share decreases as C grows, but not below that of the support vectors of the hard
margin, which lie slightly outside.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from corevec._runtime.progress import Progress
from corevec._runtime.types import Array
from corevec.backend.arrays import is_tensor, to_numpy
from corevec.data.sources import Source
from corevec.estimators._base import kernel_for
from corevec.estimators._callbacks import RoundReporter
from corevec.estimators._dataset import Dataset, weights_of
from corevec.estimators._outlier_probability import just_below, scores_of
from corevec.estimators.methods import Auto, Exact, method_of
from corevec.exceptions import KernelError
from corevec.models.checkpoint import Checkpoint
from corevec.models.result import FitResult
from corevec.problems.family import Problem, one_class
from corevec.problems.task import Task

if TYPE_CHECKING:
    from corevec.solvers.exact.path import PathMatrix

# The share is reached within this relative deviation, or within one row.
TOLERANCE = 0.02
# Largest C of the search, relative to 1/(share * mass), and the number of fits.
MOST_C, MOST_FITS = 1e3, 40
# A bracket is narrow if its ends differ by less than this.
NARROW = 1e-6
# The gap of the solutions on a matrix, relative to that of the fit: rows are to lie on
# the side of the boundary where the fit has them.
MATRIX_TOL = 1e-3
# Rows of the sample that C is sought on first.
SAMPLE_ROWS = 4000
# Rows up to which C is sought on one kernel matrix (1,500 rows: 0.05 s for 0.12). With
# more, accurate solutions on it take longer than fits (4,000 rows: 0.25 s for 0.20).
MATRIX_ROWS = 1500


@dataclass
class ShareSearch:
    """What the fits so far tell about the C that leaves the share `nu` outside.

    Attributes
    ----------
    nu : float
        The share that is asked for.
    mass : float
        The sum of the weights of all rows.
    most : float
        The largest C to try.
    low, high : float
        The share is above `nu` at low, and below it at high.
    left : int
        How many more fits may follow.
    """

    nu: float
    mass: float
    most: float
    low: float = 0.0
    high: float = np.inf
    left: int = MOST_FITS

    @staticmethod
    def around(C: float, nu: float, mass: float) -> ShareSearch:
        """Return a search that starts at `C`."""
        return ShareSearch(nu, mass, MOST_C * C)

    def is_met(self, share: float) -> bool:
        """Whether the share counts as reached."""
        return abs(share - self.nu) <= max(TOLERANCE * self.nu, 1.0 / self.mass)

    def following(self, C: float, share: float) -> float | None:
        """Return the C to try after `C`; None where none would serve better."""
        self.left -= 1
        if self.is_met(share):
            return None
        if share > self.nu:
            self.low = C
        else:
            self.high = C
        narrow = self.high < (1.0 + NARROW) * self.low
        if narrow or self.left <= 0 or self.most <= C:
            return None
        if self.low > 0 and np.isfinite(self.high):  # the middle of the bracket
            return float(np.sqrt(self.low * self.high))
        step = float(np.clip((share / self.nu) ** 1.5, 0.05, 20.0))
        return min(C * step, self.most)

    def on_matrix(
        self,
        C: float,
        matrix: PathMatrix,
        problem_of: Callable[[float], Problem],
        weight: Array,
        may_go_on: Callable[[], bool],
    ) -> float:
        """Return the C where the search ends on rows whose kernel matrix is in memory.

        One matrix serves every C; a fit at the C that is found confirms its share.
        """
        everything = np.arange(len(matrix))
        while may_go_on():
            solved = matrix.solve([[problem_of(C)]], may_go_on)[0]
            if not solved:
                break
            outside = matrix.values(solved, everything)[:, 0] < 1.0
            share = float(weight[outside].sum()) / self.mass
            following = self.following(C, share)
            if following is None:
                break
            C = following
        return C


class ShareFit:
    """The fit of a one-class machine whose C leaves the share `nu` outside.

    Parameters
    ----------
    model : CoreVectorOneClass
        Its parameters are read, and its fitted attributes are set.
    given : Dataset
        The training rows.
    nu : float
        The share.
    """

    def __init__(self, model: Any, given: Dataset, nu: float):
        self.model, self.given, self.nu = model, given, nu
        self.kernel = kernel_for(model, given)

    def fit(self, reporter: RoundReporter) -> None:
        """Search for C, first on a sample, and set the fitted attributes."""
        model, given = self.model, self.given
        model.C_ = 1.0 / (self.nu * given.mass)
        interrupted, known = False, self._searched_before()
        if known is not None:
            model.C_ = known
        elif given.n_rows > 2 * SAMPLE_ROWS and model.kernel != "precomputed":
            rng = np.random.default_rng(model._settings().random_state)
            few = given.sample(rng, SAMPLE_ROWS)
            ratio = given.mass / few.mass
            model.C_ *= ratio
            quiet = RoundReporter(model, model._attributes_at, quiet=True)
            found = ShareFit(model, few, self.nu)._search(quiet, is_sample=True)
            interrupted = found.progress.stop_asked
            model.C_ /= ratio
        found = self._search(reporter, interrupted)
        model.offset_ = found.offset
        model._set_fitted(found.outcome, found.progress, "one-class")

    def _searched_before(self) -> float | None:
        """Return the C that an earlier run had reached, from its checkpoint."""
        model = self.model
        if model.checkpoint is None:
            return None
        asked = model._asked(model._problems_for(self.given), self.given.source)
        saved = Checkpoint(model.checkpoint, asked).read()
        return None if saved is None else float(saved.header["more"]["C"])

    def _search(
        self,
        reporter: RoundReporter,
        interrupted: bool = False,
        is_sample: bool = False,
    ) -> _Found:
        """Return the fit with the C whose share of outliers is `nu`.

        If the largest C still leaves too many, that C is used and the offset is lowered
        to the nu-quantile of the scores.
        """
        model, given, source = self.model, self.given, self.given.source
        search = ShareSearch.around(model.C_, self.nu, given.mass)
        interrupted |= self._on_matrix(search)
        C, task = model.C_, self._task(model.C_)
        while True:
            outcome, progress = model._run(
                task, reporter, stop_asked=interrupted, has_checkpoint=not is_sample
            )
            between = Progress(source.n_rows)  # to notice a Ctrl-C between two fits
            with between.listening_for_interrupt():
                share = self._outlier_share(outcome)
                following = search.following(C, share)
                if following is not None:
                    task = self._task(following)
            progress.stop_asked |= between.stop_asked
            model.C_ = C
            if search.is_met(share):
                return _Found(outcome, progress, 1.0)
            stopped = outcome.certificates[0].stopped_by
            given_up = stopped in ("max_time", "max_vectors", "max_iter")
            if given_up or progress.stop_asked or following is None:
                break
            C = model.C_ = following
        offset = quantile(model, outcome.functions, source, given.weight)
        return _Found(outcome, progress, offset)

    def _task(self, C: float) -> Task:
        """Return the problem at this C, which the model is told."""
        model, given = self.model, self.given
        model.C_ = C
        problems, settings = model._problems_for(given), model._settings()
        return Task(problems, given.source, self.kernel, settings)

    def _on_matrix(self, search: ShareSearch) -> bool:
        """Set the C that the search starts from, where all rows fit into a matrix.

        Returns whether Ctrl-C was pressed.
        """
        from corevec.solvers.exact.path import PathMatrix

        model, source, n_rows = self.model, self.given.source, self.given.n_rows
        exact = isinstance(method_of(model), Auto | Exact) and model.checkpoint is None
        fits = PathMatrix.serves(self.kernel, n_rows, model.memory_budget)
        if not (exact and fits and n_rows <= MATRIX_ROWS):
            return False
        progress = Progress(n_rows, max_time=model.max_time)
        with (
            progress.listening_for_interrupt(),
            source.at_work(),
            suppress(KernelError),  # of which the fit tells with the estimator's name
        ):
            rows = source.take(source.numbers)
            if is_tensor(rows.values):
                return False
            tol, labels = MATRIX_TOL * model.tol, self.given.problem_labels()
            model.C_ = search.on_matrix(
                model.C_,
                PathMatrix(rows, self.kernel, tol, source.workers),
                lambda C: one_class(labels, C),
                to_numpy(weights_of(self.given.weight, rows)),
                lambda: progress.spent() is None,
            )
        return progress.stop_asked

    def _outlier_share(self, outcome: FitResult) -> float:
        functions, weight = outcome.functions, self.given.weight
        basis = functions.prepared()

        def outside(rows: Any) -> float:  # travels to the rows, so without `self`
            low = functions.evaluate(rows, basis)[:, 0] < 1.0
            return float(weights_of(weight, rows)[low].sum())

        found = self.given.source.reduce(outside, lambda a, b: a + b)
        return float(found) / self.given.mass


def quantile(model: Any, functions: Any, source: Source, weights: Any) -> float:
    """Return the nu-quantile of the scores of a one-class machine, by weight."""
    # Values, weights and the order of all rows, or of as many as fit.
    few = max(1, int(model.memory_budget // 64))
    most = source.n_rows if 2 * few >= source.n_rows else few
    seed = model._settings().random_state
    values, own = scores_of(functions, source, weights, most, seed)
    order = np.argsort(values)
    below = np.cumsum(own[order]) / own.sum()
    first_kept = int(np.searchsorted(below, model.nu, side="right"))
    return just_below(values[order], min(first_kept, len(order) - 1))


@dataclass(frozen=True)
class _Found:
    """The last fit of a search for C, and the offset that leaves the share outside."""

    outcome: FitResult
    progress: Progress
    offset: float


__all__ = ["ShareFit", "quantile"]
