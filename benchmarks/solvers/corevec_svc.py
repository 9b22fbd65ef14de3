"""`corevec.svm.SVC`: SVC's own problem at its own tolerance, by our hinge solver.

The gap that is reported is what the tolerance of the violation, 1e-3, came to.
"""

from benchmarks.solvers._base import Solver, chosen
from corevec.svm import SVC


def build(params, seed, threads):
    given = chosen(params, "C", "gamma", "max_iter", "class_weight", "tol")
    return SVC(**given, n_jobs=threads)


def facts(model, params):
    certificate = model.certificate_
    return {
        "n_support": len(model.support_),
        "primal": certificate.primal,
        "dual": certificate.dual,
        "gap": certificate.relative_gap,
        "converged": certificate.converged,
        "stopped_by": certificate.stopped_by,
    }


SOLVER = Solver("corevec_svc", "corevec", "corevec", build, facts)
