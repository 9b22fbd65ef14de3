"""The public names of a room, imported when they are asked for."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any


def on_demand(
    room: str, names: dict[str, str]
) -> tuple[list[str], Callable[[str], Any]]:
    """Return ``__all__`` and ``__getattr__`` of a room.

    `names` holds the public names of each of its modules, separated by blanks. Nothing
    is imported before it is asked for: some modules need torch, Dask or pyarrow.
    """
    module_of = {name: module for module in names for name in names[module].split()}

    def get(name: str) -> Any:
        if name not in module_of:
            raise AttributeError(f"module {room!r} has no attribute {name!r}")
        return getattr(import_module(f"{room}.{module_of[name]}"), name)

    return sorted(module_of), get
