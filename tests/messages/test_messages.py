"""The full text of every message that a user is likely to meet, in three files.

Other tests of errors assert the class, the parameter and the value; how a message reads
is kept here and nowhere else. Each case provokes one message. After a change that is
meant, write the files again and read the difference:

    COREVEC_WRITE_MESSAGES=1 pytest tests/messages
"""

from __future__ import annotations

import gzip
import inspect
import os
import re
import warnings
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dask.array as da
import mutants
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import reading
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC, LinearSVC

import corevec
from corevec import (
    SVDD,
    CompressedModel,
    CoreSetNystroem,
    CoreVectorClassifier,
    CoreVectorRanker,
    CoreVectorRegressor,
    ImplicitSurface,
    StreamingBallClassifier,
    StreamingBallOneClass,
    certify,
    compress,
    methods,
)
from corevec.cli import main
from corevec.formats import load, load_libsvm, save, save_libsvm, save_onnx
from corevec.plots import BallDisplay, DecisionMapDisplay
from corevec.streams import read_csv, read_libsvm, read_parquet

HERE = Path(__file__).parent
RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 2))
T = X[:, 0] + 0.1 * RNG.normal(size=40)
Y = (T > 0).astype(int)
QUERY = np.repeat(np.arange(4), 10)
WHEN = np.datetime64("2026-11-18") + np.arange(40)
Cases = dict[str, Callable[[], Any]]


def snapshot(name: str, lines: Iterator[str]) -> None:
    """Compare the lines with a file, or write the file."""
    path, found = HERE / name, "\n".join(lines) + "\n"
    if os.environ.get("COREVEC_WRITE_MESSAGES"):
        path.write_text(found, encoding="utf-8")
    assert found == path.read_text(encoding="utf-8")


def provoked(case: Callable[[], Any]) -> str:
    """Return the class, the cause and the text of what a case raises or warns."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            case()
        except Exception as error:
            return described(error)
    assert told, "neither an error nor a warning"
    return "\n".join(described(warning.message) for warning in told)


def described(message: Any) -> str:
    """Return a message with its class and its cause."""
    cause = [
        f"{name}={getattr(message, name)}"
        for name in ("parameter", "stopped_by")
        if getattr(message, name, None)
    ]
    return f"{' '.join([type(message).__name__, *cause])}\n{message}"


# Parameters: one bad value, given to each estimator that has the parameter.

BAD_VALUES: dict[str, tuple[Any, ...]] = {
    "C": (0.0, np.nan, "1"),
    "balls": ("round",),
    "budget": (0,),
    "class_weight": ({0: -1.0},),
    "checkpoint": (7,),
    "cost_matrix": ([[0.0, 1.0]],),
    "degree": ("two",),
    "fit_intercept": ("yes",),
    "gamma": ("wide", -0.125),
    "kernel": ("gauss", 17, "precomputed"),
    "loss": ("log",),
    "max_iter": (-7, 1.5),
    "max_time": (-1.5,),
    "memory_budget": (-8,),
    "method": (
        "everything",
        methods.Cells(5),
        methods.Cells(n_trees=0),
        methods.CoreSet(batch="large"),
        methods.CoreSet(sampling=59),
        methods.FewVectors(0),
        methods.FewVectors(basis="best"),
        methods.FewVectors(certificate="none"),
        methods.Sample(0),
    ),
    "mu": (0.0,),
    "multi_class": ("all-at-once",),
    "n_balls": (0,),
    "n_components": (0,),
    "n_jobs": (0, 1.5),
    "nu": (1.5,),
    "overflow": ("drop",),
    "pair_weight": ("row",),
    "tol": (-0.5, 1.5),
    "tube": (-1.0, "wide"),
}


def fitted_with(kind: type, name: str, value: Any) -> Any:
    """Return an estimator with one parameter, fitted to rows that suit it."""
    model = kind(**{name: value})
    if kind is CoreVectorRanker:
        return model.fit(X, T, qid=QUERY)
    if kind is ImplicitSurface:
        return model.fit(RNG.normal(size=(40, 3)))
    return model.fit(X, T if kind is CoreVectorRegressor else Y)


def parameters() -> Iterator[str]:
    """Yield each message about a parameter once, whichever estimators say it."""
    kinds = [getattr(corevec, name) for name in corevec.__all__]
    kinds = [
        kind for kind in kinds if hasattr(kind, "fit") and kind is not CompressedModel
    ]
    for name, values in BAD_VALUES.items():
        for value in values:
            said: dict[str, None] = {}
            for kind in kinds:
                if name not in inspect.signature(kind).parameters:
                    continue
                try:
                    fitted_with(kind, name, value)
                except Exception as error:
                    said[described(error).replace(kind.__name__, "<estimator>")] = None
            yield from (f"## {name}={value!r}\n{text}\n" for text in said)


def test_messages_about_parameters():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        lines = list(parameters())
    snapshot("parameters.txt", iter(lines))


# Input: rows, labels, weights, kernels; models that cannot do what is asked; warnings.


def spoiled(value: float) -> np.ndarray:
    rows = X.copy()
    rows[3, 1] = value
    return rows


def classifier(**parameters: Any) -> CoreVectorClassifier:
    return CoreVectorClassifier(random_state=0, **parameters)


def table(**column: Any) -> pd.DataFrame:
    return pd.DataFrame({"a": X[:, 0], **column})


def noisy(n: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    return rng.normal(size=(n, 3)), rng.integers(0, 2, n)


def input_cases() -> Cases:
    """Return what a user may give; what scikit-learn words itself is left out."""
    fit = classifier().fit
    fitted = classifier().fit(X, Y)
    precomputed = classifier(kernel="precomputed")
    tilted = X @ X.T
    tilted[2, 5] += 1.0
    weight = np.ones(40)
    stream = StreamingBallClassifier().partial_fit(X, Y, classes=[0, 1])
    many = noisy(3_000)
    return {
        "rows with NaN in Dask": lambda: fit(da.from_array(spoiled(np.nan)), Y),
        "rows that are masked": lambda: fit(np.ma.array(X, mask=X > 1), Y),
        "rows that are dates": lambda: fit(np.stack([WHEN, WHEN], axis=1), Y),
        "rows that are text": lambda: fit(X.astype(str), Y),
        "rows that are bytes": lambda: fit(X.astype(str).astype("S"), Y),
        "rows that are a dict": lambda: fit({"a": X[:, 0]}, Y),
        "rows that are dicts": lambda: fit([{"a": 1.0}] * 40, Y),
        "rows with named fields": lambda: fit(np.zeros(40, dtype=[("a", float)]), Y),
        "a column of dates": lambda: fit(table(when=[date(2026, 11, 18)] * 40), Y),
        "a column of text": lambda: fit(table(word=["x"] * 40), Y),
        "values too large for the kernel": lambda: classifier(kernel="linear").fit(
            X * 1e200, Y
        ),
        "values too large for a power": lambda: classifier(
            kernel="poly", gamma=1.0
        ).fit(X * 1e150, Y),
        "labels of one class": lambda: fit(X, np.full(40, 7)),
        "labels that are numbers": lambda: fit(X, T),
        "labels that are masked": lambda: fit(X, np.ma.array(Y, mask=Y > 0)),
        "one class left by weights": lambda: fit(X, Y, (Y == 1).astype(float)),
        "targets that are text": lambda: CoreVectorRegressor().fit(X, Y.astype(str)),
        "weights with a negative": lambda: fit(X, Y, np.r_[-1.0, weight[1:]]),
        "weights of another length": lambda: fit(X, Y, weight[1:]),
        "weights that are all zero": lambda: fit(X, Y, 0 * weight),
        "weights that are too large": lambda: fit(X, Y, 1e200 * weight),
        "a kernel that is not square": lambda: precomputed.fit(X, Y),
        "a kernel that is not symmetric": lambda: precomputed.fit(tilted, Y),
        "a function of wrong shape": lambda: classifier(
            kernel=lambda A, B: np.zeros(len(A))
        ).fit(X, Y),
        "a function that returns NaN": lambda: classifier(
            kernel=lambda A, B: np.full((len(A), len(B)), np.nan)
        ).fit(X, Y),
        "queries of another length": lambda: CoreVectorRanker().fit(
            X, T, qid=QUERY[1:]
        ),
        "queries without a pair": lambda: CoreVectorRanker().fit(
            X, np.zeros(40), qid=QUERY
        ),
        "a stream without classes": lambda: StreamingBallClassifier().partial_fit(X, Y),
        "a stream of other classes": lambda: stream.partial_fit(X, Y, classes=[0, 2]),
        "a stream with a new class": lambda: stream.partial_fit(X, Y + 5),
        "a stream of single arrays": lambda: StreamingBallClassifier().fit(iter([X])),
        "an empty stream": lambda: StreamingBallOneClass().fit(iter(())),
        "a surface in four dimensions": lambda: ImplicitSurface().fit(np.zeros((9, 4))),
        "certify, no labels": lambda: certify(fitted, X),
        "certify, other labels": lambda: certify(fitted, X, Y + 7),
        "certify, not fitted": lambda: certify(SVC(), X, Y),
        "certify, no dual variables": lambda: certify(
            LogisticRegression().fit(X, Y), X, Y
        ),
        "certify, another problem": lambda: certify(
            LinearSVC(penalty="l1").fit(X, Y), X, Y
        ),
        "certify, a pipeline": lambda: certify(
            make_pipeline(PCA(), SVC()).fit(X, Y), X, Y
        ),
        "certify, other rows": lambda: certify(SVC().fit(X, Y), X[::-1], Y[::-1]),
        "certify, no model": lambda: certify(SimpleNamespace(a=1), X, Y),
        "compress, no model of vectors": lambda: compress(
            LogisticRegression().fit(X, Y), 5
        ),
        "compress, not fitted": lambda: compress(SVC(), 5),
        "compress, no vectors": lambda: compress(fitted, 0),
        "compress, gamma from rows": lambda: compress(SVC().fit(X, Y), 5, X=X[:, :1]),
        "features of a kernel that vanishes": lambda: CoreSetNystroem(
            5, kernel="linear"
        ).fit(0 * X),
        "plot, not a ball": lambda: BallDisplay.from_estimator(fitted, X),
        "plot, not fitted": lambda: DecisionMapDisplay.from_estimator(
            classifier(), X, Y
        ),
        "stopped by max_iter": lambda: CoreVectorClassifier(
            method="coreset", max_iter=1, tol=1e-9, random_state=0
        ).fit(*many),
        "stopped by max_time": lambda: CoreVectorClassifier(
            max_time=1e-9, random_state=0
        ).fit(*many),
        "stopped by max_iter, ranker": lambda: CoreVectorRanker(
            max_iter=1, tol=1e-9, random_state=0
        ).fit(X, T, qid=QUERY),
        "a kernel that is not positive definite": lambda: classifier(
            kernel="sigmoid", gamma=1.0, coef0=-1.0, C=1e4
        ).fit(2 * X, Y),
    }


def test_messages_about_input():
    lines = (f"## {name}\n{provoked(case)}\n" for name, case in input_cases().items())
    # How far a fit came depends on the machine.
    steady = (re.sub(r"\d\.\d+e[-+]\d\d", "#", line) for line in lines)
    snapshot("input.txt", steady)


# Files: rows in text and Parquet, models, the command line.


def written(path: Path, content: str | bytes) -> str:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return str(path)


def reader_cases(folder: Path) -> Cases:
    """Return the readers' cases, on files with one mistake each."""

    def libsvm(line: str) -> Callable[[], Any]:
        return lambda: list(
            read_libsvm(
                written(folder / "rows.svm", f"1 1:2\n{line}\n-1 2:1\n"), n_features=5
            )
        )

    def csv(record: str, **how: Any) -> Callable[[], Any]:
        given = {"target": "y", **how}
        text = f"a,b,y\n1,2,cat\n{record}\n"
        return lambda: list(read_csv(written(folder / "rows.csv", text), **given))

    def npy(array: np.ndarray, **how: Any) -> Callable[[], Any]:
        def opened() -> Any:
            np.save(folder / "X.npy", array)
            return fit_rows(corevec.open(folder / "X.npy", **how))

        return opened

    def parquet(columns: dict[str, Any], **how: Any) -> Callable[[], Any]:
        def opened() -> Any:
            pq.write_table(pa.table(columns), folder / "rows.parquet")
            return fit_rows(corevec.open(folder / "rows.parquet", **how))

        return opened

    fit_rows = CoreVectorClassifier(random_state=0).fit
    half = gzip.compress(b"1 1:2\n" * 9_000)[:-20]
    bad = {"a": [1.0, None, 3.0], "y": [0, 1, 1]}
    return {
        "LIBSVM, no label": libsvm("one 1:2"),
        "LIBSVM, no entry": libsvm("1 1:2 x"),
        "LIBSVM, no value": libsvm("1 2:"),
        "LIBSVM, NaN": libsvm("1 2:nan"),
        "LIBSVM, out of range": libsvm("1 2:1e999"),
        "LIBSVM, index 0": libsvm("1 0:1"),
        "LIBSVM, indices not ascending": libsvm("1 3:1 2:1"),
        "LIBSVM, index beyond the columns": libsvm("1 6:1"),
        "LIBSVM, cut off": lambda: list(
            read_libsvm(written(folder / "rows.svm.gz", half), n_features=1)
        ),
        "LIBSVM, no file": lambda: read_libsvm(folder / "missing"),
        "LIBSVM, no paths": lambda: read_libsvm([]),
        "LIBSVM, no columns": lambda: corevec.open(
            written(folder / "e.svm", "1\n-1\n")
        ),
        "CSV, too few fields": csv("1,2"),
        "CSV, no number": csv("1,x,cat"),
        "CSV, a missing value": csv("1,,cat"),
        "CSV, a missing label": csv("1,2,"),
        "CSV, a label of another type": csv("3,4,5", target_type="number"),
        "CSV, no such column": csv("1,2,dog", target="z"),
        "CSV, column asked for twice": csv("1,2,dog", columns=["a", "a"]),
        "CSV, delimiter": csv("1,2,dog", delimiter=", "),
        "CSV, errors=": csv("1,2,dog", errors="ignore"),
        "Parquet, no folder": lambda: read_parquet(folder / "nowhere", target="y"),
        "Parquet, a missing value": parquet(bad, target="y"),
        "Parquet, a column of text": parquet(
            {"a": ["x", "y"], "y": [0, 1]}, target="y"
        ),
        "Parquet, no such column": parquet({"a": [1.0], "y": [0]}, target="z"),
        "Parquet, damaged": lambda: corevec.open(
            written(folder / "no.parquet", b"PAR1")
        ),
        "open, no file": lambda: corevec.open(folder / "nowhere"),
        "open, unknown format": lambda: corevec.open(
            written(folder / "a.xyz", "Dear\n")
        ),
        "open, an empty folder": lambda: corevec.open(empty(folder)),
        "npy, NaN": npy(spoiled(np.nan), target=Y),
        "npy, one dimension": npy(X[:, 0]),
        "npy, target of another length": npy(X, target=Y[1:]),
        "npy, names": npy(X, columns=["a"]),
    }


def empty(folder: Path) -> Path:
    (folder / "empty").mkdir(exist_ok=True)
    return folder / "empty"


def model_cases(folder: Path) -> Cases:
    """Return the cases of model files."""
    model = reading.fit(classifier(C=2.0), X, Y)
    save(model, folder / "whole.npz")
    strange = reading.fit(classifier(), X, Y)
    strange.note = "mine"

    def changed(**entries: Any) -> Callable[[], Any]:
        header, arrays = mutants.entries_of(folder / "whole.npz")

        def read() -> Any:
            mutants.write(folder / "changed.npz", header | entries, arrays)
            return load(folder / "changed.npz")

        return read

    return {
        "load, no file": lambda: load(folder / "nowhere.npz"),
        "load, a folder": lambda: load(folder),
        "load, no container": lambda: load(written(folder / "a.npz", "hello")),
        "load, cut off": lambda: load(
            written(folder / "cut.npz", (folder / "whole.npz").read_bytes()[:-50])
        ),
        "load, a later version": changed(version=99),
        "load, no model": changed(model={}),
        "save, not fitted for LIBSVM": lambda: save_libsvm(classifier(), folder / "m"),
        "save, no folder": lambda: save(model, folder / "nowhere" / "m.npz"),
        "save, a function": lambda: save(SVDD(kernel=np.dot), folder / "m.npz"),
        "save, another library": lambda: save(PCA(), folder / "m.npz"),
        "save, a strange attribute": lambda: save(strange, folder / "m.npz"),
        "save_onnx, precomputed": lambda: save_onnx(
            classifier(kernel="precomputed").fit(X @ X.T, Y), folder / "m.onnx"
        ),
        "save_onnx, another library": lambda: save_onnx(PCA(), folder / "m.onnx"),
        "load_libsvm, no model": lambda: load_libsvm(written(folder / "m", "hello\n")),
        "load_libsvm, cut off": lambda: load_libsvm(
            written(folder / "m", "svm_type c_svc\nkernel_type rbf\n")
        ),
        "load_libsvm, no file": lambda: load_libsvm(folder / "nowhere"),
    }


# A gap that is not reached in the time that is given.
NEVER = ["--require-certificate", "--tol", "1e-12", "--max-time", "1e-9"]


def command_lines(folder: Path) -> dict[str, list[str]]:
    """Return commands that end with a message."""
    rows = "".join(f"{y} 1:{a:.3f} 2:{b:.3f}\n" for y, (a, b) in zip(Y, X, strict=True))
    good = written(folder / "good.svm", rows)
    bad = written(folder / "bad.svm", "1 1:2\n1 2:nan\n-1 1:1\n")
    one = written(folder / "one.svm", "1 1:2\n1 2:3\n")
    wide = written(folder / "wide.svm", "1 5:2\n0 1:1\n")
    train = ["train", "-m", str(folder / "out.corevec")]
    return {
        "no such command": ["fly"],
        "no such option": ["predict", "--wings", good],
        "train, no model": ["train", good],
        "train, no file": [*train, str(folder / "nowhere.svm")],
        "train, bad row": [*train, bad],
        "train, one class": [*train, one, "-q"],
        "train, parameter": [*train, good, "--C", "-1"],
        "train, kernel": [*train, good, "--kernel", "gauss"],
        "train, not certified": [*train, good, "-q", *NEVER],
        "train, folder": ["train", good, "-m", str(folder / "nowhere" / "m.corevec")],
        "predict, no model": ["predict", "-m", str(folder / "nowhere.corevec"), good],
        "predict, ONNX": ["predict", "-m", written(folder / "m.onnx", "x"), good],
        "predict, no model in the file": ["predict", "-m", bad, good],
        "predict, other columns": ["predict", "-m", str(folder / "whole.npz"), wide],
        "check, bad row": ["check", bad],
        "scale, no scaler": ["scale", "--load", str(folder / "whole.npz"), good, "-"],
        "svm-train, option": ["svm-train", "-z", "1", good],
    }


def commands(folder: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[str]:
    """Yield what the command says, with its exit code."""
    for name, words in command_lines(folder).items():
        code = main(words)
        said = capsys.readouterr()
        yield f"## corevec {name}\nexit code {code}\n{(said.out + said.err).strip()}\n"


def test_messages_about_files(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "88")
    cases = reader_cases(tmp_path) | model_cases(tmp_path)
    lines = [f"## {name}\n{provoked(case)}\n" for name, case in cases.items()]
    lines += commands(tmp_path, capsys)
    lines = [line.replace(str(tmp_path), "FOLDER") for line in lines]
    snapshot(
        "files.txt", (line.replace(corevec.__version__, "VERSION") for line in lines)
    )
