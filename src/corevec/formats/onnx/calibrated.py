"""Calibrated probabilities as nodes: sigmoid, isotonic, and the mean of an ensemble."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.isotonic import IsotonicRegression

from corevec.exceptions import InvalidInputError
from corevec.formats.onnx.writer import GraphWriter


def write_probabilities(
    graph: GraphWriter, decision: str, calibrators: list[Any], n_classes: int
) -> str:
    """Write the probabilities of one calibrated classifier, (rows, classes).

    `decision` has shape (rows, 1), or one column per class.
    """
    if n_classes == 2:
        second = _calibrated(graph, decision, calibrators[0])
        first = graph.call("Sub", graph.constant(1.0), second)
        return graph.call("Concat", first, second, axis=1)
    columns = []
    for number, calibrator in enumerate(calibrators):
        own = graph.call("Gather", decision, graph.whole([number]), axis=1)
        columns.append(_calibrated(graph, own, calibrator))
    rough = graph.call("Concat", *columns, axis=1)
    total = graph.call("ReduceSum", rough, graph.whole([1]), keepdims=1)
    # Where no calibrator sees its class, all classes are equally probable.
    nowhere = graph.call("Equal", total, graph.constant(0.0))
    safe = graph.call("Where", nowhere, graph.constant(1.0), total)
    shares = graph.call("Div", rough, safe)
    return graph.call("Where", nowhere, graph.constant(1 / n_classes), shares)


def _calibrated(graph: GraphWriter, values: str, calibrator: Any) -> str:
    """Write the probability of a class from its decision values, (rows, 1)."""
    if hasattr(calibrator, "a_"):
        slope, shift = graph.constant(-calibrator.a_), graph.constant(-calibrator.b_)
        line = graph.call("Add", graph.call("Mul", values, slope), shift)
        return graph.call("Sigmoid", line)
    if isinstance(calibrator, IsotonicRegression):
        return _steps(graph, values, calibrator)
    raise InvalidInputError(
        f"to_onnx: the calibrator {type(calibrator).__name__} cannot be exported; "
        "calibrate with method='sigmoid' or 'isotonic'."
    )


def _steps(graph: GraphWriter, values: str, calibrator: IsotonicRegression) -> str:
    """Write the line through the thresholds: a sum of slopes over clipped lengths."""
    at = np.asarray(calibrator.X_thresholds_, dtype=np.float64)
    height = np.asarray(calibrator.y_thresholds_, dtype=np.float64)
    lengths = np.diff(at)
    slopes = np.diff(height) / np.where(lengths > 0, lengths, 1.0)
    if len(lengths) == 0:
        flat = graph.call("Mul", values, graph.constant(0.0))
        return graph.call("Add", flat, graph.constant(height[0]))
    gone = graph.call("Sub", values, graph.constant(at[None, :-1]))
    gone = graph.call("Max", gone, graph.constant(0.0))
    gone = graph.call("Min", gone, graph.constant(lengths[None, :]))
    rise = graph.constant(slopes[:, None])
    return graph.call("Gemm", gone, rise, graph.constant(height[:1]))


__all__ = ["write_probabilities"]
