"""The package as a newcomer meets it: names, types, wheel."""

import importlib
import os
import pickle
import re
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
from pathlib import Path

import pytest

import corevec

ROOT = Path(__file__).parents[2]
# Of whoever runs the tests from another checkout; it would come before a wheel.
OUTSIDE = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
WITHOUT_NETWORK = (
    "Could not find a version",
    "ConnectionError",
    "NewConnectionError",
    "Temporary failure in name resolution",
)
USE = """
import corevec, numpy as np
X = np.random.default_rng(0).normal(size=(200, 2))
y = np.where(X[:, 0] * X[:, 1] > 0, "same", "other")
model = corevec.CoreVectorClassifier(C=10.0, random_state=0).fit(X, y)
assert model.certificate_.converged, model.certificate_
assert corevec.SVDD().fit(X).radius_ > 0
print(corevec.__file__)
"""


def test_the_public_names_are_sorted_and_there():
    assert list(corevec.__all__) == sorted(corevec.__all__)
    for name in corevec.__all__:
        assert hasattr(corevec, name), name
    promised = {"CoreVectorClassifier", "CoreVectorOneClass", "SVDD", "Certificate"}
    promised |= {"certify", "NotCertifiedWarning", "InvalidInputError"}
    assert promised <= set(corevec.__all__)
    assert set(corevec.__all__) <= set(dir(corevec))


def test_the_methods_are_imported_by_name_from_their_module():
    found = run_fresh("from corevec.methods import Exact; print(Exact.__module__)")
    assert found == "corevec.estimators.methods\n"
    public = importlib.import_module("corevec.methods")
    assert corevec.methods is public
    assert list(public.__all__) == sorted(public.__all__)
    for name in public.__all__:
        object_of_user = getattr(public, name)()
        assert type(pickle.loads(pickle.dumps(object_of_user))) is getattr(public, name)


def run_fresh(code):
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_public_name_has_a_docstring():
    for name in corevec.__all__:
        thing = getattr(corevec, name)
        if callable(thing):
            assert len(thing.__doc__ or "") > 20, name


@pytest.mark.parametrize("name", ["CoreVectorClassifier", "CoreVectorOneClass", "SVDD"])
def test_every_parameter_is_described_in_the_docstring(name):
    estimator = getattr(corevec, name)
    for parameter in estimator().get_params():
        assert re.search(rf"\b{parameter}\b.* : |\b{parameter},", estimator.__doc__)


def test_the_package_is_typed():
    assert (Path(corevec.__file__).parent / "py.typed").exists()


def test_the_conda_recipe_names_what_pip_installs():
    """Of the same versions: a name that is missing breaks the package on conda only."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    recipe = (ROOT / "conda" / "recipe.yaml").read_text()
    _, _, run = recipe.partition("\n  run:\n")
    wanted = re.findall(r"    - (.+)", run.partition("\n\n")[0])
    named = {line.replace(" ", "") for line in wanted if not line.startswith("python ")}
    assert named == set(project["dependencies"])
    assert f'version: "{corevec.__version__}"' in recipe


def test_every_module_imports_by_itself():
    package = Path(corevec.__file__).parent
    for file in sorted(package.rglob("*.py")):
        parts = ("corevec", *file.relative_to(package).with_suffix("").parts)
        importlib.import_module(".".join(p for p in parts if p != "__init__"))


def built(*command):
    """Run a build outside the checkout; skip where its backend cannot be fetched."""
    done = subprocess.run(
        [sys.executable, "-m", *map(str, command)],
        capture_output=True,
        text=True,
        timeout=240,
    )
    told = done.stdout + done.stderr
    if done.returncode and any(sign in told for sign in WITHOUT_NETWORK):
        pytest.skip("the build backend cannot be fetched: no network")
    assert done.returncode == 0, told


@pytest.fixture(scope="module")
def sdist(tmp_path_factory):
    pytest.importorskip("build")
    folder = tmp_path_factory.mktemp("sdist")
    built("build", "--sdist", "--outdir", folder, ROOT)
    with tarfile.open(next(folder.glob("corevec-*.tar.gz"))) as archive:
        archive.extractall(folder, filter="data")
    return next(path for path in folder.iterdir() if path.is_dir())


@pytest.fixture(scope="module")
def wheel(sdist, tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    built("pip", "wheel", "--no-deps", "--quiet", "--wheel-dir", folder, sdist)
    return next(folder.glob("corevec-*.whl"))


# Folders that git ignores: what runs leave behind.
MADE_HERE = {"__pycache__", "history", "quick"}


@pytest.mark.slow
def test_the_sdist_holds_what_its_tests_need(sdist):
    for folder in ("src", "tests", "examples", "docs/papers", "benchmarks/results"):
        files = {
            file.relative_to(ROOT)
            for file in (ROOT / folder).rglob("*.*")
            if not MADE_HERE & set(file.parts) and file.suffix not in (".nbi", ".nbc")
        }
        assert not [file for file in files if not (sdist / file).exists()], folder
    command = [sys.executable, "-m", "pytest", "-q", "tests/integration/test_papers.py"]
    done = subprocess.run(
        command, cwd=sdist, env=OUTSIDE, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.slow
def test_the_wheel_works_in_a_bare_environment_outside_the_checkout(wheel, tmp_path):
    venv.create(tmp_path / "env", with_pip=False)
    python = tmp_path / "env" / "bin" / "python"
    there = next((tmp_path / "env" / "lib").glob("python*")) / "site-packages"
    # The dependencies come from this environment by a path line, which reads no further
    # .pth files: an editable corevec here is out of sight there.
    (there / "dependencies.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
    subprocess.run(
        [*install, "--no-index", "--target", str(there), str(wheel)],
        check=True,
        timeout=120,
    )
    done = subprocess.run(
        [str(python), "-c", USE],
        cwd=tmp_path,
        env=OUTSIDE,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().startswith(str(there))
