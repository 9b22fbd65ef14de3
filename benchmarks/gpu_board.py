"""The 4 x 4 checkerboard, made on the card: seconds against rows, and of one pass."""

import operator

import numpy as np
import torch

from benchmarks.gpu_sheet import DEVICE, SMALL, blocks, fits, synchronised
from corevec import CoreVectorClassifier
from corevec.data.sources import DEFAULT_MEMORY_BUDGET, Workers, as_source

GAMMA = 0.37
SIZES = (10**4, 3 * 10**4, 10**5) if SMALL else (10**6, 10**8, 10**9)
LARGEST = 2 * 10**5 if SMALL else 10**10
TEST_ROWS = 10**4 if SMALL else 10**6
REPEATS = 3


def rows_of(n, seed=0):
    """Return float32 rows, uniform on [0, 4) squared, and int8 labels."""
    X = torch.empty((n, 2), dtype=torch.float32, device=DEVICE)
    y = torch.empty(n, dtype=torch.int8, device=DEVICE)
    torch.manual_seed(seed)
    for few in blocks(n):
        part = X[few].uniform_(0, 4)
        y[few] = (part[:, 0].to(torch.int8) + part[:, 1].to(torch.int8)) & 1
    return X, y


def cases():
    """Yield the small boards first; the largest has the card for itself."""
    for n in SIZES:
        yield f"board {n:.0e}", lambda sheet, n=n: one_size(sheet, n)
    yield f"board {LARGEST:.0e}", largest


def one_size(sheet, n):
    """Fit boards of one size, and time single passes over them."""
    rows, test = rows_of(n), rows_of(TEST_ROWS, seed=1)
    for C in (1e3, 1e5):
        model = fits(
            sheet,
            f"checkerboard C={C:g}",
            model_of(C),
            rows,
            "gpu",
            repeats=REPEATS,
            first=n == SIZES[0],
            error=lambda one: wrong(one, *test),
        )
        if C == 1e3:
            passes(sheet, model, rows[0])


def largest(sheet):
    """Fit once; the rows alone are 80 GB."""
    rows, test = rows_of(LARGEST), rows_of(TEST_ROWS, seed=1)
    case = "checkerboard C=1000"
    errors = {"error": lambda one: wrong(one, *test)}
    model = fits(sheet, case, model_of(1e3), rows, "gpu", **errors)
    passes(sheet, model, rows[0], repeats=1)


def model_of(C):
    """Return the classifier; rows of the test part are predicted by it too."""
    return CoreVectorClassifier(C=C, gamma=GAMMA, random_state=0)


def wrong(model, X, y):
    """Return the share of rows with the wrong class."""
    return (model.predict(X) != y).double().mean()


def passes(sheet, model, X, repeats=REPEATS):
    """Time passes that sum all function values: nothing of the rows' length is kept."""
    source = as_source(X, DEFAULT_MEMORY_BUDGET, Workers(1))
    k = len(model.support_)
    for dtype in (np.float32, np.float64):
        ready = model._functions.ready(dtype)
        for at in range(-1, repeats):
            begun = synchronised()
            source.reduce(lambda rows, ready=ready: ready(rows).sum(), operator.add)
            seconds = synchronised() - begun
            if at >= 0:  # before that, compiling
                sheet.write(
                    f"one pass, {np.dtype(dtype).name}",
                    n_rows=len(X),
                    n_columns=2,
                    place="gpu",
                    seconds=seconds,
                    n_vectors=k,
                    values_per_second=len(X) * k / seconds,
                )
