"""`save_libsvm` and `load_libsvm`: write and read LIBSVM model files."""

from __future__ import annotations

from typing import Any

from corevec.data.readers.base import check_count
from corevec.formats._files import AnyPath, existing_file, replacing
from corevec.formats._limits import MEMORY_LIMIT
from corevec.formats.libsvm.machines import text_of
from corevec.formats.libsvm.models import LibsvmModel, model_of
from corevec.formats.libsvm.reader import read_text
from corevec.formats.libsvm.text import write_text


def save_libsvm(model: Any, path: AnyPath) -> None:
    """Write a fitted model as a LIBSVM model file, for ``svm-predict``.

    Numbers keep all their digits. Two classes, several classes with one machine per
    pair, regression with one target, one-class machines, and balls of the RBF kernel
    can be written; kernels linear, poly (whole degree), rbf and sigmoid. Others are
    refused with the reason. Pairs of classes: the vote is LIBSVM's there, so a row
    whose votes tie may get another class than from the model, which looks at the
    values then.

    Parameters
    ----------
    model : estimator
        A fitted kernel model of corevec or ``corevec.reference`` with integer labels;
        scikit-learn's SVC, NuSVC, SVR, NuSVR, OneClassSVM; or scikit-learn's
        ``OneVsOneClassifier`` around one of them, gamma a number. Or what `load_libsvm`
        returned: the same file.
    path : path
        File to write; what is there is replaced at the end.
    """
    text = model.text_ if isinstance(model, LibsvmModel) else text_of(model)
    with replacing("save_libsvm", path) as file:
        write_text(text, file)


def load_libsvm(
    path: AnyPath,
    *,
    n_features: int | None = None,
    memory_limit: float = MEMORY_LIMIT,
) -> LibsvmModel:
    """Read a LIBSVM model file.

    Parameters
    ----------
    path : path
        File written by ``svm-train`` or `save_libsvm`; plain, gzip, bzip2 or xz.
    n_features : int, optional
        Columns that rows must have. The file does not tell; without it any number
        will do, and a column that is not there is 0, as in svm-predict.
    memory_limit : float, default=2**32
        Bytes that the vectors may take.

    Returns
    -------
    estimator
        A fitted LibsvmClassifier, LibsvmNuClassifier, LibsvmRegressor,
        LibsvmNuRegressor or LibsvmOneClass, with the attributes of scikit-learn; the
        classes vote as in LIBSVM. `corevec.certify` also needs the parameters of the
        problem, which are not in the file: ``model.set_params(C=10.0)``. The vectors
        must then be among the rows, digit by digit (svm-train writes eight digits).

    Raises
    ------
    InvalidInputError
        With file, line, and what is wrong there.
    """
    found = existing_file("load_libsvm", path)
    if n_features is not None:
        check_count("load_libsvm", "n_features", n_features)
    text = read_text(found, memory_limit)
    return model_of(text, None if n_features is None else int(n_features))


__all__ = ["load_libsvm", "save_libsvm"]
