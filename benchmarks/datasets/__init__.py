"""Data sets by name; each file has one `load(**arguments) -> Dataset`."""

import json
from functools import lru_cache

from benchmarks.datasets import (
    adult,
    checkerboard,
    covtype,
    gaussian,
    ijcnn1,
    kddcup99,
    mnist,
)

DATASETS = {
    "adult": adult.load,
    "checkerboard": checkerboard.load,
    "covtype": covtype.load,
    "gaussian": gaussian.load,
    "ijcnn1": ijcnn1.load,
    "kddcup99": kddcup99.load,
    "mnist": mnist.load,
}


def load(name, arguments):
    """Return the data set, from memory when it was asked for a moment ago."""
    return _load(name, json.dumps(arguments, sort_keys=True))


@lru_cache(maxsize=2)
def _load(name, arguments):
    return DATASETS[name](**json.loads(arguments))
