"""The pictures of importances and of Shapley values: what is drawn, and refused."""

import numpy as np
import pytest

from corevec import CoreVectorClassifier, Explanation
from corevec.exceptions import InvalidInputError

pytest.importorskip("matplotlib")

from matplotlib.figure import Figure

from corevec.plots import ImportanceDisplay, WaterfallDisplay


def axes():
    return Figure().add_subplot()


def test_bars_of_importances_are_sorted_and_named():
    display = ImportanceDisplay(
        importances=np.array([0.2, 0.7, 0.1]), names=["a", "b", "c"]
    ).plot(axes())
    assert [bar.get_width() for bar in display.ax_.patches] == [0.7, 0.2, 0.1]
    labels = [label.get_text() for label in display.ax_.get_yticklabels()]
    assert labels == ["b", "a", "c"]


def test_many_columns_share_the_last_bar():
    values = np.linspace(1, 2, 40) / 60
    display = ImportanceDisplay(
        importances=values, names=[str(c) for c in range(40)]
    ).plot(axes())
    widths = [bar.get_width() for bar in display.ax_.patches]
    assert len(widths) == 15
    assert sum(widths) == pytest.approx(values.sum())
    assert display.ax_.get_yticklabels()[-1].get_text() == "26 others"


def test_a_waterfall_goes_from_the_base_to_the_value():
    values = np.array([[[0.5, 1.0], [-2.0, 0.0], [0.25, 3.0]]])
    given = Explanation(values, np.array([[1.0, 2.0]]), values[:, 0], ["a", "b", "c"])
    display = WaterfallDisplay.from_explanation(given, output=0, ax=axes())
    bars = display.ax_.patches
    assert bars[0].get_x() == pytest.approx(1.0)
    last = bars[-1]  # the largest, at the top
    assert last.get_width() == pytest.approx(-2.0)
    assert last.get_x() + last.get_width() == pytest.approx(1.0 - 1.25)
    with pytest.raises(InvalidInputError, match="output=2"):
        WaterfallDisplay.from_explanation(given, output=2)


def test_a_model_without_importances_is_refused():
    model = CoreVectorClassifier().fit(np.eye(4), [0, 1, 0, 1])
    with pytest.raises(InvalidInputError, match="metric"):
        ImportanceDisplay.from_estimator(model)
