"""The pictures of the benchmarks and of the examples."""

import runpy
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

matplotlib = pytest.importorskip("matplotlib")
plots = pytest.importorskip("benchmarks.plots")

ROOT = Path(__file__).parents[2]


def runs():
    """Results with a gap below zero by rounding, zero errors, and a gap unknown."""
    return pd.DataFrame(
        {
            "dataset": "moons",
            "solver": ["corevec_tol", "sklearn_svc", "corevec_tol", "sklearn_svc"],
            "fit_seconds": [0.2, 0.5, 0.9, 3.0],
            "test_error": [0.0, 0.02, 0.01, 0.015],
            "gap": [-1e-16, np.nan, 2e-4, 1e-3],
            "n": [1000, 1000, 2000, 2000],
            "rule": "paper",
            "n_support": [10, 20, 15, 25],
            "train_error": [0.0, 0.01, 0.01, 0.01],
        }
    )


@pytest.mark.parametrize("draw", [plots.against_time, plots.against_rows])
def test_axes_of_benchmarks_show_no_negative_seconds_or_gaps(draw):
    figure = draw(runs())
    figure.canvas.draw()
    for axis in figure.axes:
        for side, (low, high) in (
            (axis.xaxis, axis.get_xlim()),
            (axis.yaxis, axis.get_ylim()),
        ):
            assert side.get_scale() == "log"
            assert 0 < low < high
            ticks = [t for t in side.get_majorticklocs() if low <= t <= high]
            assert ticks
        # Zero errors and gaps below zero are drawn, on the lower edge.
        drawn = [p for c in axis.collections for p in c.get_offsets()[:, 1]]
        drawn += [v for line in axis.lines for v in line.get_ydata()]
        assert all(axis.get_ylim()[0] < v for v in drawn if np.isfinite(v))
        assert axis.get_xlabel() in plots.NAMES.values()
        assert axis.get_ylabel() in plots.NAMES.values()
    plots.plt.close(figure)


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.py")), ids=str)
def test_an_example_writes_its_picture_where_it_is_run(path):
    """Not over a tracked file, such as the picture of the docs."""
    assert "__file__" not in path.read_text()
    try:
        picture = runpy.run_path(str(path)).get("PICTURE")
    finally:
        plots.plt.close("all")  # what the program shows, and left open
    assert picture is None or Path(picture) == Path(picture.name)
