"""Every estimator on the card and on the CPU: the same optimum, the same certificate.

Each bound holds for the other model: the dual value of one is below the primal of the
other. `certify` of the CPU's model, on rows here and on rows there, is the same number.
A line's `error` is the largest difference of what the two models predict.
"""

import numpy as np
import torch

from benchmarks.gpu_sheet import DEVICE, SMALL, fits
from corevec import (
    SVDD,
    CoreVectorClassifier,
    CoreVectorOneClass,
    CoreVectorRegressor,
    certify,
    methods,
)

N = 3_000 if SMALL else 20_000
SEED = {"random_state": 0}
# Rounding of sums over all rows, which are in float64 for rows of either precision.
ROUNDING = 1e-9


def data():
    """Return rows in two columns, and every kind of target."""
    rng = np.random.default_rng(0)
    # Numbers of float32, so that both precisions have the same rows.
    X = rng.uniform(-2, 2, (N, 2)).astype(np.float32).astype(np.float64)
    return {
        "X": X,
        "two": (np.floor(X).sum(axis=1) % 2).astype(int),
        "four": np.floor(X[:, 0] + 2).astype(int),
        "number": np.sin(2 * X[:, 0]) * X[:, 1] + 0.05 * rng.standard_normal(N),
        "weight": rng.integers(0, 3, N).astype(float),
    }


def models():
    """Return the name, the model and the targets of each case."""
    low, spread = {"gamma": 0.37, **SEED}, {"gamma": 1.0, **SEED}
    pairs = {"multi_class": "ovo", "class_weight": "balanced"}
    core = {"method": methods.CoreSet(max_vectors=500)}
    return [
        ("classifier", CoreVectorClassifier(C=100.0, **low), ("two",)),
        ("core set", CoreVectorClassifier(gamma=20.0, **core, **SEED), ("two",)),
        ("weights", CoreVectorClassifier(C=10.0, **low), ("four", "weight")),
        ("pairs", CoreVectorClassifier(C=10.0, **pairs, **low), ("four",)),
        (
            "cells",
            CoreVectorClassifier(C=10.0, method=methods.Cells(500), **low),
            ("two",),
        ),
        ("one class", CoreVectorOneClass(C=10.0, **low), ()),
        ("SVDD", SVDD(C=0.01, **SEED), ()),
        ("regressor", CoreVectorRegressor(**spread), ("number",)),
        ("tube", CoreVectorRegressor(tube=0.1, **spread), ("number", "weight")),
        (
            "subspace",
            CoreVectorClassifier(C=10.0, method=methods.FewVectors(30), **spread),
            ("two",),
        ),
        (
            "Nystroem",
            CoreVectorClassifier(
                C=9.0, method=methods.FewVectors(99, basis="nystroem"), **spread
            ),
            ("four",),
        ),
        (
            "subspace regressor",
            CoreVectorRegressor(
                C=10.0, tube=0.0, method=methods.FewVectors(60), **spread
            ),
            ("number",),
        ),
    ]


def cases():
    """Yield a comparison for each estimator and precision of the card's rows."""
    known = data()
    for name, model, columns in models():
        rows = [known[column] for column in ("X", *columns)]

        def compare(sheet, name=name, model=model, rows=rows):
            here = fits(sheet, name, model, rows, "cpu16")
            for dtype in ("float64", "float32"):
                beside(sheet, f"{name}, {dtype}", model, rows, here, dtype)

        yield name, compare


def beside(sheet, name, model, rows, here, dtype):
    """Fit on the card and write how far it is from the CPU's model `here`."""
    there = [torch.as_tensor(a, device=DEVICE) for a in rows]
    there[0] = there[0].to(getattr(torch, dtype))
    new = rows[0][:1000]
    own = fits(
        sheet,
        name,
        model,
        there,
        "gpu",
        repeats=2,
        error=lambda one: difference(here, one, new, dtype),
    )
    wanted, found = certify(here, *rows), certify(here, *there)
    words = [
        verdict(here.certificate_, own.certificate_),
        f"primal differs by {apart(here.certificate_.primal, own.certificate_.primal)}",
        f"certify of one model: primal differs by {apart(wanted.primal, found.primal)}",
        f"dual by {apart(wanted.dual, found.dual)}",
        f"gaps {wanted.relative_gap:.3g} and {found.relative_gap:.3g}",
    ]
    sheet.write(f"{name}: check", note="; ".join(words))


def difference(here, there, new, dtype):
    """Return the largest difference of predictions, over the spread of regressions."""
    tensor = torch.as_tensor(new, device=DEVICE, dtype=getattr(torch, dtype))
    a, b = np.asarray(here.predict(new)), there.predict(tensor).cpu().numpy()
    if np.issubdtype(a.dtype, np.floating) and here._task == "numbers":
        return np.abs(a - b).max() / a.std()
    return np.mean(a != b)


def verdict(a, b):
    """Return whether each bound holds for the other model's value."""
    slack = ROUNDING * max(abs(a.primal), abs(b.primal))
    good = a.dual <= b.primal + slack and b.dual <= a.primal + slack
    return "agree" if good else "DIFFERS"


def apart(a, b):
    """Return the relative difference of two values, as text."""
    return f"{abs(a - b) / max(abs(a), abs(b), 1e-300):.1e}"
