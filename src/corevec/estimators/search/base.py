"""How the estimators run a search: checks, grid, folds, refit, attributes."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable
from functools import partial
from numbers import Integral
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.model_selection import check_cv

from corevec._runtime.progress import Progress
from corevec.data.sources import (
    Workers,
    as_source,
    row_statistics,
)
from corevec.estimators._notebook import ShowsCertificate
from corevec.estimators._parameters import (
    check_choice,
    check_gamma,
    check_positive,
)
from corevec.estimators._rows import TakesRows, checked_weights
from corevec.estimators._validation import checked_target
from corevec.estimators.search.folds import (
    Evaluator,
    Rung,
    Scoring,
    TrainingSet,
    make_rungs,
)
from corevec.estimators.search.grid import (
    COARSE_STEP,
    Grid,
    default_Cs,
    default_gammas,
    sorted_Cs,
)
from corevec.estimators.search.halving import Halving, rung_sizes
from corevec.estimators.search.separate_fits import SeparateFits
from corevec.estimators.search.shared_matrix import SharedMatrix
from corevec.exceptions import InvalidInputError, NotCertifiedWarning
from corevec.kernels import AnyKernel, RowStatistics, make_kernel, resolve_gamma
from corevec.solvers.exact.path import PathMatrix

# Gap at which a fold stops. On 1,500 rows of four sets the choice was that of 1e-3, or
# behind it by a tenth of a standard error; 1e-1 moves single scores by 6 %.
FOLD_TOL = 1e-2
# Share of `max_time` for the search; the rest is for the refit.
SEARCH_SHARE = 0.75
# Kernels that have no gamma.
WITHOUT_GAMMA = ("linear", "normalized-linear", "precomputed")


class SearchCV(ShowsCertificate, TakesRows, BaseEstimator):
    """What both searches share; not for direct use."""

    _takes_remote = False
    _model: type

    Cs: Any
    gammas: Any
    cv: Any
    scoring: Any
    degree: Any
    coef0: Any
    tol: Any
    refit: Any
    halving: Any
    max_time: Any
    random_state: Any
    verbose: Any

    def _search(self, X: Any, y: Any, sample_weight: Any, groups: Any) -> Self:
        """Search, refit and set the fitted attributes."""
        started = time.perf_counter()
        self._check_search()
        X, y = self._validate_fit(X, y, y_numeric=self._task == "numbers")
        n, who = X.shape[0], type(self).__name__
        weight = checked_weights(self, sample_weight, n)
        y = np.asarray(checked_target(who, y, n, self._task)).reshape(n)
        own = np.ones(n) if weight is None else np.asarray(weight)
        given = TrainingSet(X, y, own, is_weighted=weight is not None)
        limit = None if self.max_time is None else SEARCH_SHARE * self.max_time
        progress = Progress(n, None, limit, started=started)
        with Workers(self.n_jobs) as workers:
            halving = self._halving(given, groups, workers, progress)
            with progress.listening_for_interrupt():
                table = halving.run()
        self._note(table, halving, progress)
        if self.refit:
            left = None
            if self.max_time is not None:
                least = (1 - SEARCH_SHARE) * self.max_time
                left = max(self.max_time - progress.seconds, least)
            began = time.perf_counter()
            more = self.best_params_ | {"max_time": left, "verbose": self.verbose}
            self.best_estimator_ = self._built(more).fit(X, y, weight)
            self.refit_time_ = time.perf_counter() - began
        return self

    def _halving(
        self, given: TrainingSet, groups: Any, workers: Workers, progress: Progress
    ) -> Halving:
        """Return the search over these rows."""
        is_classifier = self._task == "classes"
        splitter = check_cv(self.cv, given.y, classifier=is_classifier)
        splits = [
            (np.asarray(train), np.asarray(test))
            for train, test in splitter.split(given.X, given.y, groups)
        ]
        n = len(given)
        strata = np.zeros(n, dtype=np.int64)
        if is_classifier:
            strata = np.unique(given.y, return_inverse=True)[1].reshape(n)
        rungs = make_rungs(splits, rung_sizes(n, self.halving), strata)
        statistics = self._statistics(given, workers)
        grid = self._grid(statistics)
        kernel_of = partial(self._kernel_of, grid, statistics)
        scoring = Scoring.of(type(self).__name__, self.scoring, is_classifier)
        given_to = given, scoring, self._fold_model

        def may_go_on() -> bool:
            return progress.spent() is None

        separate = SeparateFits(*given_to, self.kernel == "precomputed", may_go_on)
        tol = max(FOLD_TOL, self.tol)
        shared = SharedMatrix(*given_to, kernel_of, tol, workers, may_go_on)

        def evaluator_of(rung: Rung) -> Evaluator:
            kernel = kernel_of(grid.params(grid.coarse()[0]))
            serves = PathMatrix.serves(kernel, len(rung.rows), self.memory_budget)
            return shared if scoring.is_plain and serves else separate

        return Halving(grid, rungs, evaluator_of, progress)

    def _statistics(self, given: TrainingSet, workers: Workers) -> RowStatistics | None:
        """Return the statistics of the columns, where the kernel needs them."""
        if callable(self.kernel) or self.kernel == "precomputed":
            return None
        source = as_source(given.X, self.memory_budget, workers)
        return row_statistics(source, given.weight if given.is_weighted else None)

    def _kernel_of(
        self, grid: Grid, statistics: RowStatistics | None, params: dict[str, Any]
    ) -> AnyKernel:
        value = grid.gamma_values[grid.gammas.index(params["gamma"])]
        return make_kernel(self.kernel, value, self.degree, self.coef0, statistics)

    def _grid(self, statistics: RowStatistics | None) -> Grid:
        """Return the candidates."""
        is_auto = isinstance(self.gammas, str)
        has_gamma = not callable(self.kernel) and self.kernel not in WITHOUT_GAMMA
        counted = isinstance(self.Cs, Integral)
        Cs = default_Cs(int(self.Cs)) if counted else sorted_Cs(list(self.Cs))
        gammas: list[Any] = ["scale"] if is_auto else list(self.gammas)
        values = [1.0]
        if has_gamma:
            if is_auto:
                gammas = default_gammas(resolve_gamma("scale", statistics, 0))
            values = [resolve_gamma(one, statistics, 0) for one in gammas]
            order = np.argsort(values, kind="stable")
            gammas, values = [gammas[k] for k in order], [values[k] for k in order]
        else:
            gammas = gammas[:1]
        is_fine = counted and len(Cs) > COARSE_STEP
        steps = (
            COARSE_STEP if is_fine else 1,
            COARSE_STEP if is_auto and has_gamma else 1,
        )
        return Grid(Cs, gammas, values, self._others(), steps)

    def _others(self) -> list[dict[str, Any]]:
        """Return the further parameters to choose from."""
        return [{}]

    def _fixed(self) -> dict[str, Any]:
        """Return the parameters that all candidates share."""
        names = "kernel degree coef0 memory_budget n_jobs random_state tol"
        return {name: getattr(self, name) for name in names.split()}

    def _built(self, params: dict[str, Any]) -> Any:
        return self._model(**(self._fixed() | params))

    def _fold_model(self, params: dict[str, Any]) -> Any:
        return self._built({"tol": max(FOLD_TOL, self.tol)} | params)

    def _note(self, table: Any, halving: Halving, progress: Progress) -> None:
        """Set what the search found."""
        stopped = progress.spent()
        self.stopped_by_ = None if stopped is None else str(stopped)
        self.n_splits_ = len(halving.rungs[0].folds)
        if not table.scores:  # stopped before anything was scored: the middle
            grid = halving.grid
            coarse = grid.coarse()
            self.best_params_ = grid.params(coarse[len(coarse) // 2])
            self.cv_results_: dict[str, Any] = {"params": []}
            self.best_index_, self.best_score_ = -1, float("nan")
        else:
            self.cv_results_ = table.results()
            best = table.best()
            self.best_index_ = sorted(table.scores).index(best)
            self.best_params_ = halving.grid.params(best)
            self.best_score_ = table.scores[best].mean
        if stopped is not None:
            warnings.warn(
                NotCertifiedWarning(
                    f"{type(self).__name__}: the search was stopped by {stopped} after "
                    f"{len(table.scores)} candidates; best_params_ is the best of "
                    "these. Raise max_time, or give fewer Cs and gammas.",
                    stopped_by=str(stopped),
                ),
                stacklevel=4,
            )

    def _check_search(self) -> None:
        who = type(self).__name__
        if isinstance(self.Cs, Integral) and not isinstance(self.Cs, bool):
            Cs: Iterable[Any] = []
            is_right = int(self.Cs) >= 1
        else:
            is_right = is_list(self.Cs)
            Cs = self.Cs if is_right else []
        if not is_right:
            raise InvalidInputError(
                f"{who}: Cs={self.Cs!r} must be a number of values of at least 1, or a "
                "list of values above 0, e.g. [0.1, 1, 10].",
                parameter="Cs",
            )
        for one in Cs:
            check_positive(who, "Cs", one)
        if not (isinstance(self.gammas, str) and self.gammas == "auto"):
            if not is_list(self.gammas):
                raise InvalidInputError(
                    f"{who}: gammas={self.gammas!r} must be 'auto' or a list of values "
                    "above 0 (or words such as 'scale'), e.g. [0.01, 0.1, 1].",
                    parameter="gammas",
                )
            for one in self.gammas:
                check_gamma(who, "gammas", one)
        check_choice(who, "halving", self.halving, allowed=("auto", True, False))
        check_choice(who, "refit", self.refit, allowed=(True, False))

    def __sklearn_is_fitted__(self) -> bool:
        """Whether the search has run."""
        return hasattr(self, "cv_results_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags


def is_list(values: Any) -> bool:
    """Whether this is a sequence of at least one value."""
    is_sequence = isinstance(values, list | tuple | np.ndarray)
    return is_sequence and np.ndim(values) == 1 and len(values) > 0
