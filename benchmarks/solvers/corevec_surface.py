"""corevec's implicit surfaces: default settings, estimated normals."""

from benchmarks.solvers._base import Solver, arguments


def build(params, seed, threads):
    from corevec.surfaces import ImplicitSurface

    return ImplicitSurface(**arguments(params), random_state=seed, n_jobs=threads)


def facts(model, params):
    """Return what the surface says about itself: all scales, the worst gap."""
    certificate = model.certificate_
    return {
        "n_support": model.n_support_,
        "n_core": sum(scale.n_core_ for scale in model.estimators_),
        "gap": certificate.relative_gap,
        "converged": certificate.converged,
        "stopped_by": certificate.stopped_by,
        "hit_limit": certificate.stopped_by in ("max_time", "max_iter", "max_vectors"),
    }


SOLVER = Solver("corevec_surface", "corevec", "skimage", build, facts)
