"""corevec's estimators as steps that skl2onnx knows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from corevec import estimators, reference
from corevec.estimators import CoreSetNystroem, StructuralSVM, svm
from corevec.exceptions import InvalidInputError
from corevec.formats.onnx.graph import to_onnx
from corevec.formats.onnx.models import OURS
from corevec.formats.onnx.writer import OPSET


def register_skl2onnx() -> None:
    """Make `skl2onnx.convert_sklearn` and `skl2onnx.to_onnx` take corevec's estimators.

    As the model, or as steps of a pipeline of anything that skl2onnx converts; the
    nodes are those of `corevec.formats.to_onnx`. A classifier or detector has the
    outputs ``label`` and ``decision``, a regressor or ranker ``value``, a transformer
    ``features``. The precision is that of the inputs. Twice is as good as once.

    Raises
    ------
    InvalidInputError
        If skl2onnx is not installed.

    Examples
    --------
    >>> from corevec.formats import register_skl2onnx
    >>> register_skl2onnx()  # doctest: +SKIP
    """
    try:
        from skl2onnx import update_registered_converter
    except ImportError:
        raise InvalidInputError(
            "register_skl2onnx: skl2onnx is not installed. Run pip install skl2onnx, "
            "or use corevec.formats.to_onnx, which needs none."
        ) from None
    for room in (estimators, reference, svm):  # each loads a class when it is asked for
        for name in room.__all__:
            getattr(room, name)
    for cls in _with_subclasses(*OURS, StructuralSVM, CoreSetNystroem):
        update_registered_converter(
            cls,
            f"Corevec{cls.__name__}",
            _shapes,
            _convert,
            overwrite=True,
            parser=_parse,
        )


def _with_subclasses(*classes: type) -> Iterator[type]:
    for cls in classes:
        yield cls
        yield from _with_subclasses(*cls.__subclasses__())


def _parse(scope: Any, model: Any, inputs: Any, custom_parsers: Any = None) -> Any:
    """Return the variables of the outputs, whose types `_shapes` sets."""
    from skl2onnx.common.data_types import FloatTensorType

    operator = scope.declare_local_operator(f"Corevec{type(model).__name__}", model)
    operator.inputs = inputs
    for output in to_onnx(model).graph.output:
        found = scope.declare_local_variable(output.name, FloatTensorType())
        operator.outputs.append(found)
    return operator.outputs


def _shapes(operator: Any) -> None:
    """Set type and shape of each output: those of the graph."""
    from skl2onnx.common import data_types

    kinds = {
        1: data_types.FloatTensorType,
        7: data_types.Int64TensorType,
        8: data_types.StringTensorType,
        11: data_types.DoubleTensorType,
    }
    graph = to_onnx(operator.raw_operator, _precision(operator)).graph
    for variable, output in zip(operator.outputs, graph.output, strict=True):
        tensor = output.type.tensor_type
        sizes = [size.dim_value or None for size in tensor.shape.dim]
        variable.type = kinds[tensor.elem_type](sizes)


def _convert(scope: Any, operator: Any, container: Any) -> None:
    """Add the nodes of the model's own graph."""
    from skl2onnx.helpers import add_onnx_graph

    opset = min(int(container.target_opset), OPSET)
    graph = to_onnx(operator.raw_operator, _precision(operator), opset=opset)
    add_onnx_graph(scope, operator, container, graph)


def _precision(operator: Any) -> str:
    from skl2onnx.common.data_types import DoubleTensorType

    is_double = isinstance(operator.inputs[0].type, DoubleTensorType)
    return "float64" if is_double else "float32"
