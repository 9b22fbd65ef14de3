"""CertificateDisplay: the gap of every problem of a model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from corevec.models.certificate import Certificate
from corevec.models.certificate_text import is_of_cells
from corevec.plots._drawing import (
    BLUE,
    GREY,
    TEXT_SIZE,
    VERMILION,
    legend,
    one_axes,
    plain,
    tidy,
    title,
)
from corevec.plots._model import last_step, refuse

WHO = "CertificateDisplay"
# The axis starts here: a smaller gap is rounding.
_LEAST_GAP = 1e-10
# Above this number of problems, only some of the lines have a label.
_MOST_NAMED = 30


@dataclass(kw_only=True, eq=False, repr=False)
class CertificateDisplay:
    """The relative gap of each problem of a certificate, with the tolerance.

    Use `from_certificate` or `from_estimator`. There is one line per problem: a class
    against the rest, a pair of classes, a target, or a scale of a surface. The gap
    bounds the relative distance of the objective from the optimum.

    Parameters
    ----------
    certificate : Certificate
        Certificate to draw.
    names : list of str, optional
        Names of the problems. The default is numbers.

    Attributes
    ----------
    figure_ : Figure
        Figure of the last drawing.
    ax_ : Axes
        Axes of the last drawing.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from corevec import CoreVectorClassifier
    >>> from corevec.plots import CertificateDisplay
    >>> X, y = load_iris(return_X_y=True)
    >>> model = CoreVectorClassifier(random_state=0).fit(X, y)
    >>> display = CertificateDisplay.from_certificate(model.certificate_)
    >>> display.ax_.get_xlabel()
    'relative duality gap'
    """

    certificate: Certificate
    names: list[str] | None = None

    @classmethod
    def from_certificate(
        cls,
        certificate: Certificate,
        *,
        names: list[str] | None = None,
        ax: Any = None,
    ) -> CertificateDisplay:
        """Draw a certificate.

        Parameters
        ----------
        certificate : Certificate
            The attribute ``certificate_`` of a model, or a result of `corevec.certify`.
        names : list of str, optional
            Names of the problems.
        ax : Axes, optional
            Axes to draw on. None: those of a new figure.

        Returns
        -------
        CertificateDisplay
            The display, drawn.
        """
        return cls(certificate=certificate, names=names).plot(ax)

    @classmethod
    def from_estimator(cls, model: Any, *, ax: Any = None) -> CertificateDisplay:
        """Draw the certificate of a fitted model, its problems named by class.

        Parameters
        ----------
        model : estimator
            Fitted model with ``certificate_``, or a pipeline that ends in one.
        ax : Axes, optional
            Axes to draw on. None: those of a new figure.

        Returns
        -------
        CertificateDisplay
            The display, drawn.
        """
        own = last_step(model)
        if getattr(own, "certificate_", None) is None:
            raise refuse(
                WHO,
                own,
                "has no certificate_",
                "Give from_certificate the result of corevec.certify(model, X, y).",
            )
        return cls(certificate=own.certificate_, names=_names(own)).plot(ax)

    def plot(self, ax: Any = None) -> CertificateDisplay:
        """Draw the gaps.

        Parameters
        ----------
        ax : Axes, optional
            Axes to draw on. None: those of a new figure.

        Returns
        -------
        self
            The display, with `figure_` and `ax_`.
        """
        parts = self.certificate.parts or (self.certificate,)
        high = float(np.clip(1.7 + 0.28 * len(parts), 2.4, 9.0))
        ax = one_axes(WHO, ax, (6.4, high))
        lines = np.arange(len(parts))
        gaps = np.array([part.relative_gap for part in parts])
        shown = np.clip(np.where(np.isfinite(gaps), gaps, 1.0), _LEAST_GAP, 1.0)
        left = min(shown.min() / 3, 1e-4)
        done = np.array([part.converged for part in parts])
        for mask, colour, marker, label in (
            (done, BLUE, "o", "converged"),
            (~done, *_not_done(self.certificate)),
        ):
            if mask.any():
                ax.hlines(lines[mask], left, shown[mask], color=colour, lw=1.4)
                ax.scatter(shown[mask], lines[mask], s=60, c=colour, marker=marker)
                ax.plot([], [], marker, ms=7, color=colour, label=label)
        self._draw_tolerance(ax)
        self._name_lines(ax, lines)
        ax.set_xscale("log")
        ax.set_xlim(left, 2.0)
        ax.set_ylim(len(parts) - 0.4, -0.6)
        tidy(ax, "relative duality gap", "")
        verified = (
            f"{self.certificate.n_verified:,} of {self.certificate.n_rows:,} rows"
        )
        tiny = "; gaps below 1e-10 end there" if (gaps < _LEAST_GAP).any() else ""
        title(ax, "Certificate", f"measured on {verified}{tiny}")
        legend(ax)
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _draw_tolerance(self, ax: Any) -> None:
        if not np.isfinite(self.certificate.tol):
            return
        ax.axvline(self.certificate.tol, color=GREY, ls="--", lw=1.2, zorder=0)
        ax.plot([], [], "--", color=GREY, label=f"tol = {self.certificate.tol:g}")

    def _name_lines(self, ax: Any, lines: Any) -> None:
        names = self.names
        if names is None or len(names) != len(lines):
            names = (
                [f"problem {line + 1}" for line in lines] if len(lines) > 1 else [""]
            )
        step = 1 + (len(lines) - 1) // _MOST_NAMED
        ax.set_yticks(lines[::step], names[::step], fontsize=TEXT_SIZE)
        ax.tick_params(axis="y", length=0)


def _not_done(certificate: Certificate) -> tuple[str, str, str]:
    """Return the colour, marker and label of problems that have not converged."""
    if is_of_cells(certificate):
        return BLUE, "D", "worst of the cells, each by itself"
    return VERMILION, "X", "not converged"


def _names(model: Any) -> list[str] | None:
    """Return the names of the problems of a classifier; None for other models."""
    classes = getattr(model, "classes_", None)
    if classes is None:
        return None
    n, parts = len(classes), len(model.certificate_.parts)
    own = [plain(name) for name in classes]
    by_pairs = getattr(model, "_has_pairs", False)
    if parts == n and not by_pairs:
        return [f"{name} against the rest" for name in own]
    if parts == n * (n - 1) // 2 and by_pairs:
        pairs = ((i, j) for i in range(n) for j in range(i + 1, n))
        return [f"{own[i]} against {own[j]}" for i, j in pairs]
    return None
