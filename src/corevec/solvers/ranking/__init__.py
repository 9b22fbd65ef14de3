"""The pairwise ranking machine."""

from corevec.solvers.ranking.solve import (
    RankingMethod,
    RankingSettings,
    RankingTask,
    solve,
)

__all__ = [
    "RankingMethod",
    "RankingSettings",
    "RankingTask",
    "solve",
]
