"""What a fitted model claims, against the evaluator."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations

import numpy as np
from scipy import sparse
from sklearn import svm

from torture import evaluator as ev

LD = ev.LD


@dataclass(frozen=True)
class Claim:
    """A certificate's primal and dual value, and the function that it is about."""

    task: ev.Task
    function: ev.Function
    primal: float
    dual: float
    gap: float
    at_best_multiple: bool = False
    # Returns coefficients of a low value, from the matrix of all rows; or `ev.solve`.
    witness: Callable[[np.ndarray], np.ndarray] | None = None
    # What eigenvalues below 0 that count as rounding may take off the optimum.
    allowance: float = 0.0


@dataclass(frozen=True)
class Verdict:
    """How a claim stands: the first words of what is wrong, or an empty text."""

    wrong: str
    bracket: float  # relative width of the evaluator's own knowledge of the optimum


def judge(claim, candidates):
    """Return the verdict of a claim, given candidates (functions) for the optimum."""
    own = ev.primal(claim.task, claim.function)
    if claim.at_best_multiple:
        own = min(
            (ev.primal(claim.task, claim.function.times(a)) for a in _multiples(claim)),
            key=lambda value: value.value,
        )
    values = [ev.primal(claim.task, one) for one in candidates]
    zero = ev.Function(0 * claim.function.f, LD(0), 0.0, 0.0)
    values.append(ev.primal(claim.task, zero))
    best = min(value.most for value in values)
    return verdict(claim, own, min(best, own.most) + claim.allowance)


def verdict(claim, own, best):
    """Compare a claim with the value of its function and with an upper bound."""
    said = f"claimed P {claim.primal:.12g} D {claim.dual:.12g} gap {claim.gap:.3g}"
    size = max(abs(claim.primal), abs(claim.dual), 1e-300)
    bracket = (claim.primal - best) / size
    if not np.isfinite(claim.primal):
        return Verdict("", np.inf)
    if own.least > claim.primal and not np.isnan(own.least):
        off = (own.least - claim.primal) / size
        return Verdict(
            f"primal {own.value:.12g} is above by {off:.2e}: {said}", bracket
        )
    if claim.dual > best:
        off = (claim.dual - best) / size
        return Verdict(
            f"dual is above a primal {best:.12g} by {off:.2e}: {said}", bracket
        )
    true_gap = 0.0
    if np.isfinite(own.least) and np.isfinite(best):
        true_gap = (own.least - best) / size
    if claim.gap < true_gap:
        return Verdict(f"gap understated, true {true_gap:.3g}: {said}", bracket)
    return Verdict("", bracket)


def _multiples(claim):
    """Return multiples of f, near the best: the slope of a convex function is 0."""
    task, function = claim.task, claim.function
    margin = task.y * task.of_rows(function.f)
    curve = function.norm_sq + task.has_bias * function.bias**2

    def slope(t):
        return (
            t * curve - (task.omega * margin * np.clip(1 - t * margin, 0, None)).sum()
        )

    low, high = LD(0), LD(1)
    while slope(high) < 0 and high < 1e30:
        low, high = high, 2 * high
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if slope(middle) < 0 else (low, middle)
    return [LD(1), LD(0), low]


# --- reading fitted models, by the documented meaning of their attributes -------------


def dense(values):
    """Return rows of any place as a NumPy array."""
    if sparse.issparse(values):
        return values.toarray()
    values = values.detach().cpu().numpy() if hasattr(values, "detach") else values
    return np.asarray(values, dtype=float)


def functions_of(model, found, unit=ev.EPS):
    """Return the functions of a model, one per machine, and the Gram matrix."""
    X = found.X
    if found.kernel["kernel"] == "linear" and "Streaming" in type(model).__name__:
        yield from _linear_functions(model, X)
        return
    name = "basis_vectors_" if hasattr(model, "basis_vectors_") else "support_vectors_"
    vectors = dense(getattr(model, name))
    gram = ev.Gram.of(X, vectors, found.kernel)
    own = ev.Gram.of(vectors, vectors, found.kernel)
    coef = np.atleast_2d(dense(model.dual_coef_))
    bias = np.ravel(dense(model.intercept_)) if hasattr(model, "intercept_") else []
    for t, c in enumerate(coef):
        b0 = bias[t] if len(bias) > t else 0.0
        yield gram, own, c, b0


def _linear_functions(model, X):
    """Yield machines that keep a vector of weights as expansions over the columns."""
    weights, axes = np.atleast_2d(dense(model.coef_)), np.eye(X.shape[1])
    shape = {"kernel": "linear"}
    gram, own = ev.Gram.of(X, axes, shape), ev.Gram.of(axes, axes, shape)
    for w, b0 in zip(weights, np.ravel(dense(model.intercept_)), strict=True):
        yield gram, own, w, b0


def parts_of(certificate):
    return certificate.parts or (certificate,)


def weights_of(found):
    n = len(found.X)
    return np.ones(n) if found.weights is None else found.weights.astype(float)


def classifier_claims(
    model, found, certificate, *, is_hinge=False, multiple=False, free_bias=False
):
    """Yield a claim per machine of a classifier."""
    y, s = found.classes, weights_of(found)
    present = np.unique(y[s > 0])
    n_machines = len(parts_of(certificate))
    if len(present) == 2:
        pairs = [(present[1], present[0])]
    elif n_machines == len(present) and getattr(model, "multi_class", "ovr") == "ovr":
        pairs = [(one, None) for one in present]
    else:
        pairs = [(b, a) for a, b in combinations(present, 2)]
    multiple = multiple and len(pairs) == 1  # of several classes values are compared
    sides = list(
        zip(pairs, functions_of(model, found), parts_of(certificate), strict=True)
    )
    for (positive, negative), (gram, own, c, b0), part in sides:
        sign = np.where(y == positive, 1.0, -1.0)
        here = (sign > 0) | (negative is None) | (y == negative)
        bias = {"totals": (0.0,)} if free_bias else {"has_bias": True}
        task = ev.Task(
            sign, np.ones(len(y)), model.C * s * here, is_hinge=is_hinge, **bias
        )
        function = ev.Function.of(gram, own, c, 0.0 if free_bias else b0)
        witness = partial(_of_libsvm, svm.SVC(C=model.C), task, s * here)
        yield Claim(
            task,
            function,
            part.primal,
            part.dual,
            part.relative_gap,
            multiple,
            witness if free_bias else None,
        )


def one_class_claims(model, found, certificate, *, multiple=False):
    s = weights_of(found)
    (gram, own, c, _), *_ = functions_of(model, found)
    n = len(s)
    task = ev.Task(
        np.ones(n), np.ones(n), model.C_ * s if hasattr(model, "C_") else model.C * s
    )
    function = ev.Function.of(gram, own, c)
    part = certificate
    yield Claim(task, function, part.primal, part.dual, part.relative_gap, multiple)


def regressor_claims(model, found, certificate):
    """Yield the claim of a regressor, in units of the standardised target."""
    s, n = weights_of(found), len(found.X)
    mean, scale = np.ravel(model.target_mean_)[0], np.ravel(model.target_scale_)[0]
    z = (found.targets.astype(LD) - LD(mean)) / LD(scale)
    tube = model.tube
    e = LD(0) if isinstance(tube, str) else LD(tube) / LD(scale)
    price = model.C * model.mu * s.sum() if isinstance(tube, str) else 0.0
    floor = -np.inf if tube == "paper" else 0.0
    (gram, own, c, b0), *_ = functions_of(model, found)
    c = np.asarray(c, LD) / LD(scale)
    # The attributes are in the units of y: scaled and shifted in float64.
    function = ev.Function.of(gram, own, c, 0.0, unit=2 * ev.UNIT)
    b0 = (LD(b0) - LD(mean)) / LD(scale)
    shift = 2 * ev.UNIT * (abs(float(b0)) + 2 * abs(mean / scale))
    function = ev.Function(
        function.f + b0,
        function.norm_sq,
        function.f_error + shift,
        function.norm_error + 2 * shift * (abs(float(b0)) + shift),
        b0,
    )
    sign = np.repeat([1.0, -1.0], n)
    rounded = 4 * ev.UNIT * float(np.abs(z).max() + e)
    task = ev.Task(
        sign,
        sign.astype(LD) * np.tile(z, 2) - e,
        np.tile(model.C * s, 2),
        has_bias=True,
        price=price,
        floor=floor,
        p_error=rounded,
    )
    part = parts_of(certificate)[0]
    yield Claim(task, function, part.primal, part.dual, part.relative_gap)


def machine_claims(model, found, certificate):
    """Yield a claim per machine of `corevec.svm`, whose biases are free."""
    s, name = weights_of(found), type(model).__name__
    vectors = found.X[model.support_]
    gram = ev.Gram.of(found.X, vectors, found.kernel)
    own = ev.Gram.of(vectors, vectors, found.kernel)
    parts = parts_of(certificate)
    if name in ("SVC", "NuSVC"):
        machines = _pair_machines(model, found, s)
    else:
        machines = [(_task_of_one(model, found, s), dense(model.dual_coef_)[0], s)]
    for (task, coef, mass), part in zip(machines, parts, strict=True):
        unit = ev.EPS
        if name == "NuSVC":
            # The function was divided by the margin r; its multipliers had this sum.
            total = np.abs(coef).sum()
            coef = np.asarray(coef, ev.LD) * (
                2 * task.totals[0] / total if total else 1
            )
            unit = 4 * ev.UNIT
        function = ev.Function.of(gram, own, coef, unit=unit)
        witness = partial(_of_libsvm, model, task, mass)
        allowance = 0.0
        if found.kernel["kernel"] == "sigmoid":
            largest = float(np.abs(own.K).max(initial=0))
            allowance = 1e-9 * largest * float((coef**2).sum())
        gap, bounds = part.relative_gap, (part.primal, part.dual)
        terms = float(np.abs(own.K).max(initial=0) * np.abs(coef).sum() ** 2)
        if abs(part.primal) <= 1e-9 * terms:
            gap = np.inf  # within rounding of the terms it is relative to these
        yield Claim(task, function, *bounds, gap, False, witness, allowance)


def _task_of_one(model, found, s):
    n, name = len(s), type(model).__name__
    if name == "OneClassSVM":
        one = np.ones(n)
        return ev.Task(one, 0 * one, s, is_hinge=True, totals=(model.nu * s.sum(),))
    y = np.repeat([1.0, -1.0], n)
    p, omega = y.astype(LD) * np.tile(found.targets, 2), np.tile(model.C * s, 2)
    if name == "SVR":
        return ev.Task(y, p - LD(model.epsilon), omega, is_hinge=True, totals=(0.0,))
    half = model.C * model.nu * s.sum() / 2
    return ev.Task(y, p, omega, is_hinge=True, totals=(half, -half))


def _pair_machines(model, found, s):
    """Yield the task of each pair of classes, its coefficients, and its weights."""
    codes = found.classes[model.support_]
    dual, n_classes = dense(model.dual_coef_), len(model.classes_)
    for i, j in combinations(range(n_classes), 2):
        here = (found.classes == i) | (found.classes == j)
        y, mass = np.where(found.classes == i, 1.0, -1.0), s * here
        if n_classes == 2:
            coef = -dual[0]
        else:
            coef = np.where(codes == i, dual[j - 1], np.where(codes == j, dual[i], 0.0))
        if type(model).__name__ == "SVC":
            given = {"p": np.ones(len(y)), "omega": model.C * mass, "totals": (0.0,)}
        else:
            half = model.nu * mass.sum() / 2
            given = {"p": 0 * mass, "omega": mass, "totals": (half, -half)}
        yield ev.Task(y, **given, is_hinge=True), coef, mass


def _of_libsvm(model, task, mass, K):
    """Return the coefficients of scikit-learn's machine, which is LIBSVM's."""
    name, here = type(model).__name__, np.flatnonzero(mass > 0)
    n, params = len(mass), model.get_params()
    given = {word: params[word] for word in ("C", "nu", "epsilon") if word in params}
    theirs = getattr(svm, name)(
        kernel="precomputed", tol=1e-9, max_iter=100_000, **given
    )
    y = task.y[:n] * (np.asarray(task.p[:n], float) + given.get("epsilon", 0.0))
    labels = None if name == "OneClassSVM" else y[here]
    if name in ("SVC", "NuSVC"):
        labels = task.y[here]
    coef = np.zeros(n)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            theirs.fit(K[np.ix_(here, here)], labels, sample_weight=mass[here])
        except ValueError:  # of weights or values it cannot take
            return coef
    coef[here[theirs.support_]] = theirs.dual_coef_[0]
    if name == "NuSVC":
        total = np.abs(coef).sum()
        coef *= 2 * task.totals[0] / total if total else 1.0
    return coef


def ranker_claims(model, found, certificate):
    """Yield the claim of a ranker, over every pair written out."""
    y, q, s = found.targets, found.groups, weights_of(found)
    i, j = np.nonzero((q[:, None] == q[None, :]) & (y[:, None] > y[None, :]))
    here = s[i] * s[j] > 0
    i, j = i[here], j[here]
    c = s[i] * s[j]
    if model.pair_weight == "query":
        mass = np.bincount(q[i], c, minlength=q.max() + 1)
        c = c / mass[q[i]]
        c = c * s[np.isin(q, q[i])].sum() / len(np.unique(q[i]))
    rows = np.zeros((len(i), len(y)))
    rows[np.arange(len(i)), i], rows[np.arange(len(i)), j] = 1.0, -1.0
    m = len(i)
    task = ev.Task(np.ones(m), np.ones(m), model.C * c, rows=rows)
    (gram, own, coef, _), *_ = functions_of(model, found)
    function = ev.Function.of(gram, own, coef)
    yield Claim(
        task, function, certificate.primal, certificate.dual, certificate.relative_gap
    )


def candidates_for(claim, found):
    """Return independently found functions of low value for the task of a claim."""
    gram = ev.Gram.of(found.X, found.X, found.kernel)
    if claim.witness is not None:
        coef, bias = claim.witness(gram.K.astype(float)), 0.0
    else:
        find = ev.solve_hinge if claim.task.is_hinge else ev.solve
        coef, bias = find(claim.task, gram.K)
    if not np.isfinite(coef).all():
        return []
    one = ev.Function.of(gram, gram, coef, bias)
    if found.kernel["kernel"] == "sigmoid":
        # Eigenvalues above -1e-9 of the largest value count as rounding.
        size = float(np.abs(gram.K).max()) * float((coef**2).sum())
        one = replace(one, norm_error=one.norm_error + 1e-9 * size)
    return [one]


def judge_ball(model, found, certificate):
    """Return the verdict about a ball: its radius and its slack."""
    s, C = weights_of(found), model.C
    (gram, own, c, _), *_ = functions_of(model, found)
    square = ev.Gram.of(found.X, found.X, found.kernel)

    def value(gram, own, coef):
        one = ev.Function.of(gram, own, coef)
        d_sq = np.diag(square.K) - 2 * one.f + one.norm_sq
        error = square.error + 2 * one.f_error + one.norm_error
        return ev.ball_value(d_sq, error, C, s)

    gap = certificate.relative_gap
    if certificate.primal <= 1e-9 * float(np.abs(np.diag(square.K)).max()):
        gap = np.inf  # within rounding of the terms it is relative to these
    claim = Claim(None, None, certificate.primal, certificate.dual, gap)
    others = [
        value(square, square, a)
        for a in ev.solve_ball(square.K, C, s)
        if np.isfinite(a).all()
    ]
    best = value(gram, own, c)
    return verdict(claim, best, min(one.most for one in (best, *others)))
