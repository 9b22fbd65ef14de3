"""corevec that looks for rows in samples of 20,000: cost nearly independent of n."""

from benchmarks.solvers._base import Solver, certificate_facts, with_method


def build(params, seed, threads):
    from corevec import CoreVectorClassifier

    given = with_method(params) | {"method": "sample"}
    return CoreVectorClassifier(**given, random_state=seed, n_jobs=threads)


SOLVER = Solver("corevec_sampled", "corevec", "corevec", build, certificate_facts)
