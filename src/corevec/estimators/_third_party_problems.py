"""The problems that third-party models solve, derived from their attributes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from inspect import signature
from itertools import combinations
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.svm import LinearSVR
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.validation import check_array, column_or_1d

from corevec._runtime.types import Array
from corevec.certificates.third_party import Machine, Rule
from corevec.data.sources import column_names
from corevec.estimators._parameters import check_choice, check_number, check_positive
from corevec.estimators._validation import check_same_names, checked_weights
from corevec.estimators.svm import columns_of_pairs
from corevec.exceptions import InvalidInputError

# Parameters that distinguish the machines and define their problems.
OPTIONS = ("C", "nu", "epsilon", "loss", "bias")


@dataclass(frozen=True)
class FittedModel:
    """A model, the parameters of its problem, and the rows to certify it on."""

    model: Any
    options: dict[str, Any]
    X: Any
    y: Array | None
    weights: Array
    support: Array = field(default_factory=lambda: np.empty(0, dtype=np.int64))

    @classmethod
    def of(cls, model: Any, X: Any, y: Any, sample_weight: Any) -> FittedModel:
        """Return the validated model, rows, labels and weights."""
        who = type(model).__name__
        check_same_names(f"certify: {who}", model, column_names(X))
        try:
            X = check_array(
                X, accept_sparse="csr", dtype=np.float64, accept_large_sparse=True
            )
            y = None if y is None else column_or_1d(y)
        except (TypeError, ValueError) as error:
            raise InvalidInputError(f"certify: for this {who}: {error}") from None
        n, d = X.shape
        columns = getattr(model, "n_features_in_", d)
        if d != columns:
            raise InvalidInputError(
                f"certify: X has {d} features, but the {who} was fitted on {columns}."
            )
        if y is not None and len(y) != n:
            raise InvalidInputError(
                f"certify: X has {n} rows, but y has {len(y)} entries. Give one each."
            )
        weights = checked_weights(model, sample_weight, n)
        weights = np.ones(n) if weights is None else weights
        return cls(model, _options(model), X, y, weights)

    @property
    def who(self) -> str:
        """The name of the model's class."""
        return type(self.model).__name__

    @property
    def C(self) -> float:
        """C of the problem."""
        check_positive(f"certify: the {self.who}", "C", self.options["C"])
        return float(self.options["C"])

    def number(self, name: str) -> float:
        """Return nu or epsilon of the problem."""
        check_number(
            f"certify: the {self.who}",
            name,
            self.options[name],
            remedy=f"A LIBSVM file does not hold it: model.set_params({name}=...).",
        )
        return float(self.options[name])

    @property
    def rule(self) -> Rule:
        """The tolerance of the model (1e-3, as in LIBSVM, if it has none)."""
        model = self.model
        limit = getattr(model, "max_iter", None) or -1
        count = int(np.max(getattr(model, "n_iter_", 0), initial=0))
        out = getattr(model, "fit_status_", 0) == 1 or 0 < limit <= count
        return Rule(float(getattr(model, "tol", 1e-3)), "max_iter" if out else "tol")

    def labels(self) -> Array:
        """Return the index of the class of each row in ``classes_``."""
        classes = np.asarray(self.model.classes_).tolist()
        number = {name: k for k, name in enumerate(classes)}
        y = self._targets("labels").tolist()
        found = np.array([number.get(label, -1) for label in y])
        strange = (found < 0) & (self.weights > 0)
        if strange.any():
            row = int(np.argmax(strange))
            raise InvalidInputError(
                f"certify: y[{row}] = {y[row]!r} is none of the {self.who}'s classes "
                f"{classes}."
            )
        return np.asarray(np.maximum(found, 0))

    def targets(self) -> Array:
        """Return the targets of a regressor."""
        return np.asarray(self._targets("targets"), dtype=np.float64)

    def _targets(self, word: str) -> Array:
        if self.y is None:
            raise InvalidInputError(
                f"certify: y is missing. Give the {word} that the {self.who} was "
                "fitted on: certify(model, X, y)."
            )
        return self.y


def _options(model: Any) -> dict[str, Any]:
    """Return the constructor parameters of the model, or its attributes."""
    if hasattr(model, "get_params"):
        # The LIBSVM classes have attributes of each other: only the constructor is
        # reliable.
        return dict(model.get_params(deep=False))
    return {name: getattr(model, name) for name in OPTIONS if hasattr(model, name)}


def dense(values: Any) -> Array:
    """Return a matrix as a float64 array of two dimensions."""
    values = values.toarray() if sparse.issparse(values) else values
    return np.atleast_2d(np.asarray(values, dtype=np.float64))


@dataclass(frozen=True)
class OneMachine:
    """One machine of a model: its problem, its rows of X, and its values there."""

    machine: Machine
    rows: Array
    coef: Array  # of each of its rows, mostly 0
    intercept: float
    beta: Array


def machines(given: FittedModel) -> Iterator[OneMachine]:
    """Yield the machines that a model consists of."""
    model, options = given.model, given.options
    dual, intercept = dense(model.dual_coef_), np.ravel(model.intercept_)
    coef = np.zeros(given.X.shape[0])
    if hasattr(model, "classes_") and {"C", "nu"} & set(options):
        yield from _classifiers(given, dual, intercept)
    elif "C" in options and {"epsilon", "nu"} & set(options):
        coef[given.support] = dual[0]
        yield _regressor(given, coef, float(intercept[0]))
    elif "nu" in options:
        coef[given.support] = dual[0]
        yield _one_class(given, coef, float(intercept[0]))
    else:
        raise InvalidInputError(
            f"certify: the problem that the {given.who} solves is unknown without C "
            "or nu. Give it the parameters of SVC (C, and classes_), NuSVC (nu, and "
            "classes_), SVR (C, epsilon), NuSVR (C, nu) or OneClassSVM (nu)."
        )


def _classifiers(
    given: FittedModel, dual: Array, intercept: Array
) -> Iterator[OneMachine]:
    """Yield one machine per pair of classes, or per class for that many functions."""
    labels, classes = given.labels(), np.asarray(given.model.classes_).tolist()
    weights = given.weights * _class_weights(given)[labels]
    k = len(classes)
    by_pair = k > 2 and len(dual) == k - 1
    columns = dual.T
    if by_pair:
        columns = columns_of_pairs(dual, np.asarray(given.model.n_support_))
    # The first class of a pair is positive in LIBSVM; scikit-learn swaps two classes.
    sides: list[tuple[int, int | None]] = [(t, None) for t in range(k)]
    if by_pair or k == 2:
        sides = list(combinations(range(k), 2)) if by_pair else [(1, 0)]
    for t, (positive, negative) in enumerate(sides):
        rows, words = np.arange(len(labels)), "the rest"
        if negative is not None:
            rows = np.flatnonzero((labels == positive) | (labels == negative))
            words = repr(classes[negative])
        coef = np.zeros(len(labels))
        coef[given.support] = columns[:, t]
        sign = np.where(labels[rows] == positive, 1.0, -1.0)
        words = f"{classes[positive]!r} against {words}"
        machine = _margins(words, sign, weights[rows])
        beta = np.maximum(sign * coef[rows], 0.0)
        one = OneMachine(machine, rows, coef[rows], float(intercept[t]), beta)
        yield _nu_form(given, one) if "nu" in given.options else _C_form(given, one)


def _margins(words: str, sign: Array, weights: Array) -> Machine:
    """Return entries with margin 1, one per row."""
    return Machine(words, np.arange(len(sign)), sign, np.ones(len(sign)), weights)


_LOSSES = ("hinge", "squared_hinge")
_MARGIN = "max(0, 1 - y_i f_i)"
_TUBE = "max(0, |y_i - f_i| - eps)"
# By the kind of bias: the scale of its column, its description, and the penalty.
_BIASES = {
    "free": (float("inf"), "free bias", "1/2 |w|^2"),
    "penalized": (1.0, "penalised bias", "1/2 (|w|^2 + b^2)"),
    "none": (0.0, "no bias", "1/2 |w|^2"),
}


def _C_form(given: FittedModel, one: OneMachine) -> OneMachine:
    """Return the machine of a classifier with C, for its loss and its bias."""
    loss = _choice(given, "loss", "hinge", _LOSSES)
    scale, words, norm = _BIASES[_choice(given, "bias", "free", tuple(_BIASES))]
    squared = loss == "squared_hinge"
    risk = f"C/2 sum s_i {_MARGIN}^2" if squared else f"C sum s_i {_MARGIN}"
    machine = replace(
        one.machine,
        name=f"two-class SVM ({loss.replace('_', ' ')}, {words}): min {norm} + {risk}, "
        f"C={given.C:g}, {one.machine.name}",
        cap=given.C * one.machine.cap,
        squared=squared,
        bias_scale=scale,
    )
    return replace(one, machine=machine)


def _choice(given: FittedModel, name: str, usual: str, allowed: tuple[str, ...]) -> str:
    """Return a parameter, or else an attribute, of the model."""
    value = given.options.get(name, getattr(given.model, name, usual))
    check_choice(f"certify: the {given.who}", name, value, allowed)
    return str(value)


def _nu_form(given: FittedModel, one: OneMachine) -> OneMachine:
    """Return the machine of a classifier with nu, at the scale of that problem.

    LIBSVM divides the solution by its margin r, so that the margin is 1. The dual
    variables sum to ``nu sum(s)`` before the division, from which r is recovered.
    """
    nu, machine = given.number("nu"), one.machine
    total = nu * float(machine.cap.sum())
    signed = float(machine.sign @ one.coef)
    if signed <= 0:
        raise InvalidInputError(
            f"certify: the {given.who} for {machine.name} has a margin that is not "
            f"positive. With nu={nu:g} the optimum is w = 0, and the model is "
            "meaningless: choose another nu or kernel, or C in an SVC. (Or y differs "
            "from the labels that it was fitted on.)"
        )
    margin = total / signed
    machine = replace(
        machine,
        name="two-class nu-SVM (hinge, free bias): min 1/2 |w|^2 - nu S r + sum s_i "
        f"max(0, r - y_i f_i), S = sum s_i, nu={nu:g}, {machine.name}",
        target=np.zeros_like(machine.target),
        level=margin,
        total=total,
    )
    return OneMachine(
        machine,
        one.rows,
        margin * one.coef,
        margin * one.intercept,
        margin * one.beta,
    )


def _class_weights(given: FittedModel) -> Array:
    """Return the weight of each class; NuSVC of scikit-learn ignores it."""
    model = given.model
    unread = "nu" in given.options and not hasattr(model, "_onedal_estimator")
    if given.options.get("class_weight") is None or unread:
        return np.ones(len(model.classes_))
    if hasattr(model, "class_weight_"):
        return np.asarray(model.class_weight_, dtype=np.float64)
    return _weights_of_classes(given)


def _weights_of_classes(given: FittedModel) -> Array:
    """Return the weight of each class for the parameter `class_weight`."""
    options = {"class_weight": given.options["class_weight"], "y": given.y}
    if "sample_weight" in signature(compute_class_weight).parameters:
        options["sample_weight"] = given.weights
    return np.asarray(compute_class_weight(classes=given.model.classes_, **options))


def _regressor(given: FittedModel, coef: Array, intercept: float) -> OneMachine:
    """Return the machine of a regressor, with a fixed tube or with nu."""
    y, C, options = given.targets(), given.C, given.options
    machine = _two_sides(y, C * given.weights)
    if "nu" in options:
        nu = given.number("nu")
        machine = replace(
            machine,
            name="regression (nu-SVR, free bias): min 1/2 |w|^2 + C (nu S eps + sum "
            f"s_i {_TUBE}) over eps >= 0 too, S = sum s_i, C={C:g}, nu={nu:g}",
            level=None,
            total=C * nu * float(given.weights.sum()),
        )
    else:
        tube = given.number("epsilon")
        machine = replace(
            machine,
            name="regression (epsilon-insensitive, free bias): min 1/2 |w|^2 + C sum "
            f"s_i {_TUBE}, C={C:g}, eps={tube:g}",
            target=machine.target - tube,
        )
    beta = np.concatenate([np.maximum(coef, 0.0), np.maximum(-coef, 0.0)])
    return OneMachine(machine, np.arange(len(y)), coef, intercept, beta)


def _two_sides(y: Array, cap: Array) -> Machine:
    """Return two entries per row: above and below its target."""
    number, one = np.arange(len(y)), np.ones(len(y))
    return Machine(
        "regression",
        np.concatenate([number, number]),
        np.concatenate([one, -one]),
        np.concatenate([y, -y]),
        np.concatenate([cap, cap]),
    )


def _one_class(given: FittedModel, coef: Array, intercept: float) -> OneMachine:
    """Return the machine of a detector; its offset is minus the intercept."""
    nu, n = given.number("nu"), len(coef)
    machine = replace(
        _margins("one-class", np.ones(n), given.weights),
        name="one-class SVM: min 1/2 |w|^2 - nu S r + sum s_i max(0, r - <w, phi_i>), "
        f"S = sum s_i, nu={nu:g}",
        target=np.zeros(n),
        bias_scale=0.0,
        level=-intercept,
        total=nu * float(given.weights.sum()),
    )
    return OneMachine(machine, np.arange(n), coef, 0.0, np.maximum(coef, 0.0))


def linear_machines(given: FittedModel) -> Iterator[Machine]:
    """Yield the machines of a LinearSVC or LinearSVR."""
    model = given.model
    for name, wanted in (("penalty", "l2"), ("multi_class", "ovr")):
        if getattr(model, name, wanted) != wanted:
            raise InvalidInputError(
                f"certify: a {given.who} with {name}={getattr(model, name)!r}: its "
                f"dual is a different problem. Only {name}={wanted!r} can be certified."
            )
    scale = float(model.intercept_scaling) if model.fit_intercept else 0.0
    norm = f"1/2 (|w|^2 + (b/{scale:g})^2)" if scale else "1/2 |w|^2, no bias,"
    squared = model.loss in ("squared_hinge", "squared_epsilon_insensitive")
    term = _TUBE if isinstance(model, LinearSVR) else _MARGIN
    for machine in _linear_entries(given):
        yield replace(
            machine,
            name=f"linear {machine.name}: min {norm} + C sum s_i {term}"
            f"{'^2' if squared else ''}, C={given.C:g}",
            # LIBLINEAR's C is half of the one in C/2 max(0, .)^2.
            cap=given.C * machine.cap * (2.0 if squared else 1.0),
            squared=squared,
            bias_scale=scale,
        )


def _linear_entries(given: FittedModel) -> Iterator[Machine]:
    """Yield the machines with weights instead of the caps of the dual variables."""
    model, weights = given.model, given.weights
    if isinstance(model, LinearSVR):
        machine = _two_sides(given.targets(), weights)
        name = f"regression (eps={model.epsilon:g})"
        yield replace(machine, name=name, target=machine.target - model.epsilon)
        return
    labels, names = given.labels(), model.classes_.tolist()
    factor = _weights_of_classes(given)
    if len(names) == 2:
        sign = np.where(labels == 1, 1.0, -1.0)
        words = f"SVM, {names[1]!r} against {names[0]!r}"
        yield _margins(words, sign, weights * factor[labels])
        return
    for number, name in enumerate(names):
        own = labels == number
        # LIBLINEAR gives all other rows the weight 1, for any weights of their classes.
        scaled = weights * np.where(own, factor[number], 1.0)
        sign = np.where(own, 1.0, -1.0)
        yield _margins(f"SVM, {name!r} against the rest", sign, scaled)
