"""scikit-learn's own tests of its support vector machines, with those of ours."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import corevec

TESTS = Path(__file__).parents[1]
sys.path.insert(0, str(TESTS / "sklearn_suite"))

from expected_failures import EXPECTED_FAILURES  # noqa: E402

MODULES = [f"sklearn.svm.tests.{name}" for name in ("test_svm", "test_sparse")]
MODULES.append("sklearn.svm.tests.test_bounds")


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    """Return the outcome of each test of scikit-learn's, from a process of its own."""
    folder = tmp_path_factory.mktemp("suite")
    (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    paths = [str(TESTS / "sklearn_suite"), str(Path(corevec.__file__).parents[1])]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(paths),
        "COREVEC_SUITE_REPORT": str(folder / "report.json"),
    }
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "plugin"]
    options += ["-c", str(folder / "pytest.ini"), "--rootdir", str(folder)]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "--pyargs", *MODULES],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode in (0, 1), done.stdout[-4000:] + done.stderr[-4000:]
    return json.loads((folder / "report.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def ours(outcomes):
    """Return the outcomes of the tests that make a machine of ours."""
    return {
        name: found for name, found in outcomes.items() if found.get("makes_a_machine")
    }


@pytest.mark.slow
def test_no_test_fails_but_those_that_are_listed_with_a_reason(ours):
    failed = {name for name, found in ours.items() if found["outcome"] == "failed"}
    surprises = {name: ours[name]["message"] for name in failed - {*EXPECTED_FAILURES}}
    assert not surprises, "\n".join(f"{k}\n{v}" for k, v in surprises.items())
    # An entry that passes is out of date; one of another release is not there at all.
    assert {name for name in EXPECTED_FAILURES if name in ours} == failed


@pytest.mark.slow
def test_nineteen_in_twenty_of_them_pass(ours):
    passed = sum(found["outcome"] == "passed" for found in ours.values())
    assert len(ours) > 200
    assert passed >= 0.95 * len(ours)


@pytest.mark.slow
def test_what_is_not_replaced_is_unharmed(outcomes, ours):
    others = {name: found for name, found in outcomes.items() if name not in ours}
    assert all(found["outcome"] != "failed" for found in others.values())
