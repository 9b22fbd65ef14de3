"""A scan of rows on a GPU, in Triton: kernel values and their reduction in one kernel.

`_answer` is the twin of ``certificates.scan._answer_on_side``;
``tests/backend/test_gpu_scan.py`` holds them together. Each program answers for its
tile of rows: sums in float64, and the
violation of every row with the largest of each 32. The tiles' sums are added
afterwards, in one order (no atomics: the same rows give the same sums);
``triton_launch.py`` launches these kernels.

A row costs its values, its terms and 8 bytes for its violation. What is asked is a
table that is read at run time, terms by address and stride (a term that is the same
for all rows is one number, of stride 0): one compilation serves every problem, any
number of requests and of trials.
"""

# mypy: ignore-errors
# Triton reads these functions, not Python: annotations would say nothing of use.

from __future__ import annotations

import triton
import triton.language as tl

from corevec.backend.gpu.triton_sums import SUMMED, few_sums, many_sums

GROUP = tl.constexpr(32)  # rows whose largest violation is kept
THREADS = tl.constexpr(128)  # rows that lie beside each other in a tile; see `_answer`
SUMS = tl.constexpr(3)  # sums before the losses: violated, slope, curve
_WIDTH = tl.constexpr(9)  # of the table: a column; four addresses and strides
_SETTINGS = tl.constexpr(2)  # numbers before the trials: intercept, has an offset


@triton.jit
def _term(table, place, first, lanes, inside):
    """Return numbers of the tile's rows: those at an address, a stride apart."""
    start = tl.load(table + place).to(tl.pointer_type(tl.float64))
    stride = tl.load(table + place + 1)
    # Within a tile in 32 bits: four multiplications fewer for each row.
    here = start + first * stride + lanes * stride.to(tl.int32)
    return tl.load(here, mask=inside, other=0.0)


@triton.jit
def _is_left_out(table, place, first, lanes, inside):
    start = tl.load(table + place).to(tl.pointer_type(tl.int8))
    stride = tl.load(table + place + 1)
    here = start + first * stride + lanes * stride.to(tl.int32)
    return tl.load(here, mask=inside, other=0) != 0


@triton.jit
def _answer(
    f,
    inside,
    table,
    settings,
    violations,
    maxima,
    sums,
    trials,
    ROWS: tl.constexpr,
):
    """Answer one scan request for one tile of rows; twin: scan._answer_on_side.

    The pointers are those of the request. Where f is not finite, the curve is not.
    A thread has a row of each layer of 128; a group, whose largest violation is kept,
    the same few rows of each layer: most of its maximum needs no other thread.
    """
    tile, tiles = tl.program_id(0).to(tl.int64), tl.num_programs(0).to(tl.int64)
    first, lanes = tile * ROWS, tl.arange(0, ROWS)
    f += tl.load(settings)
    has_offset = tl.load(settings + 1) > 0
    margins = _term(table, 1, first, lanes, inside) * f
    omega = _term(table, 3, first, lanes, inside)
    target = _term(table, 5, first, lanes, inside)
    omega = tl.where(_is_left_out(table, 7, first, lanes, inside), 0.0, omega)
    present = omega > 0
    for q in tl.range(0, trials, num_stages=1):
        scale = tl.load(settings + 2 + 2 * q)
        offset = tl.load(settings + 3 + 2 * q)
        excess = tl.maximum(target - scale * margins - offset, 0.0)
        lost = tl.where(present, omega * (excess * excess), 0.0)
        tl.store(sums + (3 + q) * tiles + tile, tl.sum(lost, axis=0) / 2)
    scale, offset = tl.load(settings + 2), tl.load(settings + 3)
    violation = target - scale * margins - offset
    violation = tl.where(present, violation, -float("inf"))
    violated = violation > 0
    lever = tl.where(has_offset, 1.0, margins)
    slope = tl.where(violated, omega * (violation * lever), 0.0)
    curve = tl.where(violated, omega * (lever * lever), 0.0)
    # Nan where f is no finite number, else nothing; beyond the rows f may be anything.
    curve += tl.where(inside, f - f, 0.0)
    tl.store(sums + tile, tl.sum(violated.to(tl.int32), axis=0).to(tl.float64))
    tl.store(sums + tiles + tile, tl.sum(slope, axis=0))
    tl.store(sums + 2 * tiles + tile, tl.sum(curve, axis=0))
    tl.store(violations + first + lanes, violation)
    groups: tl.constexpr = ROWS // GROUP
    layers: tl.constexpr = ROWS // THREADS if ROWS > THREADS else 1
    near: tl.constexpr = GROUP // layers
    largest = tl.max(tl.reshape(violation, (layers, groups, near)), axis=0)
    largest = tl.max(largest, axis=1)
    tl.store(maxima + tile * groups + tl.arange(0, groups), largest)


@triton.jit
def _column(totals, wanted, OUTPUTS: tl.constexpr):
    """Return one of the outputs that `few_sums` or `many_sums` returned."""
    f = totals[0]
    for o in tl.static_range(1, OUTPUTS):
        f = tl.where(wanted == o, totals[o], f)
    return f


@triton.jit
def _answers(
    totals,
    inside,
    table,
    settings,
    violations,
    maxima,
    sums,
    asked,
    trials,
    OUTPUTS: tl.constexpr,
    ROWS: tl.constexpr,
    MATRIX: tl.constexpr,
):
    """Answer all requests for one tile of rows."""
    tiles = tl.num_programs(0).to(tl.int64)
    for a in tl.range(0, asked, num_stages=1):
        wanted = tl.load(table + a * _WIDTH)
        if MATRIX:
            here = tl.arange(0, 16)[None, :] == wanted
            f = tl.sum(tl.where(here, totals, 0.0), axis=1)
        else:
            f = _column(totals, wanted, OUTPUTS)
        _answer(
            f,
            inside,
            table + a * _WIDTH,
            settings + a * (_SETTINGS + 2 * trials),
            violations + a * tiles * ROWS,
            maxima + a * tiles * (ROWS // GROUP),
            sums + a * tiles * (SUMS + trials),
            trials,
            ROWS,
        )


@triton.jit(do_not_specialize=["n", "k", "asked", "trials"])
def few_scans(
    X,
    packed,
    mapping,
    n: tl.int64,
    k: tl.int64,
    gamma: tl.float64,
    coef0: tl.float64,
    degree: tl.float64,
    table,
    settings,
    violations,
    maxima,
    sums,
    asked: tl.int64,
    trials: tl.int64,
    CODE: tl.constexpr,
    POWER: tl.constexpr,
    D: tl.constexpr,
    OUTPUTS: tl.constexpr,
    ROWS: tl.constexpr,
    UNROLL: tl.constexpr,
    BASIS: tl.constexpr,
    MAPPED: tl.constexpr,
):
    """Answer requests about ``kernel(X, Z) @ coef``; see `few_sums`."""
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    inside = rows < n
    totals = few_sums(
        X,
        packed,
        mapping,
        rows,
        inside,
        k,
        gamma,
        coef0,
        degree,
        CODE,
        POWER,
        D,
        OUTPUTS,
        ROWS,
        UNROLL,
        BASIS,
        MAPPED,
    )
    _answers(
        totals,
        inside,
        table,
        settings,
        violations,
        maxima,
        sums,
        asked,
        trials,
        OUTPUTS,
        ROWS,
        False,
    )


@triton.jit(do_not_specialize=["n", "k", "asked", "trials"])
def many_scans(
    X,
    x_squares,
    Z,
    z_squares,
    coef,
    mapping,
    n: tl.int64,
    k: tl.int64,
    d,
    padded,
    gamma: tl.float64,
    coef0: tl.float64,
    degree: tl.float64,
    table,
    settings,
    violations,
    maxima,
    sums,
    asked: tl.int64,
    trials: tl.int64,
    CODE: tl.constexpr,
    POWER: tl.constexpr,
    OUTPUTS: tl.constexpr,
    ROWS: tl.constexpr,
    BASIS: tl.constexpr,
    COLUMNS: tl.constexpr,
    ONCE: tl.constexpr,
    MAPPED: tl.constexpr,
):
    """Answer requests about ``kernel(X, Z) @ coef``; see `many_sums`."""
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    inside = rows < n
    totals = many_sums(
        X,
        x_squares,
        Z,
        z_squares,
        coef,
        mapping,
        rows,
        inside,
        k,
        d,
        padded,
        gamma,
        coef0,
        degree,
        CODE,
        POWER,
        OUTPUTS,
        ROWS,
        BASIS,
        COLUMNS,
        ONCE,
        MAPPED,
    )
    _answers(
        totals,
        inside,
        table,
        settings,
        violations,
        maxima,
        sums,
        asked,
        trials,
        OUTPUTS,
        ROWS,
        OUTPUTS > SUMMED,
    )


@triton.jit(do_not_specialize=["n", "width", "asked", "trials"])
def given_scans(
    values,
    n: tl.int64,
    width: tl.int64,
    table,
    settings,
    violations,
    maxima,
    sums,
    asked: tl.int64,
    trials: tl.int64,
    ROWS: tl.constexpr,
):
    """Answer requests about given values, `width` of each row."""
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    inside = rows < n
    tiles = tl.num_programs(0).to(tl.int64)
    for a in tl.range(0, asked, num_stages=1):
        wanted = tl.load(table + a * _WIDTH)
        f = tl.load(values + rows * width + wanted, mask=inside, other=0.0)
        _answer(
            f,
            inside,
            table + a * _WIDTH,
            settings + a * (_SETTINGS + 2 * trials),
            violations + a * tiles * ROWS,
            maxima + a * tiles * (ROWS // GROUP),
            sums + a * tiles * (SUMS + trials),
            trials,
            ROWS,
        )
