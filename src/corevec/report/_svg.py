"""Static SVG charts without a library: residuals and histograms.

The view box is 460 x 300: text of 14 units is 10 pixels high on a phone of 360 pixels,
and 18 on a wide page. The colours are those of the style sheet of the page.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

import numpy as np

from corevec._runtime.types import Array

_WIDTH, _HEIGHT = 460.0, 300.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 62.0, 12.0, 12.0, 48.0
# Maximum number of dots: more overlap, and make the page large.
_MOST_DOTS = 1000
_BINS = 40


def residual_plot(predicted: Array, residual: Array) -> str:
    """Return a plot of residuals against predictions, with the zero line."""
    some = _some(len(predicted))
    x, y = predicted[some], residual[some]
    across, up = _axis(x), _axis(np.append(y, 0.0))
    dots = "".join(
        f'<circle class="dot" cx="{_x(a, across):.1f}" cy="{_y(b, up):.1f}" r="2.6"/>'
        for a, b in zip(x, y, strict=True)
    )
    zero = _y(0.0, up)
    line = (
        f'<line class="mark" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{zero:.1f}" '
        f'y2="{zero:.1f}"/>'
    )
    names = ("predicted value", "residual: true - predicted")
    return _chart(names, across, up, [line, dots], "Residuals against predictions")


def histogram(scores: Array, threshold: float | None, name: str) -> str:
    """Return a histogram of the scores, with the threshold as a line."""
    finite = scores[np.isfinite(scores)]
    ends = np.append(finite, threshold if threshold is not None else [])
    low, high = float(ends.min()), float(ends.max())
    if high <= low:
        low, high = low - 0.5, high + 0.5
    counts, edges = np.histogram(finite, bins=_BINS, range=(low, high))
    across, up = (low, high), (0.0, float(counts.max()) * 1.05 or 1.0)
    bars = []
    for count, a, b in zip(counts, edges[:-1], edges[1:], strict=True):
        left, right, top = _x(a, across), _x(b, across), _y(float(count), up)
        side = "bar out" if threshold is not None and b <= threshold + 1e-12 else "bar"
        bars.append(
            f'<rect class="{side}" x="{left + 0.5:.1f}" y="{top:.1f}" '
            f'width="{max(right - left - 1, 0.5):.1f}" '
            f'height="{_HEIGHT - _BOTTOM - top:.1f}">'
            f"<title>{a:.4g} to {b:.4g}: {count:,} rows</title></rect>"
        )
    if threshold is not None:
        at = _x(threshold, across)
        bars.append(
            f'<line class="mark" x1="{at:.1f}" x2="{at:.1f}" y1="{_TOP}" '
            f'y2="{_HEIGHT - _BOTTOM}"/>'
        )
    return _chart((name, "rows"), across, up, bars, f"Histogram: {name}")


def _chart(
    names: tuple[str, str],
    across: tuple[float, float],
    up: tuple[float, float],
    marks: Iterable[str],
    label: str,
) -> str:
    bottom, right = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT
    parts = [
        f'<svg class="chart static" viewBox="0 0 {_WIDTH:g} {_HEIGHT:g}" role="img" '
        f'aria-label="{escape(label)}">'
    ]
    for value in _ticks(up):
        at = _y(value, up)
        parts.append(
            f'<line class="grid" x1="{_LEFT}" x2="{right}" y1="{at:.1f}" '
            f'y2="{at:.1f}"/><text x="{_LEFT - 7}" y="{at + 5:.1f}" '
            f'text-anchor="end">{_short(value)}</text>'
        )
    for value in _ticks(across):
        at = _x(value, across)
        parts.append(
            f'<text x="{at:.1f}" y="{bottom + 19}" text-anchor="middle">'
            f"{_short(value)}</text>"
        )
    parts.append(
        f'<line class="axis" x1="{_LEFT}" x2="{right}" y1="{bottom}" y2="{bottom}"/>'
        f'<text class="name" x="{(_LEFT + right) / 2}" y="{_HEIGHT - 7}" '
        f'text-anchor="middle">{escape(names[0])}</text>'
        f'<text class="name" transform="translate(14 {(_TOP + bottom) / 2}) '
        f'rotate(-90)" text-anchor="middle">{escape(names[1])}</text>'
    )
    return "".join([*parts, *marks, "</svg>"])


def _some(count: int) -> Array:
    if count <= _MOST_DOTS:
        return np.arange(count)
    return np.random.default_rng(0).choice(count, _MOST_DOTS, replace=False)


def _axis(values: Array) -> tuple[float, float]:
    """Return the range of the axis: that of the values plus a margin."""
    low, high = float(values.min()), float(values.max())
    margin = 0.04 * (high - low) or 0.5 * abs(high) or 1.0
    return low - margin, high + margin


def _ticks(ends: tuple[float, float]) -> list[float]:
    """Return about five round values between two ends."""
    step = 10.0 ** np.floor(np.log10((ends[1] - ends[0]) / 5))
    for factor in (1, 2, 5, 10):
        if (ends[1] - ends[0]) / (factor * step) <= 6:
            step *= factor
            break
    first = np.ceil(ends[0] / step - 1e-9)
    last = np.floor(ends[1] / step + 1e-9)
    return [float(k * step) for k in np.arange(first, last + 1)]


def _short(value: float) -> str:
    text = f"{value:.4g}".replace("e+0", "e").replace("e-0", "e-").replace("e+", "e")
    return "0" if text == "-0" else text.replace("-", "\N{MINUS SIGN}")


def _x(value: float, ends: tuple[float, float]) -> float:
    share = (value - ends[0]) / (ends[1] - ends[0])
    return _LEFT + share * (_WIDTH - _LEFT - _RIGHT)


def _y(value: float, ends: tuple[float, float]) -> float:
    share = (value - ends[0]) / (ends[1] - ends[0])
    return _HEIGHT - _BOTTOM - share * (_HEIGHT - _TOP - _BOTTOM)
