"""Kernel values and Newton steps of torch tensors, in torch and in Triton.

Modules are imported when a name of theirs is asked for: torch takes a second.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from corevec.backend.gpu.kernels import (
        Answer,
        Asked,
        Functions,
        Mapping,
        Prepared,
        answers,
        answers_in_one,
        answers_of,
        apply_profile,
        block,
        fused,
        repair,
        squared_norms,
        times,
        times_by_tiles,
    )

__all__ = [
    "Answer",
    "Asked",
    "Functions",
    "Mapping",
    "Prepared",
    "answers",
    "answers_in_one",
    "answers_of",
    "apply_profile",
    "block",
    "fused",
    "repair",
    "squared_norms",
    "times",
    "times_by_tiles",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("corevec.backend.gpu.kernels"), name)
