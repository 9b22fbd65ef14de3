"""Numba's decorator, which does without a cache where none can be written."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

import numba


def njit(*, cache: bool = False, **options: Any) -> Callable[[Any], Any]:
    """Return ``numba.njit`` with these options.

    Numba raises RuntimeError for a cached function whose folder cannot be written to
    where the user's cache folder cannot be either (a read-only container, say). The
    loops then are compiled in each process; one warning says how to avoid that.
    """

    def compiled(function: Any) -> Any:
        try:
            return numba.njit(cache=cache, **options)(function)
        except RuntimeError:
            if not cache:
                raise
            _warn_of_no_cache()
            return numba.njit(**options)(function)

    return compiled


@functools.cache
def _warn_of_no_cache() -> None:
    warnings.warn(
        "corevec: no cache folder of Numba can be written to, so that every process "
        "compiles the loops again, which takes some seconds. Set the environment "
        "variable NUMBA_CACHE_DIR to a folder that can.",
        RuntimeWarning,
        stacklevel=2,
    )
