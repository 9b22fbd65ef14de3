"""Trials of a model from a file: its parameters, and a prediction.

The checks of `validate` and `validate_models` look at parts. Whether a model can be
used as a whole is tried: a file that was changed may lack an attribute, or hold a
parameter that `fit` refuses.
"""

from __future__ import annotations

import sys
import warnings
from copy import copy
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.exceptions import NotFittedError
from sklearn.impute import SimpleImputer
from sklearn.isotonic import IsotonicRegression
from sklearn.preprocessing import OneHotEncoder
from sklearn.utils import check_random_state

from corevec.estimators import Method, StructuralSVM
from corevec.estimators.methods import FewVectors
from corevec.estimators.svm import SVC
from corevec.exceptions import CorevecError, InvalidInputError
from corevec.formats.libsvm.base import LibsvmModel
from corevec.formats.native.scikit_learn import SCALERS
from corevec.formats.native.validate import Wrong

# What a part that is missing or of the wrong kind raises. A lack of memory, of a device
# or of a library is not the fault of the file.
_BROKEN = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    TypeError,
    ValueError,
)
_METHODS = (
    "predict",
    "transform",
    "decision_function",
    "score_samples",
    "predict_proba",
    "distance",
)
# More than one: an array in place of a number would go with a single row.
_ROWS_TRIED = 3
# A part of a calibrated classifier, which takes values, and what may know no 0.
_PICKY = (OneHotEncoder, SimpleImputer, IsotonicRegression)
# A dense row of zeros of more columns would take more than 8 MB.
_MOST_DENSE_COLUMNS = 1_000_000


def try_parameters(made: Any, wrong: Wrong) -> None:
    """Call `wrong` with the parameter that `fit` refuses, if there is one.

    `fit` checks its parameters first: no rows are enough to try them, and too few for
    anything else to happen.
    """
    if _is_composition(made) or isinstance(made, LibsvmModel):
        return  # the parts are tried one by one; a LIBSVM model is not fitted again
    if isinstance(made, Method):
        try:
            made.check("the file")
        except InvalidInputError as error:
            wrong(str(error))
        return
    parameters = made.get_params(deep=False)
    _check_shared(made, parameters, wrong)
    _check_arrays(made, wrong)
    if isinstance(made, StructuralSVM) and hasattr(made, "classes_"):
        try:
            made._costs(len(made.classes_))
        except _BROKEN as error:
            wrong(str(error))
    if "random_state" in parameters:
        parameters["random_state"] = copy(parameters["random_state"])
    width = getattr(made, "n_features_in_", 1)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            type(made)(**parameters).fit(np.empty((0, min(width, 1000))), np.empty(0))
    except InvalidInputError as error:
        if error.parameter is not None:
            wrong(str(error))
    except (ArithmeticError, AttributeError, LookupError, TypeError) as error:
        # scikit-learn's error of a parameter is a TypeError as well.
        if not isinstance(error, NotFittedError):
            wrong(f"its parameters cannot be used ({error!s:.200})")
    except (ValueError, ImportError, OSError):
        pass  # no rows, or what this machine lacks


def _is_composition(made: Any) -> bool:
    """Whether an estimator is scikit-learn's, and more than a scaler."""
    is_theirs = type(made).__module__.startswith("sklearn.")
    return is_theirs and not isinstance(made, SCALERS)


def _takes_numbers(made: Any) -> bool:
    """Whether rows of zeros can be tried: no frame is needed, no category known."""
    if hasattr(made, "feature_names_in_") or isinstance(made, _PICKY):
        return False
    parts = list(getattr(made, "steps", ()))
    parts += [entry[:2] for entry in getattr(made, "transformers_", ())]
    return all(_takes_numbers(part) for _, part in parts)


def _check_shared(made: Any, parameters: dict[str, Any], wrong: Wrong) -> None:
    """Check the parameters that `fit` looks at only when it has rows."""
    try:
        check_random_state(copy(parameters.get("random_state")))
    except ValueError as error:
        wrong(f"random_state: {error}")
    if not isinstance(parameters.get("device"), str | None):
        wrong(f"device={parameters['device']!r:.40} must be None or a name")
    _check_class_weight(made, parameters.get("class_weight"), wrong)


def _check_class_weight(made: Any, weight: Any, wrong: Wrong) -> None:
    least = "above 0" if isinstance(made, SVC) else "of at least 0"
    if isinstance(weight, dict):
        right = all(
            isinstance(number, int | float | np.number)
            and 0 <= number <= sys.float_info.max
            for number in weight.values()
        )
        right = right and not (isinstance(made, SVC) and 0 in weight.values())
    else:
        right = weight in (None, "balanced")
    if not right:
        wrong(
            f"class_weight={weight!r:.40} must be None, 'balanced' or numbers {least}"
        )


def _check_arrays(made: Any, wrong: Wrong) -> None:
    """Check parameters that are arrays, such as given vectors: `fit` needs rows."""
    for name, value in made.get_params(deep=True).items():
        numbers = value.data if sparse.issparse(value) else value
        is_array = isinstance(numbers, np.ndarray) and numbers.dtype.kind == "f"
        if is_array and not np.isfinite(numbers).all():
            wrong(f"{name} must hold finite numbers")
    method = getattr(made, "method", None)
    if isinstance(method, FewVectors) and hasattr(made, "n_features_in_"):
        try:
            method.check_vectors(made)
        except InvalidInputError as error:
            wrong(str(error))


def try_prediction(model: Any, wrong: Wrong) -> None:
    """Call `wrong` if a fitted model cannot predict rows of zeros.

    Compositions that need a frame, or a category that is known, are left out. Their
    parts are tried one by one.
    """
    try:
        tried = not _is_composition(model) or _takes_numbers(model)
        width = getattr(model, "n_features_in_", None) if tried else None
    except _BROKEN as error:
        wrong(f"its parts do not go together ({error!s:.200})")
    if not isinstance(width, int | np.integer):
        return  # not fitted
    row: Any = sparse.csr_matrix((_ROWS_TRIED, int(width)))
    if width <= _MOST_DENSE_COLUMNS:
        row = row.toarray()
    for name in _METHODS:
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                method = getattr(model, name, None)
                if method is not None:
                    method(row)
        except NotFittedError:
            wrong(f"{name} says that it is not fitted, but it has n_features_in_")
        except CorevecError:
            continue  # a kernel matrix, say, that does not go with a row of zeros
        except _BROKEN as error:
            kind = type(error).__name__
            wrong(f"{name} fails with {kind} ({error!s:.200}): a part is missing")


__all__ = ["try_parameters", "try_prediction"]
