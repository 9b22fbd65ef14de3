"""Solvers by name; each file has one `SOLVER`, its settings and why they are fair."""

from benchmarks.solvers import (
    corevec_oneclass,
    corevec_paper,
    corevec_sampled,
    corevec_svdd,
    corevec_tol,
    nystroem_linearsvc,
    sklearn_oneclass,
    sklearn_svc,
    sklearnex_svc,
)

SOLVERS = {
    module.SOLVER.name: module.SOLVER
    for module in (
        corevec_oneclass,
        corevec_paper,
        corevec_sampled,
        corevec_svdd,
        corevec_tol,
        nystroem_linearsvc,
        sklearn_oneclass,
        sklearn_svc,
        sklearnex_svc,
    )
}
