"""What every test shares: hypothesis profiles and a seeded generator.

Warnings are errors, which pyproject.toml says.
"""

import os
import signal
import sys
from pathlib import Path

# The workers of pytest-xdist share the cores: each takes its part of them, so there
# are no more threads than cores. NumPy reads this when it is imported, and n_jobs=None
# means it; what threads change is tested with n_jobs=2.
if "PYTEST_XDIST_WORKER_COUNT" in os.environ:
    workers = int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
    threads = max(1, (os.cpu_count() or 1) // workers)
    os.environ.setdefault("OMP_NUM_THREADS", str(threads))

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

# `import naive` and `import strategies` must work under every pytest import mode.
sys.path.insert(0, str(Path(__file__).parent))

# Derandomised: a red test on one machine is red on all. The nightly profile draws new
# examples, and more of them; it is chosen by HYPOTHESIS_PROFILE=nightly.
QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large]
settings.register_profile(
    "ci", max_examples=30, deadline=None, derandomize=True, suppress_health_check=QUIET
)
settings.register_profile(
    "nightly", max_examples=500, deadline=None, suppress_health_check=QUIET
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


@pytest.fixture(autouse=True)
def ctrl_c_stays_as_it_was():
    """Put back Python's handler of SIGINT where a library (Spark) has set its own."""
    before = signal.getsignal(signal.SIGINT)
    yield
    if signal.getsignal(signal.SIGINT) is not before:
        signal.signal(signal.SIGINT, before)


@pytest.fixture
def rng():
    """Return a generator whose seed the nightly run changes (COREVEC_SEED)."""
    return np.random.default_rng(int(os.environ.get("COREVEC_SEED", "0")))
