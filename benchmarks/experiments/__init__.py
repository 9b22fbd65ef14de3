"""Experiments by name; each file has `REPEATS` and `cases(quick)`."""

from benchmarks.experiments import (
    cells,
    cells_more,
    certified_million,
    checkerboard_scaling,
    cold_start,
    covtype_curve,
    cpsp_tables,
    cv_search,
    cvm_figures,
    dask_cluster,
    defaults,
    exact_growth,
    imbalance,
    intervals,
    learned_metric,
    learned_metric_tables,
    loosli_canu,
    loosli_canu_rows,
    memory,
    one_class,
    parquet_size,
    prediction_speed,
    ranking,
    real_data,
    reference_speed,
    regression,
    shared_basis,
    spark_cluster,
    streaming_kernel,
    streaming_memory,
    streaming_novelty,
    streaming_speed,
    streaming_table,
    subspace_regression,
    surfaces,
    svm_tuned,
)

EXPERIMENTS = {
    "checkerboard_scaling": checkerboard_scaling,
    "loosli_canu": loosli_canu,
    "loosli_canu_rows": loosli_canu_rows,
    "cvm_figures": cvm_figures,
    "reference_speed": reference_speed,
    "defaults": defaults,
    "exact_growth": exact_growth,
    "svm_tuned": svm_tuned,
    "real_data": real_data,
    "one_class": one_class,
    "regression": regression,
    "imbalance": imbalance,
    "ranking": ranking,
    "surfaces": surfaces,
    "certified_million": certified_million,
    "cpsp_tables": cpsp_tables,
    "prediction_speed": prediction_speed,
    "shared_basis": shared_basis,
    "spark_cluster": spark_cluster,
    "subspace_regression": subspace_regression,
    "covtype_curve": covtype_curve,
    "cold_start": cold_start,
    "memory": memory,
    "streaming_table": streaming_table,
    "streaming_speed": streaming_speed,
    "streaming_memory": streaming_memory,
    "streaming_kernel": streaming_kernel,
    "streaming_novelty": streaming_novelty,
    "dask_cluster": dask_cluster,
    "parquet_size": parquet_size,
    "cells": cells,
    "cells_more": cells_more,
    "cv_search": cv_search,
    "intervals": intervals,
    "learned_metric": learned_metric,
    "learned_metric_tables": learned_metric_tables,
}


def choose(name):
    """Return the experiments that a name on the command line stands for."""
    if name == "all":
        return list(EXPERIMENTS.values())
    if name not in EXPERIMENTS:
        known = ", ".join(EXPERIMENTS)
        raise SystemExit(f"benchmarks: no experiment {name!r}. There are: {known}, all")
    return [EXPERIMENTS[name]]
