"""Products with a symmetric matrix of which each pair of tiles is stored once."""

# mypy: ignore-errors
# Numba reads this function, not Python: annotations would say nothing of use.

from corevec.backend.loops.compiler import njit


# Reading a tile from memory is what costs. BLAS reads it twice (for the tile and its
# transpose), and its matrix products want many columns: with two columns a tile of 1024
# rows took 844 us, this loop 270 us; with ten columns 991 us and 468 us.
@njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract", "reassoc"})
def tile_times(tile, left, right, out_left, out_right):
    """Add ``tile @ right`` and ``tile.T @ left`` for several vectors; twin: NumPy.

    Vectors are rows of `left` and `right`; they may be shorter than the tile, which
    then counts as cut. Four rows of the tile are read at a time.
    """
    n, m = left.shape[1], right.shape[1]
    zero = tile.dtype.type(0.0)
    whole = n - n % 4
    for i in range(0, whole, 4):
        a, b, c, d = tile[i], tile[i + 1], tile[i + 2], tile[i + 3]
        for k in range(left.shape[0]):
            v, o = right[k], out_right[k]
            va, vb, vc, vd = left[k, i], left[k, i + 1], left[k, i + 2], left[k, i + 3]
            sa, sb, sc, sd = zero, zero, zero, zero
            for j in range(m):
                sa += a[j] * v[j]
                sb += b[j] * v[j]
                sc += c[j] * v[j]
                sd += d[j] * v[j]
                o[j] += (va * a[j] + vb * b[j]) + (vc * c[j] + vd * d[j])
            out_left[k, i] += sa
            out_left[k, i + 1] += sb
            out_left[k, i + 2] += sc
            out_left[k, i + 3] += sd
    for i in range(whole, n):
        for k in range(left.shape[0]):
            total = zero
            for j in range(m):
                total += tile[i, j] * right[k, j]
                out_right[k, j] += left[k, i] * tile[i, j]
            out_left[k, i] += total


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
