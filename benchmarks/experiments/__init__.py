"""Experiments by name; each file has `REPEATS` and `cases(quick)`."""

from benchmarks.experiments import (
    checkerboard_scaling,
    cold_start,
    imbalance,
    loosli_canu,
    memory,
    one_class,
    ranking,
    real_data,
    regression,
    surfaces,
)

EXPERIMENTS = {
    "checkerboard_scaling": checkerboard_scaling,
    "loosli_canu": loosli_canu,
    "real_data": real_data,
    "one_class": one_class,
    "regression": regression,
    "imbalance": imbalance,
    "ranking": ranking,
    "surfaces": surfaces,
    "cold_start": cold_start,
    "memory": memory,
}


def choose(name):
    """Return the experiments that a name on the command line stands for."""
    if name == "all":
        return list(EXPERIMENTS.values())
    if name not in EXPERIMENTS:
        known = ", ".join(EXPERIMENTS)
        raise SystemExit(f"benchmarks: no experiment {name!r}. There are: {known}, all")
    return [EXPERIMENTS[name]]
