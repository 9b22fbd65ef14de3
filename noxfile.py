#!/usr/bin/env -S uv run --script
# /// script
# dependencies = ["nox>=2025.2.9"]
# ///
"""Sessions with other versions than those of `make`: `nox -s oldest`."""

import json
import re
import tomllib
from pathlib import Path

import nox

nox.needs_version = ">=2025.2.9"
nox.options.default_venv_backend = "venv"
PROJECT = tomllib.loads(Path("pyproject.toml").read_text())["project"]
COUNTED = ("num_statements", "covered_lines", "num_branches", "covered_branches")
NIGHTLY = "https://pypi.anaconda.org/scientific-python-nightly-wheels/simple"


@nox.session(python=["3.11", "3.12", "3.13", "3.14"], default=True)
def tests(session):
    """Run every test."""
    session.install("-e", ".[dev]")
    session.run("python", "-m", "pytest", "-n", "2", *session.posargs)


@nox.session(default=False)
def lint(session):
    """Run the linters of `make lint`."""
    session.install("-e", ".[dev]")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("mypy")
    session.run("lint-imports")
    session.run("codespell")


@nox.session(default=False)
def docs(session):
    """Build the site."""
    session.install("-e", ".[docs]")
    command = ["python", "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html"]
    session.run(*command, "docs", "build/docs")


@nox.session(default=False)
def coverage(session):
    """Run every test, and ask for the floor of pyproject.toml."""
    session.install("-e", ".[dev]", "pytest-cov")
    found = Path("build/coverage.json")
    found.parent.mkdir(exist_ok=True)
    command = ["python", "-m", "pytest", "-n", "2", "--cov", "--cov-report=term"]
    session.run(*command, f"--cov-report=json:{found}", *session.posargs)
    totals = json.loads(found.read_text())["totals"]
    shown = ["git", "log", "-1", "--format=%h"]
    commit = session.run(*shown, external=True, silent=True).strip()
    kept = {"commit": commit} | {name: totals[name] for name in COUNTED}
    text = json.dumps(kept, indent=1)
    Path("benchmarks/results/coverage.json").write_text(f"{text}\n")


@nox.session(python="3.11", default=False)
def oldest(session):
    """Run the tests with the oldest dependencies that are allowed."""
    session.install("-e", ".", "pytest", "pytest-xdist", "hypothesis")
    floors = [re.sub(">=", "==", one) for one in PROJECT["dependencies"] if ">=" in one]
    session.install(*(f"{one}.*" for one in floors))
    rooms = ("estimators", "certificates", "solvers", "problems", "kernels", "models")
    # Warnings of old releases about themselves are no errors of ours.
    command = ["python", "-m", "pytest", "-n", "2", "-W", "default"]
    session.run(*command, *(f"tests/{room}" for room in rooms))


@nox.session(default=False)
def nightly(session):
    """Run the tests with tomorrow's NumPy, SciPy and scikit-learn."""
    session.install("-e", ".[dev]")
    names = ("numpy", "scipy", "scikit-learn")
    session.install("--pre", "--upgrade", "--extra-index-url", NIGHTLY, *names)
    session.run("python", "-m", "pytest", "-n", "2", "-W", "default")


if __name__ == "__main__":
    nox.main()
