"""Model files: formats by name or content, and scalers in a pipeline."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from corevec.cli.errors import CliError, ExitCode, cannot, reading, usage_error, writing

LIBSVM_SUFFIXES = (".model", ".libsvm")
LIBSVM_KERNELS = ("linear", "poly", "rbf", "sigmoid")
SCALERS = ("minmax", "maxabs", "standard")


def save_model(model: Any, path: Path, *, double: bool = False) -> int:
    """Write a model in the format of the suffix; return the size of the file."""
    from corevec import formats

    suffix = path.suffix.lower()
    if suffix in (*LIBSVM_SUFFIXES, ".onnx"):
        _check_foreign(model, path, suffix in LIBSVM_SUFFIXES)
    with writing(path):
        if suffix in LIBSVM_SUFFIXES:
            formats.save_libsvm(model, path)
        elif suffix == ".onnx":
            formats.save_onnx(model, path, dtype="float64" if double else "float32")
        else:
            formats.save(model, path)
    return path.stat().st_size


def _check_foreign(model: Any, path: Path, is_libsvm: bool) -> None:
    """Refuse a model that a foreign format cannot hold, with the command that helps."""
    for reason in _obstacles(model, is_libsvm):
        raise usage_error(
            f"{path}: the model cannot be written so: {reason}, or write corevec's own "
            f"format, which keeps every model: {path.stem}.corevec."
        )


def _obstacles(model: Any, is_libsvm: bool) -> Iterator[str]:
    """Yield why a foreign format cannot hold a model, each with the remedy."""
    given = estimator_of(model).get_params(deep=False)
    if hasattr(estimator_of(model), "_forest"):
        yield (
            "it has several kernel expansions, one per cell, and the format holds one. "
            "Train with --method auto"
        )
    if not is_libsvm:
        return
    if hasattr(model, "steps"):
        yield (
            "LIBSVM's text has no place for its scaler. Scale the data with `corevec "
            "scale --save` and train on the result"
        )
    kernel = given.get("kernel", "linear")
    if kernel not in LIBSVM_KERNELS:
        kernels = ", ".join(LIBSVM_KERNELS)
        yield f"LIBSVM has no kernel {kernel!r}. Train with --kernel {kernels}"
    classes = getattr(model, "classes_", None)
    if classes is None:
        return
    if len(classes) > 2 and not getattr(model, "_has_pairs", True):
        yield (
            "it has a machine per class, and LIBSVM one per pair of classes. Train "
            "with --multi-class ovo"
        )
    if classes.dtype.kind in "OUS":
        yield "its labels are text, and those of LIBSVM numbers. Train on numbers"


def check_model_name(path: Path | None, *inputs: str | None) -> None:
    """Refuse an output path that cannot be written, before a long fit."""
    if path is None:
        return
    if str(path) == "-":
        raise usage_error("'-' cannot be written to here. Give the name of a file.")
    if any(name is not None and _same_file(path, Path(name)) for name in inputs):
        raise usage_error(f"{str(path)!r} would overwrite the data. Give another name.")
    if path.is_dir():
        raise usage_error(f"{str(path)!r} is a folder. Give the name of a file.")
    if path.exists() and not path.is_file():
        raise usage_error(f"{str(path)!r} is no plain file. Give the name of one.")
    if not path.parent.is_dir():
        raise cannot(f"{path}: there is no folder {str(path.parent)!r}. Make it first.")
    if not os.access(path.parent, os.W_OK):
        raise cannot(f"{path}: the folder {str(path.parent)!r} is not writable.")


def _same_file(one: Path, other: Path) -> bool:
    return one.exists() and other.exists() and one.samefile(other)


@contextmanager
def replaced_when_done(path: Path) -> Iterator[Path]:
    """Provide a temporary file beside `path`, which replaces it when complete."""
    if path.exists() and not path.is_file():  # /dev/null, /dev/stdout
        yield path
        return
    handle, name = tempfile.mkstemp(
        prefix=".corevec-", suffix=path.suffix, dir=path.parent
    )
    os.close(handle)
    part = Path(name)
    try:
        yield part
        # mkstemp creates files that only their owner can read.
        mask = os.umask(0)
        os.umask(mask)
        part.chmod(0o666 & ~mask)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def load_model(name: str) -> Any:
    """Return the model of a file: LIBSVM text or the native format, by content."""
    from corevec import formats

    path = Path(name)
    if not path.is_file():
        raise CliError(
            f"there is no model file {name!r}. `corevec train` makes one.",
            ExitCode.BAD_MODEL,
        )
    if path.suffix.lower() == ".onnx":
        raise CliError(
            f"{name}: ONNX is for other programs to read; corevec reads .corevec and "
            "LIBSVM's .model files.",
            ExitCode.BAD_MODEL,
        )
    with reading(ExitCode.BAD_MODEL):
        if is_libsvm_model(path):
            return formats.load_libsvm(path)
        return formats.load(path)


def is_libsvm_model(path: Path) -> bool:
    """Whether a file starts like a LIBSVM model file."""
    with path.open("rb") as file:
        return file.read(9) == b"svm_type "


def is_model(path: Path) -> bool:
    """Whether a file looks like a model rather than like data."""
    if not path.is_file() or is_libsvm_model(path):
        return path.is_file()
    return path.suffix.lower() in (".corevec", ".model", ".onnx")


def make_scaler(kind: str, is_sparse: bool) -> Any:
    """Return the scikit-learn scaler of this kind, for sparse or dense rows."""
    from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, StandardScaler

    if kind not in SCALERS:
        raise usage_error(f"--scale {kind!r} must be one of {', '.join(SCALERS)}.")
    if kind == "minmax" and is_sparse:
        raise usage_error(
            "--scale minmax would make every zero of these sparse rows a number. Use "
            "--scale maxabs, which keeps zeros, or --dense."
        )
    if kind == "standard":
        return StandardScaler(with_mean=not is_sparse)
    return MaxAbsScaler() if kind == "maxabs" else MinMaxScaler((-1, 1))


def in_pipeline(model: Any, **steps: Any) -> Any:
    """Return a pipeline of the steps that are not None before a model, if any."""
    from sklearn.pipeline import Pipeline

    given = [(name, step) for name, step in steps.items() if step is not None]
    return Pipeline([*given, ("model", model)]) if given else model


def estimator_of(model: Any) -> Any:
    """Return the estimator at the end of a pipeline, or the model itself."""
    return model[-1] if hasattr(model, "steps") else model


def entered(model: Any, X: Any) -> Any:
    """Return rows as transformed for the last step of a pipeline."""
    if not hasattr(model, "steps") or len(model.steps) == 1:
        return X
    return model[:-1].transform(X)


def needs_dense_rows(model: Any) -> bool:
    """Whether a scaler, alone or before an estimator, refuses sparse rows."""
    steps = [step for _, step in getattr(model, "steps", [("", model)])]
    return any(
        hasattr(step, "data_min_") or getattr(step, "with_mean", False)
        for step in steps
    )
