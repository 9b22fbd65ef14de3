"""One-class L2-SVM and SVDD on 1,000,000 Gaussian rows; OneClassSVM on 20,000.

Gamma is the papers' 1/beta of a standard Gaussian in 10 columns, 1/20. OneClassSVM has
`nu` where ours has C or nu; the detectors answer alike, not the same problem, so read
the share of outliers beside the time.
"""

from benchmarks.case import Case

REPEATS = 3
GAMMA = 0.05
NU = 0.05


def cases(quick):
    n_ours, n_peer = (3_000, 1_000) if quick else (1_000_000, 20_000)
    # nu = 0.05 of 1,000,000 rows are 50,000 support vectors: beyond a core set.
    for params in ({"C": 10.0}, {"C": 1000.0}):
        yield _case("corevec_oneclass", params, n_ours)
    for params in ({}, {"C": 10.0}):
        yield _case("corevec_svdd", params, n_ours)
    yield _case("corevec_oneclass", {"nu": NU}, n_peer)
    yield _case("sklearn_oneclass", {"nu": NU}, n_peer)


def _case(solver, params, n):
    return Case(solver, "gaussian", params | {"gamma": GAMMA}, {"n": n})
