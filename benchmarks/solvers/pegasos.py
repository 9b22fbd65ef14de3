"""One pass of `corevec.reference.Pegasos`, one row a step (k = 1), in the given order.

The table of 2026-11-16 was measured with a version of its own in this file; the two
agree to 3e-13 in the weights, and have the same number of violations (nSV).
"""

from benchmarks.solvers._base import Solver, chosen


def build(params, seed, threads):
    from corevec.reference import Pegasos

    return Pegasos(
        order="given",
        n_epochs=1,
        random_state=seed,
        **chosen(params, "C", "fit_intercept"),
    )


def facts(model, params):
    return {"n_support": len(model.support_)}


SOLVER = Solver("pegasos", "corevec", "corevec", build, facts)
