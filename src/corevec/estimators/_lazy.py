"""Predictions of remote rows, as the kind of array that the rows are.

A Dask collection is answered lazily: the same method runs on every partition.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from typing import Any, TypeVar

from sklearn.utils.validation import check_is_fitted

from corevec.data.sources import answer_in_kind

Method = TypeVar("Method", bound=Callable[..., Any])


def lazily(method: Method) -> Method:
    """Return a method of rows that gives a lazy Dask array for a Dask collection."""

    @wraps(method)
    def called(self: Any, X: Any, *others: Any, **named: Any) -> Any:
        def answer(rows: Any) -> Any:
            return method(self, rows, *others, **named)

        def lazy_answer(collection: Any) -> Any:
            check_is_fitted(self)
            # Its module needs Dask, which whoever gives a collection has.
            from corevec.data.sources.dask_lazy import mapped

            check = getattr(self, "_check_remote_columns", None)
            if check is not None:
                check(collection, reset=False)
            return mapped(partial(called, self, *others, **named), collection)

        return answer_in_kind(type(self).__name__, X, answer, lazy_answer)

    return called  # type: ignore[return-value]
