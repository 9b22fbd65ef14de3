"""A fit on a file needs memory for its blocks and its core set, not for the file."""

import sys

import numpy as np
import pytest
from watched_memory import told_by

ROWS, COLUMNS = 1_000_000, 100  # 400 MB of float32

SCRIPT = """
import warnings
import numpy as np
from corevec import {model}, methods

warnings.simplefilter("ignore")
X = np.memmap(sys.argv[1], dtype=np.float32, mode="r", shape=({rows}, {columns}))
y = np.load(sys.argv[2])
model = {model}(C=1.0, gamma=0.005, memory_budget=2**26, n_jobs=2, random_state=0,
              **{more})
model.fit(np.array(X[:500]), y[:500])       # compile, start the threads
before = anonymous()
threading.Thread(target=watch, daemon=True).start()
model.fit(X, y)
fit_peak, peak[0] = peak[0], 0.0
f = getattr(model, "decision_function", model.predict)(X)
running = False
print(json.dumps(dict(before=before, fit=fit_peak, predict=peak[0], n=len(f),
                      gap=model.certificate_.relative_gap,
                      verified=int(model.certificate_.n_verified))))
"""


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("memory")
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, ROWS)
    shape = (ROWS, COLUMNS)
    X = np.memmap(folder / "X.dat", dtype=np.float32, mode="w+", shape=shape)
    for start in range(0, ROWS, 100_000):
        part = slice(start, start + 100_000)
        X[part] = rng.standard_normal((100_000, COLUMNS), dtype=np.float32)
        X[part, 0] += 8.0 * y[part]
    X.flush()
    del X
    np.save(folder / "y.npy", y)
    yield folder / "X.dat", folder / "y.npy"
    (folder / "X.dat").unlink()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self/status")
@pytest.mark.parametrize(
    ("model", "more"),
    [
        ("CoreVectorClassifier", "{}"),
        # Half a core set of what the budget allows: the solver is most of its time.
        ("CoreVectorRegressor", "dict(method=methods.CoreSet(max_vectors=500))"),
        ("SVDD", "{}"),
    ],
    ids=["CoreVectorClassifier", "CoreVectorRegressor", "SVDD"],
)
def test_a_file_of_400_megabytes_is_fitted_in_a_quarter_of_a_gigabyte(
    files, model, more
):
    script = SCRIPT.replace("{model}", model).replace("{more}", more)
    script = script.replace("{rows}", str(ROWS)).replace("{columns}", str(COLUMNS))
    told = told_by(script, *files)
    assert told["n"] == ROWS
    # 64 MB of budget, a few numbers per row (8 MB each), the core set, the allocator.
    assert told["fit"] - told["before"] < 250
    assert told["predict"] - told["before"] < 250
