"""Rows of results: what is recorded, where it is kept, what is known already."""

import csv
import hashlib
import json
import os
import platform
import subprocess
import tempfile
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

ROOT = Path(__file__).parent.parent
PEER_CACHE = Path(__file__).parent / ".cache"
RESULTS = Path(__file__).parent / "results"

COLUMNS = [
    "timestamp",
    "commit",
    "case",
    "machine",
    "threads",
    "python",
    "numpy",
    "numba",
    "sklearn",
    "corevec",
    "experiment",
    "dataset",
    "data_args",
    "checksum",
    "n",
    "d",
    "n_test",
    "solver",
    "solver_version",
    "params",
    "seed",
    "repeat",
    "compile_seconds",
    "fit_seconds",
    "predict_seconds",
    "peak_rss_mb",
    "train_error",
    "test_error",
    "n_support",
    "n_core",
    "sv_share",
    "primal",
    "dual",
    "gap",
    "converged",
    "stopped_by",
    "passes",
    "hit_limit",
    "cached",
    "rmse",
    "mre",
    "n_mre",
    "balanced_accuracy",
    "certify_seconds",
    "distance_mean",
    "distance_max",
    "n_pieces",
    "n_boundary_edges",
    "dual_bound",
    "confidence",
    "note",
]


@cache
def cpu_model():
    """Return the CPU's name and core count as the kernel states them."""
    name = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        lines = info.read_text().splitlines()
        names = [line.split(":")[1].strip() for line in lines if "model name" in line]
        name = names[0] if names else name
    return f"{name}, {os.cpu_count()} cores"


def package_version(name):
    try:
        return version(name)
    except PackageNotFoundError:
        return "absent"


@cache
def environment():
    """Return the columns that are the same for every row of this process."""
    return {
        "commit": source_commit(),
        "machine": cpu_model(),
        "python": platform.python_version(),
        "numpy": package_version("numpy"),
        "numba": package_version("numba"),
        "sklearn": package_version("scikit-learn"),
        "corevec": package_version("corevec"),
    }


def source_commit():
    """Return the last commit that touched `src/`, marked when `src/` differs from it.

    Not HEAD: committing a CSV must not make its own rows stale. A working tree
    with changes gets a digest of the sources, so that old rows are not reused.
    """
    commit = _git("log", "-1", "--format=%h", "--", "src") or "uncommitted"
    if not _git("status", "--porcelain", "--", "src"):
        return commit
    digest = hashlib.sha256()
    for path in sorted((ROOT / "src").rglob("*.py")):
        digest.update(path.read_bytes())
    return f"{commit}+{digest.hexdigest()[:8]}"


def _git(*arguments):
    done = subprocess.run(
        ["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return done.stdout.strip()


def digest_of(thing):
    """Return 12 hex digits that name a JSON-able value."""
    text = json.dumps(thing, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def read(path):
    """Return the rows of a CSV as dicts of text; none if there is no file."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def noted(found):
    """Return a row in which what has no column of its own is a note, as JSON."""
    known = {name: value for name, value in found.items() if name in COLUMNS}
    rest = {name: value for name, value in found.items() if name not in COLUMNS}
    return known | {"note": json.dumps(rest)}


def append(path, row):
    """Add one row at once, so that an interrupted run loses only its last fit."""
    path.parent.mkdir(parents=True, exist_ok=True)
    columns = _columns_of(path)
    if not set(row) <= set(columns):
        _rewrite(path)  # an older file has fewer columns
        columns = COLUMNS
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, columns, restval="", extrasaction="raise")
        if path.stat().st_size == 0:
            writer.writeheader()
        writer.writerow(row)


def _columns_of(path):
    """Return the columns of the file, all of today's if it is new."""
    if not path.exists():
        return COLUMNS
    with path.open(newline="") as file:
        return next(csv.reader(file), COLUMNS)


def _rewrite(path):
    """Give an older file the columns it lacks, empty; whole or not at all."""
    rows = read(path)
    with tempfile.NamedTemporaryFile(
        "w", dir=path.parent, newline="", delete=False
    ) as file:
        writer = csv.DictWriter(file, COLUMNS, restval="", extrasaction="raise")
        writer.writeheader()
        writer.writerows(rows)
    Path(file.name).chmod(path.stat().st_mode)
    Path(file.name).replace(path)


def known_cases(path):
    """Return fit seconds by (commit, case, repeat), of rows without an error."""
    return {
        (row["commit"], row["case"], int(row["repeat"])): float(row["fit_seconds"])
        for row in read(path)
        if not row["note"].startswith("error:")
    }


def cached_peer(key):
    """Return the row of a slow peer measured earlier on this machine, or None."""
    path = PEER_CACHE / f"{key}.json"
    return json.loads(path.read_text()) if path.exists() else None


def keep_peer(key, row):
    """Keep a slow peer's row; written whole or not at all."""
    PEER_CACHE.mkdir(exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=PEER_CACHE, delete=False) as file:
        json.dump(row, file, default=str)
    Path(file.name).rename(PEER_CACHE / f"{key}.json")
