"""What every room may use: parameter checks, enumerations, progress of a fit.

Names are imported when they are first used: ``corevec --help`` needs no NumPy.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from corevec._runtime.checks import (
        check_choice,
        check_flag,
        check_gap,
        check_number,
        is_count,
    )
    from corevec._runtime.enumerations import ProblemKind, StopReason
    from corevec._runtime.progress import Progress, RoundState
    from corevec._runtime.types import EPS, Array

__all__ = [
    "EPS",
    "Array",
    "ProblemKind",
    "Progress",
    "RoundState",
    "StopReason",
    "check_choice",
    "check_flag",
    "check_gap",
    "check_number",
    "is_count",
]

_MODULES = {
    "EPS": "types",
    "Array": "types",
    "ProblemKind": "enumerations",
    "Progress": "progress",
    "RoundState": "progress",
    "StopReason": "enumerations",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = import_module(f"{__name__}.{_MODULES.get(name, 'checks')}")
    return getattr(module, name)
