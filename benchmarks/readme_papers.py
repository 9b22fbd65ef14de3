"""Tables of docs/loosli-canu.md and docs/solvers.md: the solvers of the papers."""

import statistics
from collections import defaultdict

from benchmarks.readme import mean, measured, median, table

CS = (1e-2, 1e-1, 1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6)
TOL = 1e-3
EXACT = {
    "sklearn_svc": "SVC (LIBSVM)",
    "reference_smo": "SMO",
    "reference_simplesvm": "SimpleSVM",
}
OTHERS = {"reference_lasvm_online": "LASVM", "reference_bvm": "BVM"}
BOTH = {"corevec_tol": "corevec", "corevec_paper": "CVM as printed"}


def by(rows, *names):
    """Return the rows grouped by columns, or params of the same name."""
    found = defaultdict(list)
    for row in rows:
        key = tuple(row["params"].get(name, row.get(name)) for name in names)
        found[key].append(row)
    return found


def as_printed():
    """What the paper's rule does at 30,000 rows, beside the epsilon it would need."""
    found = by(_sweep(30_000), "gamma", "C", "solver")
    lines = []
    for gamma in (0.37, 1.0):
        for C in CS:
            paper = found[gamma, C, "corevec_paper"]
            ours = found[gamma, C, "corevec_tol"]
            if paper and ours:
                rho = 1 / (2 * median(ours, "dual"))
                epsilon = TOL * rho / (2 * (2 + 1 / C))
                lines.append(
                    f"| {gamma:g} | {C:.0e} | {rho:.1e} | {epsilon:.1e} "
                    f"| {_percent(paper)} | {median(paper, 'gap'):.3f} "
                    f"| {_seconds(paper)} | {int(median(paper, 'n_core')):,} "
                    f"| {_percent(ours)} |"
                )
    title = (
        "**The CVM as printed**, epsilon = 1e-6, 30,000 rows (ten boards from C = 1e3 "
        "on, one below; its\nlimit is 5 s; `python -m benchmarks loosli_canu`):"
    )
    head = (
        "| gamma | C | margin rho | epsilon needed | CVM: test error | its gap "
        "| seconds | core set | error at the optimum |"
    )
    return table(title, head, lines)


def at_large_c():
    """Figure 3 of the text in numbers: everybody at 30,000 rows, gamma = 1."""
    found = by(_sweep(30_000), "gamma", "C", "solver")
    solvers = BOTH | EXACT
    lines = []
    for C in CS:
        cells = [_cell(found[1.0, C, solver]) for solver in solvers]
        lines.append(f"| {C:.0e} | " + " | ".join(cells) + " |")
    title = (
        "**Figure 3**, gamma = 1, 30,000 rows: test error; seconds; support vectors. "
        "`!`: ended by its\nlimit (SVC and SMO 10,000,000 steps, the CVM 5 s). corevec "
        "and the CVM have the squared hinge:"
    )
    return table(title, "| C | " + " | ".join(solvers.values()) + " |", lines)


def while_rows_grow():
    """Figures 1 and 2 of the text in numbers: test error and seconds against rows."""
    found = by(measured("loosli_canu_rows"), "C", "gamma", "n", "solver")
    solvers = BOTH | EXACT
    lines = []
    for C, gamma, n in sorted({key[:3] for key in found}, key=lambda k: (k[:2], _n(k))):
        cells = [_cell(found[C, gamma, n, solver]) for solver in solvers]
        lines.append(f"| {C:.0e} | {gamma:g} | {_n(n):,} | " + " | ".join(cells) + " |")
    title = (
        "**Figures 1 and 2**: test error; seconds; support vectors "
        "(`python -m benchmarks loosli_canu_rows`,\none thread, tolerance 1e-6 for the "
        "exact solvers; empty: not waited for):"
    )
    head = "| C | gamma | rows | " + " | ".join(solvers.values()) + " |"
    return table(title, head, lines)


def reference_speed():
    """Return the seconds of every reference solver, as multiples of LIBSVM's."""
    found = by(measured("reference_speed"), "dataset", "C", "n", "solver")
    solvers = EXACT | OTHERS
    lines = []
    for key in sorted({key[:3] for key in found}, key=lambda k: (k[0], k[1], _n(k))):
        cells = []
        svc = found[(*key, "sklearn_svc")]
        for solver in solvers:
            rows = found[(*key, solver)]
            cells.append(_multiple(rows, svc) if rows and svc else "")
        name, C, n = key
        lines.append(f"| {name} | {C:.0e} | {_n(n):,} | " + " | ".join(cells) + " |")
    title = (
        "**Seconds of the reference solvers**, times LIBSVM's in brackets\n"
        "(`python -m benchmarks reference_speed`; one thread, tolerance 1e-3):"
    )
    head = "| data | C | rows | " + " | ".join(solvers.values()) + " |"
    return table(title, head, lines)


def cvm_figures():
    """Figures 2-4 of the CVM paper in numbers, at the largest size each solver ran."""
    found = by(measured("cvm_figures"), "dataset", "solver", "n")
    names = {
        "corevec_paper": "CVM as printed",
        "corevec_tol": "corevec",
        "reference_smo_l2": "L2-SVM by SMO",
        "corevec_lsvm": "LSVM, 500 vectors",
        "corevec_rsvm": "RSVM, a tenth of the rows",
        "sklearn_svc": "L1-SVM (LIBSVM)",
        "reference_simplesvm": "SimpleSVM",
    }
    lines = []
    for dataset in ("checkerboard", "covtype", "adult"):
        for solver, name in names.items():
            sizes = [_n(n) for d, s, n in found if (d, s) == (dataset, solver)]
            for n in sorted(sizes)[-1:]:
                rows = found[dataset, solver, str(n)]
                lines.append(f"| {dataset} | {name} | {n:,} | {_cell(rows)} |")
    title = (
        "**Figures 2-4 of the CVM paper**, the largest size that each was run on: test "
        "error; seconds; vectors\n(`python -m benchmarks cvm_figures`, one thread, all "
        "sizes; `!`: ended by its limit):"
    )
    return table(title, "| data | solver | rows | error; s; vectors |", lines)


def _sweep(n):
    return [row for row in measured("loosli_canu") if _n(row["n"]) == n]


def _n(key):
    return int(float(key[2] if isinstance(key, tuple) else key))


def _percent(rows):
    return f"{100 * mean(rows, 'test_error'):.2f} %"


def _seconds(rows):
    ended = any(row["stopped_by"] == "max_time" for row in rows)
    return f"{median(rows, 'fit_seconds'):.2f}" + (" (limit)" if ended else "")


def _cell(rows):
    if not rows:
        return ""
    vectors = statistics.median(float(row["n_support"]) for row in rows)
    mark = "!" if any(row["hit_limit"] == "True" for row in rows) else ""
    return f"{_percent(rows)}; {median(rows, 'fit_seconds'):.2f}{mark}; {vectors:,.0f}"


def _multiple(rows, svc):
    seconds = median(rows, "fit_seconds")
    if rows is svc:
        return f"{seconds:.2f}"
    return f"{seconds:.2f} ({seconds / median(svc, 'fit_seconds'):.2g})"
