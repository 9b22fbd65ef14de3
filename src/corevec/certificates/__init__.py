"""Scans over all rows, bounds of the optimum, and certificates of any function."""

from corevec._runtime.rooms import on_demand
from corevec.certificates.scan import scan

_more, __getattr__ = on_demand(
    __name__,
    {
        "definite": (
            "definite_on_rows is_definite_by_name with_bounds_that_hold "
            "without_lower_bound"
        ),
        "dual_bounds": (
            "AFFORDABLE BoundRequest Combination DualBound Projection distances_to_span"
        ),
        "hinge": "HingeProblem dual_value hinge_problem primal_value",
        "scan": "ScanRequest ScanResult Subset answers_on_device",
        "squared_loss": (
            "MOST_MISSING Candidate PassRequest Sums all_sums dual_of "
            "dual_of_entries projection_dual prove"
        ),
        "third_party": "Machine Rule judge",
        "third_party_linear": "judge_linear",
    },
)
# A function that is named as its module is not on demand: the module is found.
__all__ = ["scan", *_more]
