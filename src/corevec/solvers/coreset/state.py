"""What is fixed during a run of the core set solver, and what changes."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, IntEnum
from functools import cached_property

import numpy as np

from corevec._runtime.enumerations import StopReason
from corevec._runtime.progress import Progress
from corevec._runtime.types import Array
from corevec.certificates.scan import ScanResult
from corevec.data.sources import Source
from corevec.kernels import AnyKernel
from corevec.models.result import Settings
from corevec.solvers.coreset.core import Core
from corevec.solvers.numeric.deadline import Deadline


class View(Enum):
    """Which rows the next scan visits."""

    RANDOM_SUBSET = "a random subset, which grows whenever the core set solves it"
    FRESH_SAMPLE = "a sample that is drawn anew for every scan, as in the paper"
    WORST_ROWS = "the most violating rows of the last scans over all rows"
    ALL_SEARCHING = "all rows, for more violators, in the precision that suffices"
    ALL_CERTIFYING = "all rows, in float64, for the certificate"

    @property
    def is_all(self) -> bool:
        """Whether a scan visits every row."""
        return self in (View.ALL_SEARCHING, View.ALL_CERTIFYING)


class Precision(IntEnum):
    """How accurately the problem on the core rows is solved."""

    LOOSE = 0  # relative to the gap of the working set
    TIGHT = 1  # relative to the tolerance
    EXACT = 2


@dataclass(frozen=True)
class Job:
    """What a run works on; fixed from the first round to the last.

    `share` is that of the time left which the run may use.
    """

    source: Source
    kernel: AnyKernel
    settings: Settings
    progress: Progress
    share: float = 1.0

    @cached_property
    def deadline(self) -> Deadline:
        """When the rounds end, the pass that certifies included; begins when asked."""
        return Deadline.of(self.progress, self.share)

    @property
    def certificate_deadline(self) -> Deadline:
        """When the pass that certifies ends: a little late, in a run of its own."""
        if self.share < 1.0:
            return self.deadline
        return Deadline.of_certificate(self.progress)

    @property
    def is_paper(self) -> bool:
        """Whether the stopping criterion is the paper's, on the ball."""
        return self.settings.ball_epsilon is not None

    @property
    def criterion(self) -> StopReason:
        """The stop reason of a run that meets its stopping criterion."""
        return StopReason.BALL_EPSILON if self.is_paper else StopReason.TOL


@dataclass(frozen=True)
class Measured:
    """What a scan says about the solution of one problem."""

    found: ScanResult
    primal: float
    gap: float
    scale: float  # at which the primal value was measured, as the offset
    offset: float
    next_trial: float  # the scale, or 1 + change of the offset, to try next


@dataclass
class State:
    """What changes from round to round."""

    cores: list[Core]
    eta: list[float]  # the largest Q_ii over all rows, for each problem
    rng: np.random.Generator
    view: View
    rows: Source  # the working set
    target: float  # the gap at which the working set counts as solved
    precision: Precision = Precision.LOOSE
    measured: list[Measured] = field(default_factory=list)
    worst_rows: Array = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    scanned: View | None = None  # the view of a scan of the present functions
    full_scan: tuple[float, int] | None = None  # seconds and support of the last one
    solved_subset: tuple[int, int] | None = None  # rows and support of the last one
    stopped_by: StopReason | None = None

    @property
    def largest_gap(self) -> float:
        """The largest gap of any problem on the working set."""
        return max(one.gap for one in self.measured)

    @property
    def largest_support(self) -> int:
        """The most support entries of any problem, at least 1."""
        return max(1, *(len(core.support) for core in self.cores))

    @property
    def is_full(self) -> bool:
        """Whether any core set has its largest size."""
        return any(len(core) >= core.max_size for core in self.cores)
