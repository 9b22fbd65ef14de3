"""Columns by name: match the columns of a model with those of a data file."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from corevec.cli.console import note
from corevec.cli.errors import data_error

if TYPE_CHECKING:
    from corevec.cli.encoding import Encoding
    from corevec.data.readers import Columns

# Maximum number of names in a message; a file may have thousands.
_LISTED_NAMES = 20

logger = logging.getLogger("corevec")


@dataclass(frozen=True)
class Known:
    """The columns that a model was fitted on: their number, and their names if known.

    The number is None for a model that takes rows of any width (LIBSVM's text).
    """

    width: int | None
    names: tuple[str, ...] | None
    encoding: Encoding | None = None


def known_columns(model: Any) -> Known:
    """Return the columns that a model from a file was fitted on."""
    if hasattr(model, "text_"):  # as svm-predict, it accepts rows of any width
        return Known(None, None)
    from corevec.cli.encoding import Encoding

    names = getattr(model, "feature_names_in_", None)
    return Known(
        getattr(model, "n_features_in_", None),
        None if names is None else tuple(names),
        Encoding.of_model(model),
    )


@contextmanager
def with_names(model: Any, names: Iterable[str] | None) -> Iterator[None]:
    """Set the column names of a fitted model while it is written to a file.

    They stand where scikit-learn puts those of a data frame: in the first step.
    """
    if names is None:
        yield
        return
    import numpy as np

    first = model[0] if hasattr(model, "steps") else model
    first.feature_names_in_ = np.array(list(names), dtype=object)
    try:
        yield
    finally:
        forget_names(model)


def forget_names(model: Any) -> None:
    """Remove the column names of a model: its rows are read in its column order.

    The rows are arrays, about which scikit-learn would warn that they have no names.
    """
    steps = [step for _, step in getattr(model, "steps", [])]
    for one in steps or [model]:
        if "feature_names_in_" in getattr(one, "__dict__", {}):
            del one.feature_names_in_


def columns_to_read(
    where: str, header: Columns, names: tuple[str, ...]
) -> list[str] | None:
    """Return the columns of the model, by name, for the reader of a file.

    None where they are the file's own, in this order. Columns that the model does not
    know are left out (labels among them, where no --target was given); one that it
    knows and that is missing is an error.
    """
    found = header.feature_names
    if found == list(names):
        return None
    unused = [name for name in found if name not in set(names)]
    missing = [name for name in names if name not in set(found)]
    moved = _moved(names, found)
    if missing:
        raise data_error(_refusal(where, header, missing, unused, moved))
    said = []
    if moved:
        said.append(f"in another order than the model's: {listed(moved)}")
    if unused:
        said.append(f"not known to the model and not used: {listed(unused)}")
    logger.info("%s: columns are taken by name; %s", where, "; ".join(said))
    return list(names)


def _refusal(
    where: str,
    header: Columns,
    missing: list[str],
    unused: list[str],
    moved: list[str],
) -> str:
    """Return the error for a file that lacks columns of the model."""
    parts = [f"missing {listed(missing)}"]
    if unused:
        parts.append(f"extra {listed(unused)}")
    if moved:
        parts.append(f"moved {listed(moved)}")
    roles = {"--target": header.target, "--weight-column": header.weight}
    taken = [
        f"{option} takes {header.names[place]!r}, which is a column of the model. "
        for option, place in roles.items()
        if place is not None and header.names[place] in missing
    ]
    return (
        f"{where}: its columns are not those that the model was fitted on: "
        f"{'; '.join(parts)}. {''.join(taken)}Columns are found by their names: "
        "rename those of the file, or fit on columns that it has."
    )


def _moved(names: Sequence[str], found: Sequence[str]) -> list[str]:
    """Return the common names if their order differs."""
    theirs = [name for name in found if name in set(names)]
    ours = [name for name in names if name in set(found)]
    if len(ours) != len(theirs):  # a duplicate name, which the reader reports
        return []
    return [own for own, other in zip(ours, theirs, strict=True) if own != other]


def check_by_position(
    where: str, width: int, names: tuple[str, ...] | None, known: Known
) -> None:
    """Check the number of columns if the file or the model has no names."""
    if known.width is not None and width != known.width:
        model_has = "" if known.names is None else f": {listed(known.names)}"
        hint = " Is --target missing?" if width == known.width + 1 else ""
        raise data_error(
            f"{where}: {width:,} columns, but the model was fitted on "
            f"{known.width:,}{model_has}.{hint}"
        )
    if known.names is not None:
        note(
            f"warning: {where} has no names of columns, the model has: the columns are "
            f"taken as {listed(known.names)}, in this order."
        )
    elif names is not None:
        note(
            f"warning: the model has no names of columns, {where} has: {listed(names)} "
            "are taken in this order as those of the fit."
        )


def listed(names: Sequence[str]) -> str:
    """Return the first names of a list, for a message."""
    text = ", ".join(repr(name) for name in names[:_LISTED_NAMES])
    more = len(names) - _LISTED_NAMES
    return f"{text} and {more:,} more" if more > 0 else text
