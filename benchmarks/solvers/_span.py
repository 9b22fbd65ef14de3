"""What the solvers in the span of a basis share: names, facts, what they need."""

from dataclasses import dataclass

from benchmarks import records
from benchmarks.solvers._base import Solver, with_method

# What the paper's methods have in common: the hinge loss and no bias. The bound is the
# cheap one, so that the seconds are those of training.
HINGE = {"loss": "hinge", "fit_intercept": False, "certificate": "projection"}


@dataclass(frozen=True)
class SpanSolver(Solver):
    """A solver by a name of corevec that an older version may not have."""

    imports: str = "CoreVectorClassifier"

    def skip_reason(self):
        """Return why this solver cannot run here; empty if it can."""
        import corevec

        there = hasattr(corevec, self.imports)
        return "" if there else f"this corevec has no {self.imports}"


def span_solver(name, fixed=None, *, imports="CoreVectorClassifier", apart=False):
    """Return the solver that builds `corevec.<imports>` with `fixed` settings."""

    def build(params, seed, threads):
        import corevec

        given = with_method(params | (fixed or {}))
        estimator = getattr(corevec, imports)
        return estimator(**given, random_state=seed, n_jobs=threads)

    return SpanSolver(
        name,
        "corevec",
        "corevec",
        build,
        span_facts,
        certifies_apart=apart,
        imports=imports,
    )


def span_facts(model, params):
    """Return what a model in a span says about itself; its vectors are `n_support`."""
    certificate = model.certificate_
    told = {
        "n_support": n_vectors(model),
        "primal": certificate.primal,
        "dual": certificate.dual,
        "gap": certificate.relative_gap,
        "converged": certificate.converged,
        "stopped_by": certificate.stopped_by,
        "passes": certificate.passes,
        "hit_limit": certificate.stopped_by in ("max_time", "max_iter", "max_vectors"),
        "dual_bound": getattr(certificate, "dual_bound", ""),
        "confidence": getattr(certificate, "confidence", ""),
    }
    return {name: told[name] for name in told if name in records.COLUMNS}


def n_vectors(model):
    """Return how many vectors a prediction evaluates the kernel with."""
    return int(model.support_vectors_.shape[0])
