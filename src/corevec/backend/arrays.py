"""Arrays on the host or on a device: NumPy's, or tensors of torch.

What is done to a block of rows is written once, in the words of the array API standard,
and runs where the block is. NumPy arrays are served by NumPy itself; for tensors
``array_api_compat`` gives torch the same names. A few words that the standard lacks are
here.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np
from scipy import linalg

from corevec._runtime.types import Array

# Blocks of tensors begin at multiples of so many rows: at 16 bytes, whatever the
# columns. Triton compiles a kernel once more, for a second, for rows that do not.
ALIGNED = 16
# Labels looked at first, and how few kinds of them are told apart by comparing.
_LOOKED_AT, _FEW_KINDS = 10_000, 16


def is_tensor(a: Any) -> bool:
    """Whether `a` is a tensor of torch; asks torch only where it is in use."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(a, torch.Tensor)


def is_on_card(a: Any) -> bool:
    """Whether `a` is a tensor on a device other than the CPU."""
    return is_tensor(a) and a.device.type != "cpu"


def namespace(a: Any) -> Any:
    """Return the module whose functions take `a`: NumPy, or torch by its names."""
    if not is_tensor(a):
        return np
    import array_api_compat.torch as xp  # there with the extra "gpu"

    return xp


def to_numpy(a: Any) -> Array:
    """Return a NumPy array, copied to the host if it is a tensor."""
    return a.detach().cpu().numpy() if is_tensor(a) else np.asarray(a)


def back_from(tensor: Any, like: Any) -> Any:
    """Return a tensor as an array of the library that `like` comes from."""
    if not is_tensor(tensor):
        return tensor
    if hasattr(like, "__array_namespace__"):
        return like.__array_namespace__().from_dlpack(tensor)
    # CuPy's arrays name no namespace; it has the standard's words all the same.
    library = sys.modules[type(like).__module__.partition(".")[0]]
    return library.from_dlpack(tensor) if hasattr(library, "from_dlpack") else tensor


def tensors_to_numpy(*given: Any) -> tuple[Any, ...]:
    """Return what was given, tensors as NumPy arrays."""
    return tuple(to_numpy(one) if is_tensor(one) else one for one in given)


def all_to_numpy(answer: Any) -> Any:
    """Return an answer whose tensors are NumPy arrays.

    Lists, tuples and dataclasses of arrays are gone through.
    """
    if is_tensor(answer):
        return to_numpy(answer)
    if isinstance(answer, dict):
        return {name: all_to_numpy(one) for name, one in answer.items()}
    if isinstance(answer, (list, tuple)):
        return type(answer)(all_to_numpy(one) for one in answer)
    if is_dataclass(answer) and not isinstance(answer, type):
        own = {
            one.name: all_to_numpy(getattr(answer, one.name)) for one in fields(answer)
        }
        return replace(answer, **own)
    return answer


def to_device_of(a: Any, like: Any) -> Any:
    """Return a small array, of the same type, on the device of `like`."""
    if not is_tensor(like):
        return a
    torch = sys.modules["torch"]
    if is_tensor(a):
        return a.to(like.device)
    a = np.ascontiguousarray(a)
    if not a.flags.writeable:  # a model's that joblib maps from a file: torch warns
        a = a.copy()
    return torch.as_tensor(a, device=like.device)


def cast(a: Any, dtype: Any) -> Any:
    """Return `a` in a NumPy precision, without a copy where it has it."""
    if not is_tensor(a):
        return np.asarray(a).astype(dtype, copy=False)
    return a.to(getattr(sys.modules["torch"], np.dtype(dtype).name))


def dtype_of(a: Any) -> Any:
    """Return the NumPy name of the type of an array's entries."""
    return np.dtype(str(a.dtype).removeprefix("torch.")) if is_tensor(a) else a.dtype


def full(shape: Any, value: float, like: Any, dtype: Any = np.float64) -> Any:
    """Return numbers, all the same, on the device of `like`."""
    if not is_tensor(like):
        return np.full(shape, value, dtype=dtype)
    torch = sys.modules["torch"]
    kind = getattr(torch, np.dtype(dtype).name)
    return torch.full(_shape(shape), value, dtype=kind, device=like.device)


def empty(shape: tuple[int, ...], like: Any, dtype: Any = np.float64) -> Any:
    """Return numbers yet to be set, on the device of `like`."""
    if not is_tensor(like):
        return np.empty(shape, dtype=dtype)
    torch = sys.modules["torch"]
    kind = getattr(torch, np.dtype(dtype).name)
    return torch.empty(shape, dtype=kind, device=like.device)


def constant(n: int, value: float, like: Any) -> Any:
    """Return n numbers, all the same and not to be written to, on the device of `like`.

    On a device they are one number in memory.
    """
    if not is_tensor(like):
        return np.full(n, value)
    return full((), value, like).expand(n)


def counted(first: int, n: int, like: Any) -> Any:
    """Return the whole numbers ``first, first + 1, ...``, n of them, in int64."""
    if not is_tensor(like):
        return np.arange(first, first + n)
    torch = sys.modules["torch"]
    return torch.arange(first, first + n, device=like.device)


def multiplied(a: Any, number: float) -> Any:
    """Return ``number * a``; a `constant` remains one."""
    if is_tensor(a) and len(a) and a.stride(0) == 0:
        return (number * a[:1]).expand(len(a))
    return number * a


def shifted(values: Any, shift: Any, dtype: Any) -> Any:
    """Return ``values - shift`` of a tensor, made in float64 and kept in `dtype`.

    In one step: on a card no float64 copy of the values is made.
    """
    torch = sys.modules["torch"]
    kind = getattr(torch, np.dtype(dtype).name)
    out = torch.empty(values.shape, dtype=kind, device=values.device)
    return torch.sub(values, to_device_of(shift, values), out=out)


def _shape(shape: Any) -> Any:
    return shape if isinstance(shape, tuple) else (shape,)


def joined(parts: Sequence[Any], axis: int = 0) -> Any:
    """Return arrays one after the other, or side by side."""
    if is_tensor(parts[0]):
        return sys.modules["torch"].cat(list(parts), dim=axis)
    return np.concatenate(list(parts), axis=axis)


def places(mask: Any) -> Any:
    """Return the positions where a mask is set."""
    return namespace(mask).nonzero(mask)[0]


def count(mask: Any) -> int:
    """Return in how many places a mask is set."""
    return int(mask.sum()) if is_tensor(mask) else int(np.count_nonzero(mask))


def floats(few: Sequence[Any]) -> list[float]:
    """Return single numbers, copied to the host at once."""
    if any(is_tensor(one) for one in few):
        torch = sys.modules["torch"]
        one = next(one for one in few if is_tensor(one))
        return torch.stack([torch.as_tensor(x).to(one) for x in few]).tolist()
    return [float(one) for one in few]


def is_finite(a: Any) -> bool:
    """Whether all numbers are finite."""
    if is_tensor(a):
        return bool(namespace(a).isfinite(a).all())
    return bool(np.isfinite(a).all())


def is_among(numbers: Any, few: Array) -> Any:
    """Whether each of the numbers is one of a few."""
    if is_tensor(numbers):
        if len(few) == 0:
            return numbers != numbers
        # By bisection: torch.isin sorts all the numbers.
        few = to_device_of(few, numbers).sort().values
        at = sys.modules["torch"].searchsorted(few, numbers)
        return few[at.clip(max=len(few) - 1)] == numbers
    return np.isin(numbers, few)


def union(a: Any, b: Any) -> Any:
    """Return the numbers that are in one of two sets, sorted, on the device of `b`."""
    if is_tensor(b):
        return sys.modules["torch"].unique(joined([to_device_of(a, b), b]))
    return np.union1d(a, b)


def row_sums_of_squares(rows: Any) -> Any:
    """Return the squared length of every row."""
    if is_tensor(rows):
        return (rows * rows).sum(dim=1)
    return np.einsum("ij,ij->i", rows, rows)


def largest(values: Any, count: int) -> Any:
    """Return the positions of the `count` largest values, largest first.

    Those that are equal come in the order of their positions; which of more equal
    ones than are wanted are taken is not said.
    """
    if is_tensor(values):
        part = _largest_on_device(values, count)
        order = np.lexsort((to_numpy(part), -to_numpy(values[part])))
        return part[to_device_of(order, part)]
    if count < len(values):
        part = np.argpartition(-values, count - 1)[:count]
    else:
        part = np.arange(len(values))
    return part[np.lexsort((part, -values[part]))]


def _largest_on_device(values: Any, count: int) -> Any:
    torch = sys.modules["torch"]
    if count >= len(values):
        return torch.arange(len(values), device=values.device)
    return torch.topk(values, count, sorted=False).indices


def column_of(values: Any, place: int) -> Any:
    """Return one column, in one piece."""
    column = values[:, place]
    return column.contiguous() if is_tensor(values) else np.ascontiguousarray(column)


def entries_of(few: Array, codes: Any) -> Any:
    """Return the entries with these codes; numbers on the device of the codes.

    A device holds no words: these are returned on the host.
    """
    if is_tensor(codes) and few.dtype.kind in "biuf":
        return to_device_of(few, codes)[codes]
    return few[to_numpy(codes)]


def masses_of(labels: Any, weights: Any) -> tuple[Array, Array]:
    """Return the different labels of a tensor, sorted, and the weight of each.

    Few kinds are told apart by comparing: 30 times faster than by sorting.
    """
    torch = sys.modules["torch"]
    kinds = torch.unique(labels[:_LOOKED_AT])
    if len(kinds) <= _FEW_KINDS:
        masses = [weights @ (labels == kind).to(weights.dtype) for kind in kinds]
        if sum(int((labels == kind).sum()) for kind in kinds) == len(labels):
            return to_numpy(kinds), to_numpy(torch.stack(masses))
    kinds, place = torch.unique(labels, return_inverse=True)
    return to_numpy(kinds), to_numpy(
        torch.bincount(place, weights, minlength=len(kinds))
    )


def add_to_diagonal(matrix: Any, value: Any) -> None:
    """Add a number, or one for each place, to the diagonal of a square matrix."""
    if is_tensor(matrix):
        matrix.diagonal().add_(value)
    else:
        matrix[np.diag_indices(len(matrix))] += value


def cholesky(matrix: Any) -> Any:
    """Return the lower Cholesky factor; on the host it overwrites the matrix."""
    if is_tensor(matrix):
        return sys.modules["torch"].linalg.cholesky(matrix)
    # Symmetric: transposed it has LAPACK's order.
    return linalg.cholesky(matrix.T, lower=True, overwrite_a=True, check_finite=False)


def copied(matrix: Any) -> Any:
    """Return a copy of a matrix in float64, or in its own precision on the host.

    On the host in LAPACK's order, so that a factor can overwrite it.
    """
    if is_tensor(matrix):
        return matrix.double() if matrix.dtype.itemsize < 8 else matrix.clone()
    return np.array(matrix, order="F")


def definite_solved(matrix: Any, right: Any) -> Any:
    """Return ``M^-1 right`` by Cholesky; LinAlgError where M is not definite.

    On the host the factor overwrites the matrix.
    """
    if not is_tensor(matrix):
        factor = linalg.cho_factor(matrix, overwrite_a=True, check_finite=False)
        return linalg.cho_solve(factor, right, check_finite=False)
    torch = sys.modules["torch"]
    factor, failed = torch.linalg.cholesky_ex(matrix)
    if int(failed):
        raise linalg.LinAlgError("the matrix is not positive definite")
    return torch.cholesky_solve(right[:, None], factor)[:, 0]


def lower_solved(factor: Any, right: Any) -> Any:
    """Return ``L^-1 right`` for a lower triangle L and a matrix."""
    if is_tensor(factor):
        torch = sys.modules["torch"]
        return torch.linalg.solve_triangular(factor, right, upper=False)
    return linalg.solve_triangular(factor, right, lower=True, check_finite=False)


def lower_inverse(factor: Any) -> Any:
    """Return ``L^-1`` of a lower triangle L."""
    if is_tensor(factor):
        eye = namespace(factor).eye(
            len(factor), dtype=factor.dtype, device=factor.device
        )
        return lower_solved(factor, eye)
    eye = np.eye(len(factor), order="F")
    return linalg.solve_triangular(
        factor, eye, lower=True, overwrite_b=True, check_finite=False
    )


def without_squares(matrix: Any, columns: Any) -> Any:
    """Return ``M - columns' columns`` for a symmetric M, which it takes the place of.

    In place: as large as M, a temporary would count.
    """
    if is_tensor(matrix):
        return matrix.addmm_(columns.T, columns, alpha=-1.0)
    own = {"trans_a": True, "overwrite_c": True}
    return linalg.blas.dgemm(-1.0, columns, columns, beta=1.0, c=matrix.T, **own)
