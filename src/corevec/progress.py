"""The clock, the history and the budget of one fit."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

logger = logging.getLogger("corevec")


@dataclass
class Progress:
    """Records one dict per round and says when the time or round budget is spent.

    `listeners` are called with each record: the live line of ``verbose``,
    scikit-learn's callbacks. A listener that returns True asks the fit to stop.
    """

    n_rows: int
    max_iter: int | None = None
    max_time: float | None = None
    listeners: list[Callable[[dict[str, Any]], Any]] = field(default_factory=list)
    history: list[dict[str, Any]] = field(default_factory=list)
    rows_looked_at: int = 0
    started: float = field(default_factory=time.perf_counter)
    stop_asked: bool = False
    snapshot: Callable[[], Any] | None = None  # the functions as they are now

    @property
    def seconds(self) -> float:
        """Wall-clock seconds since the fit began."""
        return time.perf_counter() - self.started

    @property
    def passes(self) -> float:
        """Rows looked at, in units of all rows."""
        return self.rows_looked_at / max(self.n_rows, 1)

    def record(self, **fields: Any) -> None:
        """Append a record of the round that just ended and tell the listeners."""
        record = {
            "round": len(self.history) + 1,
            **fields,
            "passes": self.passes,
            "seconds": self.seconds,
        }
        self.history.append(record)
        logger.debug("round %(round)d: core %(core)d, gap %(gap).3g", record)
        for listener in self.listeners:
            self.stop_asked |= bool(listener(record))

    def spent(self) -> str | None:
        """Return which budget is spent ("max_iter", "max_time", "interrupt")."""
        if self.stop_asked:
            return "interrupt"
        if self.max_iter is not None and len(self.history) >= self.max_iter:
            return "max_iter"
        if self.max_time is not None and self.seconds >= self.max_time:
            return "max_time"
        return None
