"""The compiled loops of LASVM, the Ball Vector Machine and Pegasos.

The rules are those of ``_loops.py``. Kernel values come in as arrays, so that no loop
knows a kernel; a loop that lacks some returns to Python and is called again. Twins:
``tests/reference/test_reference_online.py``.
"""

# mypy: ignore-errors
# Numba compiles these functions: annotations would not help.

import numpy as np

from corevec.backend.loops.compiler import njit

_FAST = {"error_model": "numpy", "fastmath": {"contract"}}
# "reassoc" lets LLVM sum in vector lanes.
_SUMS = {"error_model": "numpy", "fastmath": {"contract", "reassoc"}}

# --- LASVM ----------------------------------------------------------------------------

# Return values of a loop, beside the number (>= 0) of a missing kernel row.
DONE, AT_LIMIT = -1, -2
# Places in `state`: row of the order, whether it is processed, clock of the cache,
# steps taken and steps allowed.
AT, IS_PROCESSED, CLOCK, STEPS, LIMIT = range(5)
# Minimum curvature along a pair: duplicate rows have 0, or less by rounding.
_FLAT = 1e-12


@njit(nogil=True, cache=True, **_FAST)
def _extremes(rows):
    """Return the row of largest gradient that may go up, of least that may go down."""
    alpha, g, low, high, alive = rows
    up, down = -1, -1
    most, least = -np.inf, np.inf
    for s in range(alpha.shape[0]):
        if not alive[s]:
            continue
        if g[s] > most and alpha[s] < high[s]:
            most, up = g[s], s
        if g[s] < least and alpha[s] > low[s]:
            least, down = g[s], s
    return up, down


@njit(nogil=True, cache=True, **_FAST)
def _lacking(up, down, cache, state):
    """Return the slot of the pair that has no line in the cache, or DONE."""
    _, line_of, used = cache
    if line_of[up] < 0:
        return up
    used[line_of[up]] = state[CLOCK]
    state[CLOCK] += 1
    if line_of[down] < 0:
        return down
    used[line_of[down]] = state[CLOCK]
    state[CLOCK] += 1
    return DONE


@njit(nogil=True, cache=True, **_FAST)
def _pair_step(up, down, rows, cache, state):
    """Go from `down` to `up` as far as the objective grows and the box allows."""
    alpha, g, low, high, _ = rows
    lines, line_of, _ = cache
    row_up, row_down = lines[line_of[up]], lines[line_of[down]]
    curve = max(row_up[up] + row_down[down] - 2.0 * row_up[down], _FLAT)
    move = (g[up] - g[down]) / curve
    room_up, room_down = high[up] - alpha[up], alpha[down] - low[down]
    move = min(move, min(room_up, room_down))
    # Bounds are reached exactly, without the rounding of alpha + (bound - alpha).
    alpha[up] = high[up] if move == room_up else alpha[up] + move
    alpha[down] = low[down] if move == room_down else alpha[down] - move
    for s in range(g.shape[0]):
        g[s] -= move * (row_up[s] - row_down[s])
    state[STEPS] += 1


@njit(nogil=True, cache=True, **_FAST)
def _drop_blatant(up, down, rows):
    """REPROCESS 4: rows without weight leave where they cannot violate anything.

    The paper compares with ``g[down]`` and ``g[up]`` respectively. Where the conditions
    are met with room to spare, g[up] < g[down], that would drop rows of both signs in
    between, which may violate with each other: the outermost of them stay.
    """
    alpha, g, _, high, alive = rows
    least, most = min(g[up], g[down]), max(g[up], g[down])
    for s in range(alpha.shape[0]):
        if alive[s] and alpha[s] == 0.0:
            if high[s] > 0.0:
                alive[s] = g[s] >= least
            else:
                alive[s] = g[s] <= most


@njit(nogil=True, cache=True, **_FAST)
def lasvm_finish(tau, rows, cache, state, most):
    """REPROCESS up to `most` times, until no pair of rows violates by more than tau.

    Returns DONE, AT_LIMIT, or the slot whose kernel row is needed. `rows` are the
    arrays (alpha, g, low, high, alive) over the slots, `cache` (lines, line_of, used):
    `lines[line_of[s]]` holds the kernel values of slot s against every slot, `used`
    when it was last used.
    """
    g = rows[1]
    for _ in range(most):
        # REPROCESS 1 and 2: the most violating pair, if it violates by more than tau.
        up, down = _extremes(rows)
        if up < 0 or down < 0:
            return DONE
        if g[up] - g[down] <= tau:
            _drop_blatant(up, down, rows)
            return DONE
        if state[STEPS] >= state[LIMIT]:
            return AT_LIMIT
        lacking = _lacking(up, down, cache, state)
        if lacking >= 0:
            return lacking
        # REPROCESS 3.
        _pair_step(up, down, rows, cache, state)
        # REPROCESS 4.
        up, down = _extremes(rows)
        _drop_blatant(up, down, rows)
    return DONE


@njit(nogil=True, cache=True, **_FAST)
def lasvm_online(order, tau, rows, cache, state):
    """One PROCESS and one REPROCESS for each slot of `order`, from ``state[AT]`` on.

    Returns what `lasvm_finish` does. `g` is kept up to date for slots that are not
    (or no longer) in the expansion too, so that PROCESS 2 finds it there.
    """
    _, g, _, high, alive = rows
    while state[AT] < order.shape[0]:
        k = order[state[AT]]
        # PROCESS 1: a row of the expansion has nothing to add.
        if not state[IS_PROCESSED] and not alive[k]:
            # PROCESS 3: its partner is the extreme row of the other direction.
            up, down = _extremes(rows)
            if high[k] > 0.0:
                up = k
            else:
                down = k
            # PROCESS 4 and 5.
            if up >= 0 and down >= 0 and g[up] - g[down] > tau:
                if state[STEPS] >= state[LIMIT]:
                    return AT_LIMIT
                lacking = _lacking(up, down, cache, state)
                if lacking >= 0:
                    return lacking
                _pair_step(up, down, rows, cache, state)
            alive[k] = True
        state[IS_PROCESSED] = 1
        answer = lasvm_finish(tau, rows, cache, state, 1)
        if answer != DONE:
            return answer
        state[IS_PROCESSED] = 0
        state[AT] += 1
    return DONE


# --- Ball Vector Machine --------------------------------------------------------------

# Places in `numbers`: squared norm of the centre, what the moves left of it.
NORM, LEFT = range(2)


@njit(nogil=True, cache=True, **_FAST)
def _farthest_outside(product, own, norm, limit, first, last):
    """Return the row from `first` up to `last` farthest outside, or -1.

    Its squared distance ``norm - 2 product + own`` is compared with its squared radius
    `own`, and must be above `limit` of them.
    """
    k = -1
    for i in range(first, last):
        if norm - 2.0 * product[i] + own[i] > limit * own[i]:
            limit = (norm - 2.0 * product[i] + own[i]) / own[i]
            k = i
    return k


@njit(nogil=True, cache=True, **_FAST)
def _move_centre(k, row, ball):
    """Step 3: move the centre straight towards row k, to the distance of its radius.

    `row` holds the kernel values of row k with all rows. `ball` is (y, own, product,
    gains, numbers): `product` holds the inner products of the centre with the rows,
    `gains` the weights that they gained in it.
    """
    y, own, product, gains, numbers = ball
    norm, there = numbers[NORM], product[k]
    kept = np.sqrt(own[k] / (norm - 2.0 * there + own[k]))
    gained = 1.0 - kept
    numbers[NORM] = kept * kept * norm + gained * (2.0 * kept * there + gained * own[k])
    numbers[LEFT] *= kept
    for i in range(product.shape[0]):
        product[i] = kept * product[i] + gained * y[k] * y[i] * (row[i] + 1.0)
        gains[i] *= kept
    product[k] = kept * there + gained * own[k]
    gains[k] += gained


@njit(nogil=True, cache=True, **_FAST)
def sampled_moves(K, ball, limit, sample):
    """Move to the farthest row outside of each `sample` rows in turn; return how often.

    `K` holds the kernel values of the rows looked at; `ball` as in `_move_centre`.
    """
    _, own, product, _, numbers = ball
    moves = 0
    n = product.shape[0]
    for first in range(0, n, sample):
        last = min(first + sample, n)
        k = _farthest_outside(product, own, numbers[NORM], limit, first, last)
        if k >= 0:
            _move_centre(k, K[k], ball)
            moves += 1
    return moves


@njit(nogil=True, cache=True, **_FAST)
def farthest_moves(kept, ball, limit, moves):
    """Move to the farthest row outside, up to ``moves[1]`` moves, counted in moves[0].

    Returns the row whose kernel values are needed, or DONE. `kept`: store, slot_of,
    last_use and clock of a ``KernelRows``; `ball` as in `_move_centre`.
    """
    _, own, product, _, numbers = ball
    store, slot_of, last_use, clock = kept
    while moves[0] < moves[1]:
        n = product.shape[0]
        k = _farthest_outside(product, own, numbers[NORM], limit, 0, n)
        if k < 0:
            break
        if slot_of[k] < 0:
            return k
        clock[0] += 1
        last_use[slot_of[k]] = clock[0]
        _move_centre(k, store[slot_of[k]], ball)
        moves[0] += 1
    return DONE


# --- Pegasos --------------------------------------------------------------------------

# Places in `numbers`: steps taken, squared norm of v, the factor that projections left,
# sum of the scales of all w so far.
TIME, SQUARE, SHRUNK, SCALES = range(4)
# Below this the factor goes into v, at the cost of one look at all of it. Projections
# of the first steps may multiply up to 1e-1000; what the sums below lose to it is this.
_LEAST_FACTOR = 1e-3


@njit(nogil=True, cache=True, **_SUMS)
def _entry_dot(values, columns, first, last, shift, v):
    total = 0.0
    for p in range(first, last):
        total += values[p] * v[columns[p - shift]]
    return total


@njit(nogil=True, cache=True, **_FAST)
def _fold(v, lag, total, numbers, size):
    """Put the factor into v, and the sum of all w into `total`."""
    numbers[SQUARE] = 0.0
    for j in range(v.shape[0]):
        total[j] += numbers[SCALES] * v[j] - lag[j]
        lag[j] = 0.0
        v[j] *= numbers[SHRUNK]
        if j < size:
            numbers[SQUARE] += v[j] * v[j]
    numbers[SHRUNK], numbers[SCALES] = 1.0, 0.0


@njit(nogil=True, cache=True, **_FAST)
def _push(j, change, v, lag, scales):
    """Change one entry of v; return what the squared norm gains."""
    gained = change * (2.0 * v[j] + change)
    v[j] += change
    lag[j] += change * scales
    return gained


@njit(nogil=True, cache=True, **_FAST)
def pegasos_linear(entries, y, pull, draws, settings, sums):
    """Figure 1 of Pegasos: one step for each `batch` rows of `draws`.

    ``w = SHRUNK v / (penalty TIME)``, so that a step costs the entries of its rows. `v`
    holds the d entries of w, the bias, and a coefficient for each row. The sum of all w
    is ``SCALES v - lag + total``: `lag` holds what each change of v has missed, `total`
    what was summed up before the factor went into v. `pull` multiplies a row's step.
    `entries` are (values, columns, starts, is_dense), `sums` (v, lag, total, numbers).
    """
    values, columns, starts, is_dense = entries
    batch, penalty, one, d, is_projected, is_averaged = settings
    v, lag, total, numbers = sums
    violated = np.empty(batch, np.bool_)
    for begin in range(0, draws.shape[0], batch):
        rows = draws[begin : begin + batch]
        t = numbers[TIME] + 1.0
        # Line 2: the rows of A_t that w_t has inside the margin. w_1 = 0: its scale is
        # of no account.
        scale = numbers[SHRUNK] / (penalty * max(t - 1.0, 1.0))
        for b, i in enumerate(rows):
            shift = starts[i] if is_dense else 0
            dot = _entry_dot(values, columns, starts[i], starts[i + 1], shift, v)
            violated[b] = y[i] * scale * (dot + one * v[d]) < 1.0
        numbers[SCALES] += scale
        missed = numbers[SCALES] if is_averaged else 0.0
        # Line 3: w_{t+1/2} = (1 - 1/t) w_t + 1/(penalty t k) sum of y x.
        for b, i in enumerate(rows):
            if violated[b]:
                shift = starts[i] if is_dense else 0
                push = y[i] * pull[i] / (rows.shape[0] * numbers[SHRUNK])
                gained = _push(d, push * one, v, lag, missed)
                for p in range(starts[i], starts[i + 1]):
                    j = columns[p - shift]
                    gained += _push(j, push * values[p], v, lag, missed)
                _push(d + 1 + i, push, v, lag, missed)
                numbers[SQUARE] += gained
        numbers[TIME] = t
        # Line 4: w_{t+1} = min(1, 1 / (sqrt(penalty) |w|)) w.
        length = numbers[SHRUNK] * np.sqrt(max(numbers[SQUARE], 0.0))
        if is_projected and length > np.sqrt(penalty) * t:
            numbers[SHRUNK] *= np.sqrt(penalty) * t / length
            if numbers[SHRUNK] < _LEAST_FACTOR:
                _fold(v, lag, total, numbers, d + 1)


@njit(nogil=True, cache=True, **_FAST)
def pegasos_kernel(K, y, pull, settings, found):
    """Figure 3 of the journal version, with batches and projection: a block of rows.

    `K` holds the kernel values of the rows drawn, `f` those of v on them, where ``w = v
    / (penalty TIME)``; `gains` are the coefficients that v gains, `sums` their sum over
    all w. `old`: the factor left of the coefficients there were, its sum over all w.
    `found` is (f, gains, sums, old, numbers).
    """
    batch, penalty, is_projected = settings
    f, gains, sums, old, numbers = found
    n = f.shape[0]
    violated = np.empty(batch, np.bool_)
    for begin in range(0, n, batch):
        end = min(begin + batch, n)
        t = numbers[TIME] + 1.0
        scale = 1.0 / (penalty * max(t - 1.0, 1.0))
        for b in range(begin, end):
            violated[b - begin] = y[b] * scale * f[b] < 1.0
        old[1] += scale * old[0]
        for b in range(begin):
            sums[b] += scale * gains[b]
        for b in range(begin, end):
            if violated[b - begin]:
                push = y[b] * pull[b] / (end - begin)
                numbers[SQUARE] += push * (2.0 * f[b] + push * K[b, b])
                for i in range(n):
                    f[i] += push * K[b, i]
                gains[b] += push
        numbers[TIME] = t
        length = np.sqrt(max(numbers[SQUARE], 0.0))
        if is_projected and length > np.sqrt(penalty) * t:
            factor = np.sqrt(penalty) * t / length
            numbers[SQUARE] *= factor * factor
            old[0] *= factor
            for i in range(n):
                f[i] *= factor
                gains[i] *= factor
