"""`python -m benchmarks.interoperability`: our model files and LIBSVM's own programs.

On a9a, letter (26 classes, one-vs-one), cpu_small (regression) and one class of letter:
our models predicted by Debian's `svm-predict`, models of `svm-train` predicted by us,
and every one as ONNX by onnxruntime. Writes results/interoperability.csv: how many
predictions differ, the largest difference of the values, seconds to write and to read.
"""

import csv
import logging
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.datasets import dump_svmlight_file
from sklearn.preprocessing import MaxAbsScaler

from benchmarks.datasets._base import open_file
from benchmarks.datasets.adult import read_part as csr

log = logging.getLogger("benchmarks")
RESULT = Path(__file__).parent / "results" / "interoperability.csv"
ROWS, TEST_ROWS = 6_000, 2_000
COLUMNS = ("data", "model", "read by", "rows", "different", "largest difference")


def data():
    """Yield (name, X, y, X_test, y_test); columns in [-1, 1]."""
    with open_file("adult_a9a.npz") as archive:
        X, T = csr(archive, "X_train"), csr(archive, "X_test")
        y, t = archive["y_train"], archive["y_test"]
    yield "a9a", X[:ROWS], y[:ROWS], T[:TEST_ROWS], t[:TEST_ROWS]
    with open_file("letter.npz") as archive:
        X, T = archive["X_train"] / 15.0, archive["X_test"] / 15.0
        y, t = archive["y_train"], archive["y_test"]
    yield "letter", X[:ROWS], y[:ROWS], T[:TEST_ROWS], t[:TEST_ROWS]
    few = X[y == 1]
    yield "letter A", few, np.ones(len(few)), T[:TEST_ROWS], t[:TEST_ROWS]
    with open_file("cpu_small.npz") as archive:
        X, y = MaxAbsScaler().fit_transform(archive["X"]), archive["y"]
    yield "cpu_small", X[:ROWS], y[:ROWS], X[ROWS:], y[ROWS:]


def ours(name):
    """Return our model for a data set."""
    from corevec import CoreVectorClassifier, CoreVectorOneClass, CoreVectorRegressor

    if name == "letter":
        model = CoreVectorClassifier(C=10.0, gamma=5.0, multi_class="ovo", max_time=120)
    elif name == "letter A":
        model = CoreVectorOneClass(nu=0.1, gamma=5.0)
    elif name == "cpu_small":
        model = CoreVectorRegressor(C=100.0, gamma=1.0, max_time=60)
    else:
        model = CoreVectorClassifier(C=1.0, gamma=0.05, max_time=60)
    return model.set_params(random_state=0)


OPTIONS = {
    "a9a": "-c 1 -g 0.05",
    "letter": "-c 10 -g 5",
    "letter A": "-s 2 -n 0.1 -g 5",
    "cpu_small": "-s 3 -c 100 -g 1 -p 0.5",
}


def compare(folder, name, X, y, T, t):
    """Yield the rows of a data set."""
    from corevec.formats import load_libsvm, save_libsvm

    rows, test = folder / "rows", folder / "test"
    dump_svmlight_file(X, y, str(rows), zero_based=False)
    dump_svmlight_file(T, t, str(test), zero_based=False)
    model = ours(name).fit(X, y)
    start = time.perf_counter()
    save_libsvm(model, folder / "ours")
    saved = time.perf_counter() - start
    found = svm_predict(folder, "ours")
    yield row(name, model, "svm-predict", found, model.predict(T))
    again = load_libsvm(folder / "ours", n_features=X.shape[1])
    yield row(name, again, "svm-predict (ties as LIBSVM)", found, again.predict(T))
    yield from onnx_rows(name, model, T)
    run("svm-train", "-q", *OPTIONS[name].split(), rows, folder / "theirs")
    start = time.perf_counter()
    theirs = load_libsvm(folder / "theirs", n_features=X.shape[1])
    loaded = time.perf_counter() - start
    found = svm_predict(folder, "theirs")
    yield row(name, theirs, "load_libsvm", theirs.predict(T), found)
    yield from onnx_rows(name, theirs, T)
    log.info("%s: %.2f s to write ours, %.2f s to read theirs", name, saved, loaded)


def svm_predict(folder, model):
    run("svm-predict", "-q", folder / "test", folder / model, folder / "out")
    return np.loadtxt(folder / "out")


def run(*command):
    subprocess.run([str(word) for word in command], check=True, capture_output=True)


def onnx_rows(name, model, T):
    """Yield what onnxruntime makes of a model, in both precisions."""
    import onnxruntime

    from corevec.formats import to_onnx

    dense = T.toarray() if hasattr(T, "toarray") else T
    for dtype in ("float32", "float64"):
        graph = to_onnx(model, dtype=dtype).SerializeToString()
        session = onnxruntime.InferenceSession(graph)
        outputs = [out.name for out in session.get_outputs()]
        made = session.run(None, {"X": dense.astype(dtype)})
        said = dict(zip(outputs, made, strict=True))
        first = said.get("label", said.get("value"))
        found = row(name, model, f"onnxruntime {dtype}", first, model.predict(T))
        if "decision" in said:
            exact = model.decision_function(T)
            apart = np.abs(np.squeeze(said["decision"]) - np.squeeze(exact)).max()
            found["largest difference"] = f"{apart:.2g}"
        yield found


def row(name, model, reader, found, expected):
    """Return one comparison; of labels the count, of values the largest difference."""
    found, expected = np.ravel(found), np.ravel(expected)
    apart = np.abs(found - expected)
    labels = name != "cpu_small"
    return {
        "data": name,
        "model": type(model).__name__,
        "read by": reader,
        "rows": len(found),
        "different": int(np.count_nonzero(apart)) if labels else "",
        "largest difference": "" if labels else f"{apart.max():.2g}",
    }


def main():
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    warnings.simplefilter("ignore")  # a fit ended by its limit still has a model
    made = []
    for name, *parts in data():
        with tempfile.TemporaryDirectory() as folder:
            for one in compare(Path(folder), name, *parts):
                log.info(" | ".join(str(one[column]) for column in COLUMNS))
                made.append(one)
    with RESULT.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(made)


if __name__ == "__main__":
    sys.exit(main())
