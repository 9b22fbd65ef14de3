"""Models of cells as nodes: down the tree, then the machine of each cell on its rows.

Each cell has nodes of its own, so that its distances are measured from its own centre.
The descent is done in float64 in every graph: a row that crosses a cut by rounding
would be judged by another machine.
"""

from __future__ import annotations

import numpy as np

from corevec._runtime.types import Array
from corevec.exceptions import InvalidInputError
from corevec.formats.onnx.kernels import write_values
from corevec.formats.onnx.writer import GraphWriter
from corevec.solvers.cells.forest import Cells, Forest
from corevec.solvers.cells.tree import Tree

# Cells of all trees. Each has some 10 nodes, and the time in which onnxruntime 1.31
# opens a file grows with their square: 64, 256, 512 cells take 0.3, 2.6, 15 s.
MOST_CELLS = 512


def write_forest(graph: GraphWriter, x: str, forest: Forest) -> str:
    """Write the mean value over the trees; shape (rows, outputs)."""
    n_cells = sum(one.tree.n_cells for one in forest.trees)
    if n_cells > MOST_CELLS:
        raise InvalidInputError(
            f"to_onnx: the model has {n_cells:,} cells, and a graph can have "
            f"{MOST_CELLS:,}, each with nodes of its own. Fit with larger cells, or "
            "use corevec.formats.save, which keeps any number."
        )
    total = _write_cells(graph, x, forest.trees[0])
    for one in forest.trees[1:]:
        total = graph.call("Add", total, _write_cells(graph, x, one))
    if len(forest.trees) == 1:
        return total
    return graph.call("Mul", total, graph.constant(1 / len(forest.trees)))


def _write_cells(graph: GraphWriter, x: str, cells: Cells) -> str:
    code = _cell_of(graph, x, cells.tree)
    numbers, values = [], []
    for cell in range(cells.tree.n_cells):
        here = graph.call("NonZero", graph.call("Equal", code, graph.whole(cell)))
        rows = graph.call("Transpose", here, perm=[1, 0])  # (rows of the cell, 1)
        own = graph.call("GatherND", x, rows)
        found = write_values(graph, own, cells.machine(cell))
        values.append(_lowered(graph, found, cells.absent[cell]))
        numbers.append(rows)
    size = graph.call("Shape", x, start=0, end=1)
    shape = graph.call("Concat", size, graph.whole([cells.n_outputs]), axis=0)
    start = graph.call("Expand", graph.constant([[0.0]]), shape)
    rows = graph.call("Concat", *numbers, axis=0)
    return graph.call("ScatterND", start, rows, graph.call("Concat", *values, axis=0))


def _cell_of(graph: GraphWriter, x: str, tree: Tree) -> str:
    """Write the number of the cell of each row."""
    rows = graph.call("Cast", x, to=graph.onnx.TensorProto.DOUBLE)
    n_rows = graph.call("Shape", x, start=0, end=1)
    node = graph.call("Expand", graph.whole([0]), n_rows)
    if tree.depth:
        directions, thresholds = (
            graph.double(tree.directions),
            graph.double(tree.thresholds),
        )
    for _ in range(tree.depth):
        along = graph.call("Mul", rows, graph.call("Gather", directions, node, axis=0))
        projected = graph.call("ReduceSum", along, graph.whole([1]), keepdims=0)
        threshold = graph.call("Gather", thresholds, node, axis=0)
        right = graph.call("Greater", projected, threshold)
        right = graph.call("Cast", right, to=graph.onnx.TensorProto.INT64)
        node = graph.call("Mul", node, graph.whole(2))
        node = graph.call("Add", graph.call("Add", node, graph.whole(1)), right)
    return graph.call("Sub", node, graph.whole(tree.n_cells - 1))


def _lowered(graph: GraphWriter, values: str, absent: Array) -> str:
    """Write the values with absent classes below all others; see `_lower_absent`."""
    if len(absent) == 1 or not absent.any():
        return values
    there = graph.whole(np.flatnonzero(~absent))
    top = graph.call("Gather", values, there, axis=1)
    top = graph.call("ReduceMax", top, graph.whole([1]), keepdims=1)
    is_low = graph.call("LessOrEqual", top, graph.constant(-1.0))
    is_low = graph.call("And", is_low, graph.truth(absent[None, :]))
    below = graph.call("Sub", top, graph.constant(1.0))
    return graph.call("Where", is_low, below, values)


__all__ = ["MOST_CELLS", "write_forest"]
