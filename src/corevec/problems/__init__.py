"""The problems: quadratic programmes of the ball family, and pairs for ranking."""

from corevec._runtime.rooms import on_demand

__all__, __getattr__ = on_demand(
    __name__,
    {
        "box": (
            "BoxProblem Measured best_bias c_svc epsilon_svr nu_svc nu_svr numbered "
            "one_class_nu"
        ),
        "family": (
            "AutomaticTube Floor Labels Problem Terms expectile one_class regression "
            "svdd two_class"
        ),
        "pairs": "CERTIFIED_PAIRS QUERY_ROWS PairSums Pairs pairs_of",
        "task": "Task",
    },
)
