"""What a fit leaves: expansions, bases, certificates, results, checkpoints."""

from corevec._runtime.rooms import on_demand

__all__, __getattr__ = on_demand(
    __name__,
    {
        "basis": (
            "Basis Pivots MAX_RANK NEW PROBE_ROWS RANK_THRESHOLD SPREAD_THRESHOLD "
            "basis_from basis_of basis_of_rows free_vectors pivots_of probe rows_at"
        ),
        "certificate": "Cancellation Certificate relative_gap with_kind worst_of",
        "checkpoint": "Checkpoint Saved described",
        "expansion": "KernelExpansion Ready",
        "gradients": "squared_gradients",
        "norms": "norms_sq norms_sq_of_rows parts_of",
        "shapley": "shapley_values",
        "result": "FitResult Settings WarmStart",
    },
)
