"""`certify` for third-party models, which are recognised by their attributes.

These are the support vector machines of scikit-learn and objects with the same
attributes: those of scikit-learn-intelex, or a LIBSVM model whose arrays are stored in
a plain object. Only public names are read, and ``_gamma`` where ``gamma`` is a name.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.svm import LinearSVC, LinearSVR
from sklearn.utils.validation import check_is_fitted

from corevec._runtime.types import Array
from corevec.certificates.third_party import judge
from corevec.certificates.third_party_linear import judge_linear
from corevec.data.sources import Source, Workers, as_source, row_statistics
from corevec.estimators._third_party_problems import (
    FittedModel,
    OneMachine,
    dense,
    linear_machines,
    machines,
)
from corevec.estimators._validation import check_square
from corevec.estimators.svm import SupportVectorMachine
from corevec.exceptions import InvalidInputError
from corevec.kernels import AnyKernel, check_kernel_name, make_kernel, resolve_gamma
from corevec.models.certificate import Certificate, worst_of
from corevec.models.expansion import KernelExpansion

CERTIFIED = (
    "Fitted corevec models, scikit-learn's and corevec.svm's SVC, NuSVC, SVR, NuSVR, "
    "OneClassSVM, LinearSVC and LinearSVR, scikit-learn-intelex's, and objects with "
    "their attributes"
)
NEEDED = ("dual_coef_", "intercept_", "kernel")


def certify_other(model: Any, X: Any, y: Any, sample_weight: Any) -> Certificate:
    """Return the certificate of a fitted third-party model."""
    _check_model(model)
    given = FittedModel.of(model, X, y, sample_weight)
    if isinstance(model, LinearSVC | LinearSVR):
        return _certify_linear(given)
    check_kernel_name("certify", model.kernel)
    if not callable(model.kernel) and model.kernel == "precomputed":
        check_square(f"certify: {given.who}", given.X)
    given = _with_support(given)
    with Workers(None) as workers:
        parts = [_certify_one(given, one, workers) for one in machines(given)]
    return worst_of(parts, "one machine per class or pair of classes")


def _check_model(model: Any) -> None:
    """Refuse objects without dual variables, and wrappers around other models."""
    who = type(model).__name__
    if isinstance(model, type):
        raise InvalidInputError(
            f"certify: the class {model.__name__} was given. Give a fitted model."
        )
    inner = {
        "steps": "its last step and the rows as transformed for that step: "
        "certify(pipe[-1], pipe[:-1].transform(X), y)",
        "best_estimator_": "its best_estimator_",
        "estimators_": "each of its estimators_, with the labels it was fitted on",
        "calibrated_classifiers_": "the kernel model that was calibrated",
    }
    for name, instead in inner.items():
        if hasattr(model, name):
            raise InvalidInputError(
                f"certify: a {who} was given, which wraps other models. Give {instead}."
            )
    if isinstance(model, BaseEstimator):
        try:
            check_is_fitted(model)
        except NotFittedError:
            raise NotFittedError(
                f"certify: this {who} is not fitted. Call its fit first."
            ) from None
    if isinstance(model, LinearSVC | LinearSVR):
        return
    missing = [name for name in NEEDED if not hasattr(model, name)]
    if not (hasattr(model, "support_") or hasattr(model, "support_vectors_")):
        missing.append("support_ or support_vectors_")
    if missing:
        advice = f"{CERTIFIED} can be certified."
        if hasattr(model, "certificate_"):  # a StructuralSVM
            advice = "Its fit has measured a gap: see its certificate_."
        raise InvalidInputError(
            f"certify: a {who} was given. A duality gap needs the dual variables of "
            f"the training rows, and it has no {', '.join(missing)}. {advice}"
        )


def _unstored_vectors(given: FittedModel, numbers: Array) -> Any:
    """Return the rows that a model with a precomputed or callable kernel relies on.

    scikit-learn stores no vectors of it, but all rows of a kernel function.
    """
    model, own = given.model, _own(given.model)
    if own is not None:  # rows of the matrix are identified by their values
        return own.basis.values
    rows = getattr(model, "_BaseLibSVM__Xfit", None)
    if isinstance(model, SupportVectorMachine) and model._rows_of_function is not None:
        rows = model._rows_of_function[1]
    return given.X[numbers] if rows is None else _at(rows, numbers)


def _with_support(given: FittedModel) -> FittedModel:
    """Return `given` with the numbers of the support rows among the rows of X."""
    model, n = given.model, given.X.shape[0]
    vectors = getattr(model, "support_vectors_", None)
    if not hasattr(model, "support_"):
        return replace(given, support=_search(given, vectors))
    numbers = np.asarray(model.support_, dtype=np.int64).ravel()
    if numbers.max(initial=-1) >= n:
        raise InvalidInputError(
            f"certify: the {given.who} has support row {numbers.max()}, but X has only "
            f"{n} rows. Give all rows that it was fitted on."
        )
    present = np.flatnonzero(given.weights > 0)
    unstored = vectors is None or vectors.shape[0] == 0
    of_theirs = _own(model) is None and not isinstance(model, SupportVectorMachine)
    if unstored and len(present) < n and of_theirs:
        raise InvalidInputError(
            "certify: some rows have weight 0. scikit-learn does not count them in "
            f"support_, and with this kernel the {given.who} predicts from wrong "
            "columns. Fit it without those rows."
        )
    if unstored:
        vectors = _unstored_vectors(given, numbers)
    # scikit-learn does not count the rows of weight 0 in row numbers; others do.
    for rows in (numbers, present[numbers[numbers < len(present)]]):
        if len(rows) == len(numbers) and _same(given.X[rows], vectors):
            return replace(given, support=rows)
    raise InvalidInputError(
        f"certify: rows support_ of X are not the support vectors of the {given.who}. "
        "Give the rows that it was fitted on, in that order and scaling, with the same "
        "sample_weight."
    )


def _own(model: Any) -> KernelExpansion | None:
    """Return the kernel expansion of a `corevec.reference` model; None for others."""
    found = getattr(model, "_functions", None)
    return found if isinstance(found, KernelExpansion) else None


def _at(rows: Any, numbers: Array) -> Any:
    return (rows if sparse.issparse(rows) else np.asarray(rows))[numbers]


def _same(a: Any, b: Any) -> bool:
    """Whether two blocks of rows are equal up to the rounding of the second's dtype."""
    if a.shape != b.shape:
        return False
    if a.shape[0] == 0:
        return True
    if sparse.issparse(a) or sparse.issparse(b):
        a, b = sparse.csr_matrix(a), sparse.csr_matrix(b)
    precision = np.finfo(b.dtype).eps if b.dtype.kind == "f" else 0.0
    return bool(abs(a - b).max() <= 4 * precision * abs(b).max())


def _search(given: FittedModel, vectors: Any) -> Array:
    """Return the row number of each support vector in X; duplicate rows in order."""
    names: list[Any] = [None] * given.X.shape[0]
    wanted: list[Any] = [None] * vectors.shape[0]
    if hasattr(given.model, "classes_"):
        names = given.labels().tolist()
        wanted = _classes_of_vectors(given).tolist()
    places = defaultdict(list)
    for number in range(given.X.shape[0] - 1, -1, -1):
        places[_key(given.X, number), names[number]].append(number)
    found = []
    for number, name in enumerate(wanted):
        rows = places[_key(vectors, number), name]
        if not rows:
            raise InvalidInputError(
                f"certify: support vector {number} of the {given.who} is not a row "
                "of its class in X. Give the rows that it was fitted on; if the model "
                "was read from a text file with few digits, model.match_rows(X) of "
                "load_libsvm's models finds them."
            )
        found.append(rows.pop())
    return np.array(found, dtype=np.int64)


def _key(rows: Any, number: int) -> bytes:
    row = rows[[number]]
    row = row.toarray() if sparse.issparse(row) else np.asarray(row)
    return (row.astype(np.float64) + 0.0).tobytes()  # -0.0 becomes 0.0


def _classes_of_vectors(given: FittedModel) -> Array:
    if len(given.model.classes_) == 2:
        return np.where(dense(given.model.dual_coef_)[0] > 0, 1, 0)
    counts = np.asarray(given.model.n_support_)
    return np.repeat(np.arange(len(counts)), counts)


def _certify_one(given: FittedModel, one: OneMachine, workers: Workers) -> Certificate:
    source = as_source(_rows_of(given, one.rows), workers=workers)
    support = np.flatnonzero(one.coef)
    function = KernelExpansion(
        _kernel(given, source),
        source.take(support),
        one.coef[support, None],
        np.array([one.intercept]),
    )
    return judge(one.machine, function, one.beta, source, given.rule)


def _rows_of(given: FittedModel, rows: Array) -> Any:
    if len(rows) == given.X.shape[0]:
        return given.X
    if not callable(given.model.kernel) and given.model.kernel == "precomputed":
        return given.X[np.ix_(rows, rows)]
    return given.X[rows]


def _kernel(given: FittedModel, source: Source) -> AnyKernel:
    """Return the kernel of the model for these rows (centred for distances)."""
    model, kernel, own = given.model, given.model.kernel, _own(given.model)
    if own is not None:
        return own.kernel
    if callable(kernel):
        return make_kernel(lambda A, B: dense(kernel(A, B)))
    if kernel == "precomputed":
        return make_kernel(kernel)
    gamma = getattr(model, "gamma", "scale")
    if isinstance(gamma, str) and hasattr(model, "_gamma"):
        gamma = float(model._gamma)
    elif isinstance(gamma, str):
        gamma = resolve_gamma(gamma, row_statistics(as_source(given.X)), 0)
    degree, coef0 = getattr(model, "degree", 3), getattr(model, "coef0", 0.0)
    return make_kernel(kernel, gamma, degree, coef0, row_statistics(source))


def _certify_linear(given: FittedModel) -> Certificate:
    """Return the certificate of a LinearSVC or LinearSVR."""
    coef = np.atleast_2d(given.model.coef_)
    # Without a bias scikit-learn stores a single 0 for all classes.
    intercept = np.broadcast_to(given.model.intercept_, (len(coef),))
    parts = [
        judge_linear(machine, given.X, coef[t], float(intercept[t]), given.rule)
        for t, machine in enumerate(linear_machines(given))
    ]
    return worst_of(parts, "one machine per class")
