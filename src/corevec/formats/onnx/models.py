"""Fitted models for the ONNX export: steps, functions, form of the predictions."""

from __future__ import annotations

import json
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import is_outlier_detector
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, StandardScaler
from sklearn.utils.validation import check_is_fitted

from corevec._runtime.types import Array
from corevec.estimators._base import CoreVectorEstimator
from corevec.estimators._compressed import CompressedModel, Form
from corevec.estimators.compression import _read_ours, read_machine
from corevec.estimators.structural import StructuralSVM
from corevec.estimators.svm import SupportVectorMachine, columns_of_pairs
from corevec.estimators.transform import CoreSetNystroem
from corevec.exceptions import InvalidInputError
from corevec.formats.libsvm.models import LibsvmModel
from corevec.formats.onnx.kernels import known_kernel
from corevec.kernels import AnyKernel, Kernel, Rows, make_kernel
from corevec.models.expansion import KernelExpansion
from corevec.reference import ReferenceClassifier
from corevec.solvers.cells.forest import Forest

SCALERS = (MinMaxScaler, MaxAbsScaler, StandardScaler)
BEFORE = (*SCALERS, CoreSetNystroem, ColumnTransformer)
OURS = (
    CoreVectorEstimator,
    CompressedModel,
    ReferenceClassifier,
    LibsvmModel,
    SupportVectorMachine,
)
ACCEPTED = (
    "a fitted corevec model (CoreVectorClassifier, "
    "CoreVectorRegressor, CoreVectorOneClass, SVDD, "
    "CoreVectorRanker, StreamingBallClassifier, StreamingBallOneClass, StructuralSVM "
    "with model='multiclass', CoreSetNystroem, one of corevec.reference or "
    "corevec.svm, or what `compress` or `load_libsvm` returns), a scikit-learn "
    "Pipeline of MinMaxScaler, MaxAbsScaler, StandardScaler, CoreSetNystroem or "
    "ColumnTransformer steps and such a model, or a CalibratedClassifierCV around one"
)


@dataclass(frozen=True)
class Meaning:
    """The functions of a model, and the form of its predictions.

    ``form.kind`` is one of those in `Form`, or "features" for a transformer.
    """

    functions: KernelExpansion
    form: Form
    centre_norm_sq: float = 0.0  # of a ball
    order: Array | None = None  # of "ovo": the classes, the one that wins a tie first
    # Of a model of cells: `functions` are then of the values of the forest.
    forest: Forest | None = None

    @property
    def kernel(self) -> AnyKernel:
        """The kernel of the model."""
        first = self.functions if self.forest is None else self.forest.trees[0]
        return first.kernel


def steps_of(model: Any) -> tuple[list[Any], Any]:
    """Return the transformers before a model, and the model itself."""
    if not isinstance(model, Pipeline):
        _check_model(model)
        return [], model
    steps = [step for _, step in model.steps if step not in (None, "passthrough")]
    if not steps:
        raise InvalidInputError(f"to_onnx: the Pipeline has no steps; give {ACCEPTED}.")
    for step in steps[:-1]:
        if type(step) not in BEFORE:
            raise InvalidInputError(
                f"to_onnx: the Pipeline has a {type(step).__name__} before its last "
                f"step, which cannot be exported; give {ACCEPTED}."
            )
        _check_fitted(step)
    _check_model(steps[-1])
    return steps[:-1], steps[-1]


def meaning_of(model: Any) -> Meaning:
    """Return the functions of a fitted model at the scale of its decisions."""
    if isinstance(model, CoreSetNystroem):
        return _of_features(model)
    if isinstance(model, StructuralSVM):
        return _of_weights(model)
    if isinstance(model, LibsvmModel):
        return _of_libsvm(model)
    if isinstance(model, SupportVectorMachine):
        return Meaning(*read_machine(model))
    if getattr(model, "_forest", None) is not None:
        return _of_cells(model)
    functions, form = _read_ours(model)
    if form.kind != "ball":
        return Meaning(functions, form)
    compressed = isinstance(model, CompressedModel)
    norm = model._centre_norm_sq if compressed else model.centre_norm_sq_
    return Meaning(functions, form, float(norm))


def labels_of(classes: Array) -> Array:
    """Return class labels as int64 or as strings, the types of ONNX."""
    values = classes.tolist()
    if all(isinstance(value, str) for value in values):
        return np.asarray(values, dtype=object)
    # Labels of LIBSVM files are floats: 1.0 and -1.0 are whole numbers as well.
    if all(_is_whole(value) for value in values):
        return np.asarray([int(value) for value in values], dtype=np.int64)
    raise InvalidInputError(
        f"to_onnx: the labels {values[:5]} are neither whole numbers nor strings, "
        "which is what an ONNX graph can return. Fit with labels of one of these types."
    )


def _is_whole(value: Any) -> bool:
    if isinstance(value, float) and not value.is_integer():
        return False
    return isinstance(value, int | float) and abs(int(value)) < 2**63


def machines_of(model: Any) -> list[Any]:
    """Return the models whose kernels a graph has: those of a calibrated classifier."""
    if not isinstance(model, CalibratedClassifierCV):
        return [model]
    parts = [one.estimator for one in model.calibrated_classifiers_]
    return [steps_of(part)[1] for part in parts]


def notes_on(
    steps: list[Any], model: Any, version: str, precision: str
) -> dict[str, str]:
    """Return the metadata of a file."""
    machines = machines_of(model)
    kernels = {_kernel_in_words(known_kernel(meaning_of(m).kernel)) for m in machines}
    notes = {
        "corevec.version": version,
        "corevec.estimator": type(model).__name__,
        "corevec.precision": precision,
        "corevec.kernel": ", ".join(sorted(kernels)),
    }
    if steps:
        notes["corevec.steps"] = json.dumps([type(step).__name__ for step in steps])
    names = getattr([*steps, model][0], "feature_names_in_", None)
    if names is not None:
        notes["corevec.feature_names"] = json.dumps([str(name) for name in names])
    found = getattr(model, "certificate_", None)
    if found is not None:
        for name in ("problem", "primal", "dual", "relative_gap", "converged"):
            value = getattr(found, name)
            number = isinstance(value, float | np.floating)
            notes[f"corevec.certificate.{name}"] = str(
                float(value) if number else value
            )
    return notes


def _kernel_in_words(kernel: Kernel) -> str:
    """Return for example ``rbf(gamma=0.5)``, in the units of the rows."""
    gamma = float(np.ldexp(kernel.gamma, -2 * kernel.row_map.exponent))
    parts = {"gamma": gamma} if kernel.name != "linear" else {}
    if kernel.name in ("poly", "sigmoid"):
        parts["coef0"] = kernel.coef0
    if kernel.name == "poly":
        parts["degree"] = kernel.degree
    name = f"normalized-{kernel.name}" if kernel.normalized else kernel.name
    inside = ", ".join(f"{key}={value!r}" for key, value in parts.items())
    return f"{name}({inside})" if inside else name


def _check_model(model: Any) -> None:
    if isinstance(model, CalibratedClassifierCV):
        return _check_fitted(model)
    if not isinstance(model, (*OURS, StructuralSVM, CoreSetNystroem)):
        name = model.__name__ if isinstance(model, type) else type(model).__name__
        raise InvalidInputError(
            f"to_onnx: a {name} was given; give {ACCEPTED}. Of a search, give its "
            "best_estimator_; for scikit-learn's own models see skl2onnx."
        )
    _check_fitted(model)
    if isinstance(model, StructuralSVM) and not model._is_multiclass:
        raise InvalidInputError(
            "to_onnx: a StructuralSVM with a model of your own predicts by your "
            "Python methods, which cannot be exported; only model='multiclass' can."
        )


def _check_fitted(step: Any) -> None:
    try:
        check_is_fitted(step)
    except NotFittedError:
        raise NotFittedError(
            f"to_onnx: this {type(step).__name__} is not fitted. Call its fit first."
        ) from None


def _classes_form(classes: Array) -> Form:
    return Form("two classes" if len(classes) == 2 else "ovr", classes)


def _of_features(model: CoreSetNystroem) -> Meaning:
    basis = model._basis
    factor = basis.inverse_factor.T
    functions = KernelExpansion(basis.kernel, basis.rows, factor, np.zeros(len(basis)))
    return Meaning(functions, Form("features", one_output=False))


def _of_cells(model: Any) -> Meaning:
    """Return the forest, and what the model makes of its values.

    That is affine: it is read from a copy of the model whose functions are the values
    themselves, as linear functions of as many columns.
    """
    forest, n = model._forest, model._forest.trees[0].n_outputs
    rows = Rows(np.eye(n), np.arange(n))
    values = KernelExpansion(make_kernel("linear"), rows, np.eye(n), np.zeros(n))
    other = copy(model)
    other._functions = values
    functions, form = _read_ours(other)
    return Meaning(functions, form, forest=forest)


def _of_libsvm(model: Any) -> Meaning:
    """Return the machines of LIBSVM, whose vote ignores the confidence."""
    kernel = make_kernel(model.kernel, model.gamma, model.degree, model.coef0)
    vectors = model.support_vectors_
    rows = Rows(vectors, np.arange(vectors.shape[0]))
    coef, classes = model.dual_coef_.T, getattr(model, "classes_", None)
    form, order = Form("detector" if is_outlier_detector(model) else "regressor"), None
    if classes is not None:
        form = _classes_form(classes)
    if classes is not None and len(classes) > 2:
        coef = columns_of_pairs(model.dual_coef_, model.n_support_)
        form = Form("ovo", classes, breaks_ties=False, upright=False)
        order = np.searchsorted(classes, model.text_.labels)
    functions = KernelExpansion(kernel, rows, coef, model.intercept_)
    return Meaning(functions, form, order=order)


def _of_weights(model: StructuralSVM) -> Meaning:
    machines = len(model.coef_)
    rows = Rows(model.coef_, np.arange(machines))
    functions = KernelExpansion(
        make_kernel("linear"), rows, np.eye(machines), model.intercept_
    )
    return Meaning(functions, _classes_form(model.classes_))


__all__ = [
    "SCALERS",
    "Meaning",
    "labels_of",
    "machines_of",
    "meaning_of",
    "notes_on",
    "steps_of",
]
