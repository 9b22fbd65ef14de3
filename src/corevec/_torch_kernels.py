"""Kernel values of torch tensors, on the CPU or a GPU: the functions of `_loops`.

`times` is `Kernel.times` and `block` is `Kernel.block` for rows that are prepared
(mapped, in one precision). On a GPU `times` runs the fused kernels of `_fused`;
without Triton, or with ``COREVEC_TRITON=0``, it makes the same values in plain torch,
tile by tile. Nothing here imports Numba.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from importlib.util import find_spec

import torch
from torch import Tensor

# The codes of `_loops`, which loads Numba; a test holds them together.
RBF, LAPLACIAN, INVERSE_DISTANCE, LINEAR, POLYNOMIAL, SIGMOID = range(6)
# As in `kernels`: up to here distances are explicit differences, which do not cancel.
FEW_COLUMNS = 8
# Kernel values in memory at a time: as `kernels` on a CPU; on a GPU 2**25, enough work
# for each of some ten launches of a tile (256 MB in float64, and as much again once).
_TILE_VALUES = {"cpu": 1 << 19, "cuda": 1 << 25}


def times(
    code: int,
    gamma: float,
    coef0: float,
    degree: float,
    X: Tensor,
    Z: Tensor,
    coef: Tensor,
    x_squares: Tensor | None = None,
    z_squares: Tensor | None = None,
    config: dict[str, int] | None = None,
) -> Tensor:
    """Return ``kernel(X, Z) @ coef`` in float64; the kernel is not stored.

    Parameters
    ----------
    code, gamma, coef0, degree
        As in `_loops.profile`.
    X, Z : Tensor of shape (n, d) and (k, d)
        Prepared rows and basis rows, of one precision, on one device.
    coef : Tensor of shape (k, outputs)
    x_squares, z_squares : Tensor of shape (n,) and (k,), optional
        Squared norms; made here where they are needed and not given.
    config : dict, optional
        Tile sizes instead of the fused kernels' own, for benchmarks.
    """
    if len(X) == 0 or len(Z) == 0 or coef.shape[1] == 0:
        return X.new_zeros((len(X), coef.shape[1]), dtype=torch.float64)
    if code == LINEAR:
        together = (Z.double().T @ coef.double()).to(X.dtype)
        with _full_precision(X):
            return (X @ together).double()
    X, Z = X.contiguous(), Z.contiguous()
    if _needs_squares(code, X):
        x_squares, z_squares = _squares(X, x_squares), _squares(Z, z_squares)
    if not fused(X):
        return _tiled(code, gamma, coef0, degree, X, Z, coef, x_squares, z_squares)
    from corevec import _fused  # Triton loads in a second, and may be missing

    with torch.cuda.device(X.device) if X.is_cuda else nullcontext():
        return _fused.times(
            code, gamma, coef0, degree, X, Z, coef, x_squares, z_squares, config
        )


def block(
    code: int,
    gamma: float,
    coef0: float,
    degree: float,
    X: Tensor,
    Z: Tensor,
    x_squares: Tensor | None = None,
    z_squares: Tensor | None = None,
) -> Tensor:
    """Return the kernel values, shape (n, k), in the precision of X.

    Memory: the values, and for up to 8 columns as much again; never (n, k, d).
    """
    if code <= INVERSE_DISTANCE and 0 < X.shape[1] <= FEW_COLUMNS:
        return profile(code, gamma, coef0, degree, _squared_differences(X, Z))
    with _full_precision(X):
        if code > INVERSE_DISTANCE:
            return profile(code, gamma, coef0, degree, X @ Z.T)
        x_squares, z_squares = _squares(X, x_squares), _squares(Z, z_squares)
        q = torch.addmm(z_squares, X, Z.T, alpha=-2.0)
    q.add_(x_squares[:, None]).clamp_(min=0.0)
    return profile(code, gamma, coef0, degree, q)


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


def _squares(X: Tensor, given: Tensor | None) -> Tensor:
    return squared_norms(X) if given is None else given.to(X.dtype)


def _needs_squares(code: int, X: Tensor) -> bool:
    return code <= INVERSE_DISTANCE and not 0 < X.shape[1] <= FEW_COLUMNS


def _tiled(
    code: int,
    gamma: float,
    coef0: float,
    degree: float,
    X: Tensor,
    Z: Tensor,
    coef: Tensor,
    x_squares: Tensor | None,
    z_squares: Tensor | None,
) -> Tensor:
    out = X.new_empty((len(X), coef.shape[1]), dtype=torch.float64)
    coef = coef.to(X.dtype)
    tile = max(16, _TILE_VALUES.get(X.device.type, 1 << 25) // len(Z))
    for start in range(0, len(X), tile):
        few = slice(start, start + tile)
        own = None if x_squares is None else x_squares[few]
        values = block(code, gamma, coef0, degree, X[few], Z, own, z_squares)
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


def profile(code: int, gamma: float, coef0: float, degree: float, q: Tensor) -> Tensor:
    """Replace pair quantities by kernel values, in place; twin: naive.gram."""
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
