"""The rows that problems are solved on for a while, with their matrix."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from corevec._runtime.types import Array
from corevec.backend.arrays import is_tensor
from corevec.kernels import Rows
from corevec.solvers.exact.gram import BlockGram, DeviceGram, Gram
from corevec.solvers.exact.preconditioner import (
    Blocks,
    DeviceBlocks,
    Landmarks,
    Later,
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
    memory : float
        The memory budget, in bytes.
    rng : numpy Generator
        For the choice of the landmarks.
    landmarks : dict
        Those of earlier working sets, by component; chosen when first needed.
    slack_ratio : float
        The slack of the problems in units of those that the landmarks have to serve.
    """

    positions: Array
    gram: Gram
    n_view: int
    memory: float
    rng: np.random.Generator
    landmarks: dict[int, Landmarks] = field(default_factory=dict)
    slack_ratio: float = 1.0
    _preconditioner: Preconditioner | None = None

    def preconditioner(self, ridge: float) -> Preconditioner:
        """Return the preconditioner, made when first asked for."""
        if self._preconditioner is None:
            gram = self.gram
            if isinstance(gram, BlockGram):
                factors = {
                    one.component: self._of(one.gram, ridge, one.component, gram)
                    for one in gram.blocks
                }
                kind = DeviceBlocks if is_tensor(gram.rows.values) else Blocks
                self._preconditioner = kind(factors, gram.partition)
            else:
                self._preconditioner = self._of(gram, ridge)
        return self._preconditioner

    def _of(
        self, gram: Gram, ridge: float, c: int = 0, whole: BlockGram | None = None
    ) -> Preconditioner:
        """Return the preconditioner of a matrix, or of one component of it."""
        known = self.landmarks.get(c)
        if known is None or known.is_short_for(len(gram)):
            later = Later.whole(self.n_view, self.memory)
            if whole is not None:
                n_rows = int(whole.components.sizes[c])
                later = Later.component(n_rows, len(whole), whole.memory)
            given = gram.rows, gram.kernel, ridge * self.slack_ratio
            self.landmarks[c] = Landmarks.choose(*given, later, self.rng)
        if isinstance(gram, DeviceGram):
            return on_device(self.landmarks[c], gram.rows)
        return LowRank(self.landmarks[c], gram.rows, gram.workers)

    def extend(self, positions: Array, rows: Rows) -> None:
        """Append rows to the set."""
        self.gram.extend(rows)
        if isinstance(self._preconditioner, LowRank):
            self._preconditioner.extend(rows)
        self.positions = np.concatenate([self.positions, positions])
