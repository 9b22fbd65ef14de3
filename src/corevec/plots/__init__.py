"""Plots of models and certificates: Display objects in the style of scikit-learn.

Each class has ``from_estimator`` (or another ``from_...``), which computes and draws,
and ``plot(ax=None)``, which draws again. The attributes ``figure_``, ``ax_`` and, for
several panels, ``axes_`` hold the drawing. The displays need matplotlib
(``pip install "corevec[plot]"``); importing this module does not import it.
"""

from corevec.plots.ball import BallDisplay
from corevec.plots.convergence import ConvergenceDisplay
from corevec.plots.decision import DecisionMapDisplay
from corevec.plots.gaps import CertificateDisplay
from corevec.plots.one_class import OneClassMapDisplay
from corevec.plots.size import ModelSizeDisplay
from corevec.plots.slices import SurfaceSliceDisplay
from corevec.plots.vectors import CoreVectorsDisplay

__all__ = [
    "BallDisplay",
    "CertificateDisplay",
    "ConvergenceDisplay",
    "CoreVectorsDisplay",
    "DecisionMapDisplay",
    "ModelSizeDisplay",
    "OneClassMapDisplay",
    "SurfaceSliceDisplay",
]
