"""Model files: LIBSVM text, the native container, ONNX, skops.

Users find the functions of ``__all__``. Beside them, for tests: the classes that a
container may hold (`ENTRIES`), the content of a LIBSVM file (`LibsvmText`), its
machines, the order of its vectors, and the labels of a graph.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from corevec.formats.libsvm.base import Machines as Machines
from corevec.formats.libsvm.convert import load_libsvm, save_libsvm
from corevec.formats.libsvm.pairs import listed_by_class as listed_by_class
from corevec.formats.libsvm.text import LibsvmText as LibsvmText
from corevec.formats.native.allowed import ENTRIES as ENTRIES
from corevec.formats.native.container import load, save, skops_trusted

if TYPE_CHECKING:
    from corevec.formats.onnx.converters import (
        register_skl2onnx as register_skl2onnx,
    )
    from corevec.formats.onnx.graph import save_onnx, to_onnx
    from corevec.formats.onnx.models import labels_of as labels_of

__all__ = [
    "load",
    "load_libsvm",
    "register_skl2onnx",
    "save",
    "save_libsvm",
    "save_onnx",
    "skops_trusted",
    "to_onnx",
]


def __getattr__(name: str) -> Any:
    """Return the functions for ONNX, which are imported on first use."""
    if name == "register_skl2onnx":
        from corevec.formats.onnx.converters import register_skl2onnx

        return register_skl2onnx
    if name not in ("labels_of", "save_onnx", "to_onnx"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from corevec.formats.onnx import graph as onnx_graph

    return getattr(onnx_graph, name)


def __dir__() -> list[str]:
    return sorted(__all__)
