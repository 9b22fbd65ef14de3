"""corevec that looks for rows in samples of 20,000: cost nearly independent of n."""

from benchmarks.solvers._base import Solver, arguments, certificate_facts

SAMPLE = {"sampling": 20_000}


def build(params, seed, threads):
    from corevec import CoreVectorClassifier

    given = arguments(params) | SAMPLE
    return CoreVectorClassifier(**given, random_state=seed, n_jobs=threads)


SOLVER = Solver("corevec_sampled", "corevec", "corevec", build, certificate_facts)
