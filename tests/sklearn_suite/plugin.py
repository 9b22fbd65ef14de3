"""A pytest plugin that runs scikit-learn's tests against the classes of `corevec.svm`.

``pytest -p plugin --pyargs sklearn.svm.tests``: scikit-learn's classes are patched
before its tests are imported. ``COREVEC_SUITE_REPORT`` names a file for the outcome of
each test, and whether it has made one of our machines.
"""

import json
import os
from pathlib import Path

import corevec
from corevec.estimators.svm import SupportVectorMachine

corevec.patch_sklearn()

outcomes: dict[str, dict[str, object]] = {}
running = {"test": ""}


def note_a_machine(cls, *args, **kwargs):
    """Make an object as usual, and note which test did."""
    outcomes.setdefault(running["test"], {})["makes_a_machine"] = True
    return object.__new__(cls)


SupportVectorMachine.__new__ = note_a_machine  # type: ignore[method-assign]


def pytest_runtest_setup(item):
    # The file by its name: no path of an installation.
    running["test"] = f"{item.path.name}::{item.name}"


def pytest_runtest_logreport(report):
    found = outcomes.setdefault(running["test"], {})
    if report.when == "call" or report.failed:
        found["outcome"] = report.outcome
    if report.failed:
        found["message"] = str(report.longrepr)[-2000:]


def pytest_sessionfinish():
    outcomes.pop("", None)
    path = os.environ.get("COREVEC_SUITE_REPORT")
    if path:
        Path(path).write_text(json.dumps(outcomes, indent=1), encoding="utf-8")
