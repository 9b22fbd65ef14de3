"""Text columns and missing values: what the command line encodes, kept in the model.

A model of such a file is a pipeline that begins with a ``ColumnTransformer``: numbers
are filled (`FILLED`) or must be there (`COMPLETE`), categories become one column of 0
and 1 per value of the training file, and a value that was not there becomes zeros.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from corevec._runtime.types import Array
from corevec.cli.errors import data_error, usage_error

if TYPE_CHECKING:
    from corevec.cli.data import ReadingOptions

FILLED, COMPLETE, CATEGORIES = "filled", "complete", "categories"
_STRATEGIES = ("mean", "median")
# Texts of a missing number, in any case; pandas takes most of them so, "?" is UCI's.
_MISSING = ("", "na", "n/a", "nan", "null", "none", "?")


@dataclass(frozen=True)
class Encoding:
    """Which columns are categories, and what becomes of missing numbers.

    `categorical` holds names, or positions among the features; None stands for every
    column that has a text which is no number. `missing` is None where missing numbers
    are refused.
    """

    categorical: tuple[str | int, ...] | None
    missing: str | None

    @staticmethod
    def asked_for(options: ReadingOptions) -> Encoding | None:
        """Return the encoding of ``--categorical`` and ``--missing``, if any."""
        if options.categorical is None and options.missing is None:
            return None
        if options.missing not in (None, *_STRATEGIES):
            raise usage_error(
                f"--missing {options.missing!r} must be {' or '.join(_STRATEGIES)}."
            )
        if options.categorical == "auto":
            return Encoding(None, options.missing)
        names = (options.categorical or "").split(",")
        return Encoding(tuple(name for name in names if name), options.missing)

    @staticmethod
    def of_model(model: Any) -> Encoding | None:
        """Return the encoding that a fitted model begins with, if any."""
        if not hasattr(model, "steps") or not hasattr(model[0], "transformers_"):
            return None
        parts = {name: columns for name, _, columns in model[0].transformers_}
        categorical = tuple(int(position) for position in parts.get(CATEGORIES, ()))
        if FILLED not in parts:
            return Encoding(categorical, None)
        return Encoding(categorical, model[0].named_transformers_[FILLED].strategy)

    def columns(
        self, where: str, names: Sequence[str], rows: list[list[str]]
    ) -> tuple[Array, list[int]]:
        """Return the rows with numbers as numbers, and the positions of categories."""
        chosen = None if self.categorical is None else self._positions(where, names)
        X = np.empty((len(rows), len(names)), dtype=object)
        categorical = []
        for j, texts in enumerate(zip(*rows, strict=True)):
            numbers = None if chosen is not None and j in chosen else _numbers(texts)
            if numbers is None and (chosen is None or j in chosen):
                X[:, j] = [text.strip() for text in texts]
                categorical.append(j)
            else:
                X[:, j] = self._checked(where, names[j], texts, numbers)
        return X, categorical

    def _positions(self, where: str, names: Sequence[str]) -> set[int]:
        known = {name: j for j, name in enumerate(names)}
        assert self.categorical is not None
        unknown = [c for c in self.categorical if isinstance(c, str) and c not in known]
        if unknown:
            raise data_error(
                f"{where}: --categorical {unknown[0]!r} names none of the columns used."
            )
        return {known[c] if isinstance(c, str) else c for c in self.categorical}

    def _checked(
        self, where: str, name: str, texts: Sequence[str], numbers: Array | None
    ) -> Array:
        """Return the numbers of a column; refuse text, and gaps if they stay gaps."""
        if numbers is None:
            text = next(t for t in texts if not _is_missing(t) and _number(t) is None)
            raise data_error(
                f"{where}: column {name!r} holds {text!r}, no finite number. Give "
                f"--categorical {name!r}, or leave it out with --drop {name!r}."
            )
        missing = np.flatnonzero(np.isnan(numbers))
        if len(missing) and self.missing is None:
            raise data_error(
                f"{where}: column {name!r} has {len(missing):,} missing values, the "
                f"first in row {missing[0] + 1}. Fit with --missing mean or median."
            )
        return numbers

    def transformer(self, n_columns: int) -> Any:
        """Return the first step of the pipeline, not fitted, for known positions."""
        from sklearn.compose import ColumnTransformer
        from sklearn.impute import SimpleImputer
        from sklearn.preprocessing import OneHotEncoder

        categorical = list(self.categorical or ())
        numbers = [j for j in range(n_columns) if j not in set(categorical)]
        name = COMPLETE if self.missing is None else FILLED
        # Where nothing may be missing, the imputer only makes numbers of objects.
        fill = SimpleImputer(strategy=self.missing or "mean", keep_empty_features=True)
        one_hot = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
        steps = [(name, fill, numbers), (CATEGORIES, one_hot, categorical)]
        return ColumnTransformer([step for step in steps if step[2]])


def labels_of(where: str, texts: Sequence[str], kind: str) -> Array:
    """Return labels: numbers if all are, or if `kind` asks for them, else text."""
    plain = [text.strip() for text in texts]
    if "" in plain:
        raise data_error(f"{where}: row {plain.index('') + 1} has no label.")
    if kind == "number":
        return complete_numbers(where, "--target", texts)
    numbers = None if kind == "string" else _numbers(texts)
    if numbers is None or np.isnan(numbers).any():
        return np.array(plain)
    return numbers


def complete_numbers(where: str, option: str, texts: Sequence[str]) -> Array:
    """Return the numbers of a column that must have one in every row."""
    for row, text in enumerate(texts):
        if _number(text) is None:
            raise data_error(
                f"{where}: row {row + 1}: the column of {option} holds {text!r}, no "
                "finite number."
            )
    return np.array(texts, dtype=np.float64)


def _numbers(texts: Sequence[str]) -> Array | None:
    """Return numbers, nan for those that are missing; None if any text is no number."""
    values = np.full(len(texts), np.nan)
    for row, text in enumerate(texts):
        if not _is_missing(text):
            number = _number(text)
            if number is None:
                return None
            values[row] = number
    return values


def _is_missing(text: str) -> bool:
    return text.strip().lower() in _MISSING


def _number(text: str) -> float | None:
    from corevec.data.readers import BadRecordError, finite_number

    try:
        return finite_number(text.strip(), "")
    except BadRecordError:
        return None
