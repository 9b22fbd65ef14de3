"""ConvergenceDisplay: gap and objective of a fit against time or passes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from corevec._runtime.types import Array
from corevec.exceptions import InvalidInputError
from corevec.models.certificate import Certificate
from corevec.models.certificate_text import is_of_cells
from corevec.plots._drawing import (
    BLUE,
    GREY,
    INK,
    ORANGE,
    legend,
    several_axes,
    tidy,
    title,
)
from corevec.plots._history import Curves, bounds_of, curves_of
from corevec.plots._model import last_step, refuse

WHO = "ConvergenceDisplay"
_X = {
    "seconds": "elapsed time (s)",
    "passes": "passes over the rows",
    "round": "round",
}
_Y = {"gap": ("gap",), "objective": ("objective",), "both": ("gap", "objective")}
# A gap below this is rounding; the axis ends here.
_LEAST_GAP = 1e-10


@dataclass(kw_only=True, eq=False, repr=False)
class ConvergenceDisplay:
    """Gap and objective of a fit, round by round, with the certificate.

    Use `from_estimator`. The gap is that of the full problem, or the worst of several
    (classes, targets); hollow markers are rounds that scanned a subset of the rows. For
    a model in the span of a basis, only the gap in the span is known during the fit;
    the diamond is the certified gap, measured at the end. The objective lies between
    the dual and the primal value, summed over the problems.

    Parameters
    ----------
    curves : Curves
        One value per round.
    certificate : Certificate
        Certificate of the model.

    Attributes
    ----------
    figure_ : Figure
        Figure of the last drawing.
    ax_ : Axes
        First panel of the last drawing.
    axes_ : ndarray of Axes
        The panels.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from corevec import CoreVectorClassifier
    >>> from corevec.plots import ConvergenceDisplay
    >>> X, y = make_moons(300, noise=0.2, random_state=0)
    >>> model = CoreVectorClassifier(C=10, random_state=0).fit(X, y)
    >>> display = ConvergenceDisplay.from_estimator(model, x="passes")
    >>> len(display.axes_), display.ax_.get_xlabel()
    (2, 'passes over the rows')
    """

    curves: Curves
    certificate: Certificate

    @classmethod
    def from_estimator(
        cls, model: Any, *, x: str = "seconds", y: str = "both", ax: Any = None
    ) -> ConvergenceDisplay:
        """Read the history of a fitted model and draw it.

        Parameters
        ----------
        model : estimator
            Fitted model with ``history_`` and ``certificate_``, or a pipeline that ends
            in one.
        x : {"seconds", "passes", "round"}, default="seconds"
            Quantity on the horizontal axis.
        y : {"gap", "objective", "both"}, default="both"
            Which panels to draw.
        ax : Axes or pair of Axes, optional
            Axes to draw on, one per panel. None: those of a new figure.

        Returns
        -------
        ConvergenceDisplay
            The display, drawn.
        """
        own = last_step(model)
        curves = curves_of(own)
        if len(curves) == 0:
            raise refuse(
                WHO,
                own,
                "has no history_ of rounds",
                "Streaming models have none; corevec.certify(model, X, y) measures "
                "their gap, and CertificateDisplay.from_certificate draws it.",
            )
        return cls(curves=curves, certificate=own.certificate_).plot(ax, x=x, y=y)

    def plot(
        self, ax: Any = None, *, x: str = "seconds", y: str = "both"
    ) -> ConvergenceDisplay:
        """Draw the panels.

        Parameters
        ----------
        ax : Axes or pair of Axes, optional
            Axes to draw on, one per panel. None: those of a new figure.
        x : {"seconds", "passes", "round"}, default="seconds"
            Quantity on the horizontal axis.
        y : {"gap", "objective", "both"}, default="both"
            Which panels to draw.

        Returns
        -------
        self
            The display, with `figure_`, `ax_` and `axes_`.
        """
        for name, value, allowed in (("x", x, _X), ("y", y, _Y)):
            if value not in allowed:
                words = ", ".join(repr(word) for word in allowed)
                raise InvalidInputError(
                    f"{WHO}: {name}={value!r} is not one of {words}.", parameter=name
                )
        panels = _Y[y]
        axes = several_axes(WHO, ax, len(panels), (5.6 * len(panels), 4.2))
        for panel, place in zip(panels, axes, strict=True):
            draw = self._draw_gap if panel == "gap" else self._draw_objective
            draw(place, x)
            if x != "round":
                place.set_xlim(left=0)  # no negative seconds in the margin
        self.axes_, self.ax_, self.figure_ = axes, axes[0], axes[0].figure
        return self

    def _draw_gap(self, ax: Any, x: str) -> None:
        curves, at = self.curves, getattr(self.curves, x)
        if is_of_cells(self.certificate):
            _line(ax, at, _floored(curves.gap), BLUE, "worst gap of the cells so far")
        else:
            own = _floored(curves.gap)
            _line(ax, at, own, BLUE, "gap of the problem", curves.exact)
        _line(ax, at, _floored(curves.span_gap), ORANGE, "gap within the span")
        certified = self.certificate.relative_gap
        if np.isfinite(certified):
            end = self._end(x)
            ax.plot(
                [end],
                [max(certified, _LEAST_GAP)],
                "D",
                ms=8,
                color=INK,
                mec="white",
                label=f"certified: {certified:.2g}",
                zorder=5,
            )
        if np.isfinite(self.certificate.tol):
            asked = f"asked: tol = {self.certificate.tol:g}"
            line = {"color": GREY, "ls": "--", "lw": 1.4, "label": asked}
            ax.axhline(self.certificate.tol, zorder=1, **line)
        ax.set_yscale("log")
        ax.grid(axis="y", color="#E6E8EA", lw=0.8, zorder=0)
        tidy(ax, _X[x], "relative duality gap")
        title(ax, "Gap")
        legend(ax, loc="lower left")

    def _draw_objective(self, ax: Any, x: str) -> None:
        curves, at = self.curves, getattr(self.curves, x)
        lower, upper = bounds_of(self.certificate)
        _line(ax, at, curves.upper, ORANGE, "primal value (from above)")
        _line(ax, at, curves.lower, BLUE, "dual value (from below)")
        both = np.isfinite(curves.upper) & np.isfinite(curves.lower)
        ax.fill_between(
            at, curves.lower, curves.upper, where=both, color=BLUE, alpha=0.08, lw=0
        )
        end = self._end(x)
        if np.isfinite([lower, upper]).all():
            ax.plot([end, end], [lower, upper], "D-", ms=7, color=INK, mec="white")
            ax.plot([], [], "D", ms=7, color=INK, mec="white", label="certificate")
        shown = np.concatenate([curves.upper, curves.lower, [lower, upper]])
        shown = shown[np.isfinite(shown)]
        if len(shown) and shown.min() > 0 and shown.max() > 20 * shown.min():
            ax.set_yscale("log")
        ax.grid(axis="y", color="#E6E8EA", lw=0.8, zorder=0)
        several = len(self.certificate.parts)
        tidy(
            ax, _X[x], "objective" + (f", sum of {several} problems" if several else "")
        )
        title(ax, "Objective")
        if ax.get_legend_handles_labels()[0]:
            legend(ax, loc="best")

    def _end(self, x: str) -> float:
        """Return the position of the certificate on the axis: the end of the fit."""
        last = float(getattr(self.curves, x)[-1])
        if x == "round":
            return last
        return max(last, float(getattr(self.certificate, x)))


def _floored(gaps: Array) -> Array:
    return np.where(np.isnan(gaps), np.nan, np.maximum(gaps, _LEAST_GAP))


def _line(
    ax: Any, x: Array, y: Array, colour: str, label: str, exact: Array | None = None
) -> None:
    """Draw the known values of a curve; hollow markers where `exact` is False."""
    known = np.isfinite(y)
    if not known.any():
        return
    face = [colour] * int(known.sum())
    if exact is not None:
        face = [colour if e else "white" for e in exact[known]]
    ax.plot(x[known], y[known], color=colour, lw=2.0, zorder=2)
    ax.scatter(x[known], y[known], s=26, c=face, edgecolors=colour, zorder=3)
    ax.plot([], [], "o-", ms=5, lw=2.0, color=colour, label=label)
    if exact is not None and not exact[known].all():
        hollow = {"mfc": "white", "mec": colour, "ls": "none"}
        ax.plot([], [], "o", ms=5, label="on a part of the rows", **hollow)
