"""
Calibrated probabilities
========================

Decision values become probabilities by scikit-learn's calibration.
"""

import matplotlib.pyplot as plt
from sklearn.calibration import CalibratedClassifierCV, CalibrationDisplay
from sklearn.datasets import make_moons
from sklearn.metrics import brier_score_loss

from corevec import CoreVectorClassifier

X, y = make_moons(6000, noise=0.3, random_state=0)
machine = CoreVectorClassifier(C=10, random_state=0)
figure, axes = plt.subplots(figsize=(5, 5), layout="constrained")
for method in ("sigmoid", "isotonic"):
    model = CalibratedClassifierCV(machine, method=method, ensemble=False)
    chances = model.fit(X[:2000], y[:2000]).predict_proba(X[2000:])[:, 1]
    print(f"{method:9} Brier score {brier_score_loss(y[2000:], chances):.4f}")
    CalibrationDisplay.from_predictions(
        y[2000:], chances, n_bins=12, name=method, ax=axes
    )
