"""Groups of options: dataclasses that several commands share."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass
from typing import Any, get_type_hints

from corevec.cli.options import options_in


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
