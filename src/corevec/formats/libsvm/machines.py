"""Conversion of fitted models into LIBSVM model files."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import is_outlier_detector
from sklearn.exceptions import NotFittedError
from sklearn.multiclass import OneVsOneClassifier
from sklearn.utils.validation import check_is_fitted

from corevec._runtime.types import Array
from corevec.estimators import (
    StructuralSVM,
)
from corevec.estimators._base import CoreVectorEstimator
from corevec.estimators._compressed import CompressedModel, Form
from corevec.estimators.compression import MACHINES, _read_ours, refuse_cells
from corevec.estimators.svm import columns_of_pairs
from corevec.exceptions import InvalidInputError
from corevec.formats.libsvm.pairs import Listing, listed_by_class
from corevec.formats.libsvm.text import KERNELS, PARAMETERS, LibsvmText
from corevec.kernels import (
    AnyKernel,
    Kernel,
    PrecomputedKernel,
    Rows,
    make_kernel,
)
from corevec.models.expansion import KernelExpansion
from corevec.reference import ReferenceClassifier

WHO = "save_libsvm"
_OUR_NAMES = {ours: theirs for theirs, ours in KERNELS.items()}
_SVM_TYPES = {"NuSVC": "nu_svc", "NuSVR": "nu_svr"}
OWN_FILE = "corevec.formats.save keeps every model of corevec"


def text_of(model: Any) -> LibsvmText:
    """Return the LIBSVM file of a fitted model."""
    _check_fitted(model)
    if isinstance(model, OneVsOneClassifier):
        return _one_vs_one(model)
    functions, form = _functions_of(model)
    kind = _SVM_TYPES.get(type(model).__name__)
    if form.classes is None:
        return _one_output(model, functions, form, kind)
    return _classifier(model, functions, form, kind or "c_svc")


def _check_fitted(model: Any) -> None:
    who = model.__name__ if isinstance(model, type) else type(model).__name__
    if hasattr(model, "steps") and not isinstance(model, type):
        raise InvalidInputError(
            f"{WHO}: a {who} was given; a LIBSVM file has no place for its other "
            f"steps. Save its last step, {WHO}(pipe[-1], path), and apply the others "
            f"to the data before svm-predict; or use corevec.formats.save."
        )
    known = (
        CoreVectorEstimator,
        ReferenceClassifier,
        CompressedModel,
        StructuralSVM,
        OneVsOneClassifier,
        *MACHINES,
    )
    if not isinstance(model, known):
        raise InvalidInputError(
            f"{WHO}: a {who} was given. Fitted kernel models of corevec and "
            "corevec.reference, scikit-learn's and corevec.svm's SVC, NuSVC, SVR, "
            "NuSVR, OneClassSVM, and OneVsOneClassifier of two-class models can be "
            "written."
        )
    try:
        check_is_fitted(model)
    except NotFittedError:
        raise NotFittedError(
            f"{WHO}: this {who} is not fitted. Fit it first."
        ) from None


def _functions_of(model: Any) -> tuple[KernelExpansion, Form]:
    """Return the functions of a model, and the form of its predictions."""
    if isinstance(model, MACHINES):
        return _theirs(model)
    if isinstance(model, StructuralSVM):
        return _structural(model)
    refuse_cells(
        WHO,
        model,
        "a LIBSVM file holds one",
        f"{OWN_FILE}, this one too; for svm-predict fit without cells",
    )
    if not isinstance(getattr(model, "_functions", None), KernelExpansion):
        raise _no_machine(model, "it has no decision function made of kernel values")
    return _read_ours(model)


def _no_machine(model: Any, reason: str) -> InvalidInputError:
    return InvalidInputError(
        f"{WHO}: this {type(model).__name__} cannot be a LIBSVM model: {reason}. "
        f"{OWN_FILE}."
    )


def _theirs(model: Any) -> tuple[KernelExpansion, Form]:
    """Return the functions of a scikit-learn model, or of one of `corevec.svm`."""
    kernel = model.kernel
    # `_gamma` is the resolved value of gamma="scale" that scikit-learn gives to LIBSVM.
    gamma = float(model._gamma) if isinstance(kernel, str) else 1.0
    made = make_kernel(kernel, gamma, model.degree, model.coef0)
    rows = Rows(model.support_vectors_, np.asarray(model.support_, dtype=np.int64))
    dual, intercept = model.dual_coef_, np.array(model.intercept_, dtype=np.float64)
    dual = np.asarray(dual.toarray() if sparse.issparse(dual) else dual, np.float64)
    if not hasattr(model, "classes_"):
        kind = "detector" if is_outlier_detector(model) else "regressor"
        return KernelExpansion(made, rows, dual.T, intercept), Form(kind)
    classes = model.classes_
    if len(classes) == 2:
        # scikit-learn flips the sign; the first class in LIBSVM was classes_[0].
        functions = KernelExpansion(made, rows, -dual.T, -intercept)
        return functions, Form("two classes", classes, upright=False)
    coef = columns_of_pairs(dual, model.n_support_)
    return KernelExpansion(made, rows, coef, intercept), Form(
        "ovo", classes, upright=False
    )


def _structural(model: StructuralSVM) -> tuple[KernelExpansion, Form]:
    """Return a linear machine as an expansion with its weights as the only vector."""
    if not isinstance(model.model, str) or len(model.classes_) != 2:
        raise _no_machine(
            model, "only two classes of the linear model are one machine of LIBSVM's"
        )
    rows = Rows(model.coef_, np.arange(1))
    functions = KernelExpansion(
        make_kernel("linear"), rows, np.ones((1, 1)), model.intercept_
    )
    return functions, Form("two classes", model.classes_)


def _one_output(
    model: Any, functions: KernelExpansion, form: Form, kind: str | None
) -> LibsvmText:
    """Return the file of a regressor or a detector."""
    if functions.coef.shape[1] != 1:
        raise _no_machine(
            model,
            f"it has {functions.coef.shape[1]} targets and LIBSVM one. Fit one "
            "regressor per target",
        )
    coef, rho = functions.coef, -functions.intercept
    if form.kind == "ball":
        coef, rho = _ball(model, functions, form)
    kind = kind or ("one_class" if form.kind in ("detector", "ball") else "epsilon_svr")
    kept = np.flatnonzero(coef.any(axis=1))
    return _text(model, kind, functions, Listing(kept, None, coef[kept]), rho)


def _ball(model: Any, functions: KernelExpansion, form: Form) -> tuple[Array, Array]:
    """Return a ball as a one-class machine: ``R^2 - |phi(x) - c|^2 > 0`` inside."""
    kernel = functions.kernel
    if not (isinstance(kernel, Kernel) and kernel.constant_diagonal):
        raise _no_machine(
            model,
            f"its distance holds k(x, x), which varies with the {kernel.name} kernel, "
            "and LIBSVM's one-class machine has no such term. Fit it with "
            "kernel='rbf', or a CoreVectorOneClass",
        )
    norm_sq = getattr(model, "centre_norm_sq_", None)
    norm_sq = model._centre_norm_sq if norm_sq is None else norm_sq
    return 2 * functions.coef, np.array([1.0 + norm_sq + form.offset])


def _classifier(
    model: Any, functions: KernelExpansion, form: Form, kind: str
) -> LibsvmText:
    labels = _whole_labels(form.classes)
    if form.kind == "ovr":
        raise _no_machine(
            model,
            f"it has {len(labels)} classes, one machine per class against the rest, "
            "and LIBSVM has one per pair of classes. Fit multi_class='ovo' (or "
            "sklearn.multiclass.OneVsOneClassifier around it)",
        )
    coef, intercept = functions.coef, functions.intercept
    if form.kind == "ovo" and form.upright:
        coef, intercept = -coef, -intercept  # LIBSVM: the first class is positive
    if form.kind == "two classes" and form.upright:
        labels = labels[::-1]  # ours: classes_[1] is, and the value 0 is classes_[0]'s
    listing = listed_by_class(coef, len(labels))
    return _text(model, kind, functions, listing, -intercept, labels)


def _whole_labels(classes: Any) -> Array:
    values = np.asarray(classes)
    numbers = values.dtype.kind in "iuf"
    if numbers and (values == np.round(values)).all() and abs(values).max() < 2**31:
        return values.astype(np.int64)
    raise InvalidInputError(
        f"{WHO}: the classes {values[:5].tolist()} cannot be written: LIBSVM's labels "
        "are 32-bit integers. Fit on numbers (sklearn.preprocessing.LabelEncoder), or "
        f"use corevec.formats.save."
    )


def _one_vs_one(model: Any) -> LibsvmText:
    """Return the file of a scikit-learn wrapper around two-class models."""
    labels = _whole_labels(model.classes_)
    pairs = list(combinations(range(len(labels)), 2))
    found = []
    for pair, machine in zip(pairs, model.estimators_, strict=True):
        _check_fitted(machine)
        functions, form = _functions_of(machine)
        if form.kind != "two classes":
            raise _no_machine(machine, "only classifiers form a OneVsOneClassifier")
        sign = -1.0 if form.upright else 1.0  # value above 0 for the pair's first
        found.append((pair, functions, sign))
    kernel = _same_kernel(model, [functions for _, functions, _ in found])
    if isinstance(kernel, PrecomputedKernel):
        raise _no_machine(
            model,
            "its machines number the rows of their own pairs, a file those of all. Fit "
            "corevec.svm.SVC(kernel='precomputed')",
        )
    vectors, coef = _joined(
        [functions.basis.values for _, functions, _ in found],
        [sign * functions.coef[:, 0] for _, functions, sign in found],
    )
    rho = np.array([-sign * functions.intercept[0] for _, functions, sign in found])
    listing = listed_by_class(coef, len(labels))
    joined = KernelExpansion(kernel, Rows(vectors, np.arange(len(coef))), coef, -rho)
    return _text(model, "c_svc", joined, listing, rho, labels)


def _same_kernel(model: Any, functions: list[KernelExpansion]) -> AnyKernel:
    shapes = [_kernel_lines(model, one.kernel) for one in functions]
    for shape in shapes[1:]:
        if shape != shapes[0]:
            raise _no_machine(
                model,
                f"its machines have different kernels ({shapes[0]} and {shape}) and a "
                "file one. Give gamma as a number: by name, each pair of classes "
                "finds its own",
            )
    return functions[0].kernel


def _joined(parts: list[Any], coefs: list[Array]) -> tuple[Any, Array]:
    """Return the distinct vectors of all machines, and one column per machine."""
    rows = sparse.vstack([sparse.csr_matrix(part) for part in parts], format="csr")
    rows = rows.astype(np.float64)
    rows.sum_duplicates()
    numbers: dict[tuple[bytes, bytes], int] = {}
    number = np.empty(rows.shape[0], dtype=np.int64)
    for row in range(rows.shape[0]):
        part = slice(rows.indptr[row], rows.indptr[row + 1])
        key = rows.indices[part].tobytes(), rows.data[part].tobytes()
        number[row] = numbers.setdefault(key, len(numbers))
    first = np.unique(number, return_index=True)[1]
    coef = np.zeros((len(first), len(parts)))
    start = 0
    for column, values in enumerate(coefs):
        np.add.at(coef[:, column], number[start : start + len(values)], values)
        start += len(values)
    return rows[first], coef


def _text(
    model: Any,
    kind: str,
    functions: KernelExpansion,
    listing: Listing,
    rho: Array,
    labels: Array | None = None,
) -> LibsvmText:
    kernel_type, parameters = _kernel_lines(model, functions.kernel)
    basis = functions.basis
    rows = basis.values
    if isinstance(functions.kernel, PrecomputedKernel):
        rows = basis.index[:, None] + 1.0
    vectors = sparse.csr_matrix(rows).astype(np.float64)[listing.vectors]
    for part in (listing.packed, rho, vectors.data):
        if not np.isfinite(part).all():
            raise _no_machine(model, "it holds numbers that are not finite")
    return LibsvmText(
        kind,
        kernel_type,
        parameters,
        np.ravel(rho),
        labels,
        listing.counts,
        listing.packed,
        vectors,
    )


def _kernel_lines(model: Any, kernel: AnyKernel) -> tuple[str, dict[str, float]]:
    """Return the name and the parameters of a kernel in LIBSVM, or raise."""
    if isinstance(kernel, PrecomputedKernel):
        return kernel.name, {}
    name = f"normalized-{kernel.name}" if kernel.normalized else kernel.name
    if not isinstance(kernel, Kernel) or name not in _OUR_NAMES:
        raise _no_machine(
            model,
            f"LIBSVM does not have the kernel {name!r}, only linear, poly, rbf, "
            "sigmoid and precomputed",
        )
    if kernel.row_map.scale is not None:
        raise _no_machine(
            model,
            "LIBSVM has one gamma for all columns, and the learned metric has one for "
            "each (metric='isotropic' has none)",
        )
    if name == "poly" and kernel.degree != int(kernel.degree):
        raise _no_machine(
            model, f"degree={kernel.degree!r} must be a whole number for LIBSVM"
        )
    values = {
        "degree": kernel.degree,
        # The kernel is applied to rows divided by a power of two.
        "gamma": float(np.ldexp(kernel.gamma, -2 * kernel.row_map.exponent)),
        "coef0": float(kernel.coef0),
    }
    kernel_type = _OUR_NAMES[name]
    return kernel_type, {name: values[name] for name in PARAMETERS[kernel_type]}


__all__ = ["text_of"]
