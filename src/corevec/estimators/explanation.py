"""`explain`: which columns make a prediction what it is, by exact Shapley values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import check_array, check_is_fitted

from corevec._runtime.types import Array
from corevec.estimators._base import CoreVectorEstimator
from corevec.estimators._categories import columns_before, with_categories
from corevec.exceptions import InvalidInputError
from corevec.kernels import Rows
from corevec.models.expansion import KernelExpansion
from corevec.models.shapley import shapley_values

# Vectors of a machine that are the background by default.
BACKGROUND_ROWS = 32


@dataclass(frozen=True, eq=False)
class Explanation:
    """Shapley values of some rows: what each column adds to the value of a function.

    Attributes
    ----------
    values : ndarray of shape (n_rows, n_groups) or (n_rows, n_groups, n_outputs)
        What each column, or group of columns, adds.
    base_values : ndarray of shape (n_rows,) or (n_rows, n_outputs)
        The mean value over the background; with ``values`` it sums to ``function``.
    function : ndarray of shape (n_rows,) or (n_rows, n_outputs)
        The value of the function: the decision value, or the prediction of a regressor.
    names : list of str
        The names of the columns, or of the groups.
    """

    values: Array
    base_values: Array
    function: Array
    names: list[str]

    def to_shapiq(self, *, row: int = 0, output: int = 0) -> Any:
        """Return the values of a row as shapiq's ``InteractionValues``, for its plots.

        Parameters
        ----------
        row : int, default=0
            The row.
        output : int, default=0
            The function, where the model has several.

        Returns
        -------
        shapiq.InteractionValues
            Shapley values ("SV") of order 1, exact, with the base value.
        """
        try:
            from shapiq import InteractionValues
        except ImportError as error:
            raise ImportError(
                "Explanation.to_shapiq needs shapiq. Run: pip install shapiq"
            ) from error
        n_rows, n_players = self.values.shape[:2]
        values = self.values.reshape(n_rows, n_players, -1)[row, :, output]
        base = float(self.base_values.reshape(n_rows, -1)[row, output])
        return InteractionValues(
            {(): base} | {(c,): float(one) for c, one in enumerate(values)},
            index="SV",
            min_order=0,
            max_order=1,
            n_players=n_players,
            baseline_value=base,
            estimated=False,
        )


def explain(
    model: Any, rows: Any, *, background: Any = None, groups: Any = None
) -> Explanation:
    r"""Return the exact Shapley values of rows under a Gaussian machine.

    The value of a set S of columns is the mean of the function over the background
    rows with the columns of S from the row that is explained. Because the Gaussian
    kernel is a product over the columns, all :math:`2^d` sets are summed exactly
    in :math:`O(n_{vectors} d^2)` per background row.

    Parameters
    ----------
    model : estimator
        A fitted `CoreVectorClassifier`, `CoreVectorRegressor`, `CoreVectorOneClass` or
        `CoreVectorRanker` with ``kernel="rbf"``. With cells, each row is explained
        by the machine of its cell.
    rows : array-like of shape (n_rows, n_features)
        Rows to explain.
    background : array-like of shape (n_background, n_features), optional
        Rows that stand for absent columns. The default is up to 32 of the vectors of
        the machine.
    groups : array-like of shape (n_features,), optional
        A label per column: columns with the same one, such as those of a one-hot code,
        enter and leave together. The default is each column of the rows that the model
        was fitted to by itself: the codes of a column of categories are one group.

    Returns
    -------
    Explanation
        The values, the base values that they start from, and the function's values.

    Examples
    --------
    >>> from sklearn.datasets import make_friedman1
    >>> from corevec import CoreVectorRegressor, explain
    >>> X, y = make_friedman1(300, random_state=0)
    >>> model = CoreVectorRegressor(C=10, tube=0.0, method="exact").fit(X, y)
    >>> found = explain(model, X[:2])
    >>> found.values.shape
    (2, 10)
    >>> total = found.base_values + found.values.sum(axis=1)
    >>> bool(abs(total - model.predict(X[:2])).max() < 1e-8)
    True
    """
    _check_model(model)
    X = _new_rows(model, rows, "rows")
    numbers, names = _groups(model, groups, X.shape[1])
    if background is not None:
        background = _new_rows(model, background, "background")
    given = Rows(X, np.arange(len(X)))
    total: list[Any] = [0.0, 0.0, 0.0]
    machines = _machines_of(model, given)
    for parts in machines:
        n_outputs = parts[0][1].coef.shape[1]
        own = np.zeros((len(X), int(numbers.max()) + 1, n_outputs))
        mean, f = np.zeros((len(X), n_outputs)), np.zeros((len(X), n_outputs))
        for at, functions in parts:
            few, back = given.part(at), _background(functions, background)
            own[at] = shapley_values(functions, few, back, numbers)
            points = functions.prepared()
            mean[at] = functions.evaluate(back, points).mean(axis=0)
            f[at] = functions.evaluate(few, points)
        total = [old + new for old, new in zip(total, (own, mean, f), strict=True)]
    values, base, function = (one / len(machines) for one in total)
    return _in_units(model, values, base, function, names)


def _new_rows(model: Any, rows: Any, name: str) -> Array:
    """Return rows, checked against those of the fit, as a matrix."""
    rows = with_categories(model, rows, reset=False)
    found = check_array(rows, dtype=np.float64, input_name=name)
    model._validate_new(rows if hasattr(rows, "columns") else found)
    return np.asarray(found)


def _check_model(model: Any) -> None:
    who = type(model).__name__
    if not isinstance(model, CoreVectorEstimator) or model._serves == "ball":
        raise InvalidInputError(
            f"explain: model={who} has no Gaussian machine. Give a fitted "
            "CoreVectorClassifier, CoreVectorRegressor, CoreVectorOneClass or "
            "CoreVectorRanker with kernel='rbf'.",
            parameter="model",
        )
    check_is_fitted(model)
    if model.kernel != "rbf":
        raise InvalidInputError(
            f"explain: kernel={model.kernel!r} of {who} is not a product over the "
            "columns, which exact Shapley values need. Fit with kernel='rbf'.",
            parameter="model",
        )


def _groups(model: Any, groups: Any, n_columns: int) -> tuple[Array, list[str]]:
    """Return the number of the group of each column, and the names of the groups."""
    own = getattr(model, "feature_names_in_", None)
    groups = columns_before(model) if groups is None else groups
    if groups is None:
        plain = [f"column {c}" for c in range(n_columns)]
        names = plain if own is None else [str(name) for name in own]
        return np.arange(n_columns), names
    labels = np.asarray(groups)
    if labels.shape != (n_columns,):
        raise InvalidInputError(
            f"explain: groups has the shape {labels.shape}, but the model has "
            f"{n_columns} columns. Give one label per column.",
            parameter="groups",
        )
    first, number = np.unique(labels, return_inverse=True)
    return number.ravel(), [str(label) for label in first]


def _machines_of(model: Any, rows: Rows) -> list[list[tuple[Array, KernelExpansion]]]:
    """Return, for each tree, which rows each machine predicts."""
    forest = model.__dict__.get("_forest")
    if forest is None:
        return [[(np.arange(len(rows)), model._functions)]]
    trees = []
    for one in forest.trees:
        cells = one.tree.cells_of(rows.values)
        trees.append(
            [(np.flatnonzero(cells == c), one.machine(c)) for c in np.unique(cells)]
        )
    return trees


def _background(functions: KernelExpansion, given: Array | None) -> Rows:
    """Return the background: that given, or vectors of the machine, evenly chosen."""
    if given is not None:
        return Rows(given, np.arange(len(given)))
    vectors = functions.basis.values
    n_columns = vectors.shape[1]
    if vectors.shape[0] == 0:  # a constant machine: any row will do
        return Rows(np.zeros((1, n_columns)), np.zeros(1, dtype=np.int64))
    few = min(BACKGROUND_ROWS, vectors.shape[0])
    at = np.linspace(0, vectors.shape[0] - 1, few).astype(np.int64)
    chosen = vectors[at]
    dense = chosen.toarray() if hasattr(chosen, "toarray") else chosen
    return Rows(np.asarray(dense, dtype=np.float64), at)


def _in_units(
    model: Any, values: Any, base: Any, function: Any, names: list[str]
) -> Explanation:
    """Return the explanation in the units of y, without the axis of one output."""
    scale = getattr(model, "target_scale_", None)
    if scale is not None:
        values, base = values * scale, base * scale + model.target_mean_
        function = function * scale + model.target_mean_
    if values.shape[2] == 1:
        values, base, function = values[..., 0], base[:, 0], function[:, 0]
    return Explanation(values, base, function, names)


__all__ = ["Explanation", "explain"]
