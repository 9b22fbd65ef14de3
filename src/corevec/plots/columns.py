"""ImportanceDisplay, WaterfallDisplay: columns that matter, in all and for a row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from corevec._runtime.types import Array
from corevec.exceptions import InvalidInputError
from corevec.plots._drawing import (
    BLUE,
    GREY,
    INK,
    PALE,
    TEXT_SIZE,
    VERMILION,
    one_axes,
    tidy,
    title,
)

# Columns that are drawn; the others are added up in one bar.
MOST_COLUMNS = 15


@dataclass(kw_only=True, eq=False, repr=False)
class ImportanceDisplay:
    """The importance of each column to a model with a learned metric.

    Use `from_estimator`. The importances are the diagonal of the metric times the
    variances of the columns, of sum 1.

    Parameters
    ----------
    importances : ndarray of shape (n_features,)
        The importance of each column.
    names : list of str
        The names of the columns.

    Attributes
    ----------
    figure_ : Figure
        Figure of the last drawing.
    ax_ : Axes
        Axes of the last drawing.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from sklearn.datasets import make_friedman1
    >>> from corevec import CoreVectorRegressor, methods
    >>> from corevec.plots import ImportanceDisplay
    >>> X, y = make_friedman1(300, random_state=0)
    >>> exact = methods.Exact(metric="learned")
    >>> model = CoreVectorRegressor(C=10, tube=0.0, method=exact).fit(X, y)
    >>> ax = Figure().add_subplot()
    >>> ImportanceDisplay.from_estimator(model, ax=ax).ax_.get_xlabel()
    'importance'
    """

    importances: Array
    names: list[str]

    @classmethod
    def from_estimator(cls, model: Any, *, ax: Any = None) -> ImportanceDisplay:
        """Draw the importances of a fitted model.

        Parameters
        ----------
        model : estimator
            A model fitted with ``metric="learned"``.
        ax : Axes, optional
            Axes to draw on. The default is those of a new figure.

        Returns
        -------
        ImportanceDisplay
            The display.
        """
        found = getattr(model, "feature_importances_", None)
        if found is None:
            raise InvalidInputError(
                f"ImportanceDisplay: this {type(model).__name__} has no "
                "feature_importances_. Fit it with a learned metric, e.g. "
                "method=methods.Cells(metric='learned', tune=True).",
                parameter="model",
            )
        own = getattr(model, "feature_names_in_", None)
        names = [f"column {c}" for c in range(len(found))] if own is None else list(own)
        return cls(importances=found, names=names).plot(ax)

    def plot(self, ax: Any = None) -> ImportanceDisplay:
        """Draw the display again.

        Parameters
        ----------
        ax : Axes, optional
            Axes to draw on. The default is those of a new figure.

        Returns
        -------
        ImportanceDisplay
            The display itself.
        """
        ax = one_axes("ImportanceDisplay", ax)
        names, values = _leading(self.names, self.importances)
        at = np.arange(len(values))[::-1]
        ax.barh(at, values, color=BLUE, height=0.7)
        ax.set_yticks(at, names, fontsize=TEXT_SIZE)
        tidy(ax, "importance", "")
        title(ax, "Columns that matter", "diagonal of the metric, times the variance")
        self.ax_, self.figure_ = ax, ax.figure
        return self


@dataclass(kw_only=True, eq=False, repr=False)
class WaterfallDisplay:
    """What each column adds to the value of one row, from the base value on.

    Use `from_explanation`. Bars to the right raise the value, bars to the left lower
    it; they begin at the mean over the background and end at the value of the row.

    Parameters
    ----------
    values : ndarray of shape (n_groups,)
        The Shapley value of each column.
    base : float
        The mean value over the background.
    names : list of str
        The names of the columns.

    Attributes
    ----------
    figure_ : Figure
        Figure of the last drawing.
    ax_ : Axes
        Axes of the last drawing.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from sklearn.datasets import make_friedman1
    >>> from corevec import CoreVectorRegressor, explain
    >>> from corevec.plots import WaterfallDisplay
    >>> X, y = make_friedman1(200, random_state=0)
    >>> model = CoreVectorRegressor(C=10, tube=0.0).fit(X, y)
    >>> found, ax = explain(model, X[:3]), Figure().add_subplot()
    >>> display = WaterfallDisplay.from_explanation(found, row=1, ax=ax)
    >>> len(ax.patches)
    10
    """

    values: Array
    base: float
    names: list[str]

    @classmethod
    def from_explanation(
        cls, explanation: Any, *, row: int = 0, output: int = 0, ax: Any = None
    ) -> WaterfallDisplay:
        """Draw one row of an explanation.

        Parameters
        ----------
        explanation : Explanation
            The result of `corevec.explain`.
        row : int, default=0
            The row of the explanation.
        output : int, default=0
            The function, where the model has several.
        ax : Axes, optional
            Axes to draw on. The default is those of a new figure.

        Returns
        -------
        WaterfallDisplay
            The display.
        """
        values = np.asarray(explanation.values)
        base = np.asarray(explanation.base_values)
        if values.ndim == 2:
            values, base = values[..., None], base[:, None]
        if not (0 <= row < values.shape[0] and 0 <= output < values.shape[2]):
            raise InvalidInputError(
                f"WaterfallDisplay: row={row!r}, output={output!r} were given, but the "
                f"explanation has {values.shape[0]} rows and {values.shape[2]} "
                "outputs. Count from 0.",
                parameter="row",
            )
        own = values[row, :, output], float(base[row, output])
        names = list(explanation.names)
        return cls(values=own[0], base=own[1], names=names).plot(ax)

    def plot(self, ax: Any = None) -> WaterfallDisplay:
        """Draw the display again.

        Parameters
        ----------
        ax : Axes, optional
            Axes to draw on. The default is those of a new figure.

        Returns
        -------
        WaterfallDisplay
            The display itself.
        """
        ax = one_axes("WaterfallDisplay", ax)
        names, values = _leading(self.names, self.values)
        # From the least to the largest: the last bar ends at the value of the row.
        names, values = names[::-1], values[::-1]
        starts = self.base + np.concatenate([[0.0], np.cumsum(values)[:-1]])
        at = np.arange(len(values))
        colours = [VERMILION if value < 0 else BLUE for value in values]
        ax.barh(at, values, left=starts, color=colours, height=0.7)
        for place, start, value in zip(at, starts, values, strict=True):
            ax.annotate(
                f"{value:+.3g}",
                (max(start, start + value), place),
                xytext=(4, 0),
                textcoords="offset points",
                fontsize=TEXT_SIZE - 1,
                color=GREY,
                va="center",
            )
        ax.axvline(self.base, color=PALE, lw=1.0, zorder=0)
        ax.axvline(self.base + values.sum(), color=INK, lw=1.0, zorder=0)
        ax.margins(x=0.12)
        ax.set_yticks(at, names, fontsize=TEXT_SIZE)
        tidy(ax, "value", "")
        note = f"from {self.base:.4g} to {self.base + values.sum():.4g}"
        title(ax, "What each column adds", note)
        self.ax_, self.figure_ = ax, ax.figure
        return self


def _leading(names: list[str], values: Array) -> tuple[list[str], Array]:
    """Return the columns of the largest values, and the sum of the others."""
    order = np.argsort(-np.abs(values), kind="stable")
    if len(order) <= MOST_COLUMNS:
        return [str(names[c]) for c in order], np.asarray(values[order])
    few, rest = order[: MOST_COLUMNS - 1], order[MOST_COLUMNS - 1 :]
    found = np.append(values[few], values[rest].sum())
    return [*(str(names[c]) for c in few), f"{len(rest)} others"], found


__all__ = ["ImportanceDisplay", "WaterfallDisplay"]
