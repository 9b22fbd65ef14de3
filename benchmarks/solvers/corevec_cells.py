"""corevec's local machines: `cells` rows per cell, `n_trees` averaged."""

from benchmarks.solvers._base import Solver, certificate_facts, with_method


def build(params, seed, threads):
    from corevec import CoreVectorClassifier

    return CoreVectorClassifier(
        **with_method(params), random_state=seed, n_jobs=threads
    )


def facts(model, params):
    """Return the certificate; of cells also their number and the model's bytes."""
    found = certificate_facts(model, params)
    forest = getattr(model, "_forest", None)
    told = dict(getattr(model, "choice_", {}))
    if forest is not None:
        told |= {"cells": model.n_cells_, "megabytes": forest.n_bytes / 1e6}
    for name in ("gamma_", "C_"):
        if hasattr(model, name):
            told[name] = getattr(model, name)
    if hasattr(model, "metric_"):
        last = model.history_[-1]
        told |= {n: last[n] for n in ("metric_error", "isotropic_error")}
    return found | {"note": str(told)}


SOLVER = Solver("corevec_cells", "corevec", "corevec", build, facts)
