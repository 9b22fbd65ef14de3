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


def todays_class(name: Any) -> Any:
    """Return the name of the class that serves for a class of an older file."""
    return _CLASSES.get(name, name) if isinstance(name, str) else name


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
    if name.startswith("Compressed"):
        return kept
    if name == "StreamingOneClass":
        C = np.inf if kept.get("C") is None else kept["C"]
        return kept | {"C": C, "nu": content["contamination"]}
    if name == "ImplicitSurface":
        return kept | {"max_vectors": content["max_core"]}
    if name == "CoreVectorOneClass":
        kept["C"] = "auto" if kept.get("C") is None else kept["C"]
        kept["nu"] = 0.1 if kept.get("nu") is None else kept["nu"]
    if name == "SVDD" and kept.get("C") is None:
        kept["C"] = np.inf
    kept["method"] = _method(name, content)
    if _is(kept.get("gamma"), "tune"):
        kept["gamma"] = "scale"
    return kept


def _method(name: str, given: dict[str, Any]) -> Any:
    """Return what `method` says today of the parameters of an older file."""
    if name.startswith("Subspace"):
        own = {key: given[key] for key in _SPAN if key in given}
        return methods.FewVectors(given.get("n_basis", 100), **own)
    most = given.get("max_core")
    if name == "CoreVectorRanker":
        random = methods.FewVectors(100 if most is None else most, basis="nystroem")
        return "auto" if most is None else random
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
    if _is(given.get("weights"), "all") and not core:
        return methods.FewVectors(100 if most is None else most, basis="coreset")
    is_core = _is(given.get("weights"), "core") or given.get("low_rank") is False
    if core or is_core or most is not None:
        return methods.CoreSet(max_vectors=most, **core)
    return "lowrank" if given.get("low_rank") is True else "auto"


def _is(value: Any, word: str) -> bool:
    """Whether a value, which a changed file may hold anything for, is a word."""
    return isinstance(value, str) and value == word


__all__ = ["older_names", "todays_class", "translated"]
