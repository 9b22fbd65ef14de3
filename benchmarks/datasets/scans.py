"""Stanford bunny and dragon: vertices of the scans, without their triangles.

The test part is held out, 10 % of the vertices: its distance to the mesh is the error.
"""

import numpy as np

from benchmarks.datasets._base import Dataset, open_file, shuffled

HELD_OUT = 0.1


def load(name, n=None, seed=0):
    with open_file(f"{name}.npz") as archive:
        points = archive["vertices"].astype(np.float64)
    points = points[shuffled(len(points), n, seed)]
    n_test = int(HELD_OUT * len(points))
    return Dataset(points[n_test:], None, points[:n_test], None)
