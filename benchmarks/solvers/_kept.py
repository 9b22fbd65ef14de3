"""The fitted exact SVM, kept per machine with its row: predicted with again, later.

The harness keeps the row of a slow peer. The tables of the span (issue 4) need the
model too: its objective, its speed of prediction, its compression. A fit of more than
`SLOW_SECONDS` is kept in `.cache/`, keyed as the harness keys its rows; to measure it
again, remove `.cache/fitted-*` (`--fresh-peers` does not reach a probe).

The training error of an SVC with many vectors takes longer than its fit by its own
`predict`; here it comes from the pass that measures the objective, blocks by BLAS.
"""

from datetime import UTC, datetime

import joblib
import numpy as np
from sklearn.metrics.pairwise import rbf_kernel
from threadpoolctl import threadpool_limits

from benchmarks import datasets, records
from benchmarks.measuring import Timer, collected_warnings, peak_rss_mb, reset_peak_rss
from benchmarks.solvers._base import chosen

# As in harness.py; the harness imports the solvers, so not from there.
SLOW_SECONDS = 10.0
WARM_UP_ROWS = 3000
BLOCK_ROWS = 1000


def kept_fit(case, threads):
    """Return the columns of a case: the `probe` of a peer whose model is kept."""
    return fitted(case, threads)[1]


def fitted(case, threads):
    """Return (model, columns of its row), kept ones of a peer where there are."""
    from benchmarks.solvers import SOLVERS

    data = datasets.load(case.dataset, case.data_args)
    if not SOLVERS[case.solver].is_peer:
        return _measured(case, data, threads)
    key = _key(case, data, threads)
    path = records.PEER_CACHE / f"{key}.joblib"
    row = records.cached_peer(key)
    if row and path.exists():
        return joblib.load(path), row | {"cached": True}
    model, row = _measured(case, data, threads)
    if row["fit_seconds"] > SLOW_SECONDS:
        records.PEER_CACHE.mkdir(exist_ok=True)
        joblib.dump(model, path, compress=1)
        stamp = datetime.now(UTC).isoformat(timespec="seconds")
        note = f"measured {stamp}; {row['note']}".rstrip("; ")
        records.keep_peer(key, row | {"note": note})
    return model, row


def compressed(case, threads):
    """Return a kept SVC after `compress`, the columns of that, the SVC's seconds."""
    from benchmarks.case import Case
    from benchmarks.solvers import SOLVERS
    from corevec import compress

    params = {name: case.params[name] for name in ("C", "gamma")}
    exact = Case("sklearn_svc", case.dataset, params, case.data_args)
    svc, columns = fitted(exact, threads)
    given = chosen(case.params, "n_basis", "memory_budget")
    with threadpool_limits(threads), Timer() as timer:
        model = compress(svc, **given, n_jobs=threads, random_state=case.seed)
    told = chosen(columns, "checksum", "n", "d", "n_test")
    told |= SOLVERS[case.solver].facts(model, case.params)
    note = f"distance in feature space {model.distance_}"
    told |= {"fit_seconds": timer.seconds, "note": note}
    return model, told, columns["fit_seconds"]


def compressed_fit(case, threads):
    """Return the columns of `compress` of a kept SVC; the seconds of both together."""
    model, columns, svc_seconds = compressed(case, threads)
    data = datasets.load(case.dataset, case.data_args)
    with threadpool_limits(threads), Timer() as timer:
        predicted = model.predict(data.X_test)
    seconds = columns["fit_seconds"]
    return columns | {
        "fit_seconds": svc_seconds + seconds,
        "predict_seconds": timer.seconds,
        "test_error": data.error(predicted, data.y_test),
        "note": f"{columns['note']}; compress alone: {seconds:.1f} s",
    }


def _key(case, data, threads):
    from benchmarks.solvers import SOLVERS

    known = records.environment()
    facts = [known[k] for k in ("machine", "python", "numpy", "sklearn")]
    version = records.package_version(SOLVERS[case.solver].package)
    given = [case.solver, case.params, case.seed]
    return "fitted-" + records.digest_of(
        [facts, threads, version, given, data.checksum]
    )


def _measured(case, data, threads):
    from benchmarks.solvers import SOLVERS

    solver = SOLVERS[case.solver]
    with threadpool_limits(threads), collected_warnings() as heard:
        if not solver.is_peer:
            few = data.first(WARM_UP_ROWS)
            solver.build(case.params, case.seed, threads).fit(few.X_train, few.y_train)
        model = solver.build(case.params, case.seed, threads)
        reset_peak_rss()
        with Timer() as fit:
            model.fit(data.X_train, data.y_train)
        peak = peak_rss_mb()
        with Timer() as predict:
            predicted = model.predict(data.X_test)
        is_svc = solver.name == "sklearn_svc"
        objective = _objective(model, data, case.params) if is_svc else {}
    return model, {
        "checksum": data.checksum,
        "n": data.X_train.shape[0],
        "d": data.X_train.shape[1],
        "n_test": data.X_test.shape[0],
        "compile_seconds": 0.0,
        "fit_seconds": fit.seconds,
        "predict_seconds": predict.seconds,
        "peak_rss_mb": peak,
        "test_error": data.error(predicted, data.y_test),
        "note": " | ".join(text for text in [*heard, data.note] if text),
        "cached": False,
        **objective,
        **solver.facts(model, case.params),
    }


def _objective(model, data, params):
    """Return the primal value and the training error of scikit-learn's two-class SVC.

    P = |w|^2 / 2 + C sum_i max(0, 1 - y_i f_i), with |w|^2 = sum_j c_j (f_j - b) over
    the support vectors, which are training rows.
    """
    if len(model.classes_) > 2:
        return {}
    f = decisions(model, data.X_train, params["gamma"])
    margins = np.where(data.y_train == model.classes_[1], f, -f)
    bias, weights = np.ravel(model.intercept_)[0], _weights(model)
    square = float(weights @ (f[model.support_] - bias))
    slack = float(np.maximum(0, 1 - margins).sum())
    return {
        "primal": square / 2 + params["C"] * slack,
        "train_error": float(np.mean(margins <= 0)),
    }


def decisions(model, X, gamma):
    """Return the decision values of a two-class SVC, some rows at a time."""
    vectors, weights = model.support_vectors_, _weights(model)
    blocks = [
        rbf_kernel(X[start : start + BLOCK_ROWS], vectors, gamma=gamma) @ weights
        for start in range(0, X.shape[0], BLOCK_ROWS)
    ]
    return np.concatenate(blocks) + np.ravel(model.intercept_)[0]


def _weights(model):
    weights = model.dual_coef_
    return np.ravel(weights.toarray() if hasattr(weights, "toarray") else weights)
