"""Fitted models as ONNX graphs of primitive operators.

The graph has the input ``X`` and one or two outputs, as many rows as ``X`` each:

============  =======================================================================
classifier    ``label`` (int64 or string) and ``decision`` (`decision_function`)
calibrated    ``label`` and ``probabilities`` (`predict_proba`)
detector      ``label`` (+1 or -1) and ``decision``
regressor     ``value`` (`predict`); of a ranker its scores
transformer   ``features`` (`transform`)
============  =======================================================================
"""

from __future__ import annotations

import warnings
from itertools import combinations
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    OneHotEncoder,
    StandardScaler,
)

from corevec._runtime.types import Array
from corevec.estimators import CoreSetNystroem
from corevec.exceptions import InvalidInputError
from corevec.formats.onnx.calibrated import write_probabilities
from corevec.formats.onnx.cells import write_forest
from corevec.formats.onnx.kernels import (
    is_linear,
    write_ball,
    write_difference,
    write_values,
)
from corevec.formats.onnx.models import (
    SCALERS,
    Meaning,
    labels_of,
    machines_of,
    meaning_of,
    notes_on,
    steps_of,
)
from corevec.formats.onnx.writer import INPUT, OLDEST_OPSET, OPSET, GraphWriter
from corevec.kernels import Kernel, Rows
from corevec.models.expansion import KernelExpansion

PRECISIONS = ("float32", "float64")
# Relative loss of float32 on the first vectors above which a warning is given.
FEW_DIGITS, SAMPLE = 1e-3, 500


def to_onnx(model: Any, dtype: Any = "float32", *, opset: int = OPSET) -> Any:
    r"""Return a fitted model as an ONNX graph.

    The graph has primitive operators of the standard domain only, and any number of
    rows. Values differ from the model's own by rounding, at most by about

    .. math:: u\, (n + d) \Big( |b_0| + \sum_j |c_j| \max |k| \Big)

    with u = 6e-8 (float32) or 1e-16 (float64), n vectors and d columns; for "rbf" with
    more than 8 columns d is multiplied by :math:`\gamma (|x| + |z|)^2` where that is
    above 1, x and z measured from the vectors' mean. So a float32 graph of a model with
    large coefficients (a large C) can be of little use where the float64 one is as good
    as the model.

    Parameters
    ----------
    model : estimator
        A fitted corevec model with a named kernel (models of cells too), what
        `compress` or `load_libsvm` returns, a scikit-learn ``Pipeline`` of
        MinMaxScaler, MaxAbsScaler, StandardScaler, `CoreSetNystroem` or
        ``ColumnTransformer`` steps and such a model, or a ``CalibratedClassifierCV``
        (sigmoid or isotonic) around one.
    dtype : {"float32", "float64"}, default="float32"
        Precision of the input, of every number in the graph, and of the outputs.
    opset : int, default=26
        Operator set, 18 to 26: 26 is the newest that onnxruntime 1.31 runs; lower ones
        are for older runtimes. The graph is the same.

    Returns
    -------
    onnx.ModelProto
        Checked. Input ``X``; outputs ``label`` and ``decision`` of a classifier or
        detector, ``label`` and ``probabilities`` of a calibrated one, ``value`` of a
        regressor or ranker, ``features`` of a transformer. ``metadata_props`` name
        version, estimator, kernel and certificate.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from corevec import CoreVectorClassifier
    >>> from corevec.formats import to_onnx
    >>> X, y = make_moons(200, noise=0.1, random_state=0)
    >>> proto = to_onnx(CoreVectorClassifier(C=10).fit(X, y))
    >>> [output.name for output in proto.graph.output]
    ['label', 'decision']
    """
    from corevec import __version__

    precision = _checked_precision(dtype)
    _check_opset(opset)
    steps, last = steps_of(model)
    meanings = [meaning_of(machine) for machine in machines_of(last)]
    first = steps[0] if steps else last
    n_features = getattr(
        first, "n_features_in_", meanings[0].functions.basis.values.shape[1]
    )
    graph = GraphWriter(int(n_features), precision)
    x = _after_steps(graph, INPUT, steps)
    if isinstance(last, CalibratedClassifierCV):
        _write_calibrated(graph, x, last)
    else:
        _write_meaning(graph, x, meanings[0])
    if precision == "float32":
        for meaning in meanings:
            _warn_of_rounding(meaning.functions)
    notes = notes_on(steps, last, __version__, precision)
    title = f"{type(last).__name__} of corevec {__version__}, {notes['corevec.kernel']}"
    return graph.model(title, int(opset), notes)


def save_onnx(
    model: Any, path: Any, dtype: Any = "float32", *, opset: int = OPSET
) -> None:
    """Write a fitted model as an ONNX file; see `to_onnx`.

    Parameters
    ----------
    model : estimator
        As in `to_onnx`.
    path : str or path-like
        File to write, usually ``*.onnx``; one that is there is replaced.
    dtype : {"float32", "float64"}, default="float32"
        Precision.
    opset : int, default=26
        Operator set.
    """
    content = to_onnx(model, dtype, opset=opset).SerializeToString()
    Path(path).write_bytes(content)


def _checked_precision(dtype: Any) -> str:
    try:
        name = str(np.dtype(dtype))
    except TypeError:
        name = ""
    if dtype is not None and name in PRECISIONS:
        return name
    raise InvalidInputError(
        f"to_onnx: dtype={dtype!r} must be 'float32' or 'float64'.", parameter="dtype"
    )


def _check_opset(opset: Any) -> None:
    if isinstance(opset, Integral) and OLDEST_OPSET <= int(opset) <= OPSET:
        return
    raise InvalidInputError(
        f"to_onnx: opset={opset!r} must be a whole number from {OLDEST_OPSET} to "
        f"{OPSET}. Take the highest that your runtime knows.",
        parameter="opset",
    )


def _warn_of_rounding(functions: KernelExpansion) -> None:
    """Warn if large coefficients that cancel leave few digits in float32."""
    few, kernel = functions.basis, functions.kernel
    if len(few) == 0 or not isinstance(kernel, Kernel) or is_linear(kernel):
        return  # linear functions are written as weights, without cancellation
    if len(few) > SAMPLE:
        few = Rows(few.values[:SAMPLE], few.index[:SAMPLE])
    largest = float(np.abs(functions.evaluate(few, functions.prepared())).max())
    own = float(np.abs(kernel.diagonal(functions.basis)).max())
    sums = float(np.abs(functions.coef).sum(axis=0).max()) * own
    lost = sums * float(np.finfo(np.float32).eps) / 2
    if lost > FEW_DIGITS * largest:
        warnings.warn(
            f"to_onnx: coefficients of up to {sums:.1e} in sum cancel to values of up "
            f"to {largest:.1e}; in float32 values can be off by {lost:.1e}. "
            "dtype='float64' keeps the digits.",
            UserWarning,
            stacklevel=3,
        )


# Before the model -----------------------------------------------------------------


def _after_steps(graph: GraphWriter, x: str, steps: list[Any]) -> str:
    for step in steps:
        x = _write_step(graph, x, step)
    return x


def _write_columns(graph: GraphWriter, x: str, columns: ColumnTransformer) -> str:
    """Write the parts of a ColumnTransformer side by side, in its order."""
    parts = []
    for name, step, _ in columns.transformers_:
        numbers = columns._transformer_to_input_indices[name]
        if (isinstance(step, str) and step == "drop") or len(numbers) == 0:
            continue
        own = graph.call("Gather", x, graph.whole(numbers), axis=1)
        as_is = isinstance(step, str | FunctionTransformer) and not getattr(
            step, "func", None
        )
        if not as_is and type(step) not in (*SCALERS, CoreSetNystroem, OneHotEncoder):
            raise InvalidInputError(
                f"to_onnx: the ColumnTransformer has a {type(step).__name__} "
                f"({name!r}), which cannot be exported; give MinMaxScaler, "
                "MaxAbsScaler, StandardScaler, OneHotEncoder, CoreSetNystroem or "
                "'passthrough'."
            )
        parts.append(own if as_is else _write_step(graph, own, step))
    return graph.call("Concat", *parts, axis=1)


def _write_one_hot(graph: GraphWriter, x: str, encoder: OneHotEncoder) -> str:
    """Write 1 for the category of each column and 0 for the others."""
    plain = encoder.drop is None and not encoder._infrequent_enabled
    if not plain or any(c.dtype.kind not in "biuf" for c in encoder.categories_):
        raise InvalidInputError(
            "to_onnx: a OneHotEncoder with drop, rare categories or text cannot be "
            "exported: the graph has one input of numbers. Encode text as numbers."
        )
    parts = []
    for column, categories in enumerate(encoder.categories_):
        own = graph.call("Gather", x, graph.whole([column]), axis=1)
        same = graph.call("Equal", own, graph.constant(categories[None, :]))
        parts.append(graph.call("Cast", same, to=graph.number_type))
    return graph.call("Concat", *parts, axis=1)


def _write_step(graph: GraphWriter, x: str, step: Any) -> str:
    if isinstance(step, ColumnTransformer):
        return _write_columns(graph, x, step)
    if isinstance(step, OneHotEncoder):
        return _write_one_hot(graph, x, step)
    if not isinstance(step, SCALERS):
        return write_values(graph, x, meaning_of(step).functions)
    if isinstance(step, StandardScaler):
        if step.with_mean:
            x = write_difference(graph, x, step.mean_)
        return _times(graph, x, 1 / step.scale_) if step.with_std else x
    if isinstance(step, MaxAbsScaler):
        x, (low, high) = _times(graph, x, 1 / step.scale_), (-1.0, 1.0)
    else:
        # Not x * scale_ + min_, as in scikit-learn: that cancels far from zero.
        low, high = (float(end) for end in step.feature_range)
        x = _times(graph, write_difference(graph, x, step.data_min_), step.scale_)
        x = graph.call("Add", x, graph.constant(low)) if low else x
    if getattr(step, "clip", False):
        x = graph.call("Clip", x, graph.constant(low), graph.constant(high))
    return x


def _times(graph: GraphWriter, x: str, factors: Array) -> str:
    return graph.call("Mul", x, graph.constant(factors))


# Predictions from the values ------------------------------------------------------


def _write_calibrated(
    graph: GraphWriter, x: str, model: CalibratedClassifierCV
) -> None:
    """Write the mean probability of the calibrated classifiers, and its class."""
    n_classes = len(model.classes_)
    total = ""
    for one in model.calibrated_classifiers_:
        steps, machine = steps_of(one.estimator)
        decision = _write_decision(graph, _after_steps(graph, x, steps), machine)
        found = write_probabilities(graph, decision, one.calibrators, n_classes)
        total = graph.call("Add", total, found) if total else found
    share = graph.constant(1 / len(model.calibrated_classifiers_))
    mean = graph.call("Mul", total, share)
    _write_label(graph, _largest(graph, mean), model.classes_)
    graph.output("probabilities", mean, "number", n_classes)


def _write_decision(graph: GraphWriter, x: str, machine: Any) -> str:
    """Write what `decision_function` returns, of shape (rows, 1) or (rows, classes)."""
    meaning = meaning_of(machine)
    values = write_values(graph, _after_forest(graph, x, meaning), meaning.functions)
    if meaning.form.kind != "ovo":
        return values
    upright = values if meaning.form.upright else graph.call("Neg", values)
    return _votes(graph, upright, len(np.asarray(meaning.form.classes)))


def _after_forest(graph: GraphWriter, x: str, meaning: Meaning) -> str:
    return x if meaning.forest is None else write_forest(graph, x, meaning.forest)


def _write_meaning(graph: GraphWriter, x: str, meaning: Meaning) -> None:
    functions, form = meaning.functions, meaning.form
    x = _after_forest(graph, x, meaning)
    if form.kind == "ball":
        rest = meaning.centre_norm_sq + form.offset
        return _write_detector(graph, write_ball(graph, x, functions, rest))
    values = write_values(graph, x, functions)
    if form.kind == "detector":
        return _write_detector(graph, values)
    if form.classes is None:
        name = "features" if form.kind == "features" else "value"
        return _write_numbers(graph, name, values, functions.coef.shape[1], form)
    if form.kind == "two classes":
        return _write_two_classes(graph, values, form.classes)
    if form.kind == "ovo":
        return _write_pairs(graph, values, meaning)
    _write_label(graph, _largest(graph, values), form.classes)
    return graph.output("decision", values, "number", len(form.classes))


def _write_numbers(
    graph: GraphWriter, name: str, values: str, n_outputs: int, form: Any
) -> None:
    if form.one_output:
        graph.output(name, _flat(graph, values), "number")
    else:
        graph.output(name, values, "number", n_outputs)


def _write_detector(graph: GraphWriter, values: str) -> None:
    decision = _flat(graph, values)
    inside = graph.call("GreaterOrEqual", decision, graph.constant(0.0))
    label = graph.call("Where", inside, graph.whole(1), graph.whole(-1))
    graph.output("label", label, "whole")
    graph.output("decision", decision, "number")


def _write_two_classes(graph: GraphWriter, values: str, classes: Array) -> None:
    decision = _flat(graph, values)
    second = graph.call("Greater", decision, graph.constant(0.0))
    code = graph.call("Cast", second, to=graph.onnx.TensorProto.INT64)
    _write_label(graph, code, classes)
    graph.output("decision", decision, "number")


def _write_pairs(graph: GraphWriter, values: str, meaning: Meaning) -> None:
    """Write votes and confidence of one machine per pair, as `classify._votes`."""
    form, classes = meaning.form, np.asarray(meaning.form.classes)
    upright = values if form.upright else graph.call("Neg", values)
    votes = _votes(graph, upright, len(classes))
    # The confidence is less than half a vote: rounding removes it.
    deciding = votes if form.breaks_ties else graph.call("Round", votes)
    ordered = classes
    if meaning.order is not None:
        deciding = graph.call("Gather", deciding, graph.whole(meaning.order), axis=1)
        ordered = classes[meaning.order]
    _write_label(graph, _largest(graph, deciding), ordered)
    if form.raw:
        graph.output("decision", values, "number", meaning.functions.coef.shape[1])
    else:
        graph.output("decision", votes, "number", len(classes))


def _votes(graph: GraphWriter, values: str, n_classes: int) -> str:
    pairs = list(combinations(range(n_classes), 2))
    first, second = np.zeros((2, len(pairs), n_classes))
    for row, (i, j) in enumerate(pairs):
        first[row, i] = second[row, j] = 1.0
    turn = graph.constant(second - first)
    won = graph.call("Greater", values, graph.constant(0.0))
    won = graph.call("Cast", won, to=graph.number_type)
    votes = graph.call("Gemm", won, turn, graph.constant(first.sum(axis=0)))
    confidence = graph.call("Gemm", values, turn)
    size = graph.call("Add", graph.call("Abs", confidence), graph.constant(1.0))
    size = graph.call("Mul", size, graph.constant(3.0))
    return graph.call("Add", votes, graph.call("Div", confidence, size))


def _write_label(graph: GraphWriter, code: str, classes: Array) -> None:
    labels = labels_of(classes)
    is_word = labels.dtype == object
    names = graph.words(labels) if is_word else graph.whole(labels)
    label = graph.call("Gather", names, code, axis=0)
    graph.output("label", label, "word" if is_word else "whole")


def _largest(graph: GraphWriter, values: str) -> str:
    """Write the index of the largest column, the first of equal ones, as in NumPy."""
    return graph.call("ArgMax", values, axis=1, keepdims=0, select_last_index=0)


def _flat(graph: GraphWriter, values: str) -> str:
    return graph.call("Squeeze", values, graph.whole([1]))


__all__ = ["save_onnx", "to_onnx"]
