"""What a fit is asked for, and what it hands back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from corevec._runtime.types import Array
from corevec.models.certificate import Certificate
from corevec.models.expansion import KernelExpansion


@dataclass(frozen=True)
class Settings:
    """How to run; names and meaning as in the estimators."""

    tol: float = 1e-3
    ball_epsilon: float | None = None
    sampling: str | int = "auto"
    batch: str | int = "auto"
    qp: str = "auto"
    init: str = "auto"
    max_vectors: int | None = None
    random_state: Any = None

    @property
    def solver(self) -> str:
        """The QP solver: SMO when rows come one by one as in the paper."""
        literal = self.ball_epsilon is not None and self.batch == 1
        return "smo" if self.qp == "auto" and literal else self.qp


@dataclass(frozen=True)
class WarmStart:
    """What an earlier fit leaves for the next: its functions and its core rows.

    `same_rows` says that row numbers still mean the same rows.
    """

    functions: KernelExpansion
    support: list[Array]
    multipliers: list[Array]
    same_rows: bool
    offsets: Array | None = None


@dataclass
class FitResult:
    """Functions and certificates of all problems of one fit."""

    functions: KernelExpansion
    certificates: list[Certificate]
    offsets: Array
    norms_sq: Array
    support: list[Array]  # row numbers per problem
    multipliers: list[Array]
    n_core: list[int]
    method: str = ""  # what was taken, and why, in one sentence
