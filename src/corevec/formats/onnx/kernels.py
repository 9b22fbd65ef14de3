"""Each kernel as nodes of an ONNX graph.

The ai.onnx.ml operators for support vector machines are not used: they know four
kernels, float32 coefficients and no double precision.

Memory of a run is about four arrays of (rows of the batch) x (vectors) numbers for
every kernel; nothing of the size rows x vectors x columns is made.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy import sparse

from corevec._runtime.types import Array
from corevec.backend.profiles import FEW_COLUMNS
from corevec.exceptions import InvalidInputError
from corevec.formats.onnx.writer import GraphWriter
from corevec.kernels import AnyKernel, Kernel, Rows
from corevec.models.expansion import KernelExpansion

# The kernels that have nodes below; another one is refused, not written as one of them.
WRITTEN_KERNELS = ("rbf", "laplacian", "inverse-distance", "linear", "poly", "sigmoid")

# Bytes of the dense vectors in a graph. A protobuf file is limited to 2 GiB.
MOST_BYTES = 1 << 30
# Error of a Gaussian value by the matrix product above which distances are computed
# from differences, by the bytes of a number in the graph.
CANCELS = {4: 1e-4, 8: 1e-10}


def write_values(graph: GraphWriter, x: str, functions: KernelExpansion) -> str:
    """Write ``f_t(x) = sum_j coef[j, t] k(b_j, x) + intercept[t]``; (rows, outputs)."""
    kernel = known_kernel(functions.kernel)
    functions = _without_idle_vectors(functions)
    if is_linear(kernel) or len(functions.basis) == 0:
        return _product(graph, x, _weights_of(functions).T, functions.intercept)
    values = _kernel_values(graph, x, kernel, _dense_vectors(graph, functions.basis))
    return _product(graph, values, functions.coef, functions.intercept)


def write_ball(graph: GraphWriter, x: str, ball: KernelExpansion, rest: float) -> str:
    """Write ``2 f(x) - k(x, x) - rest``; shape (rows, 1).

    With ``rest = |c|^2 + offset`` that is the decision of a ball with the centre c.
    """
    kernel = known_kernel(ball.kernel)
    if is_linear(kernel):
        # Minus the squared distance itself: with columns near 1e3, the products above
        # are near 1e6 and float32 leaves them an error of 0.1.
        centre = _weights_of(ball)
        constant = np.sum(centre**2) - rest + 2 * ball.intercept
        step = write_difference(graph, x, centre)
        near = graph.call("Neg", _row_squares(graph, step))
        return graph.call("Add", near, graph.constant(constant))
    own = _own_values(graph, x, kernel)
    offset = 2 * ball.intercept - rest - (0.0 if own else 1.0)
    doubled = replace(ball, coef=2 * ball.coef, intercept=offset)
    values = write_values(graph, x, doubled)
    return graph.call("Sub", values, own) if own else values


def write_difference(graph: GraphWriter, x: str, centre: Array) -> str:
    """Write ``x - centre``, with the centre in two parts of the precision.

    In float32 a centre of 1e6 is off by up to 0.03: as much as such rows differ.
    """
    first = graph.rounded(centre)
    rest = graph.rounded(centre - first)
    x = graph.call("Sub", x, graph.constant(first))
    return graph.call("Sub", x, graph.constant(rest)) if rest.any() else x


def known_kernel(kernel: AnyKernel) -> Kernel:
    """Return the kernel if it can be written as nodes."""
    if isinstance(kernel, Kernel) and kernel.name in WRITTEN_KERNELS:
        return kernel
    needs = {
        "precomputed": "its values are made outside of the model",
        "callable": "a Python function cannot be written as a graph",
    }
    reason = needs.get(kernel.name, "its formula is not written as ONNX nodes yet")
    raise InvalidInputError(
        f"to_onnx: kernel={kernel.name!r} cannot be exported: {reason}. "
        f"Use one of {', '.join(map(repr, WRITTEN_KERNELS))} (each also as "
        "'normalized-...').",
        parameter="kernel",
    )


def _weights_of(functions: KernelExpansion) -> Array:
    """Return the weights of the columns of linear functions, (outputs, columns)."""
    return np.asarray((functions.basis.values.T @ functions.coef).T, dtype=np.float64)


def is_linear(kernel: Kernel) -> bool:
    """Return whether functions of the kernel are weights of the columns."""
    return kernel.name == "linear" and not kernel.normalized


def _without_idle_vectors(functions: KernelExpansion) -> KernelExpansion:
    """Return the functions without the vectors whose coefficients are all zero."""
    used = np.flatnonzero(functions.coef.any(axis=1))
    if len(used) == len(functions.basis):
        return functions
    basis = Rows(functions.basis.values[used], functions.basis.index[used])
    return replace(functions, basis=basis, coef=functions.coef[used])


def _dense_vectors(graph: GraphWriter, basis: Rows) -> Array:
    vectors = basis.values
    size = vectors.shape[0] * vectors.shape[1] * graph.dtype.itemsize
    if size > MOST_BYTES:
        raise InvalidInputError(
            f"to_onnx: the model's {vectors.shape[0]:,} vectors of "
            f"{vectors.shape[1]:,} columns take {size / 2**30:.1f} GiB when dense, "
            f"above the limit of {MOST_BYTES / 2**30:g} GiB (ONNX knows dense rows, in "
            "files of 2 GiB at most). Use fewer vectors (corevec.compress, "
            "FewVectors), or kernel='linear', which needs none."
        )
    dense = vectors.toarray() if sparse.issparse(vectors) else vectors
    return np.asarray(dense, dtype=np.float64)


def _kernel_values(graph: GraphWriter, x: str, kernel: Kernel, vectors: Array) -> str:
    """Write ``k(x, z)`` for all vectors z; shape (rows, vectors)."""
    if kernel.uses_distance:
        return _of_distance(graph, x, kernel, vectors)
    if kernel.normalized:
        return _of_angle(graph, x, kernel, vectors)
    return _profile(graph, kernel, _affine_product(graph, x, kernel, vectors))


# Kernels of the distance ----------------------------------------------------------


def _of_distance(graph: GraphWriter, x: str, kernel: Kernel, vectors: Array) -> str:
    """Write rbf, laplacian or inverse-distance.

    All rows are moved so that the vectors' mean is at zero, and multiplied by
    sqrt(gamma). Without the first, columns near 1e3 that differ by 1 have squares near
    1e6, of which float32 keeps nothing below 0.1. Mean and factor are rounded to the
    graph's precision *before* they meet the vectors: the rounding is then the same on
    both sides of a difference, and cancels.
    """
    centre = graph.rounded(vectors.mean(axis=0))
    scale = np.ldexp(np.sqrt(kernel.gamma), -kernel.row_map.exponent)
    if kernel.row_map.scale is not None:
        scale = scale * kernel.row_map.scale
    scale = graph.rounded(scale)
    if not np.any(scale):
        raise InvalidInputError(
            f"to_onnx: sqrt(gamma) is below the range of {graph.dtype.name}. "
            "Use dtype='float64', or scale the columns before the fit."
        )
    near = graph.rounded((vectors - centre) * scale)
    moved = graph.call("Sub", x, graph.constant(centre))
    moved = graph.call("Mul", moved, graph.constant(scale))
    # The product loses the digits of columns that are spread widely; see `_loops.NEAR`.
    largest = float(np.einsum("ij,ij->i", near, near).max(initial=0.0))
    cancels = largest * np.finfo(graph.dtype).eps > CANCELS[graph.dtype.itemsize]
    if kernel.name == "rbf" and vectors.shape[1] > FEW_COLUMNS and not cancels:
        return graph.call("Exp", graph.call("Neg", _by_product(graph, moved, near)))
    squares = _by_difference(graph, moved, near)
    if kernel.name == "rbf":
        return graph.call("Exp", graph.call("Neg", squares))
    distance = graph.call("Sqrt", squares)
    if kernel.name == "laplacian":
        return graph.call("Exp", graph.call("Neg", distance))
    one = graph.constant(1.0)
    return graph.call("Reciprocal", graph.call("Add", distance, one))


def _by_product(graph: GraphWriter, x: str, near: Array) -> str:
    """Write ``|x|^2 - 2 x.z + |z|^2``, at least 0: rounding can leave less."""
    own = np.einsum("ij,ij->i", near, near)
    squares = _product(graph, x, -2 * near.T, own)
    squares = graph.call("Add", squares, _row_squares(graph, x))
    return graph.call("Max", squares, graph.constant(0.0))


def _by_difference(graph: GraphWriter, x: str, near: Array) -> str:
    """Write the sum over the columns of ``(x_c - z_c)^2``, column by column.

    For few columns, as in `kernels`, and wherever the *root* is taken: an error of
    6e-8 in the square of a distance of zero is one of 2e-4 in the distance. Price at
    64 columns (onnxruntime, one core): 28 ns a pair, a matrix product 3 ns.
    """
    n_rows = graph.call("Shape", x, start=0, end=1)
    shape = graph.call("Concat", n_rows, graph.whole([len(near)]), axis=0)
    zeros = graph.call("Expand", graph.constant([[0.0]]), shape)
    return graph.over_columns(zeros, x, near)


def _product(graph: GraphWriter, x: str, factors: Array, shift: Array) -> str:
    """Write ``x @ factors + shift``.

    By Gemm: onnxruntime 1.31 merges a MatMul with a multiplication by one number
    before it, and keeps that number in float32, also in a graph of float64 (an error
    of 1e-8 where this form has 1e-15).
    """
    return graph.call("Gemm", x, graph.constant(factors), graph.constant(shift))


def _row_squares(graph: GraphWriter, x: str) -> str:
    return graph.call("ReduceSumSquare", x, graph.whole([1]), keepdims=1)


# Kernels of the inner product -----------------------------------------------------


def _affine_product(graph: GraphWriter, x: str, kernel: Kernel, vectors: Array) -> str:
    """Write ``gamma x.z + coef0``; for the linear kernel ``x.z``."""
    factor, shift = _factor_and_shift(kernel)
    return _product(graph, x, factor * vectors.T, np.array([shift]))


def _affine_square(graph: GraphWriter, x: str, kernel: Kernel) -> str:
    """Write ``gamma x.x + coef0``; shape (rows, 1)."""
    factor, shift = _factor_and_shift(kernel)
    squares = graph.call("Mul", _row_squares(graph, x), graph.constant(factor))
    return graph.call("Add", squares, graph.constant(shift)) if shift else squares


def _factor_and_shift(kernel: Kernel) -> tuple[float, float]:
    return (1.0, 0.0) if kernel.name == "linear" else (kernel.gamma, kernel.coef0)


def _profile(graph: GraphWriter, kernel: Kernel, products: str) -> str:
    if kernel.name == "sigmoid":
        return graph.call("Tanh", products)
    if kernel.name == "poly":
        return graph.call("Pow", products, graph.constant(kernel.degree))
    return products


def _own_values(graph: GraphWriter, x: str, kernel: Kernel) -> str:
    """Write ``k(x, x)``, shape (rows, 1); "" where it is 1 for every row."""
    if kernel.uses_distance:
        return ""
    squares = _affine_square(graph, x, kernel)
    if not kernel.normalized:
        return _profile(graph, kernel, squares)
    # The zero of the feature space has no direction: its values are 0.
    return graph.call(
        "Where", _is_zero(graph, squares), graph.constant(0.0), graph.constant(1.0)
    )


def _of_angle(graph: GraphWriter, x: str, kernel: Kernel, vectors: Array) -> str:
    """Write ``k(x, z) / sqrt(k(x, x) k(z, z))``.

    For poly the quotient is taken of the bases, before the power: 1e13 to the third
    power is beyond float32, the quotient is at most 1. A row whose k(x, x) is negative
    gives nan, where the estimator raises an error.
    """
    factor, shift = _factor_and_shift(kernel)
    squares = factor * np.einsum("ij,ij->i", vectors, vectors) + shift
    own = _affine_square(graph, x, kernel)
    products = _affine_product(graph, x, kernel, vectors)
    if kernel.name == "sigmoid":
        squares, own = np.tanh(squares), graph.call("Tanh", own)
        products = graph.call("Tanh", products)
    if kernel.name == "poly" and float(kernel.degree) % 2 == 0:
        squares, own = np.abs(squares), graph.call("Abs", own)
    theirs = np.divide(
        1.0, np.sqrt(squares), out=np.zeros_like(squares), where=squares != 0
    )
    quotients = graph.call("Mul", products, graph.constant(theirs))
    quotients = graph.call("Mul", quotients, _inverse_root(graph, own))
    return quotients if kernel.name == "sigmoid" else _profile(graph, kernel, quotients)


def _inverse_root(graph: GraphWriter, own: str) -> str:
    inverse = graph.call("Reciprocal", graph.call("Sqrt", own))
    return graph.call("Where", _is_zero(graph, own), graph.constant(0.0), inverse)


def _is_zero(graph: GraphWriter, values: str) -> str:
    return graph.call("Equal", values, graph.constant(0.0))


__all__ = [
    "MOST_BYTES",
    "known_kernel",
    "write_ball",
    "write_difference",
    "write_values",
]
