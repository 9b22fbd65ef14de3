"""A run without the file of one data set measures the others; nothing stays running."""

import os
from types import ModuleType

import pytest

from benchmarks import harness, records
from benchmarks.case import Case
from benchmarks.datasets._base import MissingDataError, data_folders, open_file
from benchmarks.processes import answer_of


def experiment(opened_by):
    """Return an experiment on a data set that is generated and one without a file."""

    def cases(quick):
        for name in module.SETS:
            if name == "absent" and opened_by == "cases":  # parameters are tuned on it
                open_file("absent.npz")
            given = {"n": 300} if name == "checkerboard" else {}
            yield Case("corevec_tol", name, {"C": 1.0, "gamma": 1.0}, given)

    module = ModuleType("benchmarks.experiments.trial")
    module.SETS, module.REPEATS, module.cases = ("absent", "checkerboard"), 1, cases
    return module


@pytest.mark.slow
@pytest.mark.parametrize("opened_by", ["cases", "load"])
def test_a_missing_data_set_gives_a_row_and_the_others_run(
    opened_by, tmp_path, monkeypatch
):
    absent = harness.datasets.DATASETS | {"absent": lambda: open_file("absent.npz")}
    monkeypatch.setattr(harness.datasets, "DATASETS", absent)
    harness.run_experiment(experiment(opened_by), harness.Settings(out=tmp_path))
    rows = {row["dataset"]: row for row in records.read(tmp_path / "trial.csv")}
    assert set(rows) == {"absent", "checkerboard"}
    assert rows["absent"]["note"].startswith("error: MissingDataError: ")
    assert "absent.npz" in rows["absent"]["note"]
    assert float(rows["checkerboard"]["fit_seconds"]) > 0


@pytest.mark.parametrize("given", ["", " "])
def test_an_empty_variable_is_no_folder(given, tmp_path, monkeypatch):
    monkeypatch.setenv("COREVEC_DATA", given)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here.npz").touch()
    with pytest.raises(MissingDataError):
        open_file("here.npz")


def test_the_folder_of_the_variable_comes_first(tmp_path, monkeypatch):
    monkeypatch.setenv("COREVEC_DATA", str(tmp_path))
    assert data_folders()[0] == tmp_path


# A measured process with a daemon in a session of its own, as Spark's workers have.
MEASURED = """
import json, os, subprocess, sys, time
from benchmarks.processes import job_from_parent, say

job = job_from_parent()
sleep = [sys.executable, "-c", "import time; time.sleep(600)"]
daemon = subprocess.Popen(sleep, start_new_session=True)
with open(job["pids"], "w") as file:
    file.write(f"{os.getpid()} {daemon.pid}")
say("started")
if job["how"] == "error":
    raise SystemExit("broken")
if job["how"] == "hangs":
    time.sleep(600)
if job["how"] == "is killed":
    os.kill(os.getpid(), 9)
print(json.dumps({"answer": job["given"]}))
"""


def is_running(process):
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="orphans need Linux")
@pytest.mark.parametrize("how", ["answers", "error", "hangs", "is killed"])
def test_a_measured_process_leaves_nothing_running(how, tmp_path, monkeypatch):
    (tmp_path / "measured.py").write_text(MEASURED)
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    monkeypatch.setenv("PYTHONPATH", path.rstrip(os.pathsep))
    job = {"how": how, "given": 7, "pids": str(tmp_path / "pids")}
    if how == "answers":
        assert answer_of("measured", job, 60) == {"answer": 7}
    else:
        with pytest.raises(RuntimeError, match="measured failed"):
            answer_of("measured", job, 5 if how == "hangs" else 60)
    processes = (tmp_path / "pids").read_text().split()
    assert not any(is_running(int(one)) for one in processes)
