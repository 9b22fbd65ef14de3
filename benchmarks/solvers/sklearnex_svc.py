"""SVC of scikit-learn-intelex (oneDAL): as scikit-learn's, several threads.

oneDAL has a thread pool that threadpoolctl does not see; `daalinit` sets its size.
"""

import logging

from benchmarks.solvers._base import Solver, chosen, libsvm_facts

CACHE_MB = 1000


def build(params, seed, threads):
    import daal4py
    from sklearnex.svm import SVC

    logging.getLogger("sklearnex").setLevel(logging.WARNING)  # else a line per call
    daal4py.daalinit(threads)
    given = chosen(params, "C", "gamma", "max_iter")
    return SVC(**given, cache_size=CACHE_MB)


SOLVER = Solver(
    "sklearnex_svc",
    "scikit-learn-intelex",
    "sklearnex",
    build,
    libsvm_facts,
    is_peer=True,
)
