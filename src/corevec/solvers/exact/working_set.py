"""The rows that problems are solved on for a while, with their matrix."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from corevec._runtime.types import Array
from corevec.kernels import Rows
from corevec.solvers.exact.gram import DeviceGram, Gram, TiledGram
from corevec.solvers.exact.preconditioner import (
    Landmarks,
    LowRank,
    Preconditioner,
    on_device,
)


@dataclass
class WorkingSet:
    """Rows, their kernel matrix and its preconditioner.

    Attributes
    ----------
    positions : ndarray
        Where the rows stand among the rows of the view.
    gram : Gram
        Their kernel matrix.
    n_view : int
        Rows that the landmarks have to serve later on: their number grows with it.
    rng : numpy Generator
        For the choice of the landmarks.
    landmarks : Landmarks or None
        Those of an earlier working set; chosen when first needed.
    slack_ratio : float
        The slack of the problems in units of those that the landmarks have to serve.
    """

    positions: Array
    gram: Gram
    n_view: int
    rng: np.random.Generator
    landmarks: Landmarks | None = None
    slack_ratio: float = 1.0
    _low_rank: Preconditioner | None = None

    def preconditioner(self, ridge: float) -> Preconditioner:
        """Return the preconditioner, made when first asked for."""
        if self._low_rank is None:
            gram = self.gram
            if self.landmarks is None:
                given = gram.rows, gram.kernel, ridge * self.slack_ratio
                self.landmarks = Landmarks.choose(*given, self.n_view, self.rng)
            if isinstance(gram, DeviceGram):
                self._low_rank = on_device(self.landmarks, gram.rows)
            else:
                self._low_rank = LowRank(self.landmarks, gram.rows, gram.workers)
        return self._low_rank

    def extend(self, positions: Array, rows: Rows) -> None:
        """Append rows to the set."""
        assert isinstance(self.gram, TiledGram)
        self.gram.extend(rows)
        if isinstance(self._low_rank, LowRank):
            self._low_rank.extend(rows)
        self.positions = np.concatenate([self.positions, positions])
