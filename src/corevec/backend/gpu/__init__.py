"""Kernel values and Newton steps of torch tensors, in torch and in Triton."""

from corevec._runtime.rooms import on_demand

__all__, __getattr__ = on_demand(
    __name__,
    {
        "kernels": (
            "Answer Asked Functions Mapping Prepared answers answers_in_one "
            "answers_of apply_profile block fused repair repeated squared_norms times "
            "times_by_tiles"
        ),
    },
)
