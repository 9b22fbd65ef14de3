"""Every public name has a complete numpydoc docstring (run by ``make lint``)."""

import tomllib
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from importlib import import_module
from inspect import isabstract, isclass, isfunction
from pathlib import Path
from typing import Any

import pytest
from numpydoc.docscrape import ClassDoc
from numpydoc.validate import ERROR_MSGS, validate

import corevec

ROOMS = (
    "formats",
    "plots",
    "reference",
    "report",
    "spark",
    "streams",
    "surfaces",
    "svm",
)
SETTINGS = tomllib.loads(
    (Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8")
)["tool"]["numpydoc_validation"]
# As in numpydoc: "all" turns the list into the codes to leave out.
CHECKS = set(ERROR_MSGS) - set(SETTINGS["checks"])


def top_names() -> list[str]:
    names = [f"corevec.{name}" for name in [*corevec.__all__, "open"]]
    for room in ROOMS:
        module = import_module(f"corevec.{room}")
        public = [name for name in module.__all__ if _is_ours(module, name)]
        names += [f"corevec.{room}.{name}" for name in public]
    return names


def _is_ours(module: Any, name: str) -> bool:
    """Whether a public name is not passed on from scikit-learn."""
    return not getattr(module, name).__module__.startswith("sklearn.")


def method_names() -> list[str]:
    return [
        f"{name}.{method}"
        for name in top_names()
        for method in public_methods(object_of(name))
    ]


def object_of(name: str) -> Any:
    module, _, attribute = name.rpartition(".")
    return getattr(import_module(module), attribute)


def public_methods(owner: Any) -> Iterator[str]:
    """Yield the public methods and properties that are written in this package."""
    if not isclass(owner):
        return
    ours = [base for base in owner.__mro__ if base.__module__.startswith("corevec")]
    found = {
        name: value for base in reversed(ours) for name, value in vars(base).items()
    }
    for name, value in found.items():
        is_method = isfunction(value) or isinstance(value, classmethod | property)
        if is_method and not name.startswith("_"):
            yield name


# Users read these objects but do not construct them: their Attributes section documents
# the fields, and an abstract class has no constructor to document.
RESULTS = [name for name in top_names() if is_dataclass(object_of(name))]
ABSTRACT = [name for name in top_names() if isabstract(object_of(name))]


@pytest.mark.parametrize("name", [*top_names(), *method_names()])
def test_a_public_docstring_is_complete(name):
    ignored = {"PR01"} if name in [*RESULTS, *ABSTRACT] else set()
    errors = [
        f"{code}: {message}"
        for code, message in validate(name)["errors"]
        if code in CHECKS - ignored
    ]
    assert not errors, f"{name}: {errors}"


@pytest.mark.parametrize("name", RESULTS)
def test_the_fields_of_a_result_are_documented(name):
    found = object_of(name)
    sections = ClassDoc(found)
    entries = [*sections["Attributes"], *sections["Parameters"]]
    documented = {part.strip() for entry in entries for part in entry.name.split(",")}
    assert {field.name for field in fields(found)} <= documented
