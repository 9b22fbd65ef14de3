"""The writer of ONNX graphs, and the only module that imports onnx."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from corevec._runtime.types import Array
from corevec.exceptions import InvalidInputError

INPUT = "X"
ROWS = "n_rows"  # the name of the dimension that is known at run time only
# 26 is the newest operator set that onnxruntime 1.31 runs (tried: it refuses 27). From
# 18 on ReduceSumSquare has its axes as an input, as it is written here; every other
# operator is older. Their meaning did not change in between.
OLDEST_OPSET, OPSET = 18, 26


def import_onnx() -> Any:
    """Return the onnx package with its helpers; raise ImportError with the remedy."""
    try:
        onnx = importlib.import_module("onnx")
        for name in ("checker", "helper", "numpy_helper"):
            importlib.import_module(f"onnx.{name}")
    except ImportError:
        raise ImportError(
            'The ONNX export needs onnx. Run: pip install "corevec[onnx]"'
        ) from None
    return onnx


class GraphWriter:
    """Nodes and constants of one graph, with numbers of one precision.

    A method returns the name of the value that its last node computes.

    Parameters
    ----------
    n_features : int
        Columns of the input ``X``.
    dtype : dtype
        float32 or float64.
    """

    def __init__(self, n_features: int, dtype: Any):
        self.onnx = import_onnx()
        self.n_features = n_features
        self.dtype = np.dtype(dtype)
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.outputs: list[Any] = []

    @property
    def number_type(self) -> int:
        """The ONNX code of the precision."""
        return int(self.onnx.helper.np_dtype_to_tensor_dtype(self.dtype))

    def rounded(self, values: Any) -> Array:
        """Return numbers rounded to the precision of the graph, in float64."""
        values = np.asarray(values, dtype=np.float64)
        with np.errstate(over="ignore", under="ignore"):
            there = values.astype(self.dtype).astype(np.float64)
        if not np.isfinite(there).all():
            raise InvalidInputError(
                f"to_onnx: the model holds numbers up to {np.abs(values).max():g}, "
                f"which are out of the range of {self.dtype.name}. "
                + _remedy(self.dtype)
            )
        return np.asarray(there)

    def constant(self, values: Any) -> str:
        """Add numbers in the precision of the graph."""
        return self._store(self.rounded(values).astype(self.dtype))

    def whole(self, values: Any) -> str:
        """Add whole numbers (int64): axes, shapes, labels."""
        return self._store(np.asarray(values, dtype=np.int64))

    def double(self, values: Any) -> str:
        """Add numbers in float64 whatever the precision; they may be infinite."""
        return self._store(np.asarray(values, dtype=np.float64))

    def truth(self, values: Any) -> str:
        """Add truth values."""
        return self._store(np.asarray(values, dtype=bool))

    def words(self, values: Any) -> str:
        """Add strings."""
        return self._store(np.asarray(values, dtype=object))

    def call(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """Add a node of the standard domain."""
        name = f"{operator}_{len(self.nodes)}"
        node = self.onnx.helper.make_node(
            operator, list(inputs), [name], name=name, **attributes
        )
        self.nodes.append(node)
        return name

    def over_columns(self, start: str, rows: str, vectors: Array) -> str:
        """Add a Scan that sums squared differences, column by column.

        ``start`` holds zeros, one row per row of the input and one column per vector.
        """
        make, number = self.onnx.helper, self.number_type
        size = len(vectors)
        total = make.make_tensor_value_info("total", number, [None, size])
        column = make.make_tensor_value_info("column", number, [None])
        entries = make.make_tensor_value_info("entries", number, [size])
        grown = make.make_tensor_value_info("grown", number, [None, size])
        steps = [
            make.make_node("Unsqueeze", ["column", self.whole([1])], ["upright"]),
            make.make_node("Sub", ["upright", "entries"], ["difference"]),
            make.make_node("Mul", ["difference", "difference"], ["square"]),
            make.make_node("Add", ["total", "square"], ["grown"]),
        ]
        body = make.make_graph(steps, "column", [total, column, entries], [grown])
        columns = self.call("Transpose", rows, perm=[1, 0])
        entries_of = self.constant(vectors.T)
        return self.call(
            "Scan", start, columns, entries_of, num_scan_inputs=2, body=body
        )

    def output(self, name: str, value: str, kind: str, *shape: int) -> None:
        """Add an output with one row per row of the input.

        `kind` is "number", "whole" or "word"; `shape` that of one row's entry.
        """
        types = {
            "number": self.number_type,
            "whole": self.onnx.TensorProto.INT64,
            "word": self.onnx.TensorProto.STRING,
        }
        make = self.onnx.helper
        self.nodes.append(make.make_node("Identity", [value], [name], name=name))
        self.outputs.append(
            make.make_tensor_value_info(name, types[kind], [ROWS, *shape])
        )

    def model(self, title: str, opset: int, notes: Mapping[str, str]) -> Any:
        """Return the checked ModelProto, with `notes` as metadata."""
        make = self.onnx.helper
        shape = [ROWS, self.n_features]
        rows = make.make_tensor_value_info(INPUT, self.number_type, shape)
        graph = make.make_graph(
            self.nodes, "corevec", [rows], self.outputs, self.constants
        )
        opsets = [make.make_opsetid("", opset)]
        proto = make.make_model(
            graph,
            opset_imports=opsets,
            ir_version=make.find_min_ir_version_for(opsets),
            producer_name="corevec",
            producer_version=notes["corevec.version"],
            doc_string=title,
        )
        make.set_model_props(proto, dict(notes))
        self.onnx.checker.check_model(proto, full_check=True)
        return proto

    def _store(self, values: Array) -> str:
        name = f"constant_{len(self.constants)}"
        self.constants.append(
            self.onnx.numpy_helper.from_array(np.ascontiguousarray(values), name)
        )
        return name


def _remedy(dtype: Any) -> str:
    if dtype == np.float32:
        return "Use dtype='float64', or scale the columns before the fit."
    return "Scale the columns (StandardScaler) before the fit."


__all__ = ["GraphWriter", "INPUT", "OLDEST_OPSET", "OPSET", "import_onnx"]
