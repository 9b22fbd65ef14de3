"""The core vector machine with at most `n_basis` core rows, as in the CPSP paper.

`low_rank=False`: the core set alone; else the span of a low-rank kernel takes over. The
paper's CVM stops at as many vectors as it is allowed, whatever its tolerance.
"""

from benchmarks.solvers._base import Solver, arguments, certificate_facts


def build(params, seed, threads):
    from corevec import CoreVectorClassifier

    given = arguments(params)
    max_core = given.pop("n_basis")
    return CoreVectorClassifier(
        **given,
        max_core=max_core,
        low_rank=False,
        random_state=seed,
        n_jobs=threads,
    )


SOLVER = Solver("corevec_cvm", "corevec", "corevec", build, certificate_facts)
