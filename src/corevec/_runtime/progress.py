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

from corevec._runtime.enumerations import StopReason

logger = logging.getLogger("corevec")


@dataclass(frozen=True)
class RoundState:
    """The model after a round, for listeners; computed only if they ask.

    Attributes
    ----------
    functions : callable
        Returns the functions of all problems.
    cores : callable or None
        Returns the core entries and their multipliers, a pair per problem.
    offsets : callable or None
        Returns the offset of each problem.
    basis_is_final : bool
        Whether later rounds keep the basis vectors.
    """

    functions: Callable[[], Any]
    cores: Callable[[], list[tuple[Any, Any]]] | None = None
    offsets: Callable[[], Any] | None = None
    basis_is_final: bool = False


# Called with the record of a round and the state of the model, None where the solver
# gives none. A listener that returns True asks the fit to stop.
Listener = Callable[[dict[str, Any], RoundState | None], Any]


@dataclass
class Progress:
    """Records one dict per round and says when the time or round budget is spent.

    `listeners` are called after each round: the live line of ``verbose``,
    scikit-learn's callbacks, the checkpoint.
    """

    n_rows: int
    max_iter: int | None = None
    max_time: float | None = None
    listeners: list[Listener] = field(default_factory=list)
    history: list[dict[str, Any]] = field(default_factory=list)
    rows_looked_at: int = 0
    started: float = field(default_factory=time.perf_counter)
    stop_asked: bool = False
    _changes: list[Callable[[RoundState], RoundState]] = field(
        default_factory=list, init=False, repr=False
    )

    @property
    def seconds(self) -> float:
        """Elapsed seconds since the fit began."""
        return time.perf_counter() - self.started

    @property
    def passes(self) -> float:
        """Number of scanned rows, in units of all rows."""
        return self.rows_looked_at / max(self.n_rows, 1)

    def record(self, state: RoundState | None = None, **fields: Any) -> None:
        """Append a record of the round that just ended and tell the listeners."""
        record = {
            "round": len(self.history) + 1,
            **fields,
            "passes": self.passes,
            "seconds": self.seconds,
        }
        self.history.append(record)
        logger.debug("round %(round)d: core %(core)d, gap %(gap).3g", record)
        if state is not None:
            for change in reversed(self._changes):
                state = change(state)
        for listener in self.listeners:
            self.stop_asked |= bool(listener(record, state))

    @contextmanager
    def showing(self, change: Callable[[RoundState], RoundState]) -> Iterator[None]:
        """Change the states that listeners get, for the rounds recorded inside.

        For a solver whose rounds run in another solver, on a transformed problem.
        """
        self._changes.append(change)
        try:
            yield
        finally:
            self._changes.pop()

    def spent(self) -> StopReason | None:
        """Return which budget is spent (rounds, time, or an interrupt), if any."""
        if self.stop_asked:
            return StopReason.INTERRUPT
        if self.max_iter is not None and len(self.history) >= self.max_iter:
            return StopReason.MAX_ITER
        if self.max_time is not None and self.seconds >= self.max_time:
            return StopReason.MAX_TIME
        return None

    @contextmanager
    def listening_for_interrupt(self) -> Iterator[None]:
        """Turn Ctrl-C into a stop after the current round.

        A round is never interrupted halfway. A second Ctrl-C aborts with
        `KeyboardInterrupt`. This happens only where Python's own handler is in place,
        and only in the main thread, because signals arrive there alone.
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
