"""Common parts of the displays: colours, fonts, axes, and the import of matplotlib."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from corevec.exceptions import InvalidInputError

# The colours of Okabe and Ito (2008), which readers with any colour blindness can tell
# apart, in an order whose first two also differ in lightness.
COLOURS = (
    "#0072B2",
    "#E69F00",
    "#009E73",
    "#CC79A7",
    "#56B4E9",
    "#D55E00",
    "#B8A800",  # darkened yellow: their #F0E442 is invisible on white
    "#5D5D5D",
)
BLUE, ORANGE, GREEN, VERMILION = COLOURS[0], COLOURS[1], COLOURS[2], COLOURS[5]
INK, GREY, PALE = "#222222", "#6B6B6B", "#C9CDD2"
# One marker per class as well, so that a grey print still distinguishes them.
MARKERS = ("o", "^", "s", "D", "v", "P", "X", "p")

LABEL_SIZE, TICK_SIZE, TEXT_SIZE = 12.0, 10.5, 10.5


def import_pyplot(who: str) -> Any:
    """Return matplotlib.pyplot; raise ImportError with the remedy if it is missing."""
    try:
        from matplotlib import pyplot
    except ImportError:
        raise ImportError(
            f'{who} needs matplotlib. Run: pip install "corevec[plot]"'
        ) from None
    return pyplot


def part_of_matplotlib(name: str) -> Any:
    """Return a module of matplotlib, once `import_pyplot` has succeeded."""
    return import_module(f"matplotlib.{name}")


def one_axes(who: str, ax: Any, size: tuple[float, float] = (6.4, 4.8)) -> Any:
    """Return the given axes, or those of a new figure."""
    return several_axes(who, None if ax is None else [ax], 1, size)[0]


def several_axes(
    who: str, ax: Any, count: int, size: tuple[float, float], **shared: Any
) -> Any:
    """Return `count` axes as a flat array: the given ones, or new ones side by side."""
    if ax is None:
        pyplot = import_pyplot(who)
        _, axes = pyplot.subplots(
            1, count, figsize=size, squeeze=False, layout="constrained", **shared
        )
        return axes.ravel()
    import_pyplot(who)
    axes = np.atleast_1d(np.asarray(ax, dtype=object)).ravel()
    if len(axes) != count:
        raise InvalidInputError(
            f"{who}: {len(axes)} axes were given, but {count} are needed. Give one per "
            "panel, or ax=None for a new figure."
        )
    return axes


def tidy(ax: Any, xlabel: str, ylabel: str) -> None:
    """Label the axes and remove the spines without information."""
    ax.set_xlabel(xlabel, fontsize=LABEL_SIZE)
    ax.set_ylabel(ylabel, fontsize=LABEL_SIZE)
    ax.tick_params(labelsize=TICK_SIZE, colors=INK)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)


def title(ax: Any, text: str, note: str = "") -> None:
    """Write a title, and a grey note under it."""
    ax.set_title(text, fontsize=LABEL_SIZE + 1, loc="left", pad=24 if note else 8)
    if note:
        ax.annotate(
            note,
            (0, 1),
            xytext=(0, 7),
            xycoords="axes fraction",
            textcoords="offset points",
            fontsize=TEXT_SIZE - 1,
            color=GREY,
            ha="left",
            va="bottom",
        )


def legend(ax: Any, handles: Any = None, **where: Any) -> Any:
    """Return the legend, drawn beside the axes unless a place is given."""
    where = where or {"loc": "upper left", "bbox_to_anchor": (1.01, 1.0)}
    form = {"fontsize": TEXT_SIZE, "frameon": False, "handlelength": 1.6}
    return ax.legend(handles=handles, borderaxespad=0.2, **form, **where)


def colour_of(number: int) -> str:
    """Return the colour of a class, by its number."""
    return COLOURS[number % len(COLOURS)]


def marker_of(number: int) -> str:
    """Return the marker of a class; it changes when the colours repeat."""
    return MARKERS[(number + number // len(COLOURS)) % len(MARKERS)]


def draw_rings(ax: Any, places: Any, label: str) -> None:
    """Draw core vectors as dark rings with a white outline, for any background."""
    # Many rings are drawn smaller: 40 of full size still leave the rows visible.
    size = min(55.0, max(20.0, 55.0 * 40 / max(len(places), 1)))
    hollow = {"s": size, "facecolors": "none"}
    ax.scatter(*places.T, edgecolors="white", lw=2.6, zorder=4, **hollow)
    ax.scatter(*places.T, edgecolors=INK, lw=1.2, zorder=5, label=label, **hollow)


def darker(colour: str) -> tuple[float, ...]:
    """Return a colour of the palette, darkened to stand out on its own tint."""
    return tuple(0.72 * value for value in rgb(colour))


def rgb(colour: str) -> tuple[float, ...]:
    """Return a colour ``#rrggbb`` as three numbers from 0 to 1."""
    return tuple(int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))


def class_name(value: Any) -> str:
    """Return a class label for a legend: "class 1" for a number."""
    return plain(value) if isinstance(value, str) else f"class {plain(value)}"


def plain(value: Any) -> str:
    """Return a label as plain text: ``a``, not ``np.str_('a')``; ``1``, not ``1.0``."""
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    return str(value)
