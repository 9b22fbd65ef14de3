"""The core vector machine with at most `n_basis` core rows, as in the CPSP paper.

The paper's CVM stops at as many vectors as it is allowed, whatever its tolerance.
"""

from benchmarks.solvers._base import Solver, arguments, certificate_facts


def build(params, seed, threads):
    from corevec import CoreVectorClassifier, methods

    given = arguments(params)
    max_vectors = given.pop("n_basis")
    return CoreVectorClassifier(
        random_state=seed,
        n_jobs=threads,
        method=methods.CoreSet(max_vectors=max_vectors),
        **given,
    )


SOLVER = Solver("corevec_cvm", "corevec", "corevec", build, certificate_facts)
