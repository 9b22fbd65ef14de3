"""A model from a file is checked as a whole: its parameters, and that it predicts."""

import subprocess
import sys
from pathlib import Path

import formats_models
import mutants
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import corevec
from corevec import InvalidInputError
from corevec.formats import load, save

FUZZER = Path(__file__).parents[1] / "fuzz_containers.py"


def changed(model, folder, change):
    """Return the path of the model's file after `change` of its state."""
    save(model, folder / "good.npz")
    header, arrays = mutants.entries_of(folder / "good.npz")
    change(header["model"]["state"])
    mutants.write(folder / "bad.npz", header, arrays)
    return folder / "bad.npz"


# One attribute that prediction needs, of models of each kind.
NEEDED = {
    "CoreVectorClassifier": "_functions",
    "SMO": "_functions",
    "SVDD": "centre_norm_sq_",
    "StreamingBallOneClass": "_offsets",
    "Compressed-CoreVectorClassifier": "_form",
}


@pytest.mark.parametrize("kind", NEEDED)
def test_a_model_that_lacks_an_attribute_is_refused_by_load(kind, tmp_path):
    name = next(n for n in formats_models.NAMES if n.partition("-")[2] == kind)
    model, _ = formats_models.fitted_model(name)
    path = changed(model, tmp_path, lambda state: state.pop(NEEDED[kind]))
    with pytest.raises(InvalidInputError, match="at model: "):
        load(path)


# Of each estimator a parameter, and a value that its fit refuses.
REFUSED = {
    "CoreVectorClassifier": ("tol", -1.0),
    "SMO": ("loss", "none"),
    "LASVM": ("tau", 0.0),
    "CoreVectorRegressor": ("kernel", "rbx"),
    "CoreVectorOneClass": ("memory_budget", -1),
    "SVDD": ("random_state", -7),
    "StreamingBallOneClass": ("n_balls", 0),
    "CoreSetNystroem": ("kernel", None),
    "ImplicitSurface": ("scales", 0),
    "StructuralSVM": ("max_iter", "many"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_a_parameter_that_fit_refuses_is_refused_by_load(kind, tmp_path):
    name = next(n for n in formats_models.NAMES if n.partition("-")[2] == kind)
    model, _ = formats_models.fitted_model(name)
    parameter, value = REFUSED[kind]
    path = changed(model, tmp_path, lambda state: state.update({parameter: value}))
    with pytest.raises(InvalidInputError, match=parameter):
        load(path)


def test_what_load_would_refuse_save_refuses(tmp_path):
    model = corevec.CoreVectorClassifier(tol=-1.0)
    with pytest.raises(InvalidInputError, match=r"save: .*tol=-1\.0"):
        save(make_pipeline(StandardScaler(), model), tmp_path / "model.npz")
    assert list(tmp_path.iterdir()) == []


def test_a_parameter_that_an_earlier_version_took_is_read(tmp_path):
    """A file without the number of the rules: `fit` may have taken tol=1 then."""
    X, y = formats_models.rows()
    model = corevec.CoreVectorClassifier(random_state=0).fit(X, y)
    save(model, tmp_path / "good.npz")
    header, arrays = mutants.entries_of(tmp_path / "good.npz")
    header["model"]["state"]["tol"] = 1.0
    mutants.write(tmp_path / "new.npz", header, arrays)
    with pytest.raises(InvalidInputError, match=r"tol=1\.0"):
        load(tmp_path / "new.npz")
    del header["rules"]
    mutants.write(tmp_path / "old.npz", header, arrays)
    assert (load(tmp_path / "old.npz").predict(X) == model.predict(X)).all()


def test_the_fuzzer_of_containers_finds_nothing_in_some_hundred_files(tmp_path):
    """Longer: ``python tests/fuzz_containers.py --minutes 60``."""
    command = [sys.executable, str(FUZZER), "--minutes", "0", "--each", "15"]
    command += ["--models", ",".join(formats_models.NAMES[::5])]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "refused: " in done.stdout
    assert "used: " in done.stdout
