"""What a container may hold: classes by name, and the attributes of each.

Nothing else is made when a file is read, and nothing in a file names code. A new
estimator, or a new fitted attribute, is one line here; `save` refuses what is missing.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np
from scipy import sparse

from corevec import estimators, reference, surfaces
from corevec.estimators import _compressed, svm
from corevec.formats.libsvm import models as libsvm_models
from corevec.formats.libsvm.text import LibsvmText
from corevec.formats.native.scikit_learn import SKLEARN_ESTIMATORS, calibration_parts
from corevec.kernels import (
    Kernel,
    Points,
    PrecomputedKernel,
    RowMap,
    Rows,
    RowStatistics,
)
from corevec.models.basis import Basis
from corevec.models.certificate import Certificate
from corevec.models.expansion import KernelExpansion
from corevec.models.result import FitResult
from corevec.solvers.cells.forest import Cells, Forest
from corevec.solvers.cells.tree import Tree
from corevec.solvers.streaming.columns import ColumnMoments, Scaling
from corevec.solvers.streaming.core_stream import CoreForm, CoreStream, Targets
from corevec.solvers.streaming.geometry import Balls
from corevec.solvers.streaming.geometry import Form as StreamForm
from corevec.solvers.streaming.kernel_stream import KernelStream
from corevec.solvers.streaming.objective_bound import SeenRows
from corevec.solvers.streaming.reservoir import RowSample
from corevec.solvers.streaming.squared_stream import SquaredStream
from corevec.solvers.streaming.stream import LinearStream, Whole
from corevec.solvers.streaming.summary import Summary
from corevec.surfaces import Field, Frame

# Of scikit-learn, any estimator may have them.
_ANY = ("n_features_in_", "feature_names_in_", "_sklearn_output_config")
# Callbacks are code and belong to a run, not to a model: they are left behind.
LEFT_BEHIND = (
    "_skl_callbacks",
    "_skl_callbacks_to_teardown",
    "_callback_fit_ctx",
)
_FITTED = (
    "_functions",
    "_outcome",
    "_stop_asked",
    "categories_",
    "certificate_",
    "dual_coef_",
    "feature_importances_",
    "history_",
    "intercept_",
    "method_",
    "metric_",
    "n_core_",
    "n_iter_",
)
_ROWS = (*_FITTED, "support_", "support_vectors_")
# Of models that may have cells, in place of the functions, and of what was chosen.
_CELLS = ("C_", "_forest", "choice_", "gamma_", "n_cells_")
_TARGETS = ("_one_target", "target_mean_", "target_scale_", "tube_")
_SMALL = (
    "categories_",
    "_centre_norm_sq",
    "_form",
    "_functions",
    "support_vectors_",
    "classes_",
    "distance_",
    "dual_coef_",
    "intercept_",
    "offset_",
    "relative_distance_",
)
_REFERENCE = (
    "_functions",
    "classes_",
    "dual_coef_",
    "fit_status_",
    "intercept_",
    "n_iter_",
    "n_support_",
    "support_",
    "support_vectors_",
)
# scikit-learn's machines, with their private attributes.
_SVM = (
    "_dual_coef_",
    "_gamma",
    "_intercept_",
    "_kernel",
    "_n_support",
    "_num_iter",
    "_probA",
    "_probB",
    "_rows_of_function",
    "_sparse",
    "certificate_",
    "dual_coef_",
    "fit_status_",
    "intercept_",
    "n_iter_",
    "shape_fit_",
    "support_",
    "support_vectors_",
)
_PAIRS = (*_SVM, "_effective_probability", "class_weight_", "classes_")
_STREAM = ("_begun_with", "_position", "_seconds", "_stopped_by", "_streams")
_CORE = (*_STREAM, "_moments", "_resolved", "_seen")
_TEXT = ("_any_width", "text_")  # all else follows from these

METHODS = tuple(
    getattr(estimators.methods, name) for name in estimators.methods.__all__
)
_ESTIMATORS: dict[type, tuple[str, ...]] = {
    estimators.CoreVectorClassifier: (
        *_ROWS,
        *_CELLS,
        "_multi_class",
        "classes_",
        "n_support_",
    ),
    estimators.CoreVectorOneClass: (
        *_ROWS,
        *_CELLS,
        "n_support_",
        "offset_",
        "probability_marks_",
    ),
    estimators.CoreVectorRanker: (*_ROWS, "n_pairs_", "n_queries_"),
    estimators.CoreVectorRegressor: (*_ROWS, *_CELLS, *_TARGETS),
    estimators.SVDD: (
        *_ROWS,
        "centre_norm_sq_",
        "diagonal_",
        "n_support_",
        "offset_",
        "radius_",
    ),
    svm.NuSVC: _PAIRS,
    svm.NuSVR: _SVM,
    svm.OneClassSVM: (*_SVM, "offset_"),
    svm.SVC: _PAIRS,
    svm.SVR: _SVM,
    estimators.CoreSetNystroem: (
        "_basis",
        "component_indices_",
        "components_",
        "normalization_",
    ),
    estimators.StreamingClassifier: (*_CORE, "_mass", "classes_"),
    estimators.StreamingOneClass: (*_CORE, "_offsets", "_sample"),
    estimators.StreamingRegressor: (*_CORE, "_one_target", "_target_offset"),
    estimators.StreamingBallClassifier: (*_STREAM, "_right", "_tested", "classes_"),
    estimators.StreamingBallOneClass: (*_STREAM, "_offsets", "_sample"),
    estimators.StructuralSVM: (
        "certificate_",
        "classes_",
        "coef_",
        "history_",
        "intercept_",
        "n_iter_",
        "weights_",
    ),
    _compressed.CompressedModel: _SMALL,
    _compressed.CompressedClassifier: _SMALL,
    _compressed.CompressedDetector: _SMALL,
    _compressed.CompressedRegressor: _SMALL,
    surfaces.ImplicitSurface: (
        "_field",
        "_frame",
        "_slope",
        "_step",
        "certificate_",
        "estimators_",
        "n_support_",
        "normals_",
        "points_",
        "spacing_",
        "tubes_",
        "widths_",
    ),
    reference.BallVectorMachine: (*_REFERENCE, "epsilon_", "relative_gap_"),
    reference.LASVM: _REFERENCE,
    reference.Pegasos: (*_REFERENCE, "lambda_"),
    reference.SMO: _REFERENCE,
    reference.SimpleSVM: _REFERENCE,
    libsvm_models.LibsvmClassifier: _TEXT,
    libsvm_models.LibsvmNuClassifier: _TEXT,
    libsvm_models.LibsvmNuRegressor: _TEXT,
    libsvm_models.LibsvmOneClass: _TEXT,
    libsvm_models.LibsvmRegressor: _TEXT,
    **dict.fromkeys(METHODS, ()),
    **SKLEARN_ESTIMATORS,
    **{cls: names for cls, names, is_one in calibration_parts() if is_one},
}
_BALL_STREAM = ("_whole", "balls", "eta", "form", "n_rows", "n_updates")
_CORE_STREAM = (
    "F",
    "a",
    "aged",
    "born",
    "by_columns",
    "coef",
    "form",
    "gram",
    "kernel",
    "n_left",
    "n_outputs",
    "n_rows",
    "n_updates",
    "prior",
    "rows",
    "scaling",
    "summary",
    "tally",
    "targets",
)
# Parts of models; of a dataclass the fields, and what it has cached.
_PARTS: dict[type, tuple[str, ...]] = {
    Balls: (),
    Basis: ("inverse_factor",),
    Cells: (),
    Certificate: (),
    Field: (),
    Forest: (),
    Frame: (),
    Kernel: (),
    KernelExpansion: (),
    LibsvmText: (),
    FitResult: (),
    PrecomputedKernel: (),
    RowMap: (),
    RowSample: (),
    Rows: (),
    SeenRows: (),
    Tree: (),
    Whole: (),
    StreamForm: (),
    _compressed.Form: (),
    KernelStream: (
        *_BALL_STREAM,
        "_values",
        "budget",
        "coef",
        "kernel",
        "merge",
        "own",
        "products",
        "rows",
    ),
    LinearStream: (*_BALL_STREAM, "vectors"),
    CoreForm: (),
    CoreStream: _CORE_STREAM,
    SquaredStream: _CORE_STREAM,
    ColumnMoments: (),
    RowStatistics: (),
    Scaling: (),
    Summary: (),
    Targets: (),
    **{cls: names for cls, names, is_one in calibration_parts() if not is_one},
}
# Recomputed from the other fields when a file is read.
_RECOMPUTED: dict[type, tuple[str, ...]] = {Basis: ("points",)}
# What files of version 1 call them.
_NAMES: dict[type, str] = {
    StreamForm: "StreamForm",
    FitResult: "Outcome",
    **{cls: f"methods.{cls.__name__}" for cls in METHODS},
}


@dataclass(frozen=True)
class Entry:
    """One class that a container may hold."""

    name: str
    cls: type
    is_estimator: bool
    fields: tuple[str, ...]  # of a dataclass
    attributes: tuple[str, ...]  # of an instance, beside parameters or fields

    @property
    def is_plain(self) -> bool:
        """Whether an instance is made without a constructor."""
        return not self.is_estimator and not self.fields


def _entry(cls: type, attributes: tuple[str, ...], is_estimator: bool) -> Entry:
    names: tuple[str, ...] = ()
    if is_estimator:
        attributes = (*attributes, *_ANY)
    elif is_dataclass(cls):
        again = _RECOMPUTED.get(cls, ())
        names = tuple(f.name for f in fields(cls) if f.name not in again)
    return Entry(_NAMES.get(cls, cls.__name__), cls, is_estimator, names, attributes)


ENTRIES: dict[type, Entry] = {
    cls: _entry(cls, attributes, is_estimator)
    for table, is_estimator in ((_ESTIMATORS, True), (_PARTS, False))
    for cls, attributes in table.items()
}
BY_NAME: dict[str, Entry] = {entry.name: entry for entry in ENTRIES.values()}


def trusted_types() -> list[str]:
    """Return the full names of the classes that a model may consist of.

    scikit-learn's, and what skops trusts anyway, are left out.
    """
    ours = [cls for cls in ENTRIES if cls.__module__.startswith("corevec.")]
    ours += [cls for cls, _, _ in calibration_parts()]
    classes = [*ours, Points, np.dtype, sparse.csr_matrix, sparse.csr_array]
    return sorted(f"{cls.__module__}.{cls.__qualname__}" for cls in classes)


def describe(value: Any) -> str:
    """Return the words for a value that no file can hold."""
    if callable(value) and not isinstance(value, type):
        return "a function, and a file without code cannot hold one"
    kind = type(value)
    return f"a {kind.__module__}.{kind.__qualname__}, which the format does not hold"


__all__ = [
    "BY_NAME",
    "ENTRIES",
    "Entry",
    "LEFT_BEHIND",
    "describe",
    "trusted_types",
]
