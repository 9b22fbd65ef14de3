"""One pass of scikit-learn's Perceptron, rows in the order given; it has no C.

The paper's nSV of the Perceptron are its mistakes, which scikit-learn does not count.
"""

from sklearn.linear_model import Perceptron

from benchmarks.solvers._base import Solver, chosen
from benchmarks.solvers._one_pass import OnePass


def build(params, seed, threads):
    given = chosen(params, "fit_intercept")

    def make(n_rows):
        return Perceptron(shuffle=False, random_state=seed, **given)

    return OnePass(make, params.get("n_rows"))


def facts(model, params):
    return {}


SOLVER = Solver(
    "sklearn_perceptron", "scikit-learn", "sklearn", build, facts, is_peer=True
)
