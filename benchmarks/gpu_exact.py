"""The exact machine on the card: covtype whole, a regression and outliers of millions.

Files come from $COREVEC_DATA (`python -m benchmarks.gpu_data FOLDER` fills it). Columns
of covtype are in [0, 1]; gamma = 32 and C = 10 as in the issue, gamma = 100 as in the
table of design.md 1.5.
"""

import numpy as np
import torch

from benchmarks.datasets import load
from benchmarks.gpu_sets import _here, _moved
from benchmarks.gpu_sheet import DEVICE, SMALL, blocks, fits
from corevec import CoreVectorClassifier, CoreVectorOneClass, CoreVectorRegressor
from corevec.svm import SVC

SEED = {"random_state": 0, "max_time": 120.0}
FEW = 20_000


def cases():
    """Yield every set; the most expensive last."""
    for gamma in (32.0, 100.0):
        model = CoreVectorClassifier(C=10.0, gamma=gamma, **SEED)
        yield f"covtype, gamma {gamma:g}", classes("covtype", model)
    yield "friedman", friedman
    yield "one class", one_class
    for name in ("adult", "ijcnn1", "mnist10"):
        yield name, classes(name, CoreVectorClassifier(**SEED))
    for name in ("adult", "mnist10"):
        yield f"SVC, {name}", classes(name, SVC(device=str(DEVICE), max_time=120.0))
    model = CoreVectorClassifier(C=10.0, gamma=32.0, **SEED)
    yield "covtype, seven classes", classes("covtype7", model)


def classes(dataset, model):
    """Return the case of one data set: some rows first, to compile."""

    def case(sheet):
        data = load(dataset, {"n": FEW} if SMALL else {})
        X = data.X_train.toarray() if hasattr(data.X_train, "indptr") else data.X_train
        X_test = data.X_test
        X_test = X_test.toarray() if hasattr(X_test, "indptr") else X_test
        train, new = (X, data.y_train), X_test
        if not isinstance(model, SVC):  # it takes arrays in memory, and copies them
            train, new = _moved(train), _moved((new,))[0]

        def error(one):
            return np.mean(_here(one.predict(new)) != data.y_test)

        fits(sheet, f"{dataset}, warm-up", model, [a[:FEW] for a in train], "gpu")
        name = sheet_name(dataset, model)
        found = fits(sheet, name, model, train, "gpu", error=error)
        print_history(found)

    return case


def sheet_name(dataset, model):
    """Return the set with the parameters that are not the defaults."""
    return f"{type(model).__name__}, {dataset}, C {model.C:g}, gamma {model.gamma}"


def print_history(model):
    """Print when each round ended, and its gap."""
    for row in getattr(model, "history_", []):
        known = {name: row[name] for name in ("round", "seconds", "gap", "core")}
        print("   ", known, flush=True)


def friedman(sheet):
    """A million rows of Friedman's function with noise of 1, default parameters."""
    n, few = (FEW, 5_000) if SMALL else (10**6, 10**5)
    torch.manual_seed(0)
    X = torch.rand((n + few, 10), device=DEVICE)
    waves = 10 * torch.sin(torch.pi * X[:, 0] * X[:, 1])
    y = waves + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3] + 5 * X[:, 4]
    y += torch.randn_like(y)
    model = CoreVectorRegressor(**SEED)

    def error(one):
        wrong = _here(one.predict(X[n:])) - _here(y[n:])
        return float(np.sqrt(np.mean(wrong.astype(np.float64) ** 2)))

    fits(sheet, "friedman, warm-up", model, (X[:FEW], y[:FEW]), "gpu")
    print_history(fits(sheet, "friedman", model, (X[:n], y[:n]), "gpu", error=error))


def one_class(sheet):
    """Ten million Gaussian rows in ten columns, default parameters."""
    n = FEW if SMALL else 10**7
    torch.manual_seed(0)
    X = torch.empty((n, 10), device=DEVICE)
    for part in blocks(n):
        X[part].normal_()
    model = CoreVectorOneClass(**SEED)

    def outliers(one):
        return float((one.predict(X[:FEW]) == -1).sum()) / FEW

    fits(sheet, "one class, warm-up", model, [X[:FEW]], "gpu")
    note = "error: share of outliers"
    fits(sheet, "one class", model, [X], "gpu", error=outliers, note=note)
