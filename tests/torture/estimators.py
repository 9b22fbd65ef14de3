"""One random estimator: how it is made, fitted and judged."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import corevec
from corevec import methods, svm
from torture import judge


@dataclass
class Trial:
    """An estimator with parameters, the target it takes and the judge of its claims."""

    model: Any
    fit: Callable[[Any, Any], Any]  # of the model and the rows in their place
    claims: Callable[..., Any] | None
    task: str
    options: dict[str, Any]


def penalty(rng):
    return float(10.0 ** rng.uniform(-6, 8))


def common(rng, cls, found):
    """Return parameters that estimators share, those that this one has."""
    drawn = {
        **found.kernel,
        "tol": float(rng.choice([1e-1, 1e-2, 1e-3, 1e-3, 1e-6, 1e-10])),
        "max_time": 20.0,
        "n_jobs": 1,
        "random_state": int(rng.integers(100)),
    }
    chosen = rng.random()
    if chosen < 0.1:
        drawn["method"] = methods.CoreSet()
    elif chosen < 0.2:
        drawn["method"] = methods.CoreSet(max_vectors=int(rng.integers(2, 30)))
    elif chosen < 0.25:
        drawn["method"] = methods.CoreSet(qp="newton")
    if cls is corevec.CoreVectorRanker:
        drawn.pop("method", None)
    if rng.random() < 0.1:
        drawn["max_iter"] = int(rng.integers(1, 6))
    has = inspect.signature(cls).parameters
    return {name: value for name, value in drawn.items() if name in has}


def classifier(rng, found):
    cls = corevec.CoreVectorClassifier
    form = str(rng.choice(["auto", "ovr", "ovo"]))
    model = cls(C=penalty(rng), multi_class=form, **common(rng, cls, found))
    return Trial(
        model, _with(found.classes, found), judge.classifier_claims, "rows", {}
    )


def regressor(rng, found):
    cls = corevec.CoreVectorRegressor
    deviation = float(np.std(found.targets)) or 1.0
    tube = rng.choice(["auto", "auto", "paper", "zero", "some", "wide"])
    width = {"zero": 0.0, "some": 0.3 * deviation, "wide": 10 * deviation}
    model = cls(
        C=penalty(rng),
        mu=float(10.0 ** rng.uniform(-3, 1)),
        tube=width.get(str(tube), str(tube)),
        **common(rng, cls, found),
    )
    return Trial(model, _with(found.targets, found), judge.regressor_claims, "rows", {})


def one_class(rng, found):
    cls = corevec.CoreVectorOneClass
    given = {"C": penalty(rng)}
    if rng.random() < 0.3:
        given = {"nu": float(rng.uniform(0.01, 0.9))}
    model = cls(**given, **common(rng, cls, found))
    return Trial(model, _with(None, found), judge.one_class_claims, "rows", {})


def ball(rng, found):
    cls = corevec.SVDD
    C = np.inf if rng.random() < 0.4 else penalty(rng)
    model = cls(C=C, **common(rng, cls, found))
    return Trial(model, _with(None, found), None, "ball", {})


def ranker(rng, found):
    cls = corevec.CoreVectorRanker
    how = str(rng.choice(["query", "uniform"]))
    model = cls(C=penalty(rng), pair_weight=how, **common(rng, cls, found))
    if found.place == "dask":
        found.place = "C"  # the rows of a query may lie in several partitions

    def fit(model, X):
        return model.fit(
            X, found.targets, sample_weight=found.weights, qid=found.groups
        )

    return Trial(model, fit, judge.ranker_claims, "rows", {})


def machine(rng, found):
    """Return one of the five machines of `corevec.svm`."""
    name = str(rng.choice(["SVC", "NuSVC", "SVR", "NuSVR", "OneClassSVM"]))
    cls = getattr(svm, name)
    deviation = float(np.std(found.targets)) or 1.0
    own = {
        "C": penalty(rng),
        "nu": float(rng.uniform(0.01, 0.9)),
        "epsilon": deviation * float(rng.choice([0.0, 0.1, 0.1, 10.0])),
        "max_iter": int(rng.choice([-1, -1, -1, -1, 1, 20])),
    }
    has = inspect.signature(cls).parameters
    own = {name: value for name, value in own.items() if name in has}
    given = common(rng, cls, found) | own
    given["max_time"] = 10.0
    if found.place == "dask":
        found.place = "C"  # scikit-learn's classes take arrays
    y = None if name == "OneClassSVM" else found.targets
    y = found.classes if name in ("SVC", "NuSVC") else y
    return Trial(cls(**given), _with(y, found), judge.machine_claims, "violation", {})


def hinge(rng, found):
    """Return a classifier with the problem of SVC, stopped by the gap."""
    cls = corevec.CoreVectorClassifier
    given = common(rng, cls, found)
    given |= {"method": str(rng.choice(["auto", "exact"])), "loss": "hinge"}
    given.pop("max_iter", None)
    model = cls(C=penalty(rng), multi_class="ovo", **given)
    how = {"is_hinge": True, "free_bias": True}
    return Trial(
        model, _with(found.classes, found), judge.classifier_claims, "rows", how
    )


def by_method(rng, found):
    """Return an estimator solved by one of the other methods."""
    name = str(rng.choice(["Exact", "LowRank", "Sample", "Cells"]))
    made = {
        "Exact": methods.Exact,
        "LowRank": methods.LowRank,
        "Sample": lambda: methods.Sample(int(rng.integers(4, 60))),
        "Cells": lambda: methods.Cells(int(rng.integers(10, 60))),
    }[name]
    make = [classifier, regressor, one_class, ball][int(rng.integers(4))]
    if name == "Cells" and make is ball:
        make = classifier
    trial = make(rng, found)
    trial.model.set_params(method=made())
    if name == "Cells":  # each cell has a problem of its own
        trial.task = "none"
    return trial


def few_vectors(rng, found):
    cls = corevec.CoreVectorClassifier
    loss = str(rng.choice(["squared_hinge", "squared_hinge", "hinge"]))
    bases = ["train", "nystroem", "kmeans", "rpcholesky", "cholesky"]
    if found.kernel["kernel"] == "rbf":
        bases.append("pursuit")
    few = methods.FewVectors(int(rng.integers(1, 12)), basis=str(rng.choice(bases)))
    given = common(rng, cls, found) | {"method": few, "loss": loss}
    given["multi_class"] = "ovr"  # these machines share their vectors
    model = cls(C=penalty(rng), **given)
    how = {"is_hinge": loss == "hinge"}
    return Trial(
        model, _with(found.classes, found), judge.classifier_claims, "rows", how
    )


def few_vectors_regressor(rng, found):
    cls = corevec.CoreVectorRegressor
    few = methods.FewVectors(int(rng.integers(1, 12)), basis="nystroem")
    given = common(rng, cls, found) | {"method": few, "tube": 0.0}
    model = cls(C=penalty(rng), **given)
    return Trial(model, _with(found.targets, found), judge.regressor_claims, "rows", {})


def stream(rng, found):
    """Return a machine of one pass, judged by what `certify` says of it."""
    cls = corevec.StreamingBallClassifier
    model = cls(
        C=penalty(rng), budget=int(rng.integers(2, 40)), **common(rng, cls, found)
    )
    return Trial(
        model,
        _with(found.classes, found),
        judge.classifier_claims,
        "certify",
        {"multiple": True},
    )


def structural(rng, found):
    """Return a machine whose problem is not that of the evaluator: no claims."""
    cls = corevec.StructuralSVM
    given = common(rng, cls, found)
    given["max_time"] = 3.0
    model = cls(C=penalty(rng), **given)
    return Trial(model, _with(found.classes, found), None, "none", {})


def _with(y, found):
    def fit(model, X):
        more = {} if found.weights is None else {"sample_weight": found.weights}
        if y is None:
            return model.fit(X, **more)
        return model.fit(X, np.ascontiguousarray(y), **more)

    return fit


KINDS = {
    "CoreVectorClassifier": (classifier, 5),
    "CoreVectorRegressor": (regressor, 4),
    "CoreVectorOneClass": (one_class, 3),
    "SVDD": (ball, 3),
    "CoreVectorRanker": (ranker, 1),
    "few vectors": (few_vectors, 2),
    "few vectors, regression": (few_vectors_regressor, 1),
    "corevec.svm": (machine, 5),
    "hinge": (hinge, 1),
    "by method": (by_method, 2),
    "StreamingBallClassifier": (stream, 1),
    "StructuralSVM": (structural, 0.3),
}


def trial(rng, found, only=()):
    """Return a random trial of one of the estimators."""
    names = [name for name in KINDS if not only or name in only]
    share = np.array([KINDS[name][1] for name in names], dtype=float)
    name = str(rng.choice(names, p=share / share.sum()))
    return KINDS[name][0](rng, found)
