"""Count the Python calls of small fits: run it with PYTHONPATH=src.

Prints, for a fit and a prediction of 300 rows and 3 columns in a warm process, how many
Python functions are called, how many of these lie in the package, how many calls
cross from one of its modules into another, how deep they go, and how many modules of
the package are loaded. Calls of C functions and of compiled loops do not count. With
``--where`` it lists the functions of the package that are called most.

The package that is counted is the one on PYTHONPATH, so the figures of two checkouts
come from one script. Counts are exact and repeat; seconds do not belong here.
"""

from __future__ import annotations

import sys
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

import corevec

PACKAGE = str(Path(corevec.__file__).parent)
N_ROWS, N_COLUMNS = 300, 3


@dataclass
class Calls:
    """What `sys.setprofile` saw."""

    total: int = 0
    inside: int = 0
    crossings: int = 0
    depth: int = 0
    deepest: int = 0
    functions: Counter[str] = field(default_factory=Counter)
    files: set[str] = field(default_factory=set)

    def see(self, frame: FrameType, event: str, _argument: Any) -> None:
        """Count one event."""
        if event == "return":
            self.depth -= 1
        if event != "call":
            return
        self.depth += 1
        self.deepest = max(self.deepest, self.depth)
        self.total += 1
        name = frame.f_code.co_filename
        if not name.startswith(PACKAGE):
            return
        self.inside += 1
        self.files.add(name)
        short = name.removeprefix(PACKAGE + "/")
        self.functions[f"{short}:{frame.f_code.co_qualname}"] += 1
        caller = frame.f_back.f_code.co_filename if frame.f_back else ""
        self.crossings += caller.startswith(PACKAGE) and caller != name


def counted(work: Callable[[], Any]) -> Calls:
    """Return the calls of `work`."""
    calls = Calls()
    sys.setprofile(calls.see)
    try:
        work()
    finally:
        sys.setprofile(None)
    return calls


def line(what: str, calls: Calls) -> str:
    """Return the figures of one piece of work."""
    return (
        f"{what:<28}{calls.total:>8,}{calls.inside:>9,}{calls.crossings:>11,}"
        f"{calls.deepest:>7}{len(calls.files):>9}"
    )


def two_classes() -> tuple[np.ndarray, np.ndarray]:
    """Return 300 rows whose class is the sign of a product."""
    X = np.random.default_rng(0).normal(size=(N_ROWS, N_COLUMNS))
    return X, np.where(X[:, 0] * X[:, 1] > 0, 1, -1)


def main(where: bool) -> None:
    """Print the table."""
    warnings.simplefilter("ignore")
    X, y = two_classes()
    models: dict[str, tuple[Any, tuple[np.ndarray, ...]]] = {
        "CoreVectorClassifier": (corevec.CoreVectorClassifier(random_state=0), (X, y)),
        "CoreVectorRegressor": (
            corevec.CoreVectorRegressor(random_state=0),
            (X, X[:, 0] * X[:, 1]),
        ),
        "CoreVectorOneClass": (corevec.CoreVectorOneClass(random_state=0), (X,)),
    }
    print(f"{PACKAGE}\n{'':<28}  Python  package  crossings  depth  modules")
    for name, (model, arguments) in models.items():
        model.fit(*arguments).predict(X)  # compiles, and fills caches
        fit = counted(lambda model=model, given=arguments: model.fit(*given))
        predict = counted(lambda model=model: model.predict(X))
        print(line(f"{name}.fit", fit))
        print(line(f"{name}.predict", predict))
        if where:
            for function, count in fit.functions.most_common(40):
                print(f"    {count:>6,}  {function}")
    loaded = sum(m == "corevec" or m.startswith("corevec.") for m in sys.modules)
    print(f"modules of the package loaded: {loaded}")


if __name__ == "__main__":
    main("--where" in sys.argv[1:])
