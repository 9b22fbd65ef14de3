"""Predictions of rows that live elsewhere, as what the rows are.

Of Dask collections: the same method, on every partition, when asked. Of other
libraries' arrays on a device: an array of that library.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from typing import Any, TypeVar

from sklearn.utils.validation import check_is_fitted

from corevec.backend.arrays import back_from, is_tensor
from corevec.data.sources import is_dask, is_on_device

Method = TypeVar("Method", bound=Callable[..., Any])


def lazily(method: Method) -> Method:
    """Return a method of rows that gives a lazy Dask array for a Dask collection."""

    @wraps(method)
    def called(self: Any, X: Any, *others: Any, **named: Any) -> Any:
        if is_on_device(X) and not is_tensor(X):
            from corevec.data.sources.gpu import as_tensor

            tensor = as_tensor(type(self).__name__, "X", X)
            return back_from(method(self, tensor, *others, **named), X)
        if not is_dask(X):
            return method(self, X, *others, **named)
        check_is_fitted(self)
        # Its module needs Dask, which whoever gives a collection has.
        from corevec.data.sources.dask_lazy import mapped

        check = getattr(self, "_check_far_columns", None)
        if check is not None:
            check(X, reset=False)
        return mapped(partial(called, self, *others, **named), X)

    return called  # type: ignore[return-value]
