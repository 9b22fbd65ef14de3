"""Nodes back into models: only what `_allowed.py` lists is ever made."""

from __future__ import annotations

import inspect
from dataclasses import MISSING, fields
from typing import Any, NoReturn

import numpy as np
from scipy import sparse

from corevec._runtime.checks import check_csr
from corevec._runtime.types import Array
from corevec.exceptions import InvalidInputError
from corevec.formats.libsvm.base import LibsvmModel
from corevec.formats.native.allowed import BY_NAME, Entry
from corevec.formats.native.older import older_names, todays_class, translated
from corevec.formats.native.random_states import (
    STATES,
    check_generator,
    check_random_state,
)
from corevec.formats.native.scikit_learn import SCALERS, derive
from corevec.formats.native.trial import try_parameters, try_prediction
from corevec.formats.native.validate import check_sound
from corevec.formats.native.validate_models import check_model
from corevec.models.basis import Basis
from corevec.models.certificate import Certificate, with_kind

_FLOATS = {"nan": float("nan"), "inf": float("inf"), "-inf": float("-inf")}
_NUMBERS = (
    "bool",
    *(f"int{bits}" for bits in (8, 16, 32, 64)),
    *(f"uint{bits}" for bits in (8, 16, 32, 64)),
    *(f"float{bits}" for bits in (16, 32, 64)),
)
# JSON nests as deep as lists in lists; a model needs some ten.
_DEEPEST = 100


class Decoder:
    """Makes one model from its nodes and arrays.

    Parameters
    ----------
    where : str
        Who reads which file, in front of every message.
    arrays : list of ndarray
        The arrays of the file.
    refuses_parameters : bool
        Whether a parameter that `fit` refuses makes the file wrong.
    """

    def __init__(self, where: str, arrays: list[Array], *, refuses_parameters: bool):
        self.where, self.arrays = where, arrays
        self.refuses_parameters = refuses_parameters
        self._matrices: dict[tuple[Any, ...], Any] = {}  # shared as the arrays are
        self._makers = {
            "float": self._float,
            "tuple": self._tuple,
            "dict": self._dict,
            "number": self._number,
            "slice": self._slice,
            "dtype": self._dtype,
            "array": self._array,
            "objects": self._objects,
            "csr": self._csr,
            "random_state": self._random_state,
            "generator": self._generator,
            "object": self._object,
        }

    def value(self, node: Any, place: str, depth: int = 0) -> Any:
        """Return the value of a node."""
        if depth > _DEEPEST:
            self.wrong(place[:60] + "...", f"is nested deeper than {_DEEPEST} levels")
        if node is None or isinstance(node, bool | int | float | str):
            return node
        if isinstance(node, list):
            return [
                self.value(n, f"{place}[{i}]", depth + 1) for i, n in enumerate(node)
            ]
        for key, make in self._makers.items():
            if key in node:
                return make(node, place, depth + 1)
        self.wrong(place, f"has a node of unknown kind {sorted(node)[:3]}")

    def wrong(self, place: str, what: str) -> NoReturn:
        """Raise an error that names the place."""
        raise InvalidInputError(
            f"{self.where}: header.json, at {place}: {what}. The file was not written "
            "by corevec, or was changed since; save the model again."
        )

    def _float(self, node: Any, place: str, depth: int) -> float:
        text = node["float"]
        if not isinstance(text, str) or text not in _FLOATS:
            self.wrong(place, f"the number {text!r:.40} is none of nan, inf, -inf")
        return _FLOATS[text]

    def _items(self, node: Any, key: str, place: str) -> list[Any]:
        items = node[key]
        if not isinstance(items, list):
            self.wrong(place, f"{key} must be a list")
        return items

    def _tuple(self, node: Any, place: str, depth: int) -> tuple[Any, ...]:
        return tuple(self.value(self._items(node, "tuple", place), place, depth))

    def _dict(self, node: Any, place: str, depth: int) -> dict[Any, Any]:
        found = {}
        for number, item in enumerate(self._items(node, "dict", place)):
            if not isinstance(item, list) or len(item) != 2:
                self.wrong(place, f"entry {number} of a dict is no pair")
            key = self.value(item[0], f"{place}.keys[{number}]", depth)
            try:
                found[key] = self.value(item[1], f"{place}[{key!r:.40}]", depth)
            except TypeError:
                self.wrong(place, f"entry {number} of a dict has no usable key")
        return found

    def _number(self, node: Any, place: str, depth: int) -> Any:
        name, value = node["number"], self.value(node.get("value"), place, depth)
        is_number = isinstance(value, bool | int | float)
        if name not in _NUMBERS or not is_number:
            self.wrong(place, f"{name!r:.40} of {value!r:.40} is no NumPy number")
        try:
            return np.dtype(name).type(value)
        except (OverflowError, ValueError):
            self.wrong(place, f"{value!r:.40} does not fit into {name}")

    def _slice(self, node: Any, place: str, depth: int) -> slice:
        ends = self._items(node, "slice", place)
        if len(ends) != 3 or not all(isinstance(e, int | str | None) for e in ends):
            self.wrong(place, "a slice needs start, stop and step")
        return slice(*ends)

    def _dtype(self, node: Any, place: str, depth: int) -> Any:
        if node["dtype"] not in (*_NUMBERS, "object"):
            self.wrong(place, f"the dtype {node['dtype']!r:.40} is not known")
        made = np.dtype(node["dtype"])
        return made.type if node.get("is_type") else made

    def _array(self, node: Any, place: str, depth: int = 0) -> Array:
        return self._array_at(node["array"], place)

    def _array_at(self, number: Any, place: str) -> Array:
        if isinstance(number, int) and 0 <= number < len(self.arrays):
            return self.arrays[number]
        self.wrong(
            place, f"array {number!r:.40} is none of the {len(self.arrays)} arrays"
        )

    def _shape(self, node: Any, place: str) -> tuple[int, ...]:
        shape = node.get("shape")
        whole = isinstance(shape, list) and all(
            type(n) is int and 0 <= n < 2**62 for n in shape
        )
        if not whole:
            self.wrong(place, f"the shape {shape!r:.40} is no list of counts")
        return tuple(shape)

    def _objects(self, node: Any, place: str, depth: int) -> Array:
        items = self._items(node, "objects", place)
        shape = self._shape(node, place)
        found = np.empty(len(items), dtype=object)
        for number, item in enumerate(items):
            if isinstance(item, dict | list) and "object" in item:
                self.wrong(place, "labels cannot be objects")
            found[number] = self.value(item, f"{place}[{number}]", depth)
        try:
            return np.asarray(found.reshape(shape))
        except ValueError:
            self.wrong(place, f"{len(items)} labels do not have the shape {shape}")

    def _csr(self, node: Any, place: str, depth: int) -> Any:
        numbers = self._items(node, "csr", place)
        if len(numbers) != 3:
            self.wrong(place, "a CSR matrix needs three arrays")
        parts = [self._array_at(number, place) for number in numbers]
        shape = self._shape(node, place)
        if parts[0].dtype.kind not in "fiub" or any(
            part.dtype.kind not in "iu" for part in parts[1:]
        ):
            self.wrong(place, "a CSR matrix needs numbers, and whole ones as indices")
        kind = sparse.csr_array if node.get("is_array") else sparse.csr_matrix
        key = (*numbers, shape, kind)
        if key in self._matrices:
            return self._matrices[key]
        try:
            made = kind(tuple(parts), shape=shape)
            check_csr(made)
        except (ValueError, TypeError, IndexError, OverflowError) as error:
            self.wrong(place, f"its arrays are no CSR matrix of shape {shape}: {error}")
        self._matrices[key] = made
        return made

    def _random_state(self, node: Any, place: str, depth: int) -> Any:
        items = self._items(node, "random_state", place)
        parts = [self.value(item, place, depth) for item in items]
        check_random_state(parts, place, self.wrong)
        made = np.random.RandomState()
        made.set_state(("MT19937", *parts))
        return made

    def _generator(self, node: Any, place: str, depth: int) -> Any:
        name = node["generator"]
        if not isinstance(name, str) or name not in STATES:
            self.wrong(place, f"the generator {name!r:.40} is not known")
        state = self.value(node.get("state"), place, depth)
        check_generator(name, state, place, self.wrong)
        bits = getattr(np.random, name)()
        bits.state = state
        return np.random.Generator(bits)

    def _object(self, node: Any, place: str, depth: int) -> Any:
        name = todays_class(node["object"], node.get("state"))
        entry = BY_NAME.get(name) if isinstance(name, str) else None
        if entry is None:
            self.wrong(
                place,
                f"the class {node['object']!r:.60} is not among those that a model "
                "consists of",
            )
        state = node.get("state")
        if not isinstance(state, dict):
            self.wrong(place, f"a {entry.name} needs a state with names")
        parameters = _parameters(entry)
        known = {*parameters, *entry.attributes, *older_names(node["object"])}
        for name in state:
            if name not in known:
                self.wrong(place, f"a {entry.name} has no attribute {name!r:.60}")
        content = {
            name: self.value(inner, f"{place}.{name}", depth)
            for name, inner in state.items()
        }
        content = translated(node["object"], content)
        return self._made(entry, content, parameters, place)

    def _made(
        self, entry: Entry, content: dict[str, Any], parameters: set[str], place: str
    ) -> Any:
        given = {name: v for name, v in content.items() if name in parameters}
        rest = {name: v for name, v in content.items() if name not in parameters}
        missing = sorted(_needed(entry) - set(content))
        if missing:
            self.wrong(place, f"a {entry.name} needs {', '.join(missing)}")
        made: Any
        if entry.is_plain:
            made = object.__new__(entry.cls)
        elif entry.cls is Basis:
            points = self._prepared(given, place)
            made = Basis(points=points, **given)
        elif entry.cls is Certificate:
            made = Certificate(**with_kind(given))
        else:
            made = entry.cls(**given)
        for name, value in rest.items():
            try:
                object.__setattr__(made, name, value)
            except AttributeError:  # a property of a Pipeline
                self.wrong(place, f"{name} of a {entry.name} follows from its parts")
        check = check_model if entry.is_estimator else check_sound
        check(made, lambda what: self.wrong(place, what))
        derive(made)
        if isinstance(made, LibsvmModel):
            width = None if made._any_width else made.n_features_in_
            made._take(made.text_, width)
        if entry.is_estimator:
            self._try(made, place)
        return made

    def _try(self, made: Any, place: str) -> None:
        """Check an estimator by what it does with its parameters and with rows."""
        if self.refuses_parameters or isinstance(made, SCALERS):
            try_parameters(made, lambda what: self.wrong(place, what))
        try_prediction(made, lambda what: self.wrong(place, what))

    def _prepared(self, given: dict[str, Any], place: str) -> Any:
        check_sound(
            (given["kernel"], given["rows"]), lambda what: self.wrong(place, what)
        )
        return given["kernel"].prepare_basis(given["rows"])


def _parameters(entry: Entry) -> set[str]:
    """Return what the constructor takes."""
    if entry.is_estimator:
        return set(inspect.signature(entry.cls).parameters)
    return set(entry.fields)


def _needed(entry: Entry) -> set[str]:
    """Return what must be there; what a later corevec added has its default."""
    if entry.is_plain:
        return set(entry.attributes)
    if entry.is_estimator:
        return {
            name
            for name, p in inspect.signature(entry.cls).parameters.items()
            if p.default is inspect.Parameter.empty
        }
    return {
        f.name
        for f in fields(entry.cls)
        if f.name in entry.fields
        and f.default is MISSING
        and f.default_factory is MISSING
    }


__all__ = ["Decoder"]
