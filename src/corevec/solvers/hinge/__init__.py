"""The hinge solver: SVC, SVR, one-class and nu problems with a free bias, certified."""

from corevec.problems import (
    BoxProblem,
    Measured,
    best_bias,
    c_svc,
    epsilon_svr,
    nu_svc,
    nu_svr,
    one_class_nu,
)
from corevec.solvers.hinge.result import BoxSolution, HingeSettings, joint_functions
from corevec.solvers.hinge.solve import solve_boxes

__all__ = [
    "BoxProblem",
    "BoxSolution",
    "HingeSettings",
    "Measured",
    "best_bias",
    "c_svc",
    "epsilon_svr",
    "joint_functions",
    "nu_svc",
    "nu_svr",
    "one_class_nu",
    "solve_boxes",
]
