"""Consistency checks of estimators from a file; see `validate.py`."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, is_classifier
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, StandardScaler

from corevec.estimators import CoreSetNystroem, StructuralSVM
from corevec.estimators._compressed import Form as CompressedForm
from corevec.estimators.svm import SupportVectorMachine
from corevec.formats.libsvm.base import LibsvmModel
from corevec.formats.libsvm.text import LibsvmText
from corevec.formats.native import validate_cells as _sound_cells  # noqa: F401 - its checks are registered
from corevec.formats.native.scikit_learn import SKLEARN_ESTIMATORS
from corevec.formats.native.validate import Wrong, check_floats
from corevec.kernels import Kernel, PrecomputedKernel
from corevec.models.basis import Basis
from corevec.models.certificate import Certificate
from corevec.models.expansion import KernelExpansion
from corevec.models.result import FitResult
from corevec.solvers.cells.forest import Forest
from corevec.solvers.streaming.core_stream import CoreStream
from corevec.solvers.streaming.objective_bound import SeenRows
from corevec.solvers.streaming.reservoir import RowSample
from corevec.solvers.streaming.stream import BallStream, LinearStream
from corevec.surfaces import Field, Frame, ImplicitSurface

# Arrays that predictions use, and public ones.
_KINDS: dict[str, tuple[type, ...]] = {
    "_basis": (Basis,),
    "_field": (Field,),
    "_forest": (Forest,),
    "_form": (CompressedForm,),
    "_frame": (Frame,),
    "_functions": (KernelExpansion,),
    "_outcome": (FitResult,),
    "_sample": (RowSample,),
    "_seen": (SeenRows,),
    "_slope": (float, np.floating),
    "_step": (float, np.floating),
    "_streams": (list,),
    "certificate_": (Certificate,),
    "classes_": (np.ndarray,),
    "coef_": (np.ndarray,),
    "diagonal_": (float, type(None)),
    "dual_coef_": (np.ndarray,),
    "estimators_": (list,),
    "feature_names_in_": (np.ndarray,),
    "history_": (list,),
    "intercept_": (np.ndarray,),
    "memory_budget": (float, int, np.number),
    "n_features_in_": (int, np.integer),
    "n_jobs": (int, np.integer, type(None)),
    "offset_": (float, np.floating),
    "probability_marks_": (np.ndarray,),
    "support_": (np.ndarray,),
    "text_": (LibsvmText,),
}
# Those of scikit-learn's machines, where rows and coefficients may be sparse.
_KINDS_OF_MACHINES: dict[str, tuple[type, ...]] = {
    "_intercept_": (np.ndarray,),
    "_kernel": (Kernel, PrecomputedKernel),
    "_n_support": (np.ndarray,),
    "_probA": (np.ndarray,),
    "_probB": (np.ndarray,),
    "_sparse": (bool,),
    "dual_coef_": (np.ndarray, sparse.csr_matrix),
    "_dual_coef_": (np.ndarray, sparse.csr_matrix),
    "memory_budget": (float, int, np.number, type(None)),
    "offset_": (np.ndarray,),
    "shape_fit_": (tuple,),
    "support_vectors_": (np.ndarray, sparse.csr_matrix),
}
# What every fitted one has.
_OF_MACHINES = (
    *sorted({*_KINDS_OF_MACHINES} - {"memory_budget", "offset_"}),
    "intercept_",
    "support_",
)
_SCALES: dict[type, tuple[str, ...]] = {
    MaxAbsScaler: ("max_abs_", "scale_"),
    MinMaxScaler: ("data_max_", "data_min_", "data_range_", "min_", "scale_"),
    StandardScaler: ("mean_", "scale_", "var_"),
}


def check_model(made: Any, wrong: Wrong) -> None:
    """Call `wrong` with the inconsistency of an estimator, if there is one."""
    inside = vars(made)
    is_machine = isinstance(made, SupportVectorMachine)
    for name, kinds in {**_KINDS, **(_KINDS_OF_MACHINES if is_machine else {})}.items():
        if name in inside and not isinstance(inside[name], kinds):
            wrong(f"{name} must be of type {kinds[0].__name__}")
    if not 1 <= inside.get("n_features_in_", 1) < 2**63:
        wrong("n_features_in_ must be a number of columns, from 1 on")
    if not -(2**31) < (inside.get("n_jobs") or 0) < 2**31:
        wrong("n_jobs must be a number of threads")
    if "feature_names_in_" in inside:
        _check_names(inside, wrong)
    # OneHotEncoder has an attribute of that name too.
    if "categories_" in inside and type(made) not in SKLEARN_ESTIMATORS:
        _check_categories(inside, wrong)
    _check_complete(made, inside, wrong)
    _check_kernel(made, inside, wrong)
    if isinstance(made, ColumnTransformer):
        _check_columns(made, wrong)
    elif isinstance(made, Pipeline):
        _check_pipeline(made, wrong)
    elif isinstance(made, LibsvmModel):
        _check_text(made, inside, wrong)
    elif is_machine and "certificate_" in inside:
        _check_machine(made, inside, wrong)
    else:
        for rows in _stored_rows(made, inside, wrong):
            if rows.shape[1] != inside.get("n_features_in_"):
                wrong(
                    f"n_features_in_={inside.get('n_features_in_')!r:.20}, but rows of "
                    f"{rows.shape[1]} columns"
                )
        _check_numbers(made, inside, wrong)


def _check_pipeline(made: Pipeline, wrong: Wrong) -> None:
    steps = made.steps
    right = isinstance(steps, list) and all(
        isinstance(step, tuple)
        and len(step) == 2
        and isinstance(step[0], str)
        and isinstance(step[1], BaseEstimator)
        for step in steps
    )
    if not right or not steps:
        wrong("steps must be pairs of a name and an estimator")
    flags, names = made.verbose, made.transform_input
    is_list = isinstance(names, list) and all(isinstance(n, str) for n in names)
    if not isinstance(flags, bool) or not (names is None or is_list):
        wrong("verbose and transform_input must be a bool, and None or names")
    # joblib stores pickles in such a folder, and loads those that it finds.
    if made.memory is not None:
        wrong("memory must be None")


def _check_columns(made: ColumnTransformer, wrong: Wrong) -> None:
    """Check the parameter that `fit` takes apart; a trial predicts with the others."""
    steps = made.transformers
    right = isinstance(steps, list) and all(
        isinstance(step, tuple)
        and len(step) == 3
        and isinstance(step[0], str)
        and _is_transformer(step[1])
        for step in steps
    )
    if not right:
        wrong("transformers must be triples of a name, an estimator and columns")
    if not _is_transformer(made.remainder):
        wrong("remainder must be a transformer, 'drop' or 'passthrough'")


def _is_transformer(step: Any) -> bool:
    if isinstance(step, str):
        return step in ("drop", "passthrough")
    return isinstance(step, BaseEstimator)


def _check_complete(made: Any, inside: dict[str, Any], wrong: Wrong) -> None:
    """Check that an estimator of scikit-learn has all of its attributes, or none."""
    needed = set(SKLEARN_ESTIMATORS.get(type(made), ())) - {"_n_features"}
    missing = sorted(needed - set(inside))
    if missing and len(missing) < len(needed):
        wrong(f"a fitted {type(made).__name__} needs {', '.join(missing)}")


def _check_kernel(made: Any, inside: dict[str, Any], wrong: Wrong) -> None:
    """Check that a model is of rows, or of kernel values, as its parameter says."""
    if not hasattr(made, "kernel"):
        return
    said = isinstance(made.kernel, str) and made.kernel == "precomputed"
    parts = [inside[name] for name in ("_functions", "_basis") if name in inside]
    parts += [inside["_outcome"].functions] if "_outcome" in inside else []
    parts += inside["_forest"].trees if "_forest" in inside else ()
    kernels = [part.kernel for part in parts]
    kernels += [inside["_kernel"]] if "_kernel" in inside else []
    if any(isinstance(kernel, PrecomputedKernel) != said for kernel in kernels):
        wrong(f"kernel={made.kernel!r:.40} is not the kind of kernel of the fit")


def _check_names(inside: dict[str, Any], wrong: Wrong) -> None:
    names = np.asarray(inside["feature_names_in_"])
    text = all(isinstance(name, str) for name in names.ravel().tolist())
    if names.shape != (inside.get("n_features_in_"),) or not text:
        wrong("feature_names_in_ must be the name of each column")


def _check_categories(inside: dict[str, Any], wrong: Wrong) -> None:
    kinds = str | int | float | bool
    if not isinstance(inside["categories_"], dict):
        wrong("categories_ must be of type dict")
    for name, many in inside["categories_"].items():
        right = isinstance(name, str) and isinstance(many, list)
        if not right or not all(isinstance(one, kinds) for one in many):
            wrong("categories_ must be a list of categories per column")
    if "feature_names_in_" not in inside:
        wrong("categories_ needs feature_names_in_")


def _check_text(made: LibsvmModel, inside: dict[str, Any], wrong: Wrong) -> None:
    if "text_" not in inside or "_any_width" not in inside:
        wrong("a LIBSVM model needs its text")
    if inside.get("n_features_in_", -1) < made.text_.vectors.shape[1]:
        wrong("n_features_in_ must be the number of columns")


def _check_machine(
    made: SupportVectorMachine, inside: dict[str, Any], wrong: Wrong
) -> None:
    """Check the shapes of what a machine of `corevec.svm` predicts with."""
    missing = sorted(set(_OF_MACHINES) - set(inside))
    if missing:
        wrong(f"a fitted {type(made).__name__} needs {', '.join(missing)}")
    n_machines, n_lines = 1, 1
    if is_classifier(made):
        n_machines, n_lines = _check_pairs(made, inside, wrong)
    numbers = made.support_
    if numbers.ndim != 1 or numbers.dtype.kind != "i":
        wrong("support_ must be row numbers")
    for name in ("_dual_coef_", "dual_coef_"):
        if inside[name].shape != (n_lines, len(numbers)):
            wrong(f"{name} must have the shape {(n_lines, len(numbers))}")
    for name in ("_intercept_", "intercept_", "offset_"):
        if name != "offset_" or name in inside:
            check_floats(inside[name], (n_machines,), name, wrong)
    _check_counts(made, n_lines, wrong)
    _check_vectors(made, inside, wrong)


def _check_pairs(
    made: SupportVectorMachine, inside: dict[str, Any], wrong: Wrong
) -> tuple[int, int]:
    """Return the number of pairs of classes, and of the lines of coefficients."""
    k = np.size(inside.get("classes_", ()))
    if k < 2 or made.classes_.ndim != 1:
        wrong("a classifier needs two classes")
    n_machines = k * (k - 1) // 2
    check_floats(made._probA, (len(made._probA),), "_probA", wrong)
    check_floats(made._probB, made._probA.shape, "_probB", wrong)
    if len(made._probA) not in (0, n_machines):
        wrong("_probA must have one entry per machine")
    return n_machines, k - 1


def _check_counts(made: SupportVectorMachine, n_lines: int, wrong: Wrong) -> None:
    """Check the numbers of support vectors per class."""
    n, counts = len(made.support_), made._n_support
    # A regressor or detector, as LIBSVM, counts all of them twice.
    shape, total = ((n_lines + 1,), n) if is_classifier(made) else ((2,), 2 * n)
    if counts.shape != shape or counts.dtype.kind != "i" or (counts < 0).any():
        wrong("_n_support must be numbers of support vectors")
    if counts.sum() != total:
        wrong("_n_support must sum to the number of support vectors")


def _check_vectors(
    made: SupportVectorMachine, inside: dict[str, Any], wrong: Wrong
) -> None:
    """Check that there is a row for each support vector."""
    numbers = made.support_
    n = len(numbers)
    if isinstance(made._kernel, PrecomputedKernel):
        rows = inside["shape_fit_"][:1]
        if n and not (rows and 0 <= numbers.min() <= numbers.max() < rows[0]):
            wrong("support_ must be row numbers of the fit")
    elif made.support_vectors_.shape != (n, inside.get("n_features_in_")):
        wrong("support_vectors_ must be rows of n_features_in_ columns")


def _stored_rows(made: Any, inside: dict[str, Any], wrong: Wrong) -> list[Any]:
    """Return the stored rows of a model, for the kernel values of new rows."""
    found = [
        part.basis.values
        for part in (inside.get("_functions"), _functions_of(inside.get("_outcome")))
        if part is not None and isinstance(part.kernel, Kernel)
    ]
    if "_forest" in inside:
        found += [one.basis.values for one in inside["_forest"].trees]
    if isinstance(made, CoreSetNystroem) and "_basis" in inside:
        found += [made._basis.rows.values] * isinstance(made._basis.kernel, Kernel)
    if isinstance(made, ImplicitSurface):
        models = inside.get("estimators_", [])
        if not all(isinstance(model, BaseEstimator) for model in models):
            wrong("estimators_ must be estimators")
    if "_streams" in inside:
        found += _rows_of_streams(made._streams, wrong)
    samples = [inside.get("_sample"), inside.get("_seen")]
    found += [one.rows for one in samples if one is not None and one.rows is not None]
    return found


def _functions_of(result: FitResult | None) -> KernelExpansion | None:
    return None if result is None else result.functions


def _rows_of_streams(streams: list[Any], wrong: Wrong) -> list[Any]:
    kinds = {type(stream) for stream in streams}
    if len(streams) == 1 and isinstance(streams[0], CoreStream):
        return [streams[0].rows]
    if len(kinds) != 1 or not all(issubclass(kind, BallStream) for kind in kinds):
        wrong("_streams must be streams of one kind")
    linear = LinearStream in kinds
    return [one.vectors[:, 1:] if linear else one.rows for one in streams]


def _check_numbers(made: Any, inside: dict[str, Any], wrong: Wrong) -> None:
    """Check the numbers of classes, outputs and columns."""
    n_outputs = None
    if "_functions" in inside:
        n_outputs = made._functions.coef.shape[1]
    if "_forest" in inside:
        n_outputs = made._forest.trees[0].n_outputs
    if "_streams" in inside:
        streams = made._streams
        is_core = isinstance(streams[0], CoreStream)
        n_outputs = streams[0].n_outputs if is_core else len(streams)
    if "classes_" in inside:
        _check_classes(made, n_outputs, wrong)
    for name in ("target_mean_", "target_scale_"):
        if name in inside:
            check_floats(inside[name], (n_outputs,), name, wrong)
    if "probability_marks_" in inside:
        check_floats(made.probability_marks_, (9,), "probability_marks_", wrong)
        if (np.diff(made.probability_marks_) < 0).any():
            wrong("probability_marks_ must ascend")
    columns = inside.get("n_features_in_")
    for name in _SCALES.get(type(made), ()):
        value = inside.get(name)
        if value is not None and getattr(value, "shape", None) != (columns,):
            wrong(f"{name} must be an array with one entry per column")


def _check_classes(made: Any, n_outputs: int | None, wrong: Wrong) -> None:
    k = len(made.classes_) if made.classes_.ndim == 1 else 0
    if isinstance(made, StructuralSVM) and "coef_" in vars(made):
        columns, n_outputs = made.n_features_in_, 1 if k == 2 else k
        check_floats(made.coef_, (n_outputs, columns), "coef_", wrong)
        check_floats(vars(made).get("intercept_"), (n_outputs,), "intercept_", wrong)
    allowed = (1,) if k == 2 else (k, k * (k - 1) // 2)
    if k < 2 or (n_outputs is not None and n_outputs not in allowed):
        wrong(f"{k} classes do not go with {n_outputs} functions")


__all__ = ["check_model"]
