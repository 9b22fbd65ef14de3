"""Kernel values of torch tensors, on the CPU or a GPU: as `loops.kernels` does.

`times` is `Kernel.times` and `block` is `Kernel.block` for rows that are prepared
(mapped, in one precision). On a GPU `times` runs the kernels of `triton_times`;
without Triton, or with ``COREVEC_TRITON=0``, it makes the same values in plain torch,
tile by tile. `answers` is a scan of such values, reduced on their device.
Nothing here imports Numba.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from corevec.backend.profiles import (
    FEW_COLUMNS,
    HARMLESS,
    INVERSE_DISTANCE,
    LAPLACIAN,
    LINEAR,
    NEAR,
    RBF,
    SIGMOID,
    UNIT,
    Profile,
)

# Kernel values in memory at a time: as `kernels` on a CPU; on a GPU 2**25, enough work
# for each of some ten launches of a tile (256 MB in float64, and as much again once).
_TILE_VALUES = {"cpu": 1 << 19, "cuda": 1 << 25}
# Rows of a block from which one kernel makes the values and reduces them. Below, the
# values are made by `times` and reduced by a kernel that serves all: at 2**20 rows that
# takes some 20 us more (100 bytes a row), and another kernel takes a second to compile.
ROWS_IN_ONE = 1 << 20


class Prepared(NamedTuple):
    """Rows as a kernel takes them: mapped, in one precision, with their squared norms.

    The norms are computed where a kernel needs them and they are None.
    """

    values: Tensor
    squares: Tensor | None = None

    def with_squares(self) -> Prepared:
        """Return the rows with their squared norms, in the precision of the rows."""
        X, squares = self
        squares = squared_norms(X) if squares is None else squares.to(X.dtype)
        return Prepared(X, squares)

    def part(self, few: slice) -> Prepared:
        """Return some of the rows."""
        X, squares = self
        return Prepared(X[few], None if squares is None else squares[few])


def times(
    profile: Profile,
    x: Prepared,
    z: Prepared,
    coef: Tensor,
    config: dict[str, int] | None = None,
) -> Tensor:
    """Return ``kernel(x, z) @ coef`` in float64; the kernel is not stored.

    Parameters
    ----------
    profile : Profile
        As in `loops.kernels.profile`.
    x, z : Prepared
        Rows and basis rows, of one precision, on one device.
    coef : Tensor of shape (len(z.values), outputs)
        The coefficients of each output.
    config : dict, optional
        Tile sizes instead of the fused kernels' own, for benchmarks.
    """
    X, Z = x.values.contiguous(), z.values.contiguous()
    if len(X) == 0 or len(Z) == 0 or coef.shape[1] == 0:
        return X.new_zeros((len(X), coef.shape[1]), dtype=torch.float64)
    if profile.code == LINEAR:
        together = (Z.double().T @ coef.double()).to(X.dtype)
        with _full_precision(X):
            return (X @ together).double()
    x, z = Prepared(X, x.squares), Prepared(Z, z.squares)
    if _needs_squares(profile, X):
        x, z = x.with_squares(), z.with_squares()
    if not fused(X) or cancels(profile, z):
        return times_by_tiles(profile, x, z, coef)
    from corevec.backend.gpu import (
        triton_times,  # Triton loads in a second, and may be missing
    )

    with _device_of(X):
        return triton_times.times(profile, x, z, coef, config)


def repeated(profile: Profile, x: Prepared, z: Prepared) -> Callable[[Tensor], Tensor]:
    """Return ``coef -> times(profile, x, z, coef)``, made ready for many products."""
    X, Z = x.values.contiguous(), z.values.contiguous()
    plain = len(X) == 0 or len(Z) == 0 or profile.code == LINEAR
    if plain or not fused(X) or cancels(profile, z):
        return lambda coef: times(profile, x, z, coef)
    if _needs_squares(profile, X):
        x, z = x.with_squares(), z.with_squares()
    from corevec.backend.gpu import triton_times

    x, z = Prepared(X, x.squares), Prepared(Z, z.squares)
    ready = triton_times.Repeated(profile, x, z)

    def product(coef: Tensor) -> Tensor:
        with _device_of(X):
            return ready(coef)

    return product


def _device_of(X: Tensor) -> AbstractContextManager[Any]:
    return torch.cuda.device(X.device) if X.is_cuda else nullcontext()


def block(profile: Profile, x: Prepared, z: Prepared) -> Tensor:
    """Return the kernel values, shape (len(x), len(z)), in the precision of the rows.

    Memory: the values, and for up to 8 columns as much again; never one number for each
    pair and column.
    """
    X, Z = x.values, z.values
    if profile.code <= INVERSE_DISTANCE and 0 < X.shape[1] <= FEW_COLUMNS:
        return apply_profile(profile, _squared_differences(X, Z))
    with _full_precision(X):
        if profile.code > INVERSE_DISTANCE:
            return apply_profile(profile, X @ Z.T)
        x, z = x.with_squares(), z.with_squares()
        assert x.squares is not None
        assert z.squares is not None
        q = torch.addmm(z.squares, X, Z.T, alpha=-2.0)
    q.add_(x.squares[:, None]).clamp_(min=0.0)
    repair(profile, q, x, z)
    return apply_profile(profile, q)


def repair(profile: Profile, q: Tensor, x: Prepared, z: Prepared) -> None:
    """Recompute the squared distances that cancelled from differences, in place.

    As in `loops.kernels.product_block`; all may have a batch dimension in front.
    """
    (X, xx), (Z, zz) = x, z
    assert xx is not None
    assert zz is not None
    near = q < NEAR * (xx[..., :, None] + zz[..., None, :])
    if profile.code == RBF:
        near &= (_harm(profile.gamma, xx, X.shape[-1]) > HARMLESS)[..., :, None]
    *batch, left, right = near.nonzero(as_tuple=True)
    step = max(1, (1 << 22) // max(X.shape[-1], 1))
    for start in range(0, len(left), step):
        few = slice(start, start + step)
        lead = tuple(index[few] for index in batch)
        i, j = left[few], right[few]
        off = X[(*lead, i)] - Z[(*lead, j)]
        q[(*lead, i, j)] = off.square_().sum(dim=-1)


def _harm(gamma: float, squares: Tensor, n_columns: int) -> Tensor:
    """Return how far cancellation can move Gaussian values; `loops.kernels.matters`."""
    return 2.5 * gamma * squares.double() * ((n_columns + 4) * UNIT)


def cancels(profile: Profile, z: Prepared) -> bool:
    """Whether float64 values need `repair`, which the fused kernels do not have.

    Near pairs have norms that are nearly alike, so that those of the basis tell.
    """
    Z = z.values
    if not _needs_squares(profile, Z) or Z.dtype != torch.float64 or len(Z) == 0:
        return False
    if profile.code != RBF:
        return True
    squares = z.with_squares().squares
    assert squares is not None
    harm = _harm(profile.gamma, 1.3 * squares.max(), Z.shape[1])
    return bool(harm > HARMLESS)


def squared_norms(X: Tensor) -> Tensor:
    """Return ``|x|^2`` of each row, in the precision of X."""
    out = X.new_empty(len(X))
    tile = max(1, (1 << 25) // max(X.shape[1], 1))
    for start in range(0, len(X), tile):
        part = X[start : start + tile]
        torch.sum(part * part, dim=1, out=out[start : start + tile])
    return out


def fused(X: Tensor) -> bool:
    """Whether the Triton kernels serve rows that lie where X does."""
    if os.environ.get("COREVEC_TRITON") == "0" or X.shape[1] == 0:
        return False
    # Triton's interpreter runs its kernels on CPU tensors: for the tests.
    interpreted = os.environ.get("TRITON_INTERPRET") == "1"
    return (X.is_cuda or interpreted) and find_spec("triton") is not None


# --- scans ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Asked:
    """What is asked of each row about one output: ``scan.ScanRequest`` on one side.

    `left_out` are numbers of rows that are skipped.
    """

    column: int
    sign: Tensor
    omega: Tensor
    target: Tensor
    left_out: npt.NDArray[Any] | None
    trials: tuple[tuple[float, float], ...]
    has_offset: bool
    n_worst: int


@dataclass(frozen=True)
class Answer:
    """What was found, as in ``scan.ScanResult``; `worst` are row numbers, in order."""

    loss: npt.NDArray[Any]
    slope: float
    curve: float
    worst: npt.NDArray[Any]
    violation: npt.NDArray[Any]
    n_violated: int


@dataclass(frozen=True)
class Mapping:
    """``x -> x 2**-exponent - shift``, as ``kernels.RowMap`` does it."""

    shift: npt.NDArray[Any] | None
    exponent: int

    def beside(self, X: Tensor) -> Tensor:
        """Return two factors, whose product is the power of two, and the shifts."""
        half = -self.exponent // 2
        shift = np.zeros(X.shape[1]) if self.shift is None else self.shift
        numbers = [2.0**half, 2.0 ** (-self.exponent - half), *shift]
        return torch.tensor(numbers, dtype=torch.float64, device=X.device)


class Functions(NamedTuple):
    """Functions ``kernel(x, basis) @ coef + intercept``; the basis is prepared."""

    profile: Profile
    basis: Prepared
    coef: Tensor
    intercept: npt.NDArray[Any]


def answers(
    functions: Functions,
    X: Tensor,
    mapping: Mapping,
    numbers: Tensor,
    asked: list[Asked],
) -> list[Answer] | None:
    """Return what is asked about the functions at ``mapping(X)``.

    The rows are as they were given; values are made in the precision of the basis, and
    none is stored. None where one is not finite; see `answers_in_one` for what is
    served.
    """
    from corevec.backend.gpu import (
        triton_launch,  # Triton loads in a second
    )

    X, (Z, squares) = X.contiguous(), functions.basis
    z = Prepared(Z.contiguous(), squares)
    if _needs_squares(functions.profile, Z):
        z = z.with_squares()
    ready = functions._replace(basis=z)
    with _device_of(X):
        shifts = mapping.beside(X)
        return _read(triton_launch.answers(ready, X, shifts, numbers, asked), asked)


def answers_of(
    values: Tensor, intercept: npt.NDArray[Any], numbers: Tensor, asked: list[Asked]
) -> list[Answer] | None:
    """Return what is asked about ``values + intercept``; None if not all are finite."""
    from corevec.backend.gpu import (
        triton_launch,  # Triton loads in a second
    )

    with _device_of(values):
        given = values.contiguous(), intercept, numbers, asked
        return _read(triton_launch.answers_of(*given), asked)


def answers_in_one(profile: Profile, X: Tensor, z: Prepared) -> bool:
    """Whether one kernel makes the values of these rows and reduces them."""
    Z = z.values
    if profile.code == LINEAR or len(X) < ROWS_IN_ONE or len(Z) == 0:
        return False
    if cancels(profile, z):
        return False
    from corevec.backend.gpu import triton_times

    return X.is_floating_point() and triton_times.maps(X.shape[1], Z.dtype)


def _read(found: list[Any], asked: list[Asked]) -> list[Answer] | None:
    """Return the answers in words; None where a value was not finite."""
    made = []
    for (sums, violation, rows), one in zip(found, asked, strict=True):
        n_violated, slope, curve, *losses = sums
        if np.isnan(curve):
            return None
        order = np.lexsort((rows, -violation))
        order = order[violation[order] > -np.inf]
        loss = np.array(losses[: len(one.trials)])
        worst = rows[order], violation[order]
        made.append(Answer(loss, float(slope), float(curve), *worst, int(n_violated)))
    return made


def _needs_squares(profile: Profile, X: Tensor) -> bool:
    return profile.code <= INVERSE_DISTANCE and not 0 < X.shape[1] <= FEW_COLUMNS


def times_by_tiles(profile: Profile, x: Prepared, z: Prepared, coef: Tensor) -> Tensor:
    """Return ``kernel(x, z) @ coef`` in float64 by torch alone, tile by tile."""
    X, Z = x.values, z.values
    out = X.new_empty((len(X), coef.shape[1]), dtype=torch.float64)
    coef = coef.to(X.dtype)
    tile = max(16, _TILE_VALUES.get(X.device.type, 1 << 25) // len(Z))
    for start in range(0, len(X), tile):
        few = slice(start, start + tile)
        values = block(profile, x.part(few), z)
        with _full_precision(X):
            out[few] = values @ coef
    return out


def _squared_differences(X: Tensor, Z: Tensor) -> Tensor:
    t = X[:, :1] - Z[:, 0]
    q = t.square()
    for c in range(1, X.shape[1]):
        torch.sub(X[:, c : c + 1], Z[:, c], out=t)
        q.addcmul_(t, t)
    return q


def apply_profile(profile: Profile, q: Tensor) -> Tensor:
    """Replace pair quantities by kernel values, in place; twin: naive.gram."""
    code, gamma, coef0, degree = profile
    if code == LINEAR:
        return q
    q.mul_(gamma)
    if code == RBF:
        return q.neg_().exp_()
    if code == LAPLACIAN:
        return q.sqrt_().neg_().exp_()
    if code == INVERSE_DISTANCE:
        return q.sqrt_().add_(1.0).reciprocal_()
    q.add_(coef0)
    return q.tanh_() if code == SIGMOID else q.pow_(degree)


@contextmanager
def _full_precision(X: Tensor) -> Iterator[None]:
    """Multiply float32 on a GPU in float32, also where the user allows TF32.

    TF32 keeps 10 bits: relative errors of 3e-4, more than most certified gaps.
    """
    allowed = torch.get_float32_matmul_precision() if X.is_cuda else "highest"
    if allowed == "highest" or X.dtype != torch.float32:
        yield
        return
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(allowed)
