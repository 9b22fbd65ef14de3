"""Data sets by name; each file has one `load(**arguments) -> Dataset`."""

import json
from functools import lru_cache, partial

from benchmarks.datasets import (
    adult,
    checkerboard,
    covtype,
    cpsp,
    gaussian,
    ijcnn1,
    imbalanced,
    kddcup99,
    mnist,
    mnist10,
    ranking,
    regression,
    scans,
)

REGRESSIONS = (
    "cpu_act",
    "elevators",
    "pole",
    "house_16h",
    "friedman",
    "friedman_100k",
    "covtype_signs",
)

DATASETS = {
    "adult": adult.load,
    "bunny": partial(scans.load, "bunny"),
    "checkerboard": checkerboard.load,
    "covtype": covtype.load,
    "dragon": partial(scans.load, "dragon"),
    "gaussian": gaussian.load,
    "ijcnn1": ijcnn1.load,
    "imbalanced": imbalanced.load,
    "imbalanced_overlap": partial(imbalanced.load, clouds=8, distance=0.8),
    "kddcup99": kddcup99.load,
    "mnist": mnist.load,
    "mnist10": mnist10.load,
    "ranking": ranking.load,
    "ranking_rotated": partial(ranking.load, rotated=True),
    **{name: regression.loader(name) for name in REGRESSIONS},
    **{name: cpsp.loader(name.removeprefix("cpsp_")) for name in cpsp.SETS},
}


def load(name, arguments):
    """Return the data set, from memory when it was asked for a moment ago."""
    return _load(name, json.dumps(arguments, sort_keys=True))


@lru_cache(maxsize=2)
def _load(name, arguments):
    return DATASETS[name](**json.loads(arguments))
