"""The order of the gallery: by task, from the first fit to what few need."""

from pathlib import Path

FIRST = (
    *("checkerboard", "svc_in_one_import", "regression", "outliers", "ranking"),
    *("surface", "clusters", "structured", "few_vectors", "cells"),
    *("learned_metric", "drift"),
    *("categorical_columns", "imbalanced", "probabilities", "intervals", "search"),
    *("certify_svc", "deploy", "dask", "gpu"),
)


class ByTask:
    """The place of an example; one that is not listed comes last."""

    def __init__(self, folder):
        self.folder = folder

    def __call__(self, name):
        stem = Path(name).stem.removeprefix("plot_")
        return (FIRST.index(stem) if stem in FIRST else len(FIRST), stem)
