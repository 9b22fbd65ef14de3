"""The rounds of a search: coarse before fine, and samples before all rows.

1. Score the coarse grid on the first rung, and the fine neighbours of the best while
   that finds a better one.
2. Keep the candidates that are not worse than the best by more than the noise between
   the folds, and score them on the next rung, the best so far first.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from corevec._runtime.progress import Progress, logger
from corevec.estimators.search.folds import Evaluator, Rung
from corevec.estimators.search.grid import Candidate, Grid
from corevec.estimators.search.table import Score, Table

# A rung has this many times the rows of the last one.
GROWTH = 3
# Rows of the first rung at least: by default fewer would say little about the others.
MIN_ROWS, MIN_ROWS_IF_ASKED = 500, 100
# A candidate is dropped when it is worse than the best by more than this many standard
# errors of their difference.
STANDARD_ERRORS = 1.0


def rung_sizes(n_rows: int, halving: str | bool) -> list[int]:
    """Return the growing numbers of rows to compare candidates on."""
    sizes = [n_rows]
    least = MIN_ROWS if halving == "auto" else MIN_ROWS_IF_ASKED
    while halving is not False and sizes[-1] // GROWTH >= least:
        sizes.append(sizes[-1] // GROWTH)
    return sizes[::-1]


@dataclass(frozen=True)
class Halving:
    """The search.

    Attributes
    ----------
    grid : Grid
        The candidates.
    rungs : list of Rung
        The growing sets of rows; the last holds all.
    evaluator_of : callable
        Returns the evaluator for a rung.
    progress : Progress
        Says when the time is spent, or Ctrl-C was pressed.
    """

    grid: Grid
    rungs: list[Rung]
    evaluator_of: Callable[[Rung], Evaluator]
    progress: Progress

    def run(self) -> Table:
        """Return the latest scores of all candidates that were reached."""
        table = Table(self.grid)
        candidates = self.grid.coarse()
        for rung in self.rungs:
            self._evaluate(candidates, rung, table)
            if rung is self.rungs[0]:
                self._refine(rung, table)
            if self.progress.spent() is not None:
                break
            if rung is not self.rungs[-1]:
                candidates = survivors(table, rung)
                logger.info(
                    "%d of %d candidates are left after %d rows",
                    *(len(candidates), len(table.scores), len(rung.rows)),
                )
        return table

    def _refine(self, rung: Rung, table: Table) -> None:
        """Score the neighbours of the best until it is better than all of them."""
        while table.scores:
            near = self.grid.neighbours(table.best())
            new = [one for one in near if one not in table.scores]
            if not new or self.progress.spent() is not None:
                return
            self._evaluate(new, rung, table)

    def _evaluate(
        self, candidates: Iterable[Candidate], rung: Rung, table: Table
    ) -> None:
        """Score candidates path by path, the most promising gamma first."""
        evaluator, paths = self.evaluator_of(rung), self.grid.paths(candidates)

        def promise(group: tuple[int, int]) -> tuple[float, float, tuple[int, int]]:
            known = [
                table.scores[one].mean for one in paths[group] if one in table.scores
            ]
            middle = (len(self.grid.gammas) - 1) / 2
            return -max(known, default=-np.inf), abs(group[0] - middle), group

        for group in sorted(paths, key=promise):
            if self.progress.spent() is not None:
                return
            started, path = time.perf_counter(), paths[group]
            found = evaluator.scores([self.grid.params(one) for one in path], rung)
            if self.progress.spent() is not None and np.isnan(found).any():
                return  # not all of the path was reached
            seconds = (time.perf_counter() - started) / found.size
            for one, folds in zip(path, found, strict=True):
                rows = rung.number, len(rung.rows)
                table.scores[one] = Score(folds, seconds, *rows)


def survivors(table: Table, rung: Rung) -> list[Candidate]:
    """Return the candidates that the best does not beat by more than the noise."""
    scores = {
        one: score for one, score in table.scores.items() if score.rung == rung.number
    }
    best = scores[table.best()]
    kept = []
    for one, score in scores.items():
        difference = best.folds - score.folds
        known = difference[~np.isnan(difference)]
        if len(known) < 2:
            kept.append(one)
            continue
        error = np.sqrt(rung.spread) * known.std(ddof=1)
        if known.mean() <= STANDARD_ERRORS * error:
            kept.append(one)
    return sorted(kept)
