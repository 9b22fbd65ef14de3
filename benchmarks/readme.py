"""`python -m benchmarks.readme`: write the tables of the docs from results/*.csv.

Everything between the two marks in README.md and docs/index.md (`readme_front.py`), in
docs/measured.md (all of them), docs/loosli-canu.md and docs/solvers.md (the solvers of
the papers, `readme_papers.py`), docs/larger.md, docs/cells.md and docs/gpu.md is
replaced. Of each case the rows of its newest commit count; seconds are medians, errors
means.
"""

import csv
import json
import re
import statistics
from collections import defaultdict
from pathlib import Path

HERE = Path(__file__).parent
README = HERE.parent / "README.md"
DOCS = HERE.parent / "docs"
ALL = DOCS / "measured.md"
BEGIN = "<!-- begin: python -m benchmarks.readme -->\n"
END = "<!-- end -->\n"

MILLION = (
    ("corevec_tol", 1_000_000, "corevec"),
    ("corevec_tol", 100_000, "corevec"),
    ("corevec_sampled", 1_000_000, 'corevec, `method="sample"`'),
    ("corevec_paper", 1_000_000, "the paper's algorithm as printed"),
    ("sklearn_svc", 20_000, "scikit-learn SVC"),
    ("sklearnex_svc", 20_000, "scikit-learn-intelex SVC"),
    ("nystroem_linearsvc", 20_000, "Nystroem + LinearSVC"),
)
REAL = {
    "mnist": "mnist 0-vs-rest, 60,000 x 784",
    "kddcup99": "kddcup99, 100,000 x 119",
    "ijcnn1": "ijcnn1, 49,990 x 22",
    "adult": "adult, 32,561 x 123",
    "covtype": "covtype, 522,911 x 54 (SVC: 20,000 rows)",
}
REGRESSION = {
    "cpu_act": "cpu_act",
    "elevators": "elevators",
    "pole": "pole",
    "house_16h": "house_16h",
    "friedman": "friedman",
    "friedman_100k": "friedman, generated",
    "covtype_signs": "covtype as +-1",
}
LARGE_C = (1e3, 1e4, 1e5, 1e6)


def newest(name):
    """Return the rows of an experiment: of each case, those of its newest commit."""
    path = HERE / "results" / f"{name}.csv"
    if not path.exists():
        return []
    with path.open() as file:
        rows = list(csv.DictReader(file))
    last = {row["case"]: row["commit"] for row in rows}
    kept = [row for row in rows if row["commit"] == last[row["case"]]]
    for row in kept:
        row["params"] = json.loads(row["params"])
        row["data_args"] = json.loads(row["data_args"] or "{}")
    return kept


def median(rows, column):
    return statistics.median(float(row[column]) for row in rows)


def mean(rows, column):
    return statistics.mean(float(row[column]) for row in rows)


def table(title, head, lines):
    """Return a titled Markdown table, nothing where there are no lines."""
    if not lines:
        return ""
    rule = "|" + "---|" * (head.count("|") - 1)
    return "\n".join([title, "", head, rule, *lines, "", ""])


def state(row):
    done = row["converged"] == "True"
    return "" if done else f", NOT converged ({row['stopped_by']})"


def million():
    found = defaultdict(list)
    for row in newest("checkerboard_scaling"):
        if row["params"].get("gamma_rule") == "0.37":
            found[row["solver"], int(row["n"])].append(row)
    lines = []
    for solver, n, name in MILLION:
        rows = found.get((solver, n))
        if not rows:
            continue
        gap = rows[0]["gap"] and f"{median(rows, 'gap'):.1e}"
        gap = "none claimed" if gap == "inf" else gap
        lines.append(
            f"| {name} | {n:,} | {median(rows, 'fit_seconds'):.2f} "
            f"| {int(median(rows, 'n_support')):,} "
            f"| {100 * mean(rows, 'test_error'):.2f} % | {gap} |"
        )
    title = (
        "**A million rows** (4x4 checkerboard, C = 1000, gamma = 0.37;\n"
        "`python -m benchmarks checkerboard_scaling`):"
    )
    head = "| solver | rows | seconds | vectors | test error | gap on all rows |"
    return table(title, head, lines)


def large_c():
    found = defaultdict(list)
    for row in newest("loosli_canu"):
        key = int(row["n"]), row["params"]["gamma"], row["params"]["C"]
        found[(*key, row["solver"])].append(row)
    lines = []
    for C in LARGE_C:
        ours, svc, paper = (
            found[30_000, 1.0, C, solver]
            for solver in ("corevec_tol", "sklearn_svc", "corevec_paper")
        )
        if not (ours and svc and paper):
            continue
        hit = sum(row["hit_limit"] == "True" for row in svc)
        limit = f" ({hit} of {len(svc)} hit 10M iterations)" if hit else ""
        lines.append(
            f"| {C:.0e} | {100 * mean(ours, 'test_error'):.2f} %, "
            f"{median(ours, 'fit_seconds'):.2f} s, "
            f"{max(float(row['gap']) for row in ours):.0e} "
            f"| {100 * mean(svc, 'test_error'):.2f} %, "
            f"{median(svc, 'fit_seconds'):.2f} s{limit} "
            f"| {100 * mean(paper, 'test_error'):.1f} %, {median(paper, 'gap'):.2f} |"
        )
    title = (
        "**Large C, the criticism of Loosli and Canu** (10 boards, gamma = 1, 30,000 "
        "rows;\n`python -m benchmarks loosli_canu`, which has the whole sweep):"
    )
    head = (
        "| C | corevec: error, seconds, worst gap | SVC: error, seconds "
        "| the paper's rule: error, gap |"
    )
    return table(title, head, lines)


def real_data():
    found = defaultdict(dict)
    for row in newest("real_data"):
        ours = row["solver"] == "corevec_tol"
        key = row["params"]["tol"] if ours else row["solver"]
        found[row["dataset"]][key] = row
    lines = []
    for dataset, name in REAL.items():
        of = found[dataset]
        for tol in sorted(key for key in of if not isinstance(key, str)):
            ours, svc, intel = of[tol], of["sklearn_svc"], of["sklearnex_svc"]
            lines.append(
                f"| {name}, tol {tol:g} | {float(ours['fit_seconds']):.1f}, "
                f"{100 * float(ours['test_error']):.2f} %, "
                f"{float(ours['gap']):.1e}{state(ours)} "
                f"| {float(svc['fit_seconds']):.1f}, "
                f"{100 * float(svc['test_error']):.2f} % "
                f"| {float(intel['fit_seconds']):.1f} |"
            )
    title = "**Real data** (`python -m benchmarks real_data`; one C and gamma for all):"
    head = (
        "| data | corevec: seconds, error, gap | SVC: seconds, error "
        "| scikit-learn-intelex SVC |"
    )
    return table(title, head, lines)


def regression():
    found = defaultdict(dict)
    for row in newest("regression"):
        if row["data_args"].get("share") == 90:
            found[row["dataset"]][row["solver"]] = row
    lines = []
    for dataset, name in REGRESSION.items():
        of = found[dataset]
        cells = [
            _regression_cell(of.get(solver), tells_age=True)
            for solver in ("corevec_tube_auto", "corevec_tube_fixed", "sklearn_svr")
        ]
        if any(cells):
            rows = next(int(row["n"]) for row in of.values())
            lines.append(f"| {name}, {rows:,} | " + " | ".join(cells) + " |")
    title = (
        "**Regression** (`python -m benchmarks regression`; 90 % of the rows, RMSE as "
        "in the\npaper, each tuned on 3,000 rows; seconds, RMSE, vectors, gap; *cpu*: "
        "seconds of the processor, one thread;\n*old*: before the exact machine):"
    )
    head = "| data, rows | corevec, automatic tube | corevec, fixed tube | SVR |"
    return table(title, head, lines)


def _regression_cell(row, *, tells_age=False):
    if row is None:
        return ""
    gap = f", {float(row['gap']):.2g}" if row["gap"] else ""
    if row["stopped_by"] == "extrapolated":
        return f"{float(row['fit_seconds']):,.0f} (extrapolated)"
    how = " old" if tells_age and row["solver"] != "sklearn_svr" else ""
    how = " cpu" if "processor seconds" in row["note"] else how
    return (
        f"{float(row['fit_seconds']):.1f}{how}, {float(row['rmse']):.4f}, "
        f"{int(float(row['n_support'])):,}{gap}"
    )


def surfaces():
    cases = defaultdict(list)
    for row in newest("surfaces"):
        cases[row["case"]].append(row)
    lines = []
    for rows in cases.values():
        first = rows[0]
        lines.append(
            f"| {first['dataset']} | {_surface_settings(first['params'])} "
            f"| {median(rows, 'fit_seconds'):.1f} "
            f"| {median(rows, 'predict_seconds'):.1f} "
            f"| {int(float(first['n_support'])):,} "
            f"| {float(first['distance_mean']):.3f} % "
            f"| {float(first['distance_max']):.2f} % | {first['n_pieces']} "
            f"| {first['n_boundary_edges']} |"
        )
    title = (
        "**Surfaces** (`python -m benchmarks surfaces`; distance of the held-out tenth "
        "of the\npoints to the mesh, in % of the diagonal):"
    )
    head = (
        "| scan | settings | fit s | mesh s | vectors | mean | max | pieces "
        "| open edges |"
    )
    return table(title, head, lines)


def _surface_settings(params):
    told = []
    if "formulation" in params:
        told.append(params["formulation"])
    if "tube_share" in params:
        told.append(f"tube {100 * params['tube_share']:g} %")
    if "memory_budget" in params:
        told.append(f"{params['memory_budget'] >> 20} MiB")
    return ", ".join(told) or "the defaults"


ONE_PASS = ("Perceptron", "SGD", "Pegasos", "K=1", "K=8 lookahead")
SPAN_REGRESSORS = (
    "sklearn_svr",
    "corevec_subspace_regressor",
    "corevec_subspace_coreset",
    "corevec_tube_all",
)
CERTIFIED = ("basis", "n_basis", "certificate")
SPAN_SETS = {
    "cpsp_adult": "adult, 20,000 x 123",
    "cpsp_ocr0": "OCR0, 50,000 x 784",
    "cpsp_ocr_star": "OCR*, 50,000 x 784",
    "cpsp_ijcnn1": "ijcnn1, 113,353 x 22",
    "cpsp_imdb": "imdb text, 20,000 x 38,910",
}


def few_vectors():
    path = HERE / "results" / "cpsp_tables.csv"
    if not path.exists():
        return ""
    # Only here: they need pandas and matplotlib.
    from benchmarks import report
    from benchmarks.experiments import cpsp_tables as tables

    rows = report.latest(report.read(path))
    rows = rows[~rows["note"].str.startswith("error:")]
    rows = tables.whole_sets(tables.with_basis(rows))
    lines = []
    for dataset, name in SPAN_SETS.items():
        svc = tables.of(rows, "sklearn_svc", dataset)
        if svc.empty:
            continue
        cells = [f"{tables.accuracy(svc):.2f} %; {tables.exact_cell(svc)}"]
        for solver in ("corevec_cpsp", "corevec_pursuit"):
            cells.append(tables.reached_cell(rows, solver, dataset))
        for solver in ("corevec_cpsp", "corevec_pursuit", "corevec_core_compressed"):
            cells.append(tables.told(tables.of(rows, solver, dataset, 1000)))
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    title = (
        "**Few vectors** (`python -m benchmarks cpsp_tables`, tables 1 and 2 of the "
        "CPSP paper;\nfewest vectors within half a point of SVC's accuracy, seconds, "
        "seconds / SVC's; `*`: ended\nby its limit: CPSP 240 s on OCR*, ijcnn1 "
        "and text, 20 s elsewhere, the pursuit 60 s (OCR*, text: 240 s).\nOne seed; "
        "the pursuit's constants were chosen on these sets: the experiment's docstring "
        "says how):"
    )
    head = (
        "| data | SVC: accuracy; vectors; s | the paper's CPSP | our pursuit "
        "| CPSP, 1000 vectors: % | pursuit, 1000: % "
        "| core set, compressed to 1000: % |"
    )
    return table(title, head, lines)


def one_pass():
    path = HERE / "results" / "streaming_table.csv"
    if not path.exists():
        return ""
    from benchmarks import report
    from benchmarks.experiments import streaming_table as tables

    rows = report.latest(report.read(path))
    rows = tables.with_learners(rows[~rows["note"].str.startswith("error:")])
    lines = []
    for dataset, here in rows.groupby("dataset", sort=False):
        *_, accuracy, updates = tables.PAPER[dataset]
        cells = [
            dataset.removeprefix("stream_"),
            f"{int(here['n'].iloc[0]):,} x {int(here['d'].iloc[0])}",
            *(tables.cell(here, name, "accuracy", 2) for name in ONE_PASS),
            tables.cell(here, "K=8 lookahead", "n_support", 0),
            f"{accuracy} ({updates})",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    title = (
        "**One pass** (`python -m benchmarks streaming_table`; table 1 of the "
        "StreamSVM paper, accuracy\nin %, mean and deviation over 20 orders; a, b and "
        "c are generated in the spirit of the\npaper's synthetic sets):"
    )
    head = (
        "| data | rows | Perceptron | SGD | Pegasos | one ball | `n_balls=8` "
        "| its updates | the paper's StreamSVM (nSV) |"
    )
    return table(title, head, lines)


def speed_of_one_pass():
    cases = defaultdict(list)
    for row in measured("streaming_speed"):
        cases[row["case"]].append(row)
    lines, sgd = [], {}
    for rows in cases.values():
        first = rows[0]
        if first["solver"] == "sklearn_sgd":
            key = first["dataset"], first["params"].get("reader") != "read_libsvm"
            sgd[key] = int(first["n"]) / median(rows, "fit_seconds")
    for rows in cases.values():
        first = rows[0]
        speed = int(first["n"]) / median(rows, "fit_seconds")
        reader, balls = first["params"].get("reader"), first["params"].get("n_balls")
        budget = first["params"].get("budget")
        words = [first["solver"], f"n_balls={balls}" if balls else "", reader or ""]
        words += [f"budget={budget}"] if budget else []
        peer = sgd.get((first["dataset"], True))
        lines.append(
            f"| {first['dataset']}, {int(first['n']):,} rows "
            f"| {', '.join(word for word in words if word)} | {speed:,.0f} "
            f"| {f'{speed / peer:.2g}' if peer else ''} |"
        )
    title = (
        "**Rows per second of one pass** (`python -m benchmarks streaming_speed`; one "
        "thread; `text_*`: from a\nLIBSVM file, beside `load_svmlight_file` and SGD):"
    )
    return table(title, "| data | learner, reader | rows/s | times SGD's |", lines)


def measured(name):
    """Return the newest rows without those of fits that failed."""
    return [row for row in newest(name) if not row["note"].startswith("error:")]


def certified():
    svc, cases = [], defaultdict(list)
    for row in measured("certified_million"):
        if row["solver"] == "sklearn_svc":
            svc.append(row)
        cases[row["case"]].append(row)
    lines = []
    for rows in cases.values() if svc else ():
        params = rows[0]["params"]
        words = [str(params[k]) for k in CERTIFIED if k in params]
        bounds = {f"{r.get('dual_bound')} {r.get('confidence')}" for r in rows}
        name = ", ".join([rows[0]["solver"], *words])
        ratio = median(rows, "fit_seconds") / median(svc, "fit_seconds")
        gap = max((float(row["gap"]) for row in rows if row["gap"]), default=None)
        lines.append(
            f"| {name} | {int(rows[0]['n']):,} "
            f"| {int(median(rows, 'n_support')):,} "
            f"| {median(rows, 'fit_seconds'):.2f} | {ratio:.2f} "
            f"| {'' if gap is None else f'{gap:.1e}'} "
            f"| {' / '.join(sorted(bounds))} "
            f"| {100 * mean(rows, 'test_error'):.3f} % |"
        )
    title = "**A certified million** (`python -m benchmarks certified_million`):"
    head = "| solver | rows | vectors | s | / SVC's | worst gap | bound | test error |"
    return table(title, head, lines)


def prediction():
    svc, cases = {}, {}
    for row in measured("prediction_speed"):
        speed = float(row["n_test"]) / float(row["predict_seconds"])
        cases[row["case"]] = row | {"speed": speed}
        if row["solver"] == "sklearn_svc":
            svc[row["dataset"]] = speed
    lines = [
        f"| {SPAN_SETS[row['dataset']]} | {row['solver']} "
        f"| {int(float(row['n_support'])):,} "
        f"| {100 * (1 - float(row['test_error'])):.2f} % | {row['speed']:,.0f} "
        f"| {row['speed'] / svc[row['dataset']]:.3g} |"
        for row in cases.values()
        if row["dataset"] in svc
    ]
    title = "**Prediction** (`python -m benchmarks prediction_speed`):"
    head = "| data | model | vectors | accuracy | rows per second | times SVC's |"
    return table(title, head, lines)


def shared_basis():
    title = "**Ten digits, one basis** (`python -m benchmarks shared_basis`; MNIST):"
    return _error_and_time("shared_basis", title)


def covtype_curve():
    title = "**covtype** (`python -m benchmarks covtype_curve`; C = 32, gamma = 32):"
    return _error_and_time("covtype_curve", title)


# Of the same data.
KINDS = {"mnist10_unit": "unit rows"}


def _error_and_time(name, title):
    lines = {}  # where C and gamma were chosen anew, the later fit counts
    for row in measured(name):
        words = [row["solver"], row["params"].get("basis"), KINDS.get(row["dataset"])]
        solver = ", ".join(word for word in words if word)
        vectors = int(float(row["n_support"]))
        lines[solver, row["n"], row["params"].get("n_basis", vectors)] = (
            f"| {solver} | {int(row['n']):,} | {vectors:,} "
            f"| {float(row['fit_seconds']):.1f} "
            f"| {100 * float(row['test_error']):.2f} % | {row['stopped_by']} |"
        )
    head = "| solver | rows | vectors | seconds | test error | stopped by |"
    return table(title, head, list(lines.values()))


def span_regression():
    found = defaultdict(list)
    for row in measured("subspace_regression"):
        found[row["dataset"], row["solver"]].append(row)
    lines = []
    for dataset, name in REGRESSION.items():
        cells = [
            "; ".join(_regression_cell(row) for row in found[dataset, solver])
            for solver in SPAN_REGRESSORS
        ]
        if any(cells):
            lines.append(f"| {name} | " + " | ".join(cells) + " |")
    title = (
        "**Regression in a span** (`python -m benchmarks subspace_regression`;\n"
        "seconds, RMSE, vectors, gap):"
    )
    head = (
        "| data | SVR | `FewVectors` | of the core set | "
        '`FewVectors(2000, basis="coreset")` |'
    )
    return table(title, head, lines)


PARTS = (
    *(million, large_c, real_data),
    *(few_vectors, certified, prediction, shared_basis, covtype_curve),
    *(regression, span_regression, surfaces),
    *(one_pass, speed_of_one_pass),
)


def main():
    from benchmarks import readme_papers as papers  # they use the functions above
    from benchmarks.readme_cells import CELLS
    from benchmarks.readme_front import coverage, front
    from benchmarks.readme_gpu import GPU
    from benchmarks.readme_larger import LARGER, SPARK

    write(README, [lambda: front("docs/measured.md"), coverage])
    write(DOCS / "index.md", [lambda: front("measured.md")])
    write(ALL, [lambda part=part: with_heading(part()) for part in PARTS])
    criticism = (papers.as_printed, papers.at_large_c, papers.while_rows_grow)
    write(DOCS / "loosli-canu.md", criticism)
    write(DOCS / "solvers.md", (papers.reference_speed, papers.cvm_figures))
    write(DOCS / "larger.md", LARGER)
    write(DOCS / "places.md", SPARK)
    write(DOCS / "cells.md", CELLS)
    write(DOCS / "gpu.md", GPU, "One H200 and 16 cores, from")


TWO_CORES = (
    "Two cores of an AMD EPYC, 2 threads where nothing else is said, compile time "
    "apart, from"
)


def with_heading(part):
    """Return a table with its title as a heading, which the site lists beside it."""
    heading = re.compile(r"\A\*\*(.+?)\*\*(?: \((.+?)\))?:$", re.DOTALL | re.MULTILINE)
    return heading.sub(lambda title: f"## {title[1]}\n\n{title[2] or ''}:", part)


def write(path, parts, machine=TWO_CORES):
    """Replace what is between the marks of a page; leave nothing without a table."""
    text = path.read_text()
    start, end = text.index(BEGIN) + len(BEGIN), text.index(END)
    machine = f"{machine}\n`benchmarks/results/`.\n\n"
    tables = "".join(part() for part in parts)
    made = machine + tables if tables else ""
    path.write_text(text[:start] + made + text[end:])


if __name__ == "__main__":
    main()
