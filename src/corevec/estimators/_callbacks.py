"""Progress reports: the callbacks of scikit-learn (1.9 and later) and ``verbose``."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from math import isfinite
from typing import Any, Self

from tqdm import tqdm

from corevec._runtime.progress import Listener, RoundState, logger

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # scikit-learn before 1.9

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Replacement for releases of scikit-learn without callbacks."""

    def with_callbacks(method: Any) -> Any:
        """Return the method unchanged: there are no callbacks to tear down."""
        return method


class RoundReporter:
    """Reports each round to the callbacks of scikit-learn, a progress line and the log.

    ``verbose=1`` shows a progress line on standard error if that is a terminal;
    ``verbose=2`` also writes one record per round to the logger "corevec".
    """

    def __init__(
        self,
        model: Any,
        attributes: Callable[[RoundState], dict[str, Any]],
        given: Any = None,
        quiet: bool = False,
    ):
        self.model, self.attributes, self.quiet = model, attributes, quiet
        self.data: dict[str, Any] = {} if given is None else _data_of(given)
        self.root: Any = None
        self.line: Any = None

    def __enter__(self) -> Self:
        if self.quiet:
            return self
        if hasattr(self.model, "_init_callback_context"):
            self.root = self.model._init_callback_context(max_subtasks=None)
            self.root.call_on_fit_task_begin(estimator=self.model, **self.data)
        if self.model.verbose and sys.stderr.isatty():
            self.line = tqdm(desc=type(self.model).__name__, unit=" rounds")
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self.line is not None:
            self.line.close()
        if self.root is not None and kind is None:
            # The estimator is fitted by now: a copy needs no other attributes.
            self.root.call_on_fit_task_end(
                estimator=self.model, reconstruction_attributes=dict, **self.data
            )

    def on_round(self, record: dict[str, Any], state: RoundState | None = None) -> bool:
        """Report a round, as a listener of `Progress`; True asks the fit to stop.

        Callbacks get no fitted estimator where the solver gives no state.
        """
        self._show(record)
        if self.root is None:
            return False
        task = self.root.subcontext(task_name="round")
        task.call_on_fit_task_begin(estimator=self.model, **self.data)
        asked = task.call_on_fit_task_end(
            estimator=self.model,
            reconstruction_attributes=lambda: state and self.attributes(state),
            **self.data,
        )
        return bool(asked)

    def _show(self, record: dict[str, Any]) -> None:
        if self.quiet:
            return
        if self.model.verbose > 1:
            logger.log(
                logging.INFO,
                "%s round %d: %d core rows, %s on %d rows, %.1f passes, %.1f s%s",
                type(self.model).__name__,
                record["round"],
                record["core"],
                _state_of(record),
                record["looked_at"],
                record["passes"],
                record["seconds"],
                _traffic_of(record),
            )
        if self.line is not None:
            self.line.set_postfix_str(
                f"core {record['core']}, {_state_of(record)}, "
                f"passes {record['passes']:.1f}{_traffic_of(record)}",
                refresh=False,
            )
            self.line.update()


def _data_of(given: Any) -> dict[str, Any]:
    """Return the rows in memory that a callback may score on; none of remote rows."""
    X, y = getattr(given.source, "values", None), given.target
    if X is None or callable(y):
        return {}
    if y is not None and y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    weighted = {} if given.weight is None else {"sample_weight": given.weight}
    return {"X": X, "y": y, "metadata": weighted}


def traffic_of(source: Any) -> list[Listener]:
    """Return a listener that adds what a round sent and received to its record.

    An empty list where the source has no workers.
    """
    meter = getattr(source, "meter", None)
    return [] if meter is None else [lambda record, _: record.update(meter())]


def _state_of(record: dict[str, Any]) -> str:
    """Return the gap, or the predicted gain of the next step while no gap is known."""
    if "promise" in record and isfinite(record["promise"]):
        return f"next step gains {record['promise']:.2g}"
    return f"gap {record['gap']:.2g}" if isfinite(record["gap"]) else "gap unknown yet"


def _traffic_of(record: dict[str, Any]) -> str:
    """Return the traffic of a round between client and workers; empty without workers.

    "Out" counts the scan request once, because every worker receives the same one.
    """
    if "bytes_sent" not in record:
        return ""
    sent, received = record["bytes_sent"] / 1e6, record["bytes_received"] / 1e6
    return f", {sent:.2f} MB out, {received:.2f} MB in"


__all__ = [
    "CallbackSupportMixin",
    "RoundReporter",
    "traffic_of",
    "with_callbacks",
]
