"""The first import is light, and the second process compiles nothing."""

import os
import subprocess
import sys

import pytest


def run(code, **env):
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=240,
        env={**os.environ, **env},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_import_compiles_nothing_and_brings_no_heavy_library(tmp_path):
    # scikit-learn itself imports pandas where it is installed: look at what we add.
    out = run(
        "import sys, sklearn.base, sklearn.utils\n"
        "before = set(sys.modules)\n"
        "from corevec import CoreVectorClassifier\n"
        "print(sorted({m.split('.')[0] for m in set(sys.modules) - before}))\n"
        "import corevec.plots, corevec.report\n"
        "print('with the plots:', 'matplotlib' in sys.modules)",
        NUMBA_CACHE_DIR=str(tmp_path),
    )
    for name in ("matplotlib", "pandas", "dask", "torch", "pyarrow", "IPython"):
        assert f"'{name}'" not in out
    assert out.endswith("with the plots: False\n")
    assert not list(tmp_path.rglob("*.nbi"))


@pytest.mark.slow
def test_a_small_fit_loads_its_own_estimator_and_solver_and_no_others():
    out = run(
        "import sys\n"
        "import numpy as np\n"
        "from corevec import CoreVectorClassifier\n"
        "X = np.random.default_rng(0).normal(size=(300, 3))\n"
        "y = np.where(X[:, 0] * X[:, 1] > 0, 1, -1)\n"
        "CoreVectorClassifier().fit(X, y).predict(X)\n"
        "print(sorted(m for m in sys.modules if m.startswith('corevec.')))"
    )
    for room in ("coreset", "basis", "subspace", "cells", "hinge", "streaming"):
        assert f"'corevec.solvers.{room}'" not in out
    for name in ("svm", "search", "rank", "regress", "compression"):
        assert f"'corevec.estimators.{name}'" not in out


@pytest.mark.slow
def test_the_second_process_finds_the_compiled_loops(tmp_path):
    code = (
        "import numpy as np\n"
        "from corevec import CoreVectorClassifier\n"
        "X = np.random.default_rng(0).normal(size=(300, 3))\n"
        "y = np.where(X[:, 0] * X[:, 1] > 0, 1, -1)\n"
        "print(CoreVectorClassifier(random_state=0).fit(X, y).score(X, y))"
    )
    first = run(code, NUMBA_CACHE_DIR=str(tmp_path))
    stored = {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*.nb[ic]")}
    assert stored, "nothing was cached"
    second = run(code, NUMBA_CACHE_DIR=str(tmp_path))
    assert first == second
    assert {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*.nb[ic]")} == stored
