"""The table of README.md and of the site's first page: what says most, in one place."""

import json
import statistics
from collections import defaultdict

from benchmarks.readme import HERE, mean, measured, median, newest, table
from benchmarks.readme_gpu import grouped, seconds

# Of `python -m benchmarks defaults`: where it gains and where it does not.
SHOWN = {
    "plain_adult_a9a": "adult",
    "plain_covtype": "covtype",
    "plain_shuttle": "shuttle, seven classes",
    "plain_friedman": "friedman, regression",
}
# Below, fits take less than half a second, whoever does them.
MIN_ROWS = 5_000
# Each column, and the names of its machine for classes and for numbers.
COLUMNS = (
    ("corevec_tol", "corevec_tube_auto"),
    ("corevec_svc", "corevec_svr"),
    ("sklearn_svc", "sklearn_svr"),
    ("sklearnex_svc", "sklearnex_svr"),
)
PEER = 2


def front(measured_page):
    """Return the table: a million rows, default parameters, a GPU."""
    head = (
        "| data | rows | corevec | `corevec.svm` | scikit-learn "
        "| scikit-learn-intelex |"
    )
    title = (
        "Seconds to fit, real data with default parameters. Every fit of corevec here "
        f"is certified\non all rows ([all tables]({measured_page})):"
    )
    return table(title, head, [*million(), *defaults(), *device()])


def coverage():
    """Return how much of the package the tests run (`nox -s coverage`)."""
    found = json.loads((HERE / "results" / "coverage.json").read_text())
    lines = 100 * found["covered_lines"] / found["num_statements"]
    branches = 100 * found["covered_branches"] / found["num_branches"]
    return (
        f"The tests run {lines:.1f} % of the lines and {branches:.1f} % of the "
        f"branches (`nox -s coverage` at {found['commit']};\nwithout code that Numba "
        "or a GPU runs).\n\n"
    )


def million():
    found = defaultdict(list)
    for row in newest("checkerboard_scaling"):
        if row["params"].get("gamma_rule") == "0.37":
            found[row["solver"], int(row["n"])].append(row)
    ours = found["corevec_tol", 1_000_000]
    peers = (found["sklearn_svc", 20_000], found["sklearnex_svc", 20_000])
    cells = [f"{median(rows, 'fit_seconds'):.2f} for 20,000 rows" for rows in peers]
    yield (
        f"| checkerboard, C = 1000 | 1,000,000 | **{median(ours, 'fit_seconds'):.2f}** "
        f"({100 * mean(ours, 'test_error'):.2f} % wrong) "
        f"| | {cells[0]} ({100 * mean(peers[0], 'test_error'):.2f} %) | {cells[1]} |"
    )


def defaults():
    sets = defaultdict(lambda: defaultdict(list))
    for row in measured("defaults"):
        sets[row["dataset"], int(row["n"])][row["solver"]].append(row)
    times = {key: times_of(solvers) for key, solvers in sets.items()}
    for (name, n), found in times.items():
        if name in SHOWN:
            cells = " | ".join(f"{one:.2g}" for one in found)
            yield f"| {SHOWN[name]} | {n:,} | {cells} |"
    compared = [
        found for (_, n), found in times.items() if n > MIN_ROWS and found[PEER]
    ]
    shares = [
        statistics.median(one[k] / one[PEER] for one in compared)
        for k in range(len(COLUMNS))
    ]
    cells = " | ".join(f"{share:.2f}" for share in shares)
    sizes = [n for (_, n), found in times.items() if n > MIN_ROWS and found[PEER]]
    yield (
        f"| median of {len(compared)} real sets, scikit-learn's = 1 "
        f"| {min(sizes):,} to {max(sizes):,} | {cells} |"
    )


def times_of(solvers):
    """Return the seconds of each column; None where it was not measured."""
    found = []
    for names in COLUMNS:
        rows = next((solvers[name] for name in names if name in solvers), None)
        found.append(median(rows, "fit_seconds") if rows else None)
    return found


def device():
    groups = grouped("board", "case", "n_rows")
    repeats = groups["checkerboard C=1000", "1000000000"]
    yield (
        "| checkerboard, on one H200 GPU | 1,000,000,000 "
        f"| **{seconds(repeats):.1f}** | | | |"
    )
