"""Which vectors span the space: chosen, pursued, moved."""

from corevec._runtime.rooms import on_demand

__all__, __getattr__ = on_demand(
    __name__,
    {
        "by_multipliers": "ByMultipliers basis_size choose_basis",
        "choose": (
            "BasisTask Vectors Wanted basis_of_vectors check_definite is_streamed "
            "no_space wanted_vectors"
        ),
        "matching_pursuit": "best_candidates draw_candidates",
        "moves": "bytes_of_moves move past_steps rows_to_move_for",
        "plans": "LARGE_PLAN MEDIUM_PLAN SHARED_PLAN SMALL_PLAN VAST_PLAN plan_for",
        "preimages": "Residual best_training_row preimage",
        "pursuit": (
            "MIN_MOVING NEAREST_BAND PursuitTask as_vectors grow last_steps "
            "moving_in_time nearest_rows plan_that_fits rows_that_fit"
        ),
        "select": (
            "BY_NAME Pool incomplete_cholesky kmeans randomly_pivoted_cholesky uniform"
        ),
        "variable_projection": "NEWTON part_of",
    },
)
