"""Solvers by name; each file has one `SOLVER`, its settings and why they are fair."""

from benchmarks.solvers import (
    corevec_oneclass,
    corevec_paper,
    corevec_pointwise,
    corevec_ranker,
    corevec_sampled,
    corevec_surface,
    corevec_svdd,
    corevec_tol,
    corevec_tube_auto,
    corevec_tube_fixed,
    corevec_tube_paper,
    corevec_tube_sampled,
    hgb_pointwise,
    nystroem_linearsvc,
    sklearn_oneclass,
    sklearn_svc,
    sklearn_svr,
    sklearnex_svc,
)

SOLVERS = {
    module.SOLVER.name: module.SOLVER
    for module in (
        corevec_oneclass,
        corevec_paper,
        corevec_pointwise,
        corevec_ranker,
        corevec_sampled,
        corevec_surface,
        corevec_svdd,
        corevec_tol,
        corevec_tube_auto,
        corevec_tube_fixed,
        corevec_tube_paper,
        corevec_tube_sampled,
        hgb_pointwise,
        nystroem_linearsvc,
        sklearn_oneclass,
        sklearn_svc,
        sklearn_svr,
        sklearnex_svc,
    )
}
