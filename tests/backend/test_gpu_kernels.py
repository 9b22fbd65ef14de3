"""The kernels for a GPU, without one: plain torch, and Triton's interpreter."""

import os
import subprocess
import sys
from pathlib import Path

import fused_cases
import numpy as np
import pytest
from naive import gram

torch = pytest.importorskip("torch", reason="torch is not installed (corevec[gpu])")

from corevec import kernels  # noqa: E402
from corevec.backend import gpu  # noqa: E402
from corevec.backend.profiles import Profile  # noqa: E402

HERE = Path(__file__).parents[1]
CASES = [*fused_cases.grid(), *fused_cases.corners()]
PRECISIONS = ("float32", "float64")
# Of ||out - ref|| / ||ref||. float32: rounding is 6e-8, times a dozen additions and an
# argument of the exponential of a dozen. float64: the same with 1e-16.
TOLERANCE = {"float32": 1e-6, "float64": 2e-15}


def kernel(case, X, Z):
    names = ("gamma", "degree", "coef0")
    shape = {name: case[name] for name in names}
    return gram(X, Z, kernel=case["name"], **shape)


def error(out, reference):
    assert out.dtype == np.float64
    assert out.shape == reference.shape
    return np.linalg.norm(out - reference) / np.linalg.norm(reference)


def prepared(*arrays):
    return [gpu.Prepared(torch.from_numpy(a)) for a in arrays]


def tolerance(case, precision):
    """Return the bound on the relative error; a power multiplies the base's."""
    times = max(1.0, case["degree"] / 5) if case["name"] == "poly" else 1.0
    return TOLERANCE[precision] * times


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c['name']}-{c['d']}")
def test_plain_torch(case, precision):
    X, Z, coef = fused_cases.data(case, precision)
    there = prepared(X, Z)
    K = kernel(case, X, Z)
    out = gpu.times(fused_cases.profile(case), *there, torch.from_numpy(coef))
    assert error(out.numpy(), K @ coef.astype(float)) < tolerance(case, precision)
    values = gpu.block(fused_cases.profile(case), *there)
    assert values.dtype == there[0].values.dtype
    assert error(values.double().numpy(), K) < tolerance(case, precision)


@pytest.fixture(scope="module", params=PRECISIONS)
def interpreted(request, tmp_path_factory):
    """What the Triton kernels make of every case, from a process of their own."""
    pytest.importorskip("triton", reason="triton is not installed (corevec[gpu])")
    out = tmp_path_factory.mktemp("fused") / "out.npz"
    command = [sys.executable, "-m", "fused_cases", request.param, str(out)]
    env = {**os.environ, "TRITON_INTERPRET": "1", "COREVEC_TRITON": "1"}
    ended = subprocess.run(
        command, cwd=HERE, env=env, capture_output=True, text=True, timeout=300
    )
    assert ended.returncode == 0, ended.stderr
    with np.load(out) as results:
        return request.param, dict(results)


def test_fused_kernels(interpreted):
    precision, results = interpreted
    for number, case in enumerate(CASES):
        X, Z, coef = fused_cases.data(case, precision)
        reference = kernel(case, X, Z) @ coef.astype(float)
        for name in (f"{number}", f"repeated-{number}"):
            found = error(results[name], reference)
            assert found < tolerance(case, precision), case
    check_profiles(precision, results)


def check_profiles(precision, results):
    """Compare single values, each within the rounding of its argument."""
    x = fused_cases.values_to_try(precision).astype(precision).astype(float)
    eps, tiny = np.finfo(precision).eps, np.finfo(precision).tiny

    def close(name, reference, argument):
        wrong = np.abs(results[f"profile-{name}"][:, 0] - reference)
        allowed = eps * (2 + 2 * argument) * np.abs(reference)
        assert np.all(wrong <= allowed + 5 * tiny), name  # values end at 2**-1020

    close("rbf", np.exp(-(x**2)), x**2)
    close("laplacian", np.exp(-x), x)
    close("sigmoid", np.tanh(-x), 1.0)
    far = results["profile-far"][x * 1e15 > 1e3, 0]  # squares up to 1e33
    assert np.all((far >= 0) & (far <= 1e-300))


def test_tiles_of_plain_torch_join_up():
    """30,000 rows and 37 others are three tiles of 2**19 values."""
    case = fused_cases.case("laplacian", 9, outputs=3, n=30_000)
    X, Z, coef = fused_cases.data(case, "float64")
    there = *prepared(X, Z), torch.from_numpy(coef)
    out = gpu.times(fused_cases.profile(case), *there)
    assert error(out.numpy(), kernel(case, X, Z) @ coef) < TOLERANCE["float64"]


@pytest.mark.parametrize(("n", "k", "outputs"), [(0, 3, 2), (3, 0, 2), (3, 2, 0)])
def test_nothing_to_sum(n, k, outputs):
    x, z = (gpu.Prepared(torch.ones((size, 2))) for size in (n, k))
    out = gpu.times(Profile(0), x, z, torch.ones((k, outputs)))
    assert out.shape == (n, outputs)
    assert out.dtype == torch.float64
    assert not out.any()


@pytest.mark.parametrize("name", fused_cases.NAMES)
def test_same_numbers_as_the_kernels_of_the_cpu(name):
    case = fused_cases.case(name, 22, outputs=3)
    X, Z, coef = fused_cases.data(case, "float64")
    own = kernels.Kernel(name, case["gamma"], case["coef0"], case["degree"])
    x, z = (own.prepare(kernels.Rows(a, np.arange(len(a)))) for a in (X, Z))
    there = *prepared(X, Z), torch.from_numpy(coef)
    out = gpu.times(own._parameters, *there)
    assert error(out.numpy(), own.times(x, z, coef)) < TOLERANCE["float64"]


def test_triton_can_be_switched_off(monkeypatch):
    pytest.importorskip("triton", reason="triton is not installed (corevec[gpu])")
    X = torch.ones((3, 2))
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    monkeypatch.delenv("COREVEC_TRITON", raising=False)
    assert gpu.fused(X)
    monkeypatch.setenv("COREVEC_TRITON", "0")
    assert not gpu.fused(X)


def test_no_numba_is_loaded():
    pytest.importorskip("triton", reason="triton is not installed (corevec[gpu])")
    lines = "import sys, corevec.backend.gpu.triton_times, corevec.backend.gpu.kernels"
    code = f"{lines}; sys.exit('numba' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
