"""What a solver is to the harness, and what is read from fitted models."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec

# Keys of a case's params that describe it and are no parameter of any estimator.
DESCRIPTIVE = {"gamma_rule", "tube_sd"}


@dataclass(frozen=True)
class Solver:
    """A named way to fit.

    `build(params, seed, threads)` returns an estimator; `facts(model, params)` returns
    columns of the CSV; `needs` is the module without which the solver is skipped;
    `certifies_apart`: the fit looked at samples only, so the pass over all rows is
    made, and timed, after it.
    """

    name: str
    package: str
    needs: str
    build: Callable
    facts: Callable
    is_peer: bool = False
    certifies_apart: bool = False

    def skip_reason(self):
        """Return why this solver cannot run here; empty if it can."""
        if find_spec(self.needs) is None:
            return f"{self.needs} is not installed (pip install {self.package})"
        return ""


def chosen(params, *names):
    """Return the entries of `params` with these names, those that are there."""
    return {name: params[name] for name in names if name in params}


def arguments(params):
    """Return the entries of `params` that the estimator is to be given."""
    return {k: v for k, v in params.items() if k not in DESCRIPTIVE}


# What a case says flatly, and the method object that takes it: rows of the CSV are
# found by these words.
SPAN = {"n_basis": "n_vectors", "basis": "basis", "regulariser": "regulariser"}
SPAN |= {"certificate": "certificate"}
CELLS = {"cells": "size", "n_trees": "n_trees", "metric": "metric"}
CORE = {"sampling": "sampling", "batch": "batch", "max_core": "max_vectors"}


def with_method(params):
    """Return the parameters of a corevec estimator: flat words become `method`."""
    from corevec import methods

    given = arguments(params)
    for names, kind in (
        (CELLS, methods.Cells),
        (SPAN, methods.FewVectors),
        (CORE, methods.CoreSet),
    ):
        own = {new: given.pop(old) for old, new in names.items() if old in given}
        if not own:
            continue
        if kind is methods.Cells and given.get("gamma") == "tune":
            own["tune"] = given.pop("gamma") == "tune"
        given["method"] = kind(**own)
    return given


def certificate_facts(model, params):
    """Return what a corevec model says about itself."""
    certificate = model.certificate_
    n_support = len(model.support_)
    n_core = model.history_[-1]["core"] if model.history_ else n_support
    return {
        "n_support": n_support,
        "n_core": n_core,
        "sv_share": n_support / n_core if n_core else None,
        "primal": certificate.primal,
        "dual": certificate.dual,
        "gap": certificate.relative_gap,
        "converged": certificate.converged,
        "stopped_by": certificate.stopped_by,
        "passes": certificate.passes,
        "hit_limit": certificate.stopped_by in ("max_time", "max_iter", "max_vectors"),
    }


def libsvm_facts(model, params):
    """Return what scikit-learn's SVC tells: counts, and whether it was cut short."""
    limit = params.get("max_iter", -1)
    n_iter = max(model.n_iter_) if hasattr(model.n_iter_, "__len__") else model.n_iter_
    hit_limit = 0 < limit <= n_iter
    return {
        "n_support": len(model.support_),
        "converged": not hit_limit,
        "stopped_by": "max_iter" if hit_limit else "tol",
        "hit_limit": hit_limit,
    }
