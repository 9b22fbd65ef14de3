"""Models as JSON nodes and a list of arrays.

===============================  ================================================
value                            node
===============================  ================================================
None, bool, int, str, float      itself
list                             a JSON list
nan, inf, -inf                   {"float": "nan"}
tuple                            {"tuple": [...]}
dict                             {"dict": [[key, value], ...]}
NumPy number                     {"number": "float32", "value": ...}
slice                            {"slice": [start, stop, step]}
dtype, or a type of NumPy's      {"dtype": "float64", "is_type": false}
array of numbers or strings      {"array": its number}
array of objects (labels)        {"objects": [...], "shape": [...]}
CSR matrix or array              {"csr": [data, indices, indptr], "shape": [...],
                                 "is_array": false}
RandomState                      {"random_state": [keys, pos, has_gauss, cached]}
Generator                        {"generator": "PCG64", "state": ...}
an object of `_allowed.py`       {"object": its name, "state": {name: node, ...}}
===============================  ================================================
"""

from __future__ import annotations

import math
from typing import Any, NoReturn

import numpy as np
from scipy import sparse
from sklearn.pipeline import Pipeline

from corevec._runtime.types import Array
from corevec.exceptions import InvalidInputError
from corevec.formats.native.allowed import ENTRIES, LEFT_BEHIND, Entry, describe
from corevec.formats.native.random_states import STATES
from corevec.formats.native.scikit_learn import DERIVED
from corevec.formats.native.trial import try_parameters, try_prediction
from corevec.formats.native.validate import check_sound
from corevec.formats.native.validate_models import check_model

Node = Any

# Booleans, whole and floating numbers, strings: what .npy holds without pickle.
PLAIN_KINDS = "biufUS"


class Encoder:
    """Turns one model into nodes, and gathers its arrays, each once."""

    def __init__(self, who: str):
        self.who = who
        self.arrays: list[Array] = []
        self._known: dict[tuple[Any, ...], int] = {}

    def node(self, value: Any, place: str) -> Node:
        """Return the node of a value; `place` is its name in messages."""
        plain = value is None or type(value) in (bool, int, str)
        if plain or (type(value) is float and math.isfinite(value)):
            return value
        if type(value) is float:
            return {"float": str(value)}
        if type(value) is list:
            return [self.node(v, f"{place}[{i}]") for i, v in enumerate(value)]
        if type(value) is tuple:
            items = [self.node(v, f"{place}[{i}]") for i, v in enumerate(value)]
            return {"tuple": items}
        if type(value) is dict:
            return {"dict": [self._item(k, v, place) for k, v in value.items()]}
        return self._numeric(value, place)

    def _item(self, key: Any, value: Any, place: str) -> list[Node]:
        inside = f"{place}[{key!r}]"
        return [self.node(key, inside), self.node(value, inside)]

    def _numeric(self, value: Any, place: str) -> Node:
        if isinstance(value, np.bool_ | np.integer | np.floating | np.str_):
            return self._scalar(value, place)
        if isinstance(value, np.ndarray):
            return self._array(np.asarray(value), place)
        if sparse.issparse(value):
            return self._csr(value, place)
        if isinstance(value, slice):
            ends = (value.start, value.stop, value.step)
            return {"slice": [self.node(end, place) for end in ends]}
        is_type = isinstance(value, type) and issubclass(value, np.number)
        if isinstance(value, np.dtype) or is_type:
            return {"dtype": np.dtype(value).name, "is_type": is_type}
        if isinstance(value, np.random.RandomState):
            return self._random_state(value, place)
        if isinstance(value, np.random.Generator):
            return self._generator(value, place)
        return self._object(value, place)

    def _scalar(self, value: Any, place: str) -> Node:
        if isinstance(value, np.str_):
            return str(value)
        if value.dtype.itemsize > 8:
            raise self._refused(place, value)
        return {
            "number": value.dtype.name,
            "value": self.node(value.item(), place),
        }

    def _array(self, value: Array, place: str) -> Node:
        if value.dtype.kind == "O":
            items = [self.node(v, f"{place}[{i}]") for i, v in enumerate(value.flat)]
            return {"objects": items, "shape": list(value.shape)}
        if value.dtype.kind not in PLAIN_KINDS:
            raise InvalidInputError(
                f"{self.who}: {place} is an array of {value.dtype}, which the format "
                "does not hold. Use numbers or strings."
            )
        # The same memory is written once, and shared again after reading.
        key = (
            value.__array_interface__["data"][0],
            value.shape,
            value.strides,
            value.dtype.str,
        )
        if key not in self._known or value.size == 0:
            self._known[key] = len(self.arrays)
            self.arrays.append(value)
        return {"array": self._known[key]}

    def _csr(self, value: Any, place: str) -> Node:
        if value.format != "csr":
            raise InvalidInputError(
                f"{self.who}: {place} is a sparse matrix in {value.format} format. "
                "Convert it with .tocsr()."
            )
        parts = (value.data, value.indices, value.indptr)
        return {
            "csr": [self._array(part, place)["array"] for part in parts],
            "shape": [int(n) for n in value.shape],
            "is_array": not sparse.isspmatrix(value),
        }

    def _random_state(self, value: np.random.RandomState, place: str) -> Node:
        state: Any = value.get_state(legacy=False)
        name = state["bit_generator"]
        if name != "MT19937":
            raise InvalidInputError(
                f"{self.who}: {place} is a RandomState of {name}, and the format holds "
                "those of MT19937. Use numpy.random.Generator, or RandomState(seed)."
            )
        inner = state["state"]
        parts = (inner["key"], inner["pos"], state["has_gauss"], state["gauss"])
        return {"random_state": [self.node(v, place) for v in parts]}

    def _generator(self, value: np.random.Generator, place: str) -> Node:
        state = dict(value.bit_generator.state)
        name = str(state["bit_generator"])
        if name not in STATES:
            raise self._refused(place, value)
        return {"generator": name, "state": self.node(state, place)}

    def _object(self, value: Any, place: str) -> Node:
        entry = ENTRIES.get(type(value))
        if entry is None:
            raise self._refused(place, value)
        if isinstance(value, Pipeline):
            self._check_pipeline(value, place)
        if entry.is_estimator:
            content = dict(value.get_params(deep=False))
            content |= self._fitted(entry, value, set(content), place)
        else:
            content = {name: getattr(value, name) for name in entry.fields}
            inside = {n: v for n, v in vars(value).items() if n in entry.attributes}
            content |= inside
        state = {name: self.node(v, f"{place}.{name}") for name, v in content.items()}
        check = check_model if entry.is_estimator else check_sound
        check(value, lambda what: self.unsound(place, what))
        if entry.is_estimator:
            try_parameters(value, lambda what: self.unsound(place, what))
            try_prediction(value, lambda what: self.unsound(place, what))
        return {"object": entry.name, "state": state}

    def _check_pipeline(self, pipe: Pipeline, place: str) -> None:
        if pipe.memory is not None:
            raise InvalidInputError(
                f"{self.who}: {place}.memory={pipe.memory!r} is a folder of pickles, "
                "which a file that holds no code does not point to. Set it to None: "
                "pipe.set_params(memory=None)."
            )

    def _fitted(
        self, entry: Entry, model: Any, parameters: set[str], place: str
    ) -> dict[str, Any]:
        """Return the attributes of an estimator beside its parameters."""
        found = {}
        derived = hasattr(model, "text_")  # all follows from the LIBSVM text
        for name, value in vars(model).items():
            if name in (*parameters, *LEFT_BEHIND, DERIVED.get(type(model))):
                continue
            if name in entry.attributes:
                found[name] = value
            elif not derived:
                raise InvalidInputError(
                    f"{self.who}: {place}.{name} is no attribute that a "
                    f"{entry.name} has after fit, and is not kept. Delete it first: "
                    f"del model.{name}."
                )
        return found

    def unsound(self, place: str, what: str) -> NoReturn:
        """Refuse what `load` would: better no file than one that cannot be read."""
        raise InvalidInputError(
            f"{self.who}: at {place}: {what}. An attribute was changed since fit; fit "
            "the model again."
        )

    def _refused(self, place: str, value: Any) -> InvalidInputError:
        remedy = "Use a named kernel" if place.endswith(".kernel") else "Leave it out"
        return InvalidInputError(
            f"{self.who}: {place} is {describe(value)}. {remedy}, or use pickle or "
            "skops where the reader trusts the writer."
        )


__all__ = ["Encoder", "PLAIN_KINDS"]
