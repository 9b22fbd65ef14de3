"""One pass beside the batch machine on the same rows: many classes, regression.

The test part of mnist (ten digits), letter (26 classes) and Friedman's function, with
the C and gamma that `shared_basis` and `cells` have for the batch machines: nothing is
chosen for the stream. One order, one thread. The batch machine of letter is certified
at a gap of 5 % (`corevec_tol`), that of Friedman's function lies in the span of as many
rows as the stream's budget and is of 90,000 rows; the stream is measured on 1,000,000,
too. mnist's batch machines are in `shared_basis`.
"""

from benchmarks.case import Case

REPEATS = 1
MNIST = {"C": 10.0, "gamma": 0.025}
LETTER = {"C": 32.0, "gamma": 8.0}
# A third of gamma="scale" of these columns, and C, as in decision 0025.
FRIEDMAN = {"C": 30.0, "gamma": 0.4}
STANDARD = {"C": 30.0, "gamma": 0.4 / 12}
QUICK = {"n": 600}
METHODS = (
    "corevec_core_stream",
    "corevec_tol",
    "corevec_core_regressor",
    "corevec_subspace_regressor",
)


def cases(quick):
    sizes = QUICK if quick else {}
    for budget in (500, 1000, 2000):
        yield Case("corevec_core_stream", "letter", LETTER | {"budget": budget}, sizes)
    yield Case("corevec_tol", "letter", LETTER | {"tol": 0.05, "max_time": 60.0}, sizes)
    one = FRIEDMAN | {"budget": 500}
    yield Case("corevec_core_regressor", "friedman_1m", one, sizes)
    yield Case(
        "corevec_core_regressor", "friedman_100k", STANDARD | {"budget": 500}, sizes
    )
    batch = STANDARD | {"n_basis": 500, "tube": 0.0}
    yield Case("corevec_subspace_regressor", "friedman_100k", batch, sizes)
    yield Case("corevec_core_stream", "mnist10", MNIST | {"budget": 1000}, sizes)
