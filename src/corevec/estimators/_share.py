"""The C of a one-class machine that leaves a share of the rows outside.

The share decreases as C grows, but not below that of the support vectors of the hard
margin, which lie slightly outside.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from corevec._runtime.types import Array
from corevec.problems.family import Problem

if TYPE_CHECKING:
    from corevec.solvers.exact.path import PathMatrix

# The share is reached within this relative deviation, or within one row.
TOLERANCE = 0.02
# Largest C of the search, relative to 1/(share * mass), and the number of fits.
MOST_C, MOST_FITS = 1e3, 40
# A bracket is narrow if its ends differ by less than this.
NARROW = 1e-6
# The gap of the solutions on a matrix, relative to that of the fit: rows at the margin
# are to lie on the side where the fit has them.
MATRIX_TOL = 1e-3


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
