"""River's OneClassSVM behind its StandardScaler, row by row, as its documentation does.

The same documentation encourages RBFSampler for what is not linear
(`map="rbf_sampler"`); River's makes its features column by column, so 10 for each of 10
columns are as many as the 100 of `sklearn_sgd_oneclass`. gamma is that of scaled rows.
River's detectors have high scores for outliers, but this one's formula (w'x -
intercept, the hinge of y = 1) has high ones for what it knows: `is_sign_known` is
False, and the experiment counts the better of the two signs.
"""

from benchmarks.solvers._base import Solver, chosen

N_COMPONENTS = 10  # of each column


class OneClass:
    """River's pipeline with scikit-learn's method names."""

    is_sign_known = False

    def __init__(self, model):
        self.model = model

    def partial_fit(self, X):
        for row in X.tolist():
            self.model.learn_one(dict(enumerate(row)))
        return self

    def score_samples(self, X):
        return [-self.model.score_one(dict(enumerate(row))) for row in X.tolist()]


def build(params, seed, threads):
    from river import anomaly, feature_extraction, preprocessing

    pipeline = preprocessing.StandardScaler()
    if "map" in params:
        pipeline |= feature_extraction.RBFSampler(
            gamma=params["gamma"], n_components=N_COMPONENTS, seed=seed
        )
    return OneClass(pipeline | anomaly.OneClassSVM(**chosen(params, "nu")))


def facts(model, params):
    return {}


SOLVER = Solver("river_oneclass", "river", "river", build, facts, is_peer=True)
