"""Consistency checks of the parts of a model from a file.

The compiled loops do not look at the ends of arrays: sizes that disagree would read
memory that is not theirs. What is checked here cannot come from a file that `save`
wrote; it comes from one that somebody changed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import singledispatch
from typing import Any, NoReturn

import numpy as np
from scipy import sparse

from corevec.formats.libsvm.text import (
    CLASSIFIERS,
    KERNELS,
    PARAMETERS,
    SVM_TYPES,
    LibsvmText,
)
from corevec.kernels import (
    KERNEL_CODES,
    Kernel,
    PrecomputedKernel,
    RowMap,
    Rows,
    RowStatistics,
)
from corevec.models.basis import Basis
from corevec.models.expansion import KernelExpansion
from corevec.models.result import FitResult
from corevec.solvers.streaming.columns import ColumnMoments, Scaling
from corevec.solvers.streaming.core_stream import CoreForm, CoreStream, Targets
from corevec.solvers.streaming.geometry import Balls
from corevec.solvers.streaming.geometry import Form as StreamForm
from corevec.solvers.streaming.kernel_stream import KernelStream
from corevec.solvers.streaming.objective_bound import SeenRows
from corevec.solvers.streaming.reservoir import RowSample
from corevec.solvers.streaming.squared_stream import SquaredStream
from corevec.solvers.streaming.stream import BallStream, LinearStream, Whole
from corevec.solvers.streaming.summary import Summary
from corevec.surfaces import Field, Frame

Wrong = Callable[[str], NoReturn]


@singledispatch
def check_sound(made: Any, wrong: Wrong) -> None:
    """Call `wrong` with the inconsistency of an object from a file, if there is one."""
    if is_dataclass(made):
        _check_fields(made, wrong)


_FIELD_KINDS: dict[str, tuple[type, ...]] = {
    "str": (str,),
    "bool": (bool, np.bool_),
    "int": (int, np.integer),
    "int | None": (int, np.integer, type(None)),
    "float": (int, float, np.integer, np.floating),
    "float | None": (int, float, np.integer, np.floating, type(None)),
    "Array": (np.ndarray,),
}


def _check_fields(made: Any, wrong: Wrong) -> None:
    """Check the fields of a dataclass that have plain types."""
    for field in fields(made):
        kinds = _FIELD_KINDS.get(str(field.type))
        if kinds is not None and not isinstance(getattr(made, field.name), kinds):
            wrong(f"{field.name} must be of type {field.type}")


def check_floats(
    value: Any, shape: tuple[int | None, ...], what: str, wrong: Wrong
) -> None:
    """Check an array of float64; None in `shape` is any length."""
    right = isinstance(value, np.ndarray) and value.dtype == np.float64
    if not right or not _has_shape(value, shape):
        wanted = ", ".join("any" if n is None else str(n) for n in shape)
        wrong(f"{what} must be a float64 array of shape ({wanted})")


def _has_shape(value: Any, shape: tuple[int | None, ...]) -> bool:
    return len(value.shape) == len(shape) and all(
        want is None or have == want
        for have, want in zip(value.shape, shape, strict=True)
    )


def _is_number(value: Any) -> bool:
    if isinstance(value, int | np.integer):  # the compiled loops use 64 bits
        return not isinstance(value, bool) and -(2**63) <= int(value) < 2**63
    return isinstance(value, float | np.floating) and math.isfinite(value)


def _is_count(value: Any, least: int = 0) -> bool:
    """Whether a value is a Python integer; those of NumPy overflow silently."""
    return type(value) is int and least <= value < 2**63


def _check_row_numbers(value: Any, what: str, wrong: Wrong, least: int = 0) -> None:
    """Check an array of row numbers; -1 is a vector that is not a training row."""
    right = isinstance(value, np.ndarray) and value.dtype == np.int64
    if not right or value.ndim != 1 or value.min(initial=0) < least:
        wrong(f"{what} must be an int64 array of row numbers, from {least} on")


def _is_rows(values: Any) -> bool:
    known = isinstance(values, np.ndarray) or sparse.issparse(values)
    return known and values.ndim == 2 and values.dtype in (np.float32, np.float64)


@check_sound.register
def _(made: RowMap, wrong: Wrong) -> None:
    if made.shift is not None:
        check_floats(made.shift, (None,), "shift", wrong)
    # Doubles end at 2**1024; the exponent is that of the size of a column.
    if type(made.exponent) is not int or abs(made.exponent) > 2100:
        wrong("exponent must be a whole number within +-2100")
    if not _is_number(made.error) or made.error < 0:
        wrong("error must be a finite number, not below 0")
    if made.scale is not None:
        check_floats(made.scale, (None,), "scale", wrong)
        if not (np.isfinite(made.scale) & (made.scale >= 0)).all():
            wrong("scale must hold finite numbers, not below 0")


@check_sound.register
def _(made: Kernel, wrong: Wrong) -> None:
    _check_fields(made, wrong)
    if made.name not in KERNEL_CODES:
        wrong(f"the kernel {made.name!r:.40} is not known")
    for name in ("gamma", "coef0", "degree"):
        if not _is_number(getattr(made, name)):
            wrong(f"{name} must be a finite number")
    if not isinstance(made.row_map, RowMap):
        wrong("row_map must be a RowMap")


@check_sound.register
def _(made: Rows, wrong: Wrong) -> None:
    if not _is_rows(made.values):
        wrong("values must be rows of float64 or float32")
    _check_row_numbers(made.index, "index", wrong, least=-1)
    if len(made.index) != made.values.shape[0]:
        wrong("index must hold one int64 per row")


def _fit_together(kernel: Any, rows: Any, wrong: Wrong) -> None:
    if not isinstance(kernel, Kernel | PrecomputedKernel):
        wrong("kernel must be a kernel")
    if not isinstance(rows, Rows):
        wrong("basis must be Rows")
    if isinstance(kernel, PrecomputedKernel):
        columns = rows.values.shape[1]
        _check_row_numbers(rows.index, "the index of a precomputed kernel", wrong)
        if rows.index.max(initial=-1) >= columns:
            wrong(f"the index of a precomputed kernel must be below {columns} columns")
        return
    shift = kernel.row_map.shift
    if shift is not None and shift.shape != (rows.values.shape[1],):
        wrong("the kernel's shift must have one entry per column")
    scale = kernel.row_map.scale
    if scale is not None and scale.shape != (rows.values.shape[1],):
        wrong("the kernel's scale must have one entry per column")


@check_sound.register
def _(made: tuple, wrong: Wrong) -> None:  # type: ignore[type-arg]
    _fit_together(made[0], made[1], wrong)


@check_sound.register
def _(made: KernelExpansion, wrong: Wrong) -> None:
    _fit_together(made.kernel, made.basis, wrong)
    check_floats(made.coef, (len(made.basis), None), "coef", wrong)
    check_floats(made.intercept, (made.coef.shape[1],), "intercept", wrong)


@check_sound.register
def _(made: Basis, wrong: Wrong) -> None:
    n = len(made.rows)
    check_floats(made.factor, (n, n), "factor", wrong)
    check_floats(
        made.__dict__.get("inverse_factor", made.factor), (n, n), "factor", wrong
    )


@check_sound.register
def _(made: FitResult, wrong: Wrong) -> None:
    _check_fields(made, wrong)
    if not isinstance(made.functions, KernelExpansion):
        wrong("functions must be a KernelExpansion")
    n_outputs = made.functions.coef.shape[1]
    for name in ("offsets", "norms_sq"):
        check_floats(getattr(made, name), (None,), name, wrong)
    for name in ("certificates", "support", "multipliers", "n_core"):
        if not isinstance(getattr(made, name), list):
            wrong(f"{name} must be a list")
    if len(made.multipliers) not in (0, n_outputs):
        wrong(f"multipliers must be those of {n_outputs} functions, or none")
    if made.multipliers and len(made.support) != n_outputs:
        wrong(f"support must hold the row numbers of {n_outputs} functions")
    for t, numbers in enumerate(made.support):
        least = 0 if made.multipliers else -1
        _check_row_numbers(numbers, f"support[{t}]", wrong, least)
    for t, values in enumerate(made.multipliers):
        check_floats(values, (len(made.support[t]),), f"multipliers[{t}]", wrong)


@check_sound.register
def _(made: StreamForm, wrong: Wrong) -> None:
    _check_fields(made, wrong)
    # Without a ball to keep, elements would be merged forever.
    if not _is_count(made.n_balls, least=1):
        wrong("n_balls must be a whole number of at least 1")
    if not _is_number(made.bias):
        wrong("bias must be a finite number")


@check_sound.register
def _(made: Balls, wrong: Wrong) -> None:
    _check_fields(made, wrong)
    n = len(np.atleast_1d(made.slack))
    for name in ("slack", "power", "deficit", "width", "drift"):
        check_floats(getattr(made, name), (n,), name, wrong)
    marks = made.is_row
    right = isinstance(marks, np.ndarray) and marks.dtype == np.bool_
    if not right or marks.shape != (n,):
        wrong(f"is_row must be a bool array of shape ({n})")


@check_sound.register
def _(made: LinearStream, wrong: Wrong) -> None:
    _stream(made, wrong)
    check_floats(made.vectors, (len(made.balls), None), "vectors", wrong)


@check_sound.register
def _(made: KernelStream, wrong: Wrong) -> None:
    _stream(made, wrong)
    m = len(made.balls)
    if not _is_rows(made.rows):
        wrong("rows must be rows of float64 or float32")
    n = made.rows.shape[0]
    check_floats(made.own, (n,), "own", wrong)
    check_floats(made.coef, (m, n), "coef", wrong)
    check_floats(made.products, (m, m), "products", wrong)
    _fit_together(made.kernel, Rows(made.rows, np.arange(n)), wrong)
    least = made.form.n_balls + 1  # or no row could be removed
    if made.budget is not None and not _is_count(made.budget, least):
        wrong(f"budget must be None or a whole number of at least {least}")


@check_sound.register
def _(made: RowStatistics, wrong: Wrong) -> None:
    _check_fields(made, wrong)
    for name in ("mean", "column_variance", "low", "high"):
        check_floats(getattr(made, name), (None,), name, wrong)
    if made.mean.shape != made.column_variance.shape:
        wrong("mean and column_variance must be of equal length")


@check_sound.register
def _(made: ColumnMoments, wrong: Wrong) -> None:
    if not isinstance(made.statistics, RowStatistics) or not _is_number(made.weight):
        wrong("moments need statistics and a weight")


@check_sound.register
def _(made: Scaling, wrong: Wrong) -> None:
    check_floats(made.shift, (None,), "shift", wrong)
    check_floats(made.factor, (len(made.shift),), "factor", wrong)


@check_sound.register
def _(made: CoreForm, wrong: Wrong) -> None:
    _check_fields(made, wrong)
    if not _is_count(made.budget, least=1) or not _is_count(made.block, least=1):
        wrong("budget and block must be whole numbers of at least 1")
    if made.half_life is not None and not (
        _is_number(made.half_life) and made.half_life > 0
    ):
        wrong("half_life must be None or a number above 0")


@check_sound.register
def _(made: CoreStream, wrong: Wrong) -> None:
    if not isinstance(made.form, CoreForm) or not isinstance(made.targets, Targets):
        wrong("a core stream needs a form and targets")
    for name in ("n_rows", "n_updates", "n_left", "aged"):
        if not _is_count(getattr(made, name)):
            wrong(f"{name} must be a whole number of at least 0")
    if not _is_rows(made.rows):
        wrong("rows must be rows of float64 or float32")
    (n, d), k = made.rows.shape, made.n_outputs
    if made.scaling is not None:
        if not isinstance(made.scaling, Scaling):
            wrong("scaling must be None or a Scaling")
        check_floats(made.scaling.factor, (d,), "factor", wrong)
    if not _is_count(k, least=1) or not isinstance(made.by_columns, bool):
        wrong("n_outputs must be a whole number of at least 1, by_columns a bool")
    r = d + bool(made.form.bias) if made.by_columns else n
    _check_core_arrays(made, (n, k, r), wrong)
    _fit_together(made.kernel, Rows(made.rows, np.arange(n)), wrong)


def _check_core_arrays(
    made: CoreStream, sizes: tuple[int, int, int], wrong: Wrong
) -> None:
    """Check the arrays of a core stream: its rows, outputs and coefficients."""
    n, k, r = sizes
    check_floats(made.targets.z, (n, k), "z", wrong)
    check_floats(made.targets.omega, (n,), "omega", wrong)
    check_floats(made.a, (n, k), "a", wrong)
    check_floats(made.prior, (n, k), "prior", wrong)
    own = 0 if isinstance(made, SquaredStream) else n
    check_floats(made.gram, (own, own), "gram", wrong)
    check_floats(made.coef, (r, k), "coef", wrong)
    check_floats(made.tally, (None, 3), "tally", wrong)
    if made.F is not None or made.by_columns or made.summary is not None:
        check_floats(made.F, (r, n), "F", wrong)
    if made.summary is not None:
        if not isinstance(made.summary, Summary):
            wrong("summary must be None or a Summary")
        check_floats(made.summary.spread, (r, r), "spread", wrong)
        check_floats(made.summary.mean, (r, k), "mean", wrong)
    born = made.born
    if not isinstance(born, np.ndarray) or born.shape != (n,) or born.dtype != np.int64:
        wrong(f"born must be an int64 array of shape ({n})")


def _stream(made: BallStream, wrong: Wrong) -> None:
    if not isinstance(made.form, StreamForm) or not isinstance(made.balls, Balls):
        wrong("a stream needs a form and balls")
    for name in ("n_rows", "n_updates"):
        if not _is_count(getattr(made, name)):
            wrong(f"{name} must be a whole number of at least 0")
    if not _is_number(made.eta):
        wrong("eta must be a finite number")
    whole = made._whole
    if whole is not None and not isinstance(whole, Whole):
        wrong("_whole must be None or a Whole")


@check_sound.register
def _(made: RowSample, wrong: Wrong) -> None:
    if not isinstance(made.generator, np.random.Generator):
        wrong("generator must be a Generator")
    if made.rows is None:
        return
    if not _is_rows(made.rows):
        wrong("rows must be rows of float64 or float32")
    for name in ("keys", "weights"):
        check_floats(getattr(made, name), (made.rows.shape[0],), name, wrong)


@check_sound.register
def _(made: SeenRows, wrong: Wrong) -> None:
    if not isinstance(made.generator, np.random.Generator):
        wrong("generator must be a Generator")
    if not _is_count(made.n_seen) or not isinstance(made.reach, float):
        wrong("n_seen must be a whole number of at least 0, reach a float")
    if not isinstance(made.largest, tuple) or not all(map(_is_number, made.largest)):
        wrong("largest must be a tuple of numbers")
    if made.rows is None:
        return
    if not _is_rows(made.rows):
        wrong("rows must be rows of float64 or float32")
    check_floats(made.z, (made.rows.shape[0], None), "z", wrong)
    for name in ("keys", "omega"):
        check_floats(getattr(made, name), (made.rows.shape[0],), name, wrong)


@check_sound.register
def _(made: Frame, wrong: Wrong) -> None:
    _check_fields(made, wrong)
    check_floats(made.centre, (3,), "centre", wrong)


@check_sound.register
def _(made: Field, wrong: Wrong) -> None:
    _check_fields(made, wrong)
    if not isinstance(made.scales, tuple):
        wrong("scales must be a tuple")
    for scale in made.scales:
        right = isinstance(scale, KernelExpansion)
        if not right or scale.basis.values.shape[1] != 3:
            wrong("scales must be expansions over points in space")


@check_sound.register
def _(made: LibsvmText, wrong: Wrong) -> None:
    _check_fields(made, wrong)
    if made.svm_type not in SVM_TYPES or made.kernel_type not in KERNELS:
        wrong("svm_type and kernel_type must be LIBSVM's")
    names = PARAMETERS[made.kernel_type]
    right = isinstance(made.parameters, dict) and isinstance(made.extras, dict)
    if not right or not all(_is_number(made.parameters.get(n)) for n in names):
        wrong("the kernel's parameters must be finite numbers")
    n = len(np.atleast_1d(made.coef))
    if made.svm_type in CLASSIFIERS:
        _check_classes_of_text(made, n, wrong)
    elif made.labels is not None or made.counts is not None:
        wrong("labels and counts belong to classifiers")
    k = made.n_classes
    check_floats(made.coef, (n, k - 1), "coef", wrong)
    check_floats(made.rho, (k * (k - 1) // 2,), "rho", wrong)
    known = sparse.issparse(made.vectors) and _is_rows(made.vectors)
    if not (known and made.vectors.shape[0] == n):
        wrong("vectors must be a CSR matrix with a row per coefficient")
    if made.is_precomputed and not _are_row_numbers(made.vectors):
        wrong("vectors of a precomputed kernel must be numbers of rows, from 1")


def _are_row_numbers(vectors: Any) -> bool:
    """Whether a sparse matrix is one column of whole numbers from 1."""
    if vectors.shape[0] == 0:
        return True
    if vectors.shape[1] != 1:
        return False
    numbers = vectors.toarray()
    whole = np.isfinite(numbers).all() and (numbers == np.floor(numbers)).all()
    return bool(whole and numbers.min() >= 1 and numbers.max() < 2**31)


def _check_classes_of_text(made: LibsvmText, n_vectors: int, wrong: Wrong) -> None:
    """Check the labels of a LIBSVM classifier, and the vectors of each class."""
    for name in ("labels", "counts"):
        values = getattr(made, name)
        whole = isinstance(values, np.ndarray) and values.dtype == np.int64
        if not whole or values.ndim != 1 or len(values) < 2:
            wrong(f"{name} must be whole numbers, one per class")
    counts: Any = made.counts
    # Each of them as well: a sum beyond 64 bits wraps around.
    within = counts.min() >= 0 and counts.max() <= n_vectors
    if not within or len(counts) != made.n_classes or counts.sum() != n_vectors:
        wrong("counts must be those of the vectors")


__all__ = ["Wrong", "check_floats", "check_sound"]
