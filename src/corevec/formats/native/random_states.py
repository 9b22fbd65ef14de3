"""States of random generators from a file, checked field by field.

NumPy hands a state to C code as it is. The position of a MT19937 in its 624 words and
that of a Philox in its buffer are used as indices there without a look: a position
beyond the end reads memory that is not the generator's.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

WrongAt = Callable[[str, str], NoReturn]


@dataclass(frozen=True)
class Whole:
    """A field with a whole number from 0 to `most`."""

    most: int

    def check(self, value: Any, place: str, wrong: WrongAt) -> None:
        """Call `wrong` if the value is not such a number."""
        if type(value) is not int or not 0 <= value <= self.most:
            wrong(place, f"must be a whole number from 0 to {self.most}")


@dataclass(frozen=True)
class Words:
    """A field with an array of a fixed number of unsigned integers."""

    dtype: str
    length: int

    def check(self, value: Any, place: str, wrong: WrongAt) -> None:
        """Call `wrong` if the value is not such an array."""
        right = isinstance(value, np.ndarray) and value.dtype == np.dtype(self.dtype)
        if not right or value.shape != (self.length,):
            wrong(place, f"must be a {self.dtype} array of shape ({self.length},)")


_MT19937 = {"key": Words("uint32", 624), "pos": Whole(624)}
_PCG = {"state": Whole(2**128 - 1), "inc": Whole(2**128 - 1)}
_PHILOX = {"counter": Words("uint64", 4), "key": Words("uint64", 2)}
_SFC = {"state": Words("uint64", 4)}
# The unused half of a 64-bit number that was drawn for a 32-bit one.
_HALF = {"has_uint32": Whole(1), "uinteger": Whole(2**32 - 1)}

STATES: dict[str, dict[str, Any]] = {
    "MT19937": {"state": _MT19937},
    "PCG64": {"state": _PCG, **_HALF},
    "PCG64DXSM": {"state": _PCG, **_HALF},
    "Philox": {
        "state": _PHILOX,
        "buffer": Words("uint64", 4),
        "buffer_pos": Whole(4),
        **_HALF,
    },
    "SFC64": {"state": _SFC, **_HALF},
}


def check_generator(name: str, state: Any, place: str, wrong: WrongAt) -> None:
    """Call `wrong` with the invalid field of the state of a bit generator."""
    _check_fields(state, {"bit_generator": None, **STATES[name]}, place, wrong)
    if state["bit_generator"] != name:
        wrong(f"{place}.bit_generator", f"must be {name!r}")


def _check_fields(
    state: Any, known: dict[str, Any], place: str, wrong: WrongAt
) -> None:
    if not isinstance(state, dict) or set(state) != set(known):
        wrong(place, f"must have the fields {', '.join(known)}, and no others")
    for name, field in known.items():
        inside = f"{place}.{name}"
        if isinstance(field, dict):
            _check_fields(state[name], field, inside, wrong)
        elif field is not None:
            field.check(state[name], inside, wrong)


def check_random_state(parts: list[Any], place: str, wrong: WrongAt) -> None:
    """Call `wrong` with the invalid field of a RandomState.

    The parts are those of ``RandomState.get_state`` behind the name.
    """
    if len(parts) != 4:
        wrong(place, "a RandomState needs key, pos, has_gauss and gauss")
    fields: dict[str, Any] = {**_MT19937, "has_gauss": Whole(1)}
    for (name, field), value in zip(fields.items(), parts, strict=False):
        field.check(value, f"{place}.{name}", wrong)
    if type(parts[3]) is not float or not math.isfinite(parts[3]):
        wrong(f"{place}.gauss", "must be a finite number")


__all__ = ["STATES", "check_generator", "check_random_state"]
