"""What sources of files share: reading ahead, scores in the order of the rows."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Generator
from contextlib import closing
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np

from corevec._runtime.types import Array
from corevec.data.sources.remote import RemoteSource
from corevec.data.sources.workers import Workers

T = TypeVar("T")
S = TypeVar("S")

WHO = "corevec.open"
# With the one in the reader's hands, two at a time: one is read while one is used.
_MOST_READY = 1


class ReadAhead(Generic[T]):
    """The items of an iterator, made by a thread while others work on those before.

    `take` hands out the next item and its number to whichever thread asks.
    """

    def __init__(self, items: Generator[T, None, None]):
        self._items = items
        self._ready: deque[T] = deque()
        self._taken = 0
        self._ended = self._closed = False
        self._error: BaseException | None = None
        self._change = threading.Condition()
        self._thread = threading.Thread(target=self._read, daemon=True)

    def __enter__(self) -> ReadAhead[T]:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._change:
            self._closed = True
            self._ready.clear()
            self._change.notify_all()
        self._thread.join()

    def take(self) -> tuple[int, T]:
        """Return the next item and its number; raise what its reader raised."""
        with self._change:
            self._change.wait_for(lambda: self._ready or self._ended or self._closed)
            if not self._ready:
                raise self._error or RuntimeError("nothing is left to read")
            item = self._ready.popleft()
            self._taken += 1
            self._change.notify_all()
            return self._taken - 1, item

    def _read(self) -> None:
        try:
            with closing(self._items) as items:
                for item in items:
                    if not self._offer(item):
                        break
        except BaseException as error:
            self._error = error
        finally:
            with self._change:
                self._ended = True
                self._change.notify_all()

    def _offer(self, item: T) -> bool:
        with self._change:
            self._change.wait_for(
                lambda: self._closed or len(self._ready) < _MOST_READY
            )
            if not self._closed:
                self._ready.append(item)
                self._change.notify_all()
            return not self._closed


def all_finite(values: Array) -> bool:
    """Whether all is finite; a sum that is finite proves it without more memory."""
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(values.sum())) or bool(np.isfinite(values).all())


def in_order(
    workers: Workers,
    task: Callable[[S], T],
    pieces: Generator[S, None, None],
    n_pieces: int,
) -> Generator[T, None, None]:
    """Yield ``task(piece)`` of every piece in their order, the next ones read ahead.

    Whichever worker is free takes the next piece, so that no more pieces are held
    than there are workers and two. Results that come early wait for their turn.
    """
    with ReadAhead(pieces) as ahead:

        def numbered(_: int) -> tuple[int, T]:
            number, piece = ahead.take()
            return number, task(piece)

        early: dict[int, T] = {}
        turn = 0
        # Closed before the reader is: then no task begins to wait for a piece, and
        # those that wait are let go.
        with closing(_run(workers, numbered, n_pieces)) as results:
            for number, result in results:
                early[number] = result
                while turn in early:
                    yield early.pop(turn)
                    turn += 1


def _run(
    workers: Workers, task: Callable[[int], T], n_tasks: int
) -> Generator[T, None, None]:
    yield from workers.run(task, range(n_tasks))


class FileSource(RemoteSource):
    """Rows of files that are opened anew for each pass and each random access."""

    paths: list[Path]

    def __repr__(self) -> str:
        brings = f", with {' and '.join(self.columns)}" if self.columns else ""
        return (
            f"{type(self).__name__}({self.n_rows} rows x {self.n_features} columns"
            f"{brings}: {self.where})"
        )

    @property
    def where(self) -> str:
        """The files, in words."""
        more = f" and {len(self.paths) - 1} more" if len(self.paths) > 1 else ""
        return f"{self.paths[0]}{more}"

    def __getstate__(self) -> dict[str, Any]:
        """Return what another process needs: no cached rows, no threads."""
        state = self.__dict__.copy()
        state["workers"] = Workers(self.workers.n_threads)
        for held in ("_deck", "_order", "_dealt", "_kept"):
            state.pop(held, None)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._forget()
