"""Models of older files in today's classes, parameters and attributes.

Files are read for ever. Version 1 was written before the estimators took ``method=``:
their parameters told how to solve, and the Subspace classes were estimators of their
own.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from corevec.estimators import methods

# Classes that went, and what they are today.
_CLASSES = {
    "SubspaceClassifier": "CoreVectorClassifier",
    "SubspaceRegressor": "CoreVectorRegressor",
}
_CORE_SET = ("sampling", "batch", "qp", "init", "ball_epsilon")
_SPAN = ("basis", "regulariser", "certificate")
_WAYS = ("low_rank", "weights", "cells", "n_trees", "max_core")
_ATTRIBUTES = {"basis_indices_": "support_", "basis_vectors_": "support_vectors_"}
_MACHINES = (*_CORE_SET, *_WAYS)
_BASES = (*_SPAN, "n_basis", *_ATTRIBUTES)
# Names that a class had, beside today's.
_KNOWN: dict[str, tuple[str, ...]] = {
    "CoreVectorClassifier": _MACHINES,
    "CoreVectorRegressor": _MACHINES,
    "CoreVectorOneClass": _MACHINES,
    "CoreVectorRanker": ("max_core",),
    "SVDD": _MACHINES,
    "SubspaceClassifier": _BASES,
    "SubspaceRegressor": _BASES,
    "ImplicitSurface": ("max_core",),
    "StreamingOneClass": ("contamination",),
    "CompressedModel": ("basis_vectors_",),
    "CompressedClassifier": ("basis_vectors_",),
    "CompressedDetector": ("basis_vectors_",),
    "CompressedRegressor": ("basis_vectors_",),
}


# Names that balls had, which core sets have today.
_BALLS = {
    "StreamingClassifier": "StreamingBallClassifier",
    "StreamingOneClass": "StreamingBallOneClass",
}


def todays_class(name: Any, state: Any = None) -> Any:
    """Return the name of the class that serves for a class of an older file."""
    if not isinstance(name, str):
        return name
    if isinstance(state, dict) and "n_balls" in state:
        return _BALLS.get(name, name)
    return _CLASSES.get(name, name)


def older_names(name: str) -> tuple[str, ...]:
    """Return the parameters and attributes that a class had in older files."""
    return _KNOWN.get(name, ())


def translated(name: str, content: dict[str, Any]) -> dict[str, Any]:
    """Return parameters and attributes of a model under today's names."""
    if name == "Certificate" and _is(content.get("stopped_by"), "max_core"):
        return content | {"stopped_by": "max_vectors"}
    if not set(content) & set(_KNOWN.get(name, ())):
        return content
    kept = {
        _ATTRIBUTES.get(key, key): value
        for key, value in content.items()
        if key not in _KNOWN[name] or key in _ATTRIBUTES
    }
    change = _CHANGES.get(name, _with_method)
    return change(kept, content, name)


def _with_method(
    kept: dict[str, Any], given: dict[str, Any], name: str
) -> dict[str, Any]:
    """Return the parameters of a machine, with the `method` that they told."""
    C = kept.get("C")
    if C is None and name == "CoreVectorOneClass":
        kept["C"] = "auto"
    if C is None and name == "SVDD":
        kept["C"] = np.inf
    if name == "CoreVectorOneClass" and kept.get("nu") is None:
        kept["nu"] = 0.1
    kept["method"] = _METHODS.get(name, _of_machine)(given)
    if _is(kept.get("gamma"), "tune"):
        kept["gamma"] = "scale"
    return kept


def _of_span(given: dict[str, Any]) -> Any:
    """Return the method of the Subspace classes."""
    own = {key: given[key] for key in _SPAN if key in given}
    return methods.FewVectors(given.get("n_basis", 100), **own)


def _of_ranker(given: dict[str, Any]) -> Any:
    """Return the method of a ranker."""
    most = given.get("max_core")
    return "auto" if most is None else methods.FewVectors(most, basis="nystroem")


def _of_machine(given: dict[str, Any]) -> Any:
    """Return the method of the other machines."""
    if given.get("cells") is not None:
        tune = _is(given.get("gamma"), "tune")
        trees = given.get("n_trees", 1)
        return methods.Cells(given["cells"], n_trees=trees, tune=tune)
    core = {
        key: given[key] for key in _CORE_SET if not _is(given.get(key, "auto"), "auto")
    }
    if core.get("ball_epsilon") is None:
        core.pop("ball_epsilon", None)
        if not isinstance(core.get("sampling", "auto"), str):
            return methods.Sample(core["sampling"])
    return _of_global(given, core)


def _of_global(given: dict[str, Any], core: dict[str, Any]) -> Any:
    """Return the method of one machine of all rows; `core`: what a core set takes."""
    most = given.get("max_core")
    if _is(given.get("weights"), "all") and not core:
        return methods.FewVectors(100 if most is None else most, basis="coreset")
    is_core = _is(given.get("weights"), "core") or given.get("low_rank") is False
    if core or is_core or most is not None:
        return methods.CoreSet(max_vectors=most, **core)
    return "lowrank" if given.get("low_rank") is True else "auto"


_METHODS = {
    "SubspaceClassifier": _of_span,
    "SubspaceRegressor": _of_span,
    "CoreVectorRanker": _of_ranker,
}


def _stream(kept: dict[str, Any], given: dict[str, Any], name: str) -> dict[str, Any]:
    C = np.inf if kept.get("C") is None else kept["C"]
    return kept | {"C": C, "nu": given["contamination"]}


def _surface(kept: dict[str, Any], given: dict[str, Any], name: str) -> dict[str, Any]:
    return kept | {"max_vectors": given["max_core"]}


def _renamed(kept: dict[str, Any], given: dict[str, Any], name: str) -> dict[str, Any]:
    return kept


# What changed in the classes that take no method.
_CHANGES = {
    "StreamingOneClass": _stream,
    "ImplicitSurface": _surface,
    **{name: _renamed for name in _KNOWN if name.startswith("Compressed")},
}


def _is(value: Any, word: str) -> bool:
    """Whether a value, which a changed file may hold anything for, is a word."""
    return isinstance(value, str) and value == word


__all__ = ["older_names", "todays_class", "translated"]
