"""An installation that nothing can be written to, as in many containers, works."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import corevec

CODE = """
import warnings
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import numpy as np
    from corevec import CoreVectorClassifier
    from corevec.reference import SMO
    X = np.random.default_rng(0).normal(size=(60, 2))
    y = np.where(X[:, 0] > 0, 1, -1)
    for model in (CoreVectorClassifier(), SMO()):
        print(model.fit(X, y).score(X, y) > 0.9)
print([str(one.message) for one in caught if "NUMBA" in str(one.message)])
print(CoreVectorClassifier.__module__, __import__("corevec").__file__)
"""


@pytest.mark.slow
def test_without_a_place_for_a_cache_one_warning_says_so(tmp_path):
    package = tmp_path / "corevec"
    folder = Path(corevec.__file__).parent
    shutil.copytree(folder, package, ignore=shutil.ignore_patterns("__pycache__"))
    # Files where Numba would make folders: permissions do not stop root.
    for one in {path.parent for path in package.rglob("*.py")}:
        (one / "__pycache__").touch()
    env = {**os.environ, "PYTHONPATH": str(tmp_path), "HOME": "/dev/null"}
    for name in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME"):
        env.pop(name, None)
    done = subprocess.run(
        [sys.executable, "-B", "-c", CODE],
        capture_output=True,
        text=True,
        timeout=240,
        env=env,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    first, second, caught, where = done.stdout.splitlines()
    assert (first, second) == ("True", "True")
    assert caught.count("NUMBA_CACHE_DIR") == 1
    assert str(package) in where
