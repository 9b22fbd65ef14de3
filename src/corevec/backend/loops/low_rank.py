"""Products with some rows of a float32 matrix, summed in float64 without a copy."""

# mypy: ignore-errors
# Numba reads these functions, not Python: annotations would say nothing of use.

from corevec.backend.loops.compiler import njit


@njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract", "reassoc"})
def rows_times(F, rows, w, out):
    """Write ``F[rows] @ w``; twin: NumPy."""
    for i in range(len(rows)):
        row = F[rows[i]]
        total = 0.0
        for j in range(len(w)):
            total += row[j] * w[j]
        out[i] = total


@njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract", "reassoc"})
def rows_transposed_times(F, rows, u, out):
    """Add ``F[rows].T @ u`` to `out`; twin: NumPy. Four rows are read at a time."""
    whole = len(rows) - len(rows) % 4
    for i in range(0, whole, 4):
        a, b, c, d = F[rows[i]], F[rows[i + 1]], F[rows[i + 2]], F[rows[i + 3]]
        ua, ub, uc, ud = u[i], u[i + 1], u[i + 2], u[i + 3]
        for j in range(len(out)):
            out[j] += (ua * a[j] + ub * b[j]) + (uc * c[j] + ud * d[j])
    for i in range(whole, len(rows)):
        for j in range(len(out)):
            out[j] += u[i] * F[rows[i], j]
