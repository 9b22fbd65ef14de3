"""Cells, one class and few vectors, on the card and on the CPU's cores.

Files come from $COREVEC_DATA (`python -m benchmarks.gpu_data FOLDER` fills it). On the
card rows are tensors. What all rows decide is in `gpu_exact`.
"""

import numpy as np
import torch
from sklearn.base import clone

from benchmarks.datasets import load
from benchmarks.gpu_sheet import CPU_SECONDS, DEVICE, SMALL, blocks, fits
from corevec import CoreVectorClassifier, CoreVectorOneClass, methods

SEED = {"random_state": 0}
# Kernel values of 60,000 rows and 4000 vectors are 1.9 GB in float64: both places may
# keep them.
ROOMY = {"memory_budget": 2**34}
MNIST = {"C": 10.0, "gamma": 0.025} | SEED | ROOMY
WARM_UP = 2_000


def cases():
    """Yield every set; the dearest last."""
    local = CoreVectorClassifier(C=25.0, gamma=40.0, method="cells", **SEED)
    yield "covtype", on("covtype", local, "covtype, cells of 1000")
    yield "one class", one_class
    for k in (50,) if SMALL else (1000, 4000):
        model = CoreVectorClassifier(method=methods.FewVectors(k), **MNIST)
        few = {"repeats": 1, "first": False} if k == 4000 else {}  # compiled by then
        yield "mnist", on("mnist10", model, f"mnist, 10 classes, {k} vectors", **few)


def on(dataset, model, name, **few):
    """Return the case of one data set."""

    def case(sheet):
        data = load(dataset, {"n": WARM_UP} if SMALL else {})
        train, test = (data.X_train, data.y_train), (data.X_test, data.y_test)
        both_places(sheet, name, model, train, test, **few)

    return case


def both_places(sheet, name, model, train, test, repeats=2, first=True):
    """Fit on the card, then here, after some rows of each to compile."""
    rows, new = _moved(train), _moved(test)

    def error(one, X=new[0]):
        return np.mean(_here(one.predict(X)) != test[1])

    options = {"repeats": repeats, "first": first, "error": error}
    fits(sheet, name, model, rows, "gpu", **options)
    near = clone(model).set_params(max_time=CPU_SECONDS)
    if sheet.left > 0:
        fits(sheet, f"{name}, warm-up", near, [a[:WARM_UP] for a in train], "cpu16")
        own = {"error": lambda one: error(one, test[0])}
        fits(sheet, name, near, train, "cpu16", **own)


def _moved(arrays):
    return [torch.as_tensor(np.ascontiguousarray(a), device=DEVICE) for a in arrays]


def _here(a):
    return a.cpu().numpy() if isinstance(a, torch.Tensor) else a


def one_class(sheet):
    """Gaussian rows in ten columns: 100 million there, one million here."""
    n, few = (20_000, 5_000) if SMALL else (10**8, 10**6)
    torch.manual_seed(0)
    X = torch.empty((n, 10), device=DEVICE)
    for part in blocks(n):
        X[part].normal_()
    model = CoreVectorOneClass(C=10.0, gamma=0.05, **SEED)

    def outliers(one, rows):
        return float((one.predict(rows) == -1).sum()) / len(rows)

    near = X[:few].cpu().numpy()
    options = {"repeats": 2, "first": True, "note": "error: share of outliers"}
    case = "one class, 10 columns"
    fits(
        sheet, case, model, [X], "gpu", error=lambda m: outliers(m, X[:few]), **options
    )
    model.set_params(max_time=CPU_SECONDS)
    if sheet.left > 0:
        options |= {"repeats": 1, "error": lambda m: outliers(m, near)}
        fits(sheet, case, model, [near], "cpu16", **options)
