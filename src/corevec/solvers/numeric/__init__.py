"""Small dense solvers: quadratic programmes, Newton steps, design matrices."""

from corevec._runtime.rooms import on_demand

__all__, __getattr__ = on_demand(
    __name__,
    {
        "conjugate_gradients": "Systems",
        "deadline": "Deadline OutOfTime",
        "design": "BasisDesign Design capacity row_budget size_of slices",
        "dual_qp": "DualProblem SmoRule Solution balance line_minimum newton smo",
        "jitter": "with_jitter",
        "partial_cholesky": "PartialFactor",
        "primal_newton": "Minimum NewtonSettings minimise minimise_each newton_target",
    },
)
