"""What the solvers of `corevec.reference` share: one thread, the cache of SVC, facts.

They have no limit of time (one in a case is passed over): `max_iter` is theirs, and
`hit_limit` says where it ended a fit. The gap of the model is measured on all rows
after the fit, and timed apart.
"""

from benchmarks.solvers._base import Solver, arguments
from benchmarks.solvers.sklearn_svc import CACHE_MB


def reference_solver(name, estimator, fixed=None, *, renamed=None):
    """Return the solver that builds `corevec.reference.<estimator>`.

    `renamed` maps names of a case's params to those of the estimator.
    """

    def build(params, seed, threads):
        from corevec import reference

        names = renamed or {}
        given = {names.get(key, key): v for key, v in arguments(params).items()}
        given.pop("max_time", None)
        model = getattr(reference, estimator)(**given, **(fixed or {}))
        own = {"cache_size": CACHE_MB, "random_state": seed}
        known = model.get_params()
        return model.set_params(**{key: own[key] for key in own if key in known})

    return Solver(name, "corevec", "corevec", build, facts, certifies_apart=True)


def facts(model, params):
    """Return what a reference model says about itself."""
    return {
        "n_support": len(model.support_),
        "converged": model.fit_status_ == 0,
        "stopped_by": "tol" if model.fit_status_ == 0 else "limit",
        "hit_limit": model.fit_status_ != 0,
    }
