"""A benchmark run without the file of one data set measures the others."""

from types import ModuleType

import pytest

from benchmarks import harness, records
from benchmarks.case import Case
from benchmarks.datasets._base import MissingDataError, data_folders, open_file


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
