"""The native model files: one .npz with a header, without code."""

from __future__ import annotations

from typing import Any

import numpy
import scipy
import sklearn
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

import corevec
from corevec.estimators import CoreVectorClassifierCV, CoreVectorRegressorCV
from corevec.exceptions import InvalidInputError
from corevec.formats._files import AnyPath, existing_file, replacing
from corevec.formats._limits import MEMORY_LIMIT
from corevec.formats.native.allowed import ENTRIES, trusted_types
from corevec.formats.native.archive import ArchiveReader, write_archive
from corevec.formats.native.decode import Decoder
from corevec.formats.native.encode import Encoder

FORMAT = "corevec model"
# Incremented when an older reader would misread a file. A reader accepts all versions
# up to its own; `tests/files/` contains a file of each version.
VERSION = 1
# Incremented when `fit` refuses a parameter that it took before: files with another
# number may hold it, and load. Files of the first months have none (tol=1.0 was taken).
RULES = 1
# Of these the best estimator is written.
SEARCHES = (
    GridSearchCV,
    RandomizedSearchCV,
    CoreVectorClassifierCV,
    CoreVectorRegressorCV,
)


def save(model: Any, path: AnyPath) -> None:
    """Write a model to a native file, which contains no code.

    Parameters, fitted attributes, certificate, history and the state of a stream are
    kept; predictions after `load` are the same, bit for bit, on the same machine.

    Parameters
    ----------
    model : estimator
        One of corevec, ``corevec.reference``, `compress` or `load_libsvm`, fitted or
        not; scikit-learn's ``MinMaxScaler``, ``MaxAbsScaler``, ``StandardScaler``,
        ``OneHotEncoder`` and ``SimpleImputer``; a ``Pipeline``, ``ColumnTransformer``
        or ``CalibratedClassifierCV`` of these. Of a fitted search (``GridSearchCV``,
        ``CoreVectorClassifierCV``) its ``best_estimator_`` is written. A kernel must
        have a name: a function is code. Callbacks are left behind.
    path : path
        File to write, of any name (".npz" says what it is); what is there is replaced
        at the end, in one step.
    """
    if isinstance(model, SEARCHES):
        check_is_fitted(model, "best_estimator_")
        model = model.best_estimator_
    entry = ENTRIES.get(type(model))
    if entry is None or not entry.is_estimator:
        name = model.__name__ if isinstance(model, type) else type(model).__name__
        raise InvalidInputError(
            f"save: a {name} was given. Models of corevec and corevec.reference, "
            "scikit-learn's MinMaxScaler, MaxAbsScaler, StandardScaler, OneHotEncoder "
            "and SimpleImputer can be saved, and Pipeline, ColumnTransformer, "
            "CalibratedClassifierCV and searches (their best estimator) of these."
        )
    encoder = Encoder("save")
    name = "pipe" if isinstance(model, Pipeline) else "model"
    content = encoder.node(model, name)
    header = {
        "format": FORMAT,
        "version": VERSION,
        "rules": RULES,
        "written_by": {
            "corevec": corevec.__version__,
            "numpy": numpy.__version__,
            "scipy": scipy.__version__,
            "scikit-learn": sklearn.__version__,
        },
        "model": content,
    }
    with replacing("save", path) as file:
        write_archive(file, header, encoder.arrays)


def load(path: AnyPath, *, memory_limit: float = MEMORY_LIMIT) -> Any:
    """Return the model of a file that was written by `save`.

    Nothing in the file is executed: it holds numbers and names, and only classes that
    a model of corevec consists of are made, with the attributes they are known to have.

    Parameters
    ----------
    path : path
        The file.
    memory_limit : float, default=2**32
        Bytes that its entries may hold, as they say themselves; looked at before
        reading.

    Returns
    -------
    estimator
        The model.

    Raises
    ------
    InvalidInputError
        Where the file is cut off, damaged, too large, changed, or of a later version;
        the message names the file and the place in it.
    """
    found = existing_file("load", path)
    reader = ArchiveReader("load", found, memory_limit)
    header, arrays = reader.read()
    _check_version(reader, header)
    where = f"load: {found}"
    decoder = Decoder(where, arrays, refuses_parameters=header.get("rules") == RULES)
    model = decoder.value(header["model"], "model")
    entry = ENTRIES.get(type(model))
    if entry is None or not entry.is_estimator:
        reader.wrong(f"header.json, at model: a {type(model).__name__} is no estimator")
    return model


def _check_version(reader: ArchiveReader, header: dict[str, Any]) -> None:
    if header.get("format") != FORMAT or "model" not in header:
        reader.wrong(
            f"header.json does not say 'format': {FORMAT!r}: another program's file"
        )
    version = header.get("version")
    if type(version) is not int or version < 1:
        reader.wrong(f"header.json has the version {version!r:.40}, no whole number")
    if version > VERSION:
        writer = header.get("written_by")
        by = writer.get("corevec") if isinstance(writer, dict) else None
        reader.wrong(
            f"the file has format version {version}, written by corevec {by!s:.40}; "
            f"this corevec ({corevec.__version__}) reads versions up to {VERSION}. "
            "Upgrade: pip install -U corevec"
        )


def skops_trusted() -> list[str]:
    """Return the types to trust when ``skops.io.load`` reads a corevec model.

    Returns
    -------
    list of str
        For ``skops.io.load(path, trusted=corevec.formats.skops_trusted())``: classes of
        corevec, SciPy's CSR matrices, NumPy's dtypes, and the parts of scikit-learn's
        calibrated classifiers, all of which hold numbers. Look at what a file asks
        for with ``skops.io.get_untrusted_types(file=path)``; anything beyond this list,
        such as a kernel function, is yours to judge.
    """
    return trusted_types()


__all__ = ["load", "save", "skops_trusted"]
