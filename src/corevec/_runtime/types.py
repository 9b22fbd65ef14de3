"""Types that every room uses."""

from typing import Any

import numpy as np
import numpy.typing as npt

# float64 where nothing else is said, int64 for row numbers. On a GPU an array may be a
# torch tensor (`backend.arrays`), which mypy cannot know.
Array = npt.NDArray[Any]

EPS = float(np.finfo(np.float64).eps)
