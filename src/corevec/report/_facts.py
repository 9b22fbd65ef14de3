"""The facts of the report: data, parameters, size and cost, as plain values."""

from __future__ import annotations

import platform
import time
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.pipeline import Pipeline

from corevec._runtime.types import Array
from corevec.estimators import CompressedModel
from corevec.plots import last_step, plain, vectors_of
from corevec.report import _rows

Facts = list[tuple[str, str]]

# Up to this number all classes are listed; beyond, the largest and the smallest.
_MOST_CLASSES = 12
# Rows whose prediction is timed, and the time limit in seconds (plus one call).
_TIMED_ROWS, _TIMED_SECONDS = 1000, 0.3
# Maximum length of a parameter value.
_LONGEST = 120
_PACKAGES = ("corevec", "numpy", "scipy", "scikit-learn", "numba")


def data_facts(X: Any, y: Any, kind: str, name: str | None) -> Facts:
    """Return the rows, columns, density, storage and classes of the data."""
    stored = "sparse (CSR)" if sparse.issparse(X) else "dense"
    facts = [("name", name)] if name else []
    facts += [
        ("training rows", f"{X.shape[0]:,}"),
        ("columns", f"{X.shape[1]:,}"),
        ("entries that are not zero", f"{100 * _rows.density(X):.3g} %"),
        ("stored as", f"{stored}, {_dtype(X)}"),
    ]
    if y is None:
        return facts
    y = np.asarray(y)
    if kind == "classifier":
        return facts + _class_facts(y)
    if kind == "regressor" and y.size:
        middle = f"mean {y.mean():.4g}, deviation {y.std():.4g}"
        facts.append(("target", f"{y.min():.4g} to {y.max():.4g}, {middle}"))
        if y.ndim == 2:
            facts.append(("targets", str(y.shape[1])))
    return facts


def _class_facts(y: Array) -> Facts:
    classes, counts = np.unique(y, return_counts=True)
    shares = [
        f"{plain(c)}: {n:,} ({n / len(y):.1%})"
        for c, n in zip(classes, counts, strict=True)
    ]
    facts = [("classes", str(len(classes)))]
    if len(classes) <= _MOST_CLASSES:
        return [*facts, ("rows of each class", "; ".join(shares))]
    largest, smallest = int(counts.argmax()), int(counts.argmin())
    return [
        *facts,
        ("largest class", shares[largest]),
        ("smallest class", shares[smallest]),
    ]


def _dtype(X: Any) -> str:
    if hasattr(X, "dtype"):
        return str(X.dtype)
    return ", ".join(sorted({str(t) for t in X.dtypes}))


def parameter_facts(estimator: Any) -> list[tuple[str, str, bool]]:
    """Return each parameter: name, value, and whether it is not the default."""
    own = estimator.get_params(deep=False)
    try:
        defaults = type(estimator)().get_params(deep=False)
    except TypeError:  # a step with required arguments
        defaults = own
    return [
        (name, short(value), repr(value) != repr(defaults[name]))
        for name, value in own.items()
    ]


def found_facts(estimator: Any) -> Facts:
    """Return the values that the fit has determined, such as gamma or C for nu."""
    facts = []
    kernel = _kernel_of(estimator)
    named = getattr(estimator, "kernel", None)
    if named != "linear" and isinstance(getattr(kernel, "gamma", None), float):
        # Rows with huge entries are scaled by 2**-exponent internally, and gamma too.
        exponent = getattr(kernel.row_map, "exponent", 0)
        facts.append(("gamma used", f"{kernel.gamma / 4.0**exponent:.6g}"))
    for name, text in (
        ("C_", "C found"),
        ("tube_", "tube found"),
        ("radius_", "radius"),
    ):
        value = getattr(estimator, name, None)
        if isinstance(value, float):
            facts.append((text, f"{value:.6g}"))
    return [*facts, *_importance_facts(estimator)]


def _importance_facts(estimator: Any) -> Facts:
    """Return the columns that matter most to a model with a learned metric."""
    found = getattr(estimator, "feature_importances_", None)
    if found is None:
        return []
    own = getattr(estimator, "feature_names_in_", None)
    names = [f"column {c}" for c in range(len(found))] if own is None else own
    top = sorted(range(len(found)), key=lambda c: -found[c])[:_MOST_CLASSES]
    told = (f"{names[c]} {100 * found[c]:.1f} %" for c in top if found[c] > 0)
    return [("columns that matter most", "; ".join(told))]


def _kernel_of(estimator: Any) -> Any:
    """Return the kernel of a fitted model; all cells have the same kernel."""
    forest = getattr(estimator, "_forest", None)
    functions = getattr(estimator, "_functions", None)
    found = functions if forest is None else forest.trees[0]
    return getattr(found, "kernel", None)


def n_vectors(model: Any) -> int | None:
    """Return the number of vectors of a model; None if it has weights only."""
    own = last_step(model)
    if getattr(own, "_forest", None) is not None:
        return int(own._forest.n_vectors)
    found = vectors_of(own)
    return None if found is None else int(found[1].shape[1])


def size_facts(model: Any, X: Any) -> Facts:
    """Return the number of vectors and outputs, the memory, and the cost per row."""
    own = last_step(model)
    entries = _rows.entries_per_row(X)
    if getattr(own, "_forest", None) is not None:
        return _forest_facts(own._forest, entries)
    found = vectors_of(own)
    if found is None:
        coef = getattr(own, "coef_", None)
        if coef is None:
            return []
        return [
            ("vectors", "none: one weight per column"),
            ("weights", f"{np.size(coef):,}"),
            ("multiply-adds per row", f"{_weights_cost(coef, entries):,.0f}"),
        ]
    vectors, coef = found
    outputs, n_vectors = coef.shape
    size = _bytes(vectors) + coef.nbytes
    cost = n_vectors * (entries + outputs)
    return [
        ("vectors", f"{n_vectors:,}"),
        ("columns", f"{vectors.shape[1]:,}"),
        ("outputs", f"{outputs:,}"),
        ("memory of vectors and coefficients", _in_units(size)),
        ("multiply-adds per row", f"{cost:,.0f}"),
        ("kernel values per row", f"{n_vectors:,}"),
    ]


def _forest_facts(forest: Any, entries: float) -> Facts:
    """Return the size of a model of cells: a row falls into one cell per tree.

    Cells are balanced, so a row needs about the mean number of vectors.
    """
    trees = forest.trees
    met = sum(len(one.basis) / one.tree.n_cells for one in trees)
    outputs = trees[0].n_outputs
    cost = sum(one.tree.depth for one in trees) * entries + met * (entries + outputs)
    return [
        ("vectors", f"{forest.n_vectors:,}"),
        ("trees", f"{len(trees):,}"),
        ("cells", f"{sum(one.tree.n_cells for one in trees):,}"),
        ("columns", f"{trees[0].basis.values.shape[1]:,}"),
        ("outputs", f"{outputs:,}"),
        ("memory of vectors, coefficients and trees", _in_units(forest.n_bytes)),
        ("multiply-adds per row", f"{cost:,.0f}"),
        ("kernel values per row", f"about {met:,.0f}, those of its cells"),
    ]


def _weights_cost(coef: Any, entries: float) -> float:
    return float(entries * np.atleast_2d(coef).shape[0])


def _bytes(vectors: Any) -> int:
    if sparse.issparse(vectors):
        parts = (vectors.data, vectors.indices, vectors.indptr)
        return int(sum(part.nbytes for part in parts))
    return int(np.asarray(vectors).nbytes)


def _in_units(size: float) -> str:
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} GB"


def microseconds_per_row(model: Any, X: Any) -> tuple[float, int]:
    """Return the time per row of a joint prediction, and its number of rows."""
    some = _rows.take(X, np.arange(min(X.shape[0], _TIMED_ROWS)))
    model.predict(some)  # compiles the loops if necessary
    times: list[float] = []
    while sum(times) < _TIMED_SECONDS and len(times) < 20:
        start = time.perf_counter()
        model.predict(some)
        times.append(time.perf_counter() - start)
    return 1e6 * float(np.median(times)) / some.shape[0], int(some.shape[0])


def version_facts() -> Facts:
    """Return the versions of the packages, and the machine."""
    facts = [("Python", platform.python_version())]
    for package in _PACKAGES:
        try:
            facts.append((package, version(package)))
        except PackageNotFoundError:  # a source tree on the path, not an installation
            facts.append((package, "not installed"))
    return [*facts, ("machine", f"{platform.system()} {platform.machine()}")]


def python_snippet(model: Any, kind: str) -> str:
    """Return Python code that repeats the fit."""
    if isinstance(model, CompressedModel):
        n = model.dual_coef_.shape[1]
        return f"from corevec import compress\n\nsmall = compress(model, n_vectors={n})"
    steps = [step for _, step in model.steps] if isinstance(model, Pipeline) else []
    classes = {type(step) for step in (steps or [model]) if not isinstance(step, str)}
    lines = ["from sklearn.pipeline import Pipeline"] if steps else []
    lines += [f"from {_public_module(c)} import {c.__name__}" for c in classes]
    fitted = "X" if kind == "detector" else "X, y"
    return "\n".join([*sorted(lines), "", f"model = {model!r}", f"model.fit({fitted})"])


def _public_module(owner: type) -> str:
    """Return the public module of a class: no part with an underscore."""
    parts = owner.__module__.split(".")
    if parts[0] == "corevec":
        return "corevec.reference" if "reference" in parts else "corevec"
    private = next((i for i, p in enumerate(parts) if p.startswith("_")), len(parts))
    return ".".join(parts[:private])


def short(value: Any) -> str:
    """Return a parameter value on one line."""
    text = " ".join(repr(value).split())
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
