"""What listeners of a fit see of it: the last multipliers of every problem."""

from __future__ import annotations

from threading import Lock
from typing import Any

import numpy as np

from corevec._runtime.progress import Progress, RoundState
from corevec._runtime.types import Array
from corevec.data.sources import Source
from corevec.kernels import AnyKernel
from corevec.models.expansion import KernelExpansion
from corevec.problems import BoxProblem, Measured
from corevec.solvers.hinge.result import coefficients_of, joint_functions


class Latest:
    """The last multipliers and biases of the problems of one fit.

    Problems may be solved side by side: rounds are recorded one at a time.
    """

    def __init__(
        self,
        problems: list[BoxProblem],
        source: Source,
        kernel: AnyKernel,
        progress: Progress,
    ):
        self.problems, self.source, self.kernel = problems, source, kernel
        self.progress = progress
        self._signed = [np.zeros(len(one.rows)) for one in problems]
        self._biases = np.zeros(len(problems))
        self._widths = np.zeros(len(problems))
        self._lock = Lock()

    def record(
        self, number: int, signed: Array, measured: Measured, **fields: Any
    ) -> None:
        """Record a round of one problem; listeners get the state of all of them."""
        with self._lock:
            self._signed[number] = signed
            self._biases[number] = measured.bias
            self._widths[number] = measured.width
            state = RoundState(self._functions, self._cores, self._offsets)
            self.progress.record(state, **fields)

    def _functions(self) -> KernelExpansion:
        pairs = zip(self.problems, self._signed, strict=True)
        parts = [coefficients_of(*pair) for pair in pairs]
        return joint_functions(parts, self._biases.copy(), self.source, self.kernel)

    def _cores(self) -> list[tuple[Array, Array]]:
        used = [np.flatnonzero(one) for one in self._signed]
        pairs = zip(used, self._signed, strict=True)
        return [(own, np.abs(signed[own])) for own, signed in pairs]

    def _offsets(self) -> Array:
        return np.asarray(0.0 - self._widths)
