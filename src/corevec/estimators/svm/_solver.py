"""The machines of a fit, solved on its rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from corevec._runtime.progress import Progress, RoundState, logger
from corevec._runtime.types import Array
from corevec.data.sources import Source
from corevec.kernels import AnyKernel
from corevec.models.certificate import Certificate
from corevec.models.expansion import KernelExpansion
from corevec.problems import BoxProblem
from corevec.solvers.hinge import HingeSettings, solve_boxes

# A hard margin: above it the bound of no multiplier is reached on rows of any use, and
# sums of bounds keep their digits.
HARD_MARGIN_C = 1e10


@dataclass(frozen=True)
class Machine:
    """A solved machine: ``f(x) = sum_i coef_i k(x_i, x) + intercept``.

    Attributes
    ----------
    rows : ndarray of shape (n_support,)
        The rows with a coefficient that is not 0, in increasing order.
    coef : ndarray of shape (n_support,)
        Their coefficients.
    intercept : float
        The bias.
    width : float
        LIBSVM's r of the nu problems: the margin of nu-SVC.
    violation : float
        The largest violation of an optimality condition.
    n_steps : int
        Steps of the solver.
    certificate : Certificate
        The duality gap on all rows of the machine.
    """

    rows: Array
    coef: Array
    intercept: float
    width: float
    violation: float
    n_steps: int
    certificate: Certificate


@dataclass(frozen=True)
class Solver:
    """The rows, the kernel and the limits of one fit.

    The time limit is for all machines together, and an interrupt ends all of them.

    Attributes
    ----------
    source : Source
        All rows.
    kernel : Kernel
        Their kernel.
    settings : HingeSettings
        The stopping criterion of each machine.
    progress : Progress
        Clock, history and interrupts of the fit.
    """

    source: Source
    kernel: AnyKernel
    settings: HingeSettings
    progress: Progress

    def solve(self, problems: list[BoxProblem]) -> list[Machine]:
        """Return the machine of each problem."""
        found = solve_boxes(
            problems, self.source, self.kernel, self.settings, self.progress
        )
        return [
            Machine(
                *one.coefficients(),
                one.bias,
                one.width,
                one.violation,
                one.n_iter,
                one.certificate,
            )
            for one in found
        ]

    def values(self, machine: Machine, rows: Array) -> Array:
        """Return the machine's values of some rows of the fit."""
        function = KernelExpansion(
            self.kernel,
            self.source.take(machine.rows),
            machine.coef[:, None],
            np.array([machine.intercept]),
        )
        return function.evaluate(self.source.take(rows), function.prepared())[:, 0]


def settings_of(model: Any) -> HingeSettings:
    """Return the stopping criterion of a model: LIBSVM's, with its `tol`."""
    most = None if model.max_iter < 0 else int(model.max_iter)
    return HingeSettings(float(model.tol), "violation", most)


def finite_price(C: float) -> float:
    """Return C, or for infinity a value that is a hard margin in practice."""
    return HARD_MARGIN_C if np.inf == C else float(C)


def told_of_round(record: dict[str, Any], state: RoundState | None = None) -> None:
    """Log a round, for ``verbose``; a listener of `Progress`."""
    logger.info(
        "round %d: %d support vectors, gap %.3g, %.1f s",
        record["round"],
        record["core"],
        record["gap"],
        record["seconds"],
    )
