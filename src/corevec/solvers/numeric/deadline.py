"""The time limit of a fit, inside long steps.

`Progress.spent` is asked between rounds. A round of a large problem may take longer
than the whole limit: what it is made of (a factor of a matrix, a pass, the choice of a
row) asks its `Deadline`, which also refuses work that would end too late.
"""

from __future__ import annotations

from dataclasses import dataclass

from corevec._runtime.progress import Progress

# What a certificate may take beyond the time limit, in shares of the limit and in
# seconds: most of the 20 % or 0.5 s that a fit may be late. A pass has the last number
# of seconds in any case: loops that had to be compiled cost no certificate.
LATE_SHARE, LATE_SECONDS, LEAST_SECONDS = 0.15, 0.4, 0.2


class OutOfTime(Exception):
    """Raised by a step that would end after its deadline; the solvers catch it."""


@dataclass(frozen=True)
class Deadline:
    """A time of the fit's clock; infinite where the fit has no time limit."""

    progress: Progress
    seconds: float = float("inf")

    @classmethod
    def of(cls, progress: Progress, share: float = 1.0) -> Deadline:
        """Return the deadline after this share of the time that is left."""
        if progress.max_time is None:
            return cls(progress)
        now = progress.seconds
        return cls(progress, now + share * max(progress.max_time - now, 0.0))

    @classmethod
    def of_certificate(cls, progress: Progress) -> Deadline:
        """Return the deadline of a pass that begins now: it may be a little late."""
        if progress.max_time is None:
            return cls(progress)
        late = max(LATE_SHARE * progress.max_time, LATE_SECONDS)
        least = progress.seconds + LEAST_SECONDS
        return cls(progress, max(progress.max_time + late, least))

    @property
    def is_set(self) -> bool:
        """Whether the fit has a time limit."""
        return self.seconds < float("inf")

    @property
    def left(self) -> float:
        """Seconds until the deadline, at least 0."""
        return max(self.seconds - self.progress.seconds, 0.0)

    def is_over(self, needed: float = 0.0) -> bool:
        """Return whether work of so many seconds would end after the deadline."""
        return self.progress.seconds + needed >= self.seconds

    def check(self, needed: float = 0.0) -> None:
        """Raise `OutOfTime` where work of so many seconds would end too late."""
        if self.is_over(needed):
            raise OutOfTime
