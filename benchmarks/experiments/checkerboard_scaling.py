"""Time, error and support vectors on the checkerboard, 1e3 to 1e6 rows.

Figure 2 of the CVM paper. C = 1000; gamma 0.37 (Loosli and Canu) and the papers' 1/beta
(0.1875 on this board, resolved to a number so that every solver gets the same). The
headline, SVC on 20,000 rows against corevec on 1,000,000, is in the same run. Peers
stop at 20,000 rows.
"""

from benchmarks.case import Case
from benchmarks.datasets import load

REPEATS = 3
SIZES = (1_000, 10_000, 20_000, 50_000, 100_000, 1_000_000)
QUICK_SIZES = (1_000, 3_000)
OURS = ("corevec_tol", "corevec_sampled", "corevec_paper")
PEERS = ("sklearn_svc", "sklearnex_svc", "nystroem_linearsvc")
PEER_ROWS = 20_000


def cases(quick):
    for rule in ("0.37", "mean-distance"):
        for n in QUICK_SIZES if quick else SIZES:
            data_args = {"n": n, "n_test": 2_000 if quick else 100_000}
            params = {"C": 1000.0, "gamma": _gamma(rule, data_args), "gamma_rule": rule}
            for solver in OURS + (PEERS if n <= PEER_ROWS else ()):
                yield Case(solver, "checkerboard", params, data_args)


def _gamma(rule, data_args):
    if rule == "mean-distance":
        return round(load("checkerboard", data_args).mean_distance_gamma, 6)
    return float(rule)
