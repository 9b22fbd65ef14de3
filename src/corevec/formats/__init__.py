"""Model files: LIBSVM text, the native container, ONNX, skops."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from corevec.formats.libsvm.convert import load_libsvm, save_libsvm
from corevec.formats.native.container import load, save, skops_trusted

if TYPE_CHECKING:
    from corevec.formats.onnx.graph import save_onnx, to_onnx

__all__ = [
    "load",
    "load_libsvm",
    "save",
    "save_libsvm",
    "save_onnx",
    "skops_trusted",
    "to_onnx",
]


def __getattr__(name: str) -> Any:
    """Return the two functions for ONNX, which are imported on first use."""
    if name not in ("save_onnx", "to_onnx"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from corevec.formats.onnx import graph as onnx_graph

    return getattr(onnx_graph, name)


def __dir__() -> list[str]:
    return sorted(__all__)
