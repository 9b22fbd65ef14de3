"""One way to measure a fit, for every solver and every data set."""

import json
import logging
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from itertools import groupby
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks import datasets, records, solvers
from benchmarks.datasets._base import MissingDataError
from benchmarks.measuring import (
    IN_PROCESSOR_TIME,
    Timer,
    collected_warnings,
    peak_rss_mb,
    reset_peak_rss,
)

log = logging.getLogger(__name__)

# A peer's fit longer than this is kept per machine and measured once, not `repeats`
# times: its noise is far below the ratios reported, and it takes most of a run.
SLOW_SECONDS = 10.0

# A fit that takes more than this multiple of its processor time waited for the machine.
BUSY = 1.2

# Rows of the warm-up fit. Enough for the low-rank probe and for a full pass of
# several blocks, so that (nearly) every function of the timed fit is compiled; what
# still compiles inside the timed fit is stated in the note of that row.
WARM_UP_ROWS = 3000

# Training error above this many rows is taken on the first so many (rows are in
# random order); predicting a million rows would take longer than fitting them.
TRAIN_ERROR_ROWS = 100_000


@dataclass(frozen=True)
class Settings:
    """What the command line decides."""

    out: Path
    threads: int = 2
    repeats: int | None = None
    quick: bool = False
    only: frozenset[str] | None = None
    sets: frozenset[str] | None = None
    fresh_peers: bool = False


def experiment_name(module):
    """Return the name of an experiment: that of its file."""
    return module.__name__.rpartition(".")[2]


def run_experiment(module, settings):
    """Measure every case of an experiment that its CSV does not hold yet.

    Cases on the same data set are interleaved, repeat by repeat, so that a slow
    spell of the machine hits every solver.
    """
    path = settings.out / f"{experiment_name(module)}.csv"
    known = records.known_cases(path)
    repeats = 1 if settings.quick else settings.repeats or module.REPEATS
    cases = _cases(module, path, settings)
    for _, group in groupby(cases, key=lambda case: case.dataset):
        _run_group(list(group), repeats, known, path, settings)


def _cases(module, path, settings):
    """Return the cases that are wanted; parameters may be chosen on the data.

    Where a file is missing, each data set is asked for by itself: those without their
    file get a row that says so.
    """
    try:
        return _cases_of(module, settings, settings.sets)
    except MissingDataError as error:
        names = list(getattr(module, _sets_name(module, settings), ()))
        if not names:
            _report_missing(path, "", error, settings)
    cases = []
    for name in names:
        if settings.sets is None or name in settings.sets:
            try:
                cases += _cases_of(module, settings, frozenset([name]))
            except MissingDataError as error:
                _report_missing(path, name, error, settings)
    return cases


def _sets_name(module, settings):
    """Return the name of the list of data sets that an experiment goes through."""
    has_few = settings.quick and hasattr(module, "QUICK_SETS")
    return "QUICK_SETS" if has_few else "SETS"


def _cases_of(module, settings, sets):
    wanted = replace(settings, sets=sets)
    name = _sets_name(module, settings)
    with _fewer(module, name, sets), _fewer(module, "METHODS", settings.only):
        return [
            case for case in module.cases(settings.quick) if _is_wanted(case, wanted)
        ]


def _report_missing(path, dataset, error, settings):
    """Write a row for a data set whose cases cannot even be made."""
    log.warning("%s %s: %s", path.stem, dataset, error)
    row = {
        "timestamp": datetime.now(UTC).isoformat(timespec="seconds"),
        **records.environment(),
        "threads": settings.threads,
        "experiment": path.stem,
        "dataset": dataset,
        "note": f"error: {type(error).__name__}: {error}",
    }
    records.append(path, row)


@contextmanager
def _fewer(module, name, wanted):
    """Leave out sets or solvers while the cases are made: nothing is tuned for them."""
    every = getattr(module, name, None)
    if every is None or wanted is None:
        yield
        return
    kept = [one for one in every if one in wanted]
    fewer = {one: every[one] for one in kept} if isinstance(every, dict) else kept
    setattr(module, name, fewer)
    try:
        yield
    finally:
        setattr(module, name, every)  # the report shows all


def _is_wanted(case, settings):
    chosen = settings.only is None or case.solver in settings.only
    chosen = chosen and (settings.sets is None or case.dataset in settings.sets)
    return chosen and not _skip_reason(case.solver)


@cache
def _skip_reason(solver):
    """Return why a solver cannot run here, and say it once."""
    reason = solvers.SOLVERS[solver].skip_reason()
    if reason:
        log.warning("skip %s: %s", solver, reason)
    return reason


def _run_group(cases, repeats, known, path, settings):
    commit = records.environment()["commit"]
    for repeat in range(repeats):
        for case in cases:
            place = (commit, case.key, repeat)
            if place in known or _is_slow_peer(case, known.get((commit, case.key, 0))):
                continue
            row = _row_of(case, repeat, path.stem, settings)
            records.append(path, row)
            known[place] = row.get("fit_seconds")
            log.info("%s", _one_line(case, row))


def _is_slow_peer(case, seconds):
    is_peer = solvers.SOLVERS[case.solver].is_peer
    return is_peer and seconds is not None and seconds > SLOW_SECONDS


def _row_of(case, repeat, experiment, settings):
    """Return the full row: who, where, on what, and what was measured."""
    solver = solvers.SOLVERS[case.solver]
    row = {
        "timestamp": datetime.now(UTC).isoformat(timespec="seconds"),
        **records.environment(),
        "case": case.key,
        "threads": settings.threads,
        "experiment": experiment,
        "dataset": case.dataset,
        "data_args": json.dumps(case.data_args, sort_keys=True),
        "solver": case.solver,
        "solver_version": records.package_version(solver.package),
        "params": json.dumps(case.params, sort_keys=True),
        "seed": case.seed,
        "repeat": repeat,
        "cached": False,
    }
    try:
        if case.probe is not None:
            return row | case.probe(case, settings.threads)
        return row | _measured_or_cached(case, repeat, row, settings)
    except MissingDataError as error:
        log.warning("%s: %s", case, error)
        return row | {"note": f"error: {type(error).__name__}: {error}"}
    except (MemoryError, TypeError, ValueError, RuntimeError, ImportError) as error:
        # One failing solver must not end a run of hours. The row says so, is
        # shown in the report, and is measured again next time.
        log.exception("%s failed", case)
        return row | {"note": f"error: {type(error).__name__}: {error}"}


def measured_peer(case, threads):
    """Return the measured columns of a peer's fit, kept ones where there are."""
    row = {
        **records.environment(),
        "threads": threads,
        "timestamp": datetime.now(UTC).isoformat(timespec="seconds"),
        "solver_version": records.package_version(solvers.SOLVERS[case.solver].package),
    }
    settings = Settings(out=records.PEER_CACHE, threads=threads)
    return _measured_or_cached(case, 0, row, settings)


def _measured_or_cached(case, repeat, row, settings):
    data = datasets.load(case.dataset, case.data_args)
    key = _peer_key(case, repeat, row, data)
    if not settings.fresh_peers and (kept := records.cached_peer(key)):
        return kept | {"cached": True}
    found = measure(case, data, settings)
    if _is_slow_peer(case, found["fit_seconds"]):
        records.keep_peer(key, found | {"note": _dated(found["note"], row)})
    return found


def _dated(note, row):
    return f"measured {row['timestamp']}; {note}".rstrip("; ")


def _peer_key(case, repeat, row, data):
    facts = [row[k] for k in ("machine", "threads", "python", "numpy", "sklearn")]
    return records.digest_of(
        [facts, row["solver_version"], case.key, data.checksum, repeat]
        + [IN_PROCESSOR_TIME] * IN_PROCESSOR_TIME
    )


def measure(case, data, settings):
    """Return the measured columns of one fit.

    Threads are held to `settings.threads` in BLAS and OpenMP; a solver with its own
    pool is told through `n_jobs`. The warm-up fit compiles what there is to compile.
    """
    solver = solvers.SOLVERS[case.solver]
    with threadpool_limits(settings.threads), collected_warnings() as heard:
        compile_seconds = _warm_up(solver, case, data, settings.threads)
        model = solver.build(case.params, case.seed, settings.threads)
        reset_peak_rss()
        with Timer() as fit:
            model.fit(data.X_train, data.y_train)
        peak = peak_rss_mb()
        with Timer() as predict:
            predicted = model.predict(data.X_test)
        train_error = _train_error(model, data)
        facts = solver.facts(model, case.params) | _full_certificate(
            solver, model, data
        )
    _keep_history(model, case, settings.out)
    if fit.compiling:
        heard.append(f"{fit.compiling:.2f} s of the fit were compiling")
    if fit.seconds > BUSY * fit.processor:
        heard.append(f"busy machine: {fit.processor:.2f} s of processor time")
    heard.append(data.note)
    if IN_PROCESSOR_TIME:
        heard.append("processor seconds, summed over threads")
    return {
        "checksum": data.checksum,
        "n": data.X_train.shape[0],
        "d": data.X_train.shape[1],
        "n_test": data.X_test.shape[0],
        "compile_seconds": compile_seconds,
        "fit_seconds": fit.seconds,
        "predict_seconds": predict.seconds,
        "peak_rss_mb": peak,
        "train_error": train_error,
        "test_error": data.error(predicted, data.y_test),
        "note": " | ".join(text for text in heard if text),
        **data.measures(predicted),
        **facts,
    }


def _full_certificate(solver, model, data):
    """Return the certificate over all rows, timed apart, where a solver asks for it."""
    if not solver.certifies_apart:
        return {}
    from corevec import certify

    with Timer() as timer:
        found = certify(model, data.X_train, data.y_train)
    return {
        "certify_seconds": timer.seconds,
        "primal": found.primal,
        "dual": found.dual,
        "gap": found.relative_gap,
    }


_warmed = {}


def _warm_up(solver, case, data, threads):
    """Fit a few rows, once per solver, options and type of data.

    Returns the seconds Numba compiled: 0 when its disk cache already held all.
    """
    options = sorted(
        (k, str(v)) for k, v in case.params.items() if k not in ("C", "gamma")
    )
    kind = (solver.name, str(options), type(data.X_train), data.X_train.dtype)
    if kind not in _warmed:
        few = data.first(WARM_UP_ROWS)
        model = solver.build(case.params, case.seed, threads)
        with Timer() as timer:
            model.fit(few.X_train, few.y_train).predict(few.X_test)
        _warmed[kind] = timer.compiling
    return _warmed[kind]


def _train_error(model, data):
    rows = slice(0, min(TRAIN_ERROR_ROWS, data.X_train.shape[0]))
    truth = None if data.y_train is None else data.y_train[rows]
    return data.error(model.predict(data.X_train[rows]), truth)


def _keep_history(model, case, out):
    """Write the rounds of a fit, for the plots of gap against time."""
    history = getattr(model, "history_", None)
    if history:
        folder = out / "history"
        folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps(list(history), default=_plain)
        (folder / f"{case.key}.json").write_text(text)


def _plain(value):
    return value.item() if isinstance(value, np.generic) else str(value)


def _one_line(case, row):
    if row.get("note", "").startswith("error:"):
        return f"{case}: {row['note']}"
    shown = [f"{row['fit_seconds']:.3f} s"]
    for name in ("test_error", "rmse", "balanced_accuracy", "gap"):
        if row.get(name) not in (None, ""):
            shown.append(f"{name} {row[name]:.2g}")
    return f"{case}: {', '.join(shown)}{' (cached)' if row['cached'] else ''}"
