"""Files that are written completely or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from corevec.exceptions import InvalidInputError

AnyPath = str | os.PathLike[str]


@contextmanager
def replacing(who: str, path: AnyPath) -> Iterator[IO[bytes]]:
    """Open a temporary file beside `path`, which replaces it at the end.

    A reader never meets half a file: `os.replace` is atomic within a folder. After an
    error what was there before is there still, and the half file is gone.
    """
    target = Path(path)
    if target.is_dir():
        raise InvalidInputError(f"{who}: {str(target)!r} is a folder; give a file.")
    if not target.parent.is_dir():
        raise InvalidInputError(
            f"{who}: {str(target)!r} cannot be written: there is no folder "
            f"{str(target.parent)!r}. Make it first."
        )
    half = target.with_name(f".{target.name}.{secrets.token_hex(6)}.part")
    try:
        with half.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(half, target)
    finally:
        half.unlink(missing_ok=True)


def existing_file(who: str, path: Any) -> Path:
    """Return the path of a file that can be read."""
    if not isinstance(path, str | os.PathLike):
        raise InvalidInputError(
            f"{who}: a path was expected, but {type(path).__name__} was given."
        )
    found = Path(path)
    if found.is_dir():
        raise InvalidInputError(f"{who}: {str(found)!r} is a folder; give a file.")
    if not found.exists():
        raise FileNotFoundError(f"{who}: there is no file {str(found)!r}.")
    return found


__all__ = ["AnyPath", "existing_file", "replacing"]
