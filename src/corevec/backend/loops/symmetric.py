"""Products with a symmetric matrix of which each pair of tiles is stored once."""

# mypy: ignore-errors
# Numba reads this function, not Python: annotations would say nothing of use.

import numpy as np

from corevec.backend.loops.compiler import njit

# Levels of a kernel value in [0, 1] that is kept in 16 bits.
LEVELS = 65535


# Reading a tile from memory is what costs. BLAS reads it twice (for the tile and its
# transpose), and its matrix products want many columns: with two columns a tile of 1024
# rows took 844 us, this loop 270 us; with ten columns 991 us and 468 us.
@njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract", "reassoc"})
def tile_times(tile, left, right, out_left, out_right):
    """Add ``tile @ right`` and ``tile.T @ left`` for several vectors; twin: NumPy.

    Vectors are rows of `left` and `right`; they may be shorter than the tile, which
    then counts as cut. Four rows of the tile are read at a time; its values may be
    whole numbers, which are converted.
    """
    n, m = left.shape[1], right.shape[1]
    number = left.dtype.type
    zero = number(0.0)
    whole = n - n % 4
    for i in range(0, whole, 4):
        a, b, c, d = tile[i], tile[i + 1], tile[i + 2], tile[i + 3]
        for k in range(left.shape[0]):
            v, o = right[k], out_right[k]
            va, vb, vc, vd = left[k, i], left[k, i + 1], left[k, i + 2], left[k, i + 3]
            sa, sb, sc, sd = zero, zero, zero, zero
            for j in range(m):
                ta, tb, tc, td = number(a[j]), number(b[j]), number(c[j]), number(d[j])
                sa += ta * v[j]
                sb += tb * v[j]
                sc += tc * v[j]
                sd += td * v[j]
                o[j] += (va * ta + vb * tb) + (vc * tc + vd * td)
            out_left[k, i] += sa
            out_left[k, i + 1] += sb
            out_left[k, i + 2] += sc
            out_left[k, i + 3] += sd
    for i in range(whole, n):
        for k in range(left.shape[0]):
            total = zero
            for j in range(m):
                value = number(tile[i, j])
                total += value * right[k, j]
                out_right[k, j] += left[k, i] * value
            out_left[k, i] += total


@njit(nogil=True, cache=True)
def to_levels(values, out):
    """Write values in [0, 1] as the nearest of 65536 levels; twin: NumPy."""
    levels = values.dtype.type(LEVELS)
    half = values.dtype.type(0.5)
    for i in range(values.shape[0]):
        for j in range(values.shape[1]):
            out[i, j] = np.uint16(np.int32(min(values[i, j] * levels + half, levels)))


@njit(nogil=True, cache=True)
def mirror(block, out):
    """Write the transpose of `block` to `out`; twin: NumPy.

    In squares of 32 rows, which stay in the first cache: NumPy's own copy took twice as
    long as the kernel values (13 ms for 512 x 4,000 values).
    """
    for start in range(0, block.shape[0], 32):
        stop = min(start + 32, block.shape[0])
        for left in range(0, block.shape[1], 32):
            right = min(left + 32, block.shape[1])
            for j in range(left, right):
                for i in range(start, stop):
                    out[j, i] = block[i, j]
