"""Plots of models and certificates: Display objects in the style of scikit-learn.

Each class has ``from_estimator`` (or another ``from_...``), which computes and draws,
and ``plot(ax=None)``, which draws again. The attributes ``figure_``, ``ax_`` and, for
several panels, ``axes_`` hold the drawing. The displays need matplotlib
(``pip install "corevec[plot]"``); importing this module does not import it.

Beside the classes of ``__all__`` the report uses what reads a model here: its last
step, its vectors, and the curves of its fit.
"""

from corevec.plots._drawing import plain as plain
from corevec.plots._history import Curves as Curves
from corevec.plots._history import bounds_of as bounds_of
from corevec.plots._history import curves_of as curves_of
from corevec.plots._model import last_step as last_step
from corevec.plots._model import vectors_of as vectors_of
from corevec.plots.ball import BallDisplay
from corevec.plots.columns import ImportanceDisplay, WaterfallDisplay
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
    "ImportanceDisplay",
    "ModelSizeDisplay",
    "OneClassMapDisplay",
    "SurfaceSliceDisplay",
    "WaterfallDisplay",
]
