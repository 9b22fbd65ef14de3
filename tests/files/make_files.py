"""Write the model files of this version of the container, once, with their answers.

    python tests/files/make_files.py VERSION

Run it when the version goes up, never for a version that has its files already:
`test_container.py` reads them all.
"""

import json
import sys
from dataclasses import asdict
from pathlib import Path

import numpy as np
from scipy import sparse
from sklearn.datasets import make_moons
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler

import corevec
from corevec import methods
from corevec.formats import save

HERE = Path(__file__).parent
NUMBERS = ("primal", "dual", "relative_gap", "n_rows", "converged")


def models(X, y):
    words = np.where(y == 1, "über", "under")
    yield (
        "pipeline",
        make_pipeline(
            MinMaxScaler(),
            corevec.CoreVectorClassifier(
                gamma=2.0, class_weight={"über": 2.0, "under": 1.0}, random_state=0
            ),
        ).fit(X, words),
    )
    yield (
        "pairs_sparse",
        corevec.CoreVectorClassifier(multi_class="ovo", random_state=0).fit(
            sparse.csr_matrix(X), np.digitize(X[:, 0], [0.0, 1.0])
        ),
    )
    yield (
        "regressor",
        corevec.CoreVectorRegressor(
            random_state=0, C=1.0, tube=0.0, method=methods.FewVectors(8)
        ).fit(X, X[:, 1]),
    )
    yield "detector", corevec.SVDD(C=0.1, random_state=0).fit(X)
    yield (
        "stream",
        corevec.StreamingBallClassifier(kernel="rbf", budget=10).fit(X, words),
    )


def _certificate(model):
    """Return the numbers to compare; of a ball its radii, squared."""
    if not hasattr(model, "ball_bound_"):
        return asdict(model.certificate_)
    bound = model.ball_bound_
    numbers = bound.radius**2, bound.lower_radius**2, None, bound.n_rows, None
    return dict(zip(NUMBERS, numbers, strict=True))


def main():
    version = int(sys.argv[1])
    X, y = make_moons(40, noise=0.1, random_state=0)
    for name, model in models(X, y):
        path = HERE / f"container_v{version}_{name}.npz"
        if path.exists():
            raise SystemExit(f"{path} is there: a version's files are written once.")
        save(model, path)
        asked = [q for q in ("predict", "decision_function") if hasattr(model, q)]
        one = model[-1] if hasattr(model, "steps") else model
        certificate = _certificate(one)
        wanted = {
            "rows": X[:10].tolist(),
            "answers": {q: getattr(model, q)(X[:10]).tolist() for q in asked},
            "certificate": {n: certificate[n] for n in NUMBERS},
        }
        path.with_suffix(".json").write_text(json.dumps(wanted, indent=1) + "\n")


if __name__ == "__main__":
    main()
