"""Pictures of models and certificates: Display objects in scikit-learn's manner.

Each class has ``from_estimator`` (or another ``from_...``), which computes and draws,
and ``plot(ax=None)``, which draws again; then ``figure_``, ``ax_`` and, where there
are several, ``axes_`` hold what was drawn. Needs matplotlib:
``pip install "corevec[plot]"``. Importing this module does not import it.
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
