"""Data sets by name; each file has one `load(**arguments) -> Dataset`."""

import json
from functools import lru_cache, partial

from benchmarks.datasets import (
    adult,
    checkerboard,
    clouds,
    covtype,
    cpsp,
    drifting,
    gaussian,
    ijcnn1,
    imbalanced,
    kddcup99,
    mnist,
    mnist10,
    novelty,
    ranking,
    regression,
    scans,
    standardised,
    streaming,
    tables,
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
    "clouds_d22": partial(clouds.load, d=22),
    "clouds_d784_f32": partial(clouds.load, d=784, dtype="float32"),
    "clouds_d784_f64": partial(clouds.load, d=784),
    "clouds_d40000": partial(clouds.load, d=40_000, entries=100),
    "covtype": covtype.load,
    "covtype7": tables.covtype7,
    "covtype_copies": tables.covtype_copies,
    "drifting": drifting.load,
    "dragon": partial(scans.load, "dragon"),
    "friedman_1m": tables.friedman_1m,
    "gaussian": gaussian.load,
    "ijcnn1": ijcnn1.load,
    "imbalanced": imbalanced.load,
    "imbalanced_overlap": partial(imbalanced.load, clouds=8, distance=0.8),
    "islands_d22": partial(clouds.islands, d=22),
    "kddcup99": kddcup99.load,
    "letter": tables.letter,
    "mnist": mnist.load,
    "mnist10": mnist10.load,
    "mnist10_unit": partial(mnist10.load, unit=True),
    "novelty": novelty.load,
    "skin": tables.skin,
    "ranking": ranking.load,
    "ranking_rotated": partial(ranking.load, rotated=True),
    **{name: regression.loader(name) for name in REGRESSIONS},
    **{
        f"plain_{name}": standardised.loader(name)
        for name in (
            *standardised.CLASSES,
            *standardised.MORE_CLASSES,
            *standardised.NUMBERS,
            *standardised.MORE_NUMBERS,
        )
    },
    **{name: cpsp.loader(name.removeprefix("cpsp_")) for name in cpsp.SETS},
    **{name: streaming.loader(name) for name in streaming.SETS},
}


def load(name, arguments):
    """Return the data set, from memory when it was asked for a moment ago."""
    return _load(name, json.dumps(arguments, sort_keys=True))


@lru_cache(maxsize=2)
def _load(name, arguments):
    return DATASETS[name](**json.loads(arguments))
