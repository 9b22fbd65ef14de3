"""How a problem is solved: the objects that ``method=`` takes.

The public name of `corevec.estimators.methods`, which describes them.
"""

from corevec.estimators.methods import (
    Cells,
    CoreSet,
    Exact,
    FewVectors,
    LowRank,
    Sample,
)

__all__ = ["Cells", "CoreSet", "Exact", "FewVectors", "LowRank", "Sample"]
