"""The source for tensors, or for host rows and a device, as a user gives them."""

from __future__ import annotations

from typing import Any

import numpy as np

from corevec._runtime.types import Array
from corevec.backend.arrays import is_tensor, to_numpy
from corevec.data.sources._belt import shared
from corevec.data.sources._torch import torch
from corevec.data.sources.base import Source
from corevec.data.sources.columns import TARGET, WEIGHT
from corevec.data.sources.gpu import StreamedSource, TensorSource
from corevec.data.sources.workers import Workers
from corevec.exceptions import InvalidInputError

_ARGUMENTS = {TARGET: "y", WEIGHT: "sample_weight"}


def part_source(
    values: Any, columns: dict[str, Any], start: int, budget: float, device: Any
) -> Source:
    """Return the source of a part of the rows, the first of which has a number."""
    own = {
        name: to_numpy(_numbers("a partition of X", _ARGUMENTS[name], column))
        for name, column in columns.items()
    }
    part = StreamedSource(values, device, own)
    part.first_number = start
    return part.using(budget, Workers(1))


def tensor_source(who: str, X: Any, y: Any, sample_weight: Any) -> TensorSource:
    """Return the source of rows on a device, with what belongs to them."""
    values = _as_floats(as_matrix(who, X))
    columns = {}
    for name, given in ((TARGET, y), (WEIGHT, sample_weight)):
        if given is not None:
            columns[name] = _alongside(who, name, given, values)
    return TensorSource(values, columns)


def moved_source(
    who: str, X: Any, y: Any, sample_weight: Any, device: Any
) -> TensorSource:
    """Return the source of NumPy or CSR rows that a device works on."""
    try:
        one = torch.zeros(1, device=device)
        to_numpy(one)  # of "meta" nothing comes back
    except (RuntimeError, AssertionError, TypeError, NotImplementedError) as error:
        said = str(error).splitlines()[0]
        raise InvalidInputError(
            f"{who}: device={device!r} cannot be used ({said}). Give a torch device "
            "that is there, e.g. 'cuda' or 'cuda:1' where torch sees a GPU, or None.",
            parameter="device",
        ) from None
    columns = {
        name: np.ascontiguousarray(given, dtype=given.dtype.newbyteorder("="))
        for name, given in ((TARGET, y), (WEIGHT, sample_weight))
        if given is not None
    }
    for name, column in columns.items():
        _check_length(who, _ARGUMENTS[name], column, X.shape[0])
    return StreamedSource(X, one.device, columns)


def as_tensor(who: str, name: str, given: Any) -> Any:
    """Return a tensor that shares the memory of any DLPack array."""
    tensor = given if is_tensor(given) else torch.from_dlpack(given)
    if tensor.layout != torch.strided or tensor.device.type == "meta":
        kind = f"{tensor.layout} on {tensor.device}".removeprefix("torch.")
        raise InvalidInputError(
            f"{who}: {name} is a tensor of layout {kind}; a dense one is needed, with "
            "its numbers. Give X.to_dense(), or a SciPy CSR matrix and device=."
        )
    if tensor.is_complex():
        raise InvalidInputError(
            f"{who}: Complex data not supported: {name} has complex numbers."
        )
    return tensor.detach()


def _as_floats(tensor: Any) -> Any:
    """Return numbers in float32 or float64."""
    is_float = tensor.dtype in (torch.float32, torch.float64)
    return tensor if is_float else tensor.to(torch.float64)


def as_matrix(who: str, X: Any) -> Any:
    """Return the tensor of rows x columns, which shares the memory of X."""
    tensor = as_tensor(who, "X", X)
    if tensor.ndim != 2:
        raise InvalidInputError(
            f"{who}: X has {tensor.ndim} dimension(s); expected rows x columns. "
            "Reshape your data: X.reshape(-1, 1) for one column."
        )
    if 0 in tensor.shape:
        raise InvalidInputError(
            f"{who}: Found array with 0 sample(s) or 0 feature(s) (shape="
            f"{tuple(tensor.shape)}) while a minimum of 1 is required."
        )
    return tensor


def _alongside(who: str, name: str, given: Any, values: Any) -> Any:
    """Return labels, targets or weights beside the rows, on their device."""
    argument, is_array = _ARGUMENTS[name], isinstance(given, np.ndarray)
    if is_tensor(given) or (hasattr(given, "__dlpack__") and not is_array):
        column = _of_common_type(as_tensor(who, argument, given))
    else:
        column = _numbers(who, argument, given)
    if column.ndim == 0 and name == WEIGHT:
        return column.to(values.device).expand(len(values))
    if column.ndim == 2 and column.shape[1] == 1:
        column = column[:, 0]
    if column.ndim not in (1, 2):
        raise InvalidInputError(
            f"{who}: {argument} has {column.ndim} dimensions; give one entry per row."
        )
    _check_length(who, argument, column, len(values))
    return column.to(values.device).contiguous()


def _of_common_type(column: Any) -> Any:
    """Return numbers in a type that NumPy knows too, and that torch can sort."""
    if column.dtype in (torch.uint16, torch.uint32, torch.uint64):
        return column.to(torch.int64)
    common = torch.float16, torch.float32, torch.float64
    if column.is_floating_point() and column.dtype not in common:  # bfloat16
        return column.to(torch.float32)
    return column


def _check_length(who: str, argument: str, column: Any, n_rows: int) -> None:
    if len(column) != n_rows:
        raise InvalidInputError(
            f"{who}: Found input variables with inconsistent numbers of samples: X has "
            f"{n_rows:,} rows, {argument} {len(column):,}."
        )


def _numbers(who: str, argument: str, given: Any) -> Any:
    """Return numbers of this machine's memory as a tensor."""
    array = np.asarray(given)
    _check_numbers(who, argument, array)
    plain = np.require(array, array.dtype.newbyteorder("="), "C")
    return _of_common_type(shared(plain))


def _check_numbers(who: str, argument: str, array: Array) -> None:
    if array.dtype.kind not in "biuf":
        raise InvalidInputError(
            f"{who}: {argument} must be numbers where the rows are on a device, but "
            f"its type is {array.dtype}. Give codes: "
            "np.unique(y, return_inverse=True)[1]."
        )
