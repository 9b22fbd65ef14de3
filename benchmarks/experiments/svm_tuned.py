"""`corevec.svm` beside SVC and SVR with tuned C and gamma, and whether they agree.

C and gamma are the best of SVC (SVR) on a validation part of the first 3,000 training
rows; all solvers get them, at their default tolerance of 1e-3, and are timed.

Agreement is measured apart, with both at a tolerance of 1e-6: the share of test rows
with the same label (for SVR with predictions within a thousandth of a deviation), and
the two objectives, each between its own primal and dual value in float64. The note of
such a row holds these numbers.

At most 20,000 training rows of a set. One command; what a CSV of the same commit holds
already is not measured again, so that an interrupted run goes on.
"""

import json

import numpy as np
from sklearn.svm import SVC, SVR
from threadpoolctl import threadpool_limits

from benchmarks import datasets, tuning
from benchmarks.case import Case
from benchmarks.datasets import standardised
from benchmarks.measuring import Timer, collected_warnings

REPEATS = 1
N_ROWS, QUICK_ROWS = 20_000, 600
SETS = [f"plain_{name}" for name in (*standardised.CLASSES, *standardised.NUMBERS)]
QUICK_SETS = ["plain_satimage", "plain_space_ga"]
CS = (1.0, 10.0, 100.0)
# In units of gamma="scale".
FACTORS = (1 / 4, 1.0, 4.0)
CLASSIFIERS = ("corevec_svc", "sklearn_svc", "sklearnex_svc")
REGRESSORS = ("corevec_svr", "sklearn_svr", "sklearnex_svr")
TIGHT = 1e-6
# LIBSVM's steps: a fit that needs more says so, and is compared as it is.
MOST_STEPS = 50_000_000
# Predictions of regressions that differ by less, in deviations of y, count as equal.
SAME_WITHIN = 1e-3
CACHE_MB = 1000


def cases(quick):
    sizes = {"n": QUICK_ROWS if quick else N_ROWS}
    for dataset in QUICK_SETS if quick else SETS:
        solvers = REGRESSORS if is_regression(dataset) else CLASSIFIERS
        params = chosen(dataset, solvers[1], sizes, quick)
        for solver in solvers:
            yield Case(solver, dataset, params, sizes)
        how = params | {"how": "agreement"}
        yield Case(solvers[0], dataset, how, sizes, probe=agreement)


def is_regression(dataset):
    return dataset.removeprefix("plain_") in standardised.NUMBERS


def chosen(dataset, peer, sizes, quick):
    """Return the C and gamma with the least error of the peer on validation rows."""
    data = datasets.load(dataset, sizes)
    unit = 1 / (data.X_train.shape[1] * data.X_train.var())
    gammas = [float(f"{factor * unit:.4g}") for factor in FACTORS]
    return tuning.on_subset(peer, dataset, {"C": CS, "gamma": gammas}, quick=quick)


def agreement(case, threads):
    """Return the columns of one comparison at the tight tolerance."""
    data = datasets.load(case.dataset, case.data_args)
    numbers = is_regression(case.dataset)
    y, unit = data.y_train, 1.0
    if numbers:
        y, unit = (y - y.mean()) / y.std(), float(y.std())
    ours, theirs = machines(case.params, numbers, threads)
    with threadpool_limits(threads), collected_warnings() as heard:
        with Timer() as fit:
            ours.fit(data.X_train, y)
        with Timer() as peer:
            theirs.fit(data.X_train, y)
        found, other = (model.predict(data.X_test) for model in (ours, theirs))
        told = compared(ours, theirs, data.X_train, y)
    same = np.abs(found - other) < SAME_WITHIN if numbers else found == other
    told |= {"same": float(np.mean(same)), "seconds": peer.seconds}
    predicted = found * unit + data.y_train.mean() if numbers else found
    return {
        "checksum": data.checksum,
        "n": data.X_train.shape[0],
        "d": data.X_train.shape[1],
        "n_test": data.X_test.shape[0],
        "fit_seconds": fit.seconds,
        "test_error": data.error(predicted, data.y_test),
        "primal": told["primal"],
        "dual": told["dual"],
        "gap": ours.certificate_.relative_gap,
        "converged": ours.certificate_.converged,
        "note": " | ".join([json.dumps(told), *heard]),
    }


def machines(params, numbers, threads):
    """Return both machines with the same parameters."""
    from corevec import svm

    given = {"C": params["C"], "gamma": params["gamma"], "tol": TIGHT}
    kinds = (svm.SVR, SVR) if numbers else (svm.SVC, SVC)
    limits = {"cache_size": CACHE_MB, "max_iter": MOST_STEPS}
    return kinds[0](**given, n_jobs=threads), kinds[1](**given, **limits)


def compared(ours, theirs, X, y):
    """Return both objectives: sums over the machines, and ours between theirs."""
    from corevec import certify

    own, other = (parts_of(one) for one in (ours.certificate_, certify(theirs, X, y)))
    return {
        "primal": sum(one.primal for one in own),
        "dual": sum(one.dual for one in own),
        "their_primal": sum(one.primal for one in other),
        "their_dual": sum(one.dual for one in other),
        "their_gap": max(one.relative_gap for one in other),
    }


def parts_of(certificate):
    return certificate.parts or (certificate,)


def report(rows, folder):
    """Return times beside the peers, and agreement, set by set."""
    is_probe = rows["params"].map(lambda text: "how" in json.loads(text))
    timed, probed = rows[~is_probe], rows[is_probe]
    times = timed.pivot_table("fit_seconds", "dataset", "solver", sort=False)
    lines = ["| data | rows | C | gamma | ours s | SVC s | ratio | intelex s | ratio |"]
    lines.append("|" + "---|" * 9)
    for dataset, here in times.iterrows():
        row = timed[timed["dataset"] == dataset].iloc[0]
        params, own = json.loads(row["params"]), here[here.index.str.startswith("core")]
        ours = own.max()
        peers = [
            here[here.index.str.startswith(name)].max()
            for name in ("sklearn_", "sklearnex_")
        ]
        shown = " | ".join(f"{peer:.2f} | {ours / peer:.2f}" for peer in peers)
        lines.append(
            f"| {dataset} | {int(row['n'])} | {params['C']:g} | {params['gamma']:.3g} "
            f"| {ours:.2f} | {shown} |"
        )
    lines += ["", "| data | same predictions | gap | their gap | objectives differ |"]
    lines.append("|" + "---|" * 5)
    for _, row in probed.iterrows():
        told = json.loads(row["note"].split(" | ")[0])
        apart = abs(told["primal"] - told["their_primal"]) / abs(told["primal"])
        lines.append(
            f"| {row['dataset']} | {100 * told['same']:.3f} % | {row['gap']:.1e} "
            f"| {told['their_gap']:.1e} | {apart:.1e} |"
        )
    return ["## Tuned C and gamma\n\n" + "\n".join(lines)]
