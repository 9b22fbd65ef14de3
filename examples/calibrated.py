"""Probabilities: scikit-learn's calibration around a corevec classifier."""

from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import make_moons
from sklearn.metrics import brier_score_loss

from corevec import CoreVectorClassifier


def main():
    X, y = make_moons(4000, noise=0.3, random_state=0)
    machine = CoreVectorClassifier(C=10, random_state=0)
    model = CalibratedClassifierCV(machine, ensemble=False).fit(X[:2000], y[:2000])
    probabilities = model.predict_proba(X[2000:])[:, 1]
    print(f"Brier score {brier_score_loss(y[2000:], probabilities):.3f}")


if __name__ == "__main__":
    main()
