"""Options for the parameters of an estimator, from its signature and docstring."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

import typer

from corevec.cli.errors import usage_error
from corevec.cli.options import documented, option_name

# Estimators that fit rows (and labels) and predict. CoreVectorRanker also needs the
# queries of the rows, which the readers ignore.
TRAINABLE = (
    "CoreVectorClassifier",
    "CoreVectorOneClass",
    "CoreVectorRegressor",
    "SVDD",
    "StreamingBallClassifier",
    "StreamingBallOneClass",
    "StreamingClassifier",
    "StreamingOneClass",
    "StreamingRegressor",
    "StructuralSVM",
)
STREAMABLE = (
    "StreamingClassifier",
    "StreamingRegressor",
    "StreamingOneClass",
    "StreamingBallClassifier",
    "StreamingBallOneClass",
)
# Set by --quiet and the terminal; and one process fits once.
NOT_OFFERED = ("verbose", "warm_start")
_WORDS = {"none": None, "true": True, "false": False, "inf": float("inf")}


def estimator_class(name: str, allowed: Iterable[str] = TRAINABLE) -> Any:
    """Return the class of this name; raise an error that lists the names."""
    import corevec

    allowed = tuple(allowed)
    if name in allowed:
        return getattr(corevec, name)
    by_lower = {known.lower(): known for known in allowed}
    close = get_close_matches(name.lower(), by_lower, n=1, cutoff=0.5)
    hint = f" Did you mean {by_lower[close[0]]}?" if close else ""
    raise usage_error(f"--estimator {name!r} is not one of {', '.join(allowed)}.{hint}")


def options_of(estimator: Any) -> list[inspect.Parameter]:
    """Return a Typer option for each parameter of an estimator and of its methods.

    A parameter that several methods have is one option.
    """
    title, texts = f"Parameters of {estimator.__name__}", texts_of(estimator)
    found = [
        _option(name, default, texts.get(name, ""), title)
        for name, default in _parameters_of(estimator)
    ]
    served = methods_of(estimator)
    for name, owners in _owners(served).items():
        first, title = served[owners[0]], f"Parameters of --method {', '.join(owners)}"
        default = dict(_parameters_of(first))[name]
        found.append(_option(name, default, texts_of(first).get(name, ""), title))
    return found


def _owners(served: dict[str, Any]) -> dict[str, list[str]]:
    """Return the methods that have each parameter."""
    found: dict[str, list[str]] = {}
    for method, kind in served.items():
        for name, _ in _parameters_of(kind):
            found.setdefault(name, []).append(method)
    return found


def methods_of(estimator: Any) -> dict[str, Any]:
    """Return the classes of `corevec.methods` that serve an estimator, by name."""
    from corevec.estimators import METHODS_BY_NAME

    task = getattr(estimator, "_serves", None)
    return {
        name: kind
        for name, kind in METHODS_BY_NAME.items()
        if task in kind.serves and name != "auto"
    }


def _method_from(estimator: Any, given: dict[str, Any]) -> Any:
    """Return `method`, with the parameters of one that were given among the others.

    They are taken out of `given`; they imply the method that has them.
    """
    served = methods_of(estimator)
    owners = _owners(served)
    asked = given.pop("method", None)
    own = {name: given.pop(name) for name in owners if name in given}
    if not own:
        return asked
    implied = {asked} if asked else set(served)
    for name in own:
        implied &= set(owners[name])
    if not implied:
        listed = ", ".join(
            f"{option_name(n)} (--method {' or '.join(owners[n])})" for n in own
        )
        beside = f" beside --method {asked}" if asked else ""
        raise usage_error(
            f"{listed} cannot be used together{beside}: one method solves the problem."
        )
    if len(implied) > 1:
        listed = ", ".join(option_name(name) for name in own)
        known = ", ".join(name for name in served if name in implied)
        raise usage_error(
            f"{listed} belongs to several methods. Add --method: {known}."
        )
    return served[implied.pop()](**own)


def _option(name: str, default: Any, text: str, title: str) -> inspect.Parameter:
    shown = "None" if default is None else str(default)
    info = typer.Option(
        None,
        option_name(name),
        help=f"{text} [default: {shown}]",
        show_default=False,
        metavar="VALUE",
        rich_help_panel=title,
    )
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, default=info, annotation=str | None)


def _parameters_of(estimator: Any) -> list[tuple[str, Any]]:
    found = inspect.signature(estimator).parameters.values()
    return [(p.name, p.default) for p in found if p.name not in NOT_OFFERED]


def texts_of(estimator: Any) -> dict[str, str]:
    """Return the documentation of each parameter, from the docstring.

    "As in `Other`" is replaced by the text of the other class.
    """
    import corevec

    found = documented(estimator.__doc__ or "")
    texts = {name: _plain(*entry) for name, entry in found.items()}
    for name, text in texts.items():
        reference = re.match(r"As in (\w+)(?:\.|, )", text)
        if reference and reference[1] in corevec.__all__:
            there = texts_of(getattr(corevec, reference[1]))
            rest = text[reference.end() :].strip()
            texts[name] = f"{there.get(name, text)} {rest}".strip()
    return texts


def _plain(kind: str, text: str) -> str:
    """Return the text of a parameter without markup, after its choices if any."""
    plain = text.replace(":math:", "").replace(r"\|", "|").replace("`", "")
    choices = re.match(r".*\}", kind)
    return f"{choices[0]}: {plain}" if choices else plain


def model_of(
    estimator: Any, given: dict[str, str], sets: list[str] | None, verbose: int
) -> Any:
    """Return the estimator with parameters that are given as text."""
    values = {name: value_of(text) for name, text in given.items()}
    method = _method_from(estimator, values)
    if method is not None:
        values["method"] = method
    model = estimator(**values)
    set_parameters(model, sets or [])
    check_early(model)
    return model.set_params(verbose=verbose)


def check_early(model: Any) -> None:
    """Refuse parameters that the fit would refuse, before a large file is read."""
    from corevec.estimators import check_parameters, check_positive, method_of
    from corevec.exceptions import InvalidInputError

    given = model.get_params(deep=False)
    try:
        # Some find C, or know a hard margin.
        if given.get("C") not in (None, "auto", float("inf")):
            check_positive(type(model).__name__, "C", given["C"])
        if "method" in given:
            check_parameters(model)
            method_of(model)
    except InvalidInputError as error:
        raise usage_error(str(error)) from error


def set_parameters(model: Any, pairs: list[str]) -> None:
    """Set parameters given as ``name=value``."""
    known = [n for n in model.get_params() if n not in NOT_OFFERED]
    for pair in pairs:
        name, equals, text = pair.partition("=")
        name = name.strip().replace("-", "_")
        if not equals or name not in known:
            close = get_close_matches(name, known, n=1)
            hint = f" Did you mean {close[0]}?" if close else ""
            raise usage_error(
                f"--set {pair!r} must be name=value with a parameter of "
                f"{type(model).__name__}: {', '.join(known)}.{hint}"
            )
        model.set_params(**{name: value_of(text)})


def value_of(text: str) -> Any:
    """Return the Python literal of a text, or the text itself."""
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text


def is_about_a_parameter(error: Exception, model: Any) -> bool:
    """Whether the cause of an error of a fit is one of the model's parameters."""
    return getattr(error, "parameter", None) in model.get_params()


def owners_of(option: str) -> list[str]:
    """Return the estimators that have the parameter of this option."""
    import corevec

    name = option.lstrip("-").replace("-", "_")
    return [
        owner
        for owner in TRAINABLE
        if name in {option.name for option in options_of(getattr(corevec, owner))}
    ]
