"""The candidates of a search: a grid of gamma and C, coarse and fine."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

# The default grid: C by half decades from 0.03 to 1000, and gamma by factors of two
# from 1/64 to 64 times "scale". On 22 tables of ordinary size the best gamma was
# between 1/30 and 30 times "scale".
LEAST_C, LARGEST_C = 10**-1.5, 1e3
GAMMA_FACTORS = 2.0 ** np.arange(-6, 7)
# Of a default axis every other value is tried before those between.
COARSE_STEP = 2


@dataclass(frozen=True, order=True)
class Candidate:
    """A point of the grid: positions on the axes, in the order of the table."""

    others: int
    C: int
    gamma: int

    @property
    def group(self) -> tuple[int, int]:
        """What its neighbours on the path of C have in common."""
        return self.gamma, self.others


@dataclass(frozen=True)
class Grid:
    """The axes of a search.

    Attributes
    ----------
    Cs, gammas : list
        The values of C, growing, and of gamma, as the estimator takes them.
    gamma_values : list of float
        The numbers that the gammas stand for.
    others : list of dict
        Further parameters, such as the tube of a regression.
    steps : tuple of two ints
        The distance of the coarse values on the axes of C and gamma.
    """

    Cs: list[float]
    gammas: list[Any]
    gamma_values: list[float]
    others: list[dict[str, Any]]
    steps: tuple[int, int] = (1, 1)

    def coarse(self) -> list[Candidate]:
        """Return the candidates to begin with."""
        Cs = _coarse(len(self.Cs), self.steps[0])
        gammas = _coarse(len(self.gammas), self.steps[1])
        axes = range(len(self.others)), Cs, gammas
        return sorted(Candidate(*one) for one in product(*axes))

    def neighbours(self, one: Candidate) -> list[Candidate]:
        """Return the candidates one fine step away, on axes that have such steps."""
        reach = [(-1, 0, 1) if step > 1 else (0,) for step in self.steps]
        found = (
            Candidate(one.others, one.C + c, one.gamma + g) for c, g in product(*reach)
        )
        return [near for near in found if self._has(near) and near != one]

    def _has(self, one: Candidate) -> bool:
        return 0 <= one.C < len(self.Cs) and 0 <= one.gamma < len(self.gammas)

    def params(self, one: Candidate) -> dict[str, Any]:
        """Return the parameters of a candidate."""
        own = {"C": self.Cs[one.C], "gamma": self.gammas[one.gamma]}
        return own | self.others[one.others]

    def paths(
        self, candidates: Iterable[Candidate]
    ) -> dict[tuple[int, int], list[Candidate]]:
        """Return the candidates of each path of C, by growing C; gammas in a row."""
        found: dict[tuple[int, int], list[Candidate]] = {}
        for one in sorted(candidates, key=lambda one: (*one.group, one.C)):
            found.setdefault(one.group, []).append(one)
        return found


def _coarse(size: int, step: int) -> range:
    """Return the coarse positions on an axis: its middle is one of them."""
    return range((size // 2) % step, size, step)


def default_Cs(count: int) -> list[float]:
    """Return this many values of C, log-spaced over the range of the default grid."""
    if count == 1:
        return [1.0]
    found = np.geomspace(LEAST_C, LARGEST_C, count)
    return [float(f"{one:.6g}") for one in found]


def default_gammas(scale: float) -> list[float]:
    """Return the values of gamma around the number that "scale" stands for."""
    return [float(f"{scale * one:.6g}") for one in GAMMA_FACTORS]


def sorted_Cs(values: Sequence[Any]) -> list[float]:
    """Return given values of C once each, growing."""
    return sorted(set(values))
