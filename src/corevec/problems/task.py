"""What a solver is given: problems, the rows they are about, a kernel, settings."""

from __future__ import annotations

from dataclasses import dataclass

from corevec.data.sources import Source
from corevec.kernels import AnyKernel
from corevec.models.result import Settings, WarmStart
from corevec.problems.family import Problem


@dataclass(frozen=True)
class Task:
    """Problems over the rows of one source, which share every pass over them.

    Attributes
    ----------
    problems : list of Problem
        One per class, target or detector.
    source : Source
        The rows.
    kernel : kernel
        One kernel for all problems.
    settings : Settings
        Tolerance, limits, seed.
    warm : WarmStart or None
        What an earlier fit left.
    """

    problems: list[Problem]
    source: Source
    kernel: AnyKernel
    settings: Settings
    warm: WarmStart | None = None
