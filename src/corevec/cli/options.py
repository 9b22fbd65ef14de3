"""Options of the commands: how they are declared, and those that several share.

A group of options is a frozen dataclass, with the help in its docstring.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

DataFile = Annotated[
    str, typer.Argument(metavar="DATA", help="Data file, or - for standard input.")
]
Destination = Annotated[
    str, typer.Argument(metavar="DESTINATION", help="File to write, or - for text.")
]
_MODEL = ("--model", "-m")
ModelFile = Annotated[
    str,
    typer.Option(
        *_MODEL, metavar="FILE", help="Model file: corevec's own, or LIBSVM's text."
    ),
]
NewModelFile = Annotated[
    Path,
    typer.Option(
        *_MODEL,
        metavar="FILE",
        help="Model file to write: .model is LIBSVM's text, .onnx is ONNX, any other "
        "name is corevec's own format.",
    ),
]


# Options with a letter, in whichever group they stand.
_LETTERS = {
    "estimator": "-e",
    "model": "-m",
    "output": "-o",
    "quiet": "-q",
    "verbose": "-v",
}


def expanded(
    function: Callable[..., Any], more: Iterable[inspect.Parameter] = ()
) -> Callable[..., Any]:
    """Return a function of single options for Typer, which calls `function`.

    Each parameter of `function` whose type is a dataclass becomes the fields of that
    class, and is put together again from them. The parameters `more` are handed over
    as one dict, ``parameters``, of those that were given.
    """
    hints = get_type_hints(function, include_extras=True)
    groups: dict[str, Any] = {
        n: t for n, t in hints.items() if n != "return" and is_dataclass(t)
    }
    more = list(more)
    shown: list[inspect.Parameter] = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name in groups:
            shown += options_in(groups[parameter.name])
        elif parameter.name != "parameters":
            shown.append(parameter.replace(annotation=hints[parameter.name]))
    taken = {parameter.name for parameter in shown}
    more = [parameter for parameter in more if parameter.name not in taken]

    def command(**given: Any) -> Any:
        arguments = {
            name: group(**{f.name: given.pop(f.name) for f in fields(group)})
            for name, group in groups.items()
        }
        if "parameters" in hints:
            named = {p.name: given.pop(p.name) for p in more}
            arguments["parameters"] = {n: v for n, v in named.items() if v is not None}
        return function(**arguments, **given)

    command.__name__ = function.__name__
    command.__doc__ = function.__doc__
    shown = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in [*shown, *more]]
    command.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
    command.__annotations__ = {p.name: p.annotation for p in shown}
    return command


def options_in(group: Any) -> list[inspect.Parameter]:
    """Return the options of a group: its fields, with the texts of its docstring.

    A group is a dataclass whose numpydoc section of parameters has the metavar in the
    place of the type.
    """
    texts = documented(group.__doc__ or "")
    hints = get_type_hints(group)
    found = []
    for part in fields(group):
        hint, (metavar, text) = hints[part.name], texts.get(part.name, ("", ""))
        names = [option_name(part.name)]
        if hint == bool | None:
            names = [f"{names[0]}/--no-{names[0][2:]}"]
        if part.name in _LETTERS:
            names.append(_LETTERS[part.name])
        info = typer.Option(part.default, *names, metavar=metavar or None, help=text)
        kind = inspect.Parameter.KEYWORD_ONLY
        found.append(inspect.Parameter(part.name, kind, default=info, annotation=hint))
    return found


def option_name(parameter: str) -> str:
    """Return the option for a parameter: ``max_time`` is ``--max-time``."""
    return "--" + parameter.rstrip("_").replace("_", "-")


def documented(docstring: str) -> dict[str, tuple[str, str]]:
    """Return the type and the text of each parameter in a numpydoc docstring."""
    section = re.search(
        r"Parameters\n-+\n(.*?)(?=\n\n[A-Z]\w+\n-+\n|\Z)",
        inspect.cleandoc(docstring),
        re.DOTALL,
    )
    found: dict[str, tuple[str, str]] = {}
    if section is None:
        return found
    entries = re.split(r"^(\w+(?:, \w+)*)(?: : (.*))?$", section[1], flags=re.MULTILINE)
    for names, kind, text in zip(*(entries[i::3] for i in (1, 2, 3)), strict=True):
        entry = (kind or "", " ".join(text.split()))
        found.update(dict.fromkeys(names.split(", "), entry))
    return found
