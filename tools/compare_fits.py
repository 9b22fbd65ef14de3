"""Show what a change of the code changed in fitted models.

Run from two checkouts, with the same interpreter and libraries::

    PYTHONPATH=OLD/src python tools/compare_fits.py save old.npz
    PYTHONPATH=NEW/src python tools/compare_fits.py save new.npz
    python tools/compare_fits.py compare old.npz new.npz

`save` makes the fits below (every estimator, place of the rows, kernel and method),
and stores their predictions, decision values and certificates. `compare` prints a line
for each fit: "same" (to the bit), "rounding" (within 1e-12 of the largest value), or
how far predictions and certificates lie apart, and whether the two certificates agree:
each primal value must lie above the other's dual value, as both bound one optimum. A
fit that one checkout cannot make (its parameters have other names) is named, not
compared.
"""

from __future__ import annotations

import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

N, D, N_NEW = 1_200, 4, 300
SAME, ROUNDING = 0.0, 1e-12
ANSWERS = ("predict", "decision_function", "transform")
NUMBERS = ("primal", "dual", "relative_gap", "converged")
PLACES = ("csr", "memmap", "parquet", "dask", "tensor")

rng = np.random.default_rng(7)
X = rng.normal(size=(N + N_NEW, D))
X[:, 3] *= rng.random(N + N_NEW) < 0.5  # zeros, for CSR
LABEL = np.where(X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=len(X)) > 0, 7, 2)
THREE = np.digitize(X[:, 0], [-0.5, 0.5])
NUMBER = np.sin(X[:, 0]) + 0.1 * rng.normal(size=len(X))
QUERY = np.repeat(np.arange(N // 20), 20)
NEW = X[N:]
X, LABEL, THREE, NUMBER = X[:N], LABEL[:N], THREE[:N], NUMBER[:N]


def methods() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield a name and a fit for every estimator and method."""
    import corevec as cv

    published = {"init": "opposite", "sampling": 59, "ball_epsilon": 1e-3}
    core = {"weights": "core", "low_rank": False}
    fits: dict[str, tuple[str, dict[str, Any], Any]] = {
        "classifier": ("CoreVectorClassifier", {"gamma": 0.3}, LABEL),
        "classifier, three classes": (
            "CoreVectorClassifier",
            {"gamma": 0.3, "multi_class": "ovo"},
            THREE,
        ),
        "classifier, core set": (
            "CoreVectorClassifier",
            dict(C=10.0, gamma=0.3, **core),
            LABEL,
        ),
        "classifier, low rank": (
            "CoreVectorClassifier",
            {"C": 10.0, "gamma": 1e-3, "low_rank": True},
            LABEL,
        ),
        "classifier, all rows": (
            "CoreVectorClassifier",
            {"gamma": 0.3, "weights": "all"},
            LABEL,
        ),
        "classifier, ball_epsilon": (
            "CoreVectorClassifier",
            {"gamma": 0.3, "ball_epsilon": 1e-2},
            LABEL,
        ),
        "classifier, as published": (
            "CoreVectorClassifier",
            dict(gamma=0.3, **published),
            LABEL,
        ),
        "classifier, cells": (
            "CoreVectorClassifier",
            {"gamma": 0.3, "cells": 300},
            LABEL,
        ),
        "classifier, two trees": (
            "CoreVectorClassifier",
            {"gamma": 0.3, "cells": 300, "n_trees": 2},
            LABEL,
        ),
        "classifier, balanced": (
            "CoreVectorClassifier",
            dict(gamma=0.3, class_weight="balanced", multi_class="ovo", **core),
            THREE,
        ),
        "classifier, one against the rest": (
            "CoreVectorClassifier",
            dict(gamma=0.3, multi_class="ovr", **core),
            THREE,
        ),
        "regressor": ("CoreVectorRegressor", {"C": 1.0, "gamma": 0.3}, NUMBER),
        "regressor, core set, tube": (
            "CoreVectorRegressor",
            dict(C=1.0, gamma=0.3, tube=0.1, **core),
            NUMBER,
        ),
        "regressor, core set, automatic tube": (
            "CoreVectorRegressor",
            dict(C=1.0, gamma=0.3, mu=1.0, **core),
            NUMBER,
        ),
        "regressor, published tube": (
            "CoreVectorRegressor",
            dict(C=1.0, gamma=0.3, tube="paper", **core),
            NUMBER,
        ),
        "regressor, cells": (
            "CoreVectorRegressor",
            {"C": 1.0, "gamma": 0.3, "cells": 300},
            NUMBER,
        ),
        "one class": ("CoreVectorOneClass", {"C": 0.1, "gamma": 0.3}, None),
        "one class, share": ("CoreVectorOneClass", {"nu": 0.05, "gamma": 0.3}, None),
        "hard ball": ("SVDD", {"kernel": "linear"}, None),
        "soft ball": ("SVDD", {"C": 1e-2, "gamma": 0.3}, None),
        "ranker": ("CoreVectorRanker", {"gamma": 0.3}, "query"),
        "stream, linear": ("StreamingBallClassifier", {}, LABEL),
        "stream, kernel": (
            "StreamingBallClassifier",
            {"kernel": "rbf", "gamma": 0.3, "budget": 50},
            LABEL,
        ),
        "stream, one class": ("StreamingOneClass", {}, None),
        "structural": ("StructuralSVM", {}, THREE),
        "subspace, pursuit": (
            "SubspaceClassifier",
            {"n_basis": 20, "gamma": 0.3},
            LABEL,
        ),
        "subspace, train": (
            "SubspaceClassifier",
            {"n_basis": 20, "basis": "train", "loss": "hinge", "gamma": 0.3},
            LABEL,
        ),
        "subspace, hinge": (
            "SubspaceClassifier",
            {"n_basis": 10, "loss": "hinge", "gamma": 0.3},
            LABEL,
        ),
        "subspace, Cholesky": (
            "SubspaceClassifier",
            {"n_basis": 50, "basis": "cholesky", "gamma": 0.3},
            THREE,
        ),
        "subspace, Nystroem": (
            "SubspaceClassifier",
            {"n_basis": 50, "basis": "nystroem", "gamma": 0.3},
            LABEL,
        ),
        "subspace regressor": (
            "SubspaceRegressor",
            {"n_basis": 20, "gamma": 0.3},
            NUMBER,
        ),
        "features": ("CoreSetNystroem", {"n_components": 40, "gamma": 0.3}, LABEL),
    }
    for name, (estimator, parameters, target) in fits.items():
        yield name, lambda e=estimator, p=parameters, t=target: fit(cv, e, p, X, t)
    shorter = ("CoreVectorClassifier", dict(C=10.0, gamma=0.3, **core), X, LABEL)
    yield "compressed", lambda: cv.compress(fit(cv, *shorter), 20, random_state=0)


def kernels() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield a fit by core vectors for every kernel."""
    import corevec as cv

    given: dict[str, dict[str, Any]] = {
        "linear": {"kernel": "linear"},
        "poly": {"kernel": "poly", "degree": 2, "coef0": 1.0, "gamma": 0.3},
        "sigmoid": {"kernel": "sigmoid", "gamma": 0.01, "coef0": -1.0},
        "laplacian": {"kernel": "laplacian", "gamma": 0.3},
        "rbf, scaled columns": {"kernel": "rbf", "gamma": "scale"},
        "function": {"kernel": lambda a, b: (1.0 + 0.3 * a @ b.T) ** 2},
    }
    for name, parameters in given.items():
        settled = dict(weights="core", low_rank=False, **parameters)
        yield (
            f"kernel {name}",
            lambda p=settled: fit(cv, "CoreVectorClassifier", p, X, LABEL),
        )


def places(folder: Path) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield two fits for every place where rows can lie."""
    import corevec as cv

    chosen = {
        "core set": ("CoreVectorClassifier", {"weights": "core", "low_rank": False}),
        "low rank": ("CoreVectorClassifier", {"gamma": 1e-3, "low_rank": True}),
    }
    for where in PLACES:
        for method, (estimator, parameters) in chosen.items():

            def made(w=where, e=estimator, p=parameters) -> Any:
                rows, target = placed(w, folder)
                return fit(cv, e, {"gamma": 0.3, "C": 10.0, **p}, rows, target)

            yield f"{where}, {method}", made


def placed(where: str, folder: Path) -> tuple[Any, Any]:
    """Return the rows and labels of one place."""
    import corevec as cv

    if where == "csr":
        return sparse.csr_matrix(X), LABEL
    if where == "memmap":
        np.save(folder / "X.npy", X)
        return np.load(folder / "X.npy", mmap_mode="r"), LABEL
    if where == "dask":
        import dask.array as da

        return da.from_array(X, chunks=(317, D)), da.from_array(LABEL, chunks=300)
    if where == "tensor":
        import torch

        return torch.as_tensor(X), LABEL
    import pyarrow
    from pyarrow import parquet

    table = {f"x{j}": X[:, j] for j in range(D)} | {"y": LABEL}
    path = folder / "rows.parquet"
    parquet.write_table(pyarrow.table(table), path, row_group_size=500)
    return cv.open(path, target="y"), None


def files() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield the model files of earlier versions, which must load and predict alike."""
    from corevec.formats import load

    for path in sorted(Path(__file__).parents[1].glob("tests/files/*.npz")):
        yield f"file {path.stem}", lambda p=path: load(p)


def fit(
    cv: Any, estimator: str, parameters: dict[str, Any], rows: Any, target: Any = None
) -> Any:
    """Return a fitted estimator; seeds are fixed where it takes one."""
    estimator, parameters = as_named_now(cv, estimator, parameters)
    model = getattr(cv, estimator)(**parameters)
    if "random_state" in model.get_params():
        model.set_params(random_state=0)
    if isinstance(target, str):
        return model.fit(rows, NUMBER, qid=QUERY)
    return model.fit(rows) if target is None else model.fit(rows, target)


def as_named_now(
    cv: Any, estimator: str, parameters: dict[str, Any]
) -> tuple[str, dict[str, Any]]:
    """Return a fit of the list in the words of the checkout.

    The list has the parameters of before ``method=``, where a checkout has that.
    """
    if not hasattr(cv, "methods"):
        return estimator, parameters
    given, methods = dict(parameters), cv.methods
    paper = ("sampling", "init", "ball_epsilon")
    if estimator.startswith("Subspace"):
        estimator = estimator.replace("Subspace", "CoreVector")
        if estimator == "CoreVectorRegressor":
            given = {"C": 1.0, "tube": 0.0, **given}
        basis = given.pop("basis", "pursuit")
        given["method"] = methods.FewVectors(given.pop("n_basis"), basis=basis)
    elif "cells" in given:
        n_trees = given.pop("n_trees", 1)
        given["method"] = methods.Cells(given.pop("cells"), n_trees=n_trees)
    elif "ball_epsilon" in given:
        own = {name: given.pop(name) for name in paper if name in given}
        given["method"] = methods.CoreSet(**own)
    elif given.pop("low_rank", False):
        given["method"] = methods.LowRank()
    elif weights := given.pop("weights", None):
        core = methods.CoreSet()
        all_rows = methods.FewVectors(basis="coreset")
        given["method"] = core if weights == "core" else all_rows
    return estimator, given


def answers(model: Any) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the predictions and the numbers of the certificate."""
    last = model[-1] if hasattr(model, "steps") else model
    rows = NEW[:, : model.n_features_in_]
    for name in ANSWERS:
        if hasattr(model, name):
            yield name, np.asarray(getattr(model, name)(rows))
    certificate = getattr(last, "certificate_", None)
    if certificate is not None:
        each = certificate.parts or (certificate,)
        yield (
            "certificate",
            np.array([[float(getattr(c, name)) for name in NUMBERS] for c in each]),
        )
    named = [n for n in ("support_vectors_", "basis_vectors_") if hasattr(last, n)]
    vectors = getattr(last, named[0]) if named else None
    yield "vectors", np.array(0 if vectors is None else vectors.shape[0])


def save(path: str) -> None:
    """Make every fit, and store what it answers."""
    warnings.simplefilter("ignore")
    found: dict[str, np.ndarray] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, made in (*methods(), *kernels(), *places(Path(folder)), *files()):
            try:
                model = made()
            except Exception as error:
                found[f"{name}|refused"] = np.array(str(error)[:200])
                continue
            found |= {f"{name}|{key}": value for key, value in answers(model)}
            print(name, flush=True)
    np.savez(path, **found)  # type: ignore[arg-type]


def compare(old_path: str, new_path: str) -> None:
    """Print what differs."""
    old, new = np.load(old_path), np.load(new_path)
    names = dict.fromkeys(key.partition("|")[0] for key in (*old, *new))
    verdicts = [verdict(name, old, new) for name in names]
    for name, text in zip(names, verdicts, strict=True):
        print(f"{name:<38}{text}")
    for word in ("same", "rounding", "differs", "refused"):
        print(f"{word}: {sum(text.startswith(word) for text in verdicts)}", end="  ")
    print()


def verdict(name: str, old: Any, new: Any) -> str:
    """Return how far two fits of one name lie apart, in words."""
    for side, answered in (("before", old), ("after", new)):
        if f"{name}|refused" in answered:
            return f"refused {side}: {answered[f'{name}|refused']}"
    keys = [key for key in old if key.startswith(f"{name}|")]
    if any(key not in new for key in keys):
        return "refused: not made by both"
    if all(is_same(old[key], new[key]) for key in keys):
        return "same"
    worst = max(distance(old[key], new[key]) for key in keys if "predict" not in key)
    if worst <= ROUNDING:
        return f"rounding {worst:.1e}"
    return "differs: " + "; ".join(differences(name, old, new))


def is_same(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two arrays hold the same values, to the bit."""
    return a.dtype == b.dtype and np.array_equal(a, b, equal_nan=a.dtype.kind == "f")


def distance(a: np.ndarray, b: np.ndarray) -> float:
    """Return the largest difference, relative to the largest value."""
    if a.shape != b.shape:
        return float("inf")
    a, b = a.astype(float), b.astype(float)
    scale = np.nanmax(np.abs(a), initial=0.0) or 1.0
    return float(np.nanmax(np.abs(a - b), initial=0.0) / scale)


def differences(name: str, old: Any, new: Any) -> Iterator[str]:
    """Yield what is known about two fits that are not alike."""
    for key in ("decision_function", "predict", "transform"):
        full = f"{name}|{key}"
        if full in old and old[full].shape == new[full].shape:
            unlike = float(np.mean(old[full] != new[full]))
            if key == "predict" and old[full].dtype.kind not in "f":
                yield f"{unlike:.1%} of labels"
            else:
                yield f"{key} {distance(old[full], new[full]):.1e}"
    full = f"{name}|certificate"
    if full in old:
        was, found = old[full].T, new[full].T  # columns: one problem each
        slack = 1e-9 * np.maximum(np.abs(was[0]), np.abs(found[0]))
        agree = (was[0] >= found[1] - slack) & (found[0] >= was[1] - slack)
        gaps = f"{was[2].max():.1e} -> {found[2].max():.1e}"
        yield f"gap {gaps}, bounds {'agree' if agree.all() else 'CLASH'}"
    yield f"vectors {old[f'{name}|vectors']} -> {new[f'{name}|vectors']}"


if __name__ == "__main__":
    if sys.argv[1:2] == ["save"] and len(sys.argv) == 3:
        save(sys.argv[2])
    elif sys.argv[1:2] == ["compare"] and len(sys.argv) == 4:
        compare(sys.argv[2], sys.argv[3])
    else:
        raise SystemExit(__doc__)
