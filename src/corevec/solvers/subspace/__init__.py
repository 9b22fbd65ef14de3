"""Weights of all rows in the span of a basis."""

from corevec._runtime.rooms import on_demand

__all__, __getattr__ = on_demand(
    __name__,
    {
        "iterative": "ROUNDING_DECREASE prove solve",
        "low_rank": "radius_sq",
        "result": "certificates expansion",
        "row_order": "RowOrder weighted_rows weighted_rows_on_host",
        "rsvm": "coefficients_of",
        "sample_newton": "draw_each sample_size solve_on_sample",
        "state": "SpanFit SpanState",
        "task": "SpanMethod SpanTask",
        "working_set": "rows_that_fit view_that_fits",
    },
)
