"""The clock, the history and the budget of one fit."""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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
    # What a checkpoint keeps beside them: core entries with their multipliers, the
    # offsets, whether the basis is final, what the estimator adds.
    cores: Callable[[], list[tuple[Any, Any]]] | None = None
    offsets: Callable[[], Any] | None = None
    chosen: bool = False
    more: dict[str, Any] = field(default_factory=dict)
    meter: Callable[[], dict[str, Any]] | None = None  # what a round sent and received

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
            **(self.meter() if self.meter is not None else {}),
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

    @contextmanager
    def listening_for_interrupt(self) -> Iterator[None]:
        """Turn Ctrl-C into a stop after the current round.

        The state of a round is never torn apart in the middle. A second Ctrl-C aborts
        with `KeyboardInterrupt`. Only where Python's own handler is in place, and only
        in the main thread, where alone a signal arrives.
        """
        ours = (
            threading.current_thread() is threading.main_thread()
            and signal.getsignal(signal.SIGINT) is signal.default_int_handler
        )
        if not ours:
            yield
            return

        def stop_after_this_round(*_: object) -> None:
            self.stop_asked = True
            signal.signal(signal.SIGINT, signal.default_int_handler)
            logger.warning("stopping after this round; press Ctrl-C again to abort")

        signal.signal(signal.SIGINT, stop_after_this_round)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, signal.default_int_handler)
