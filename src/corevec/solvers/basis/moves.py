"""Basis vectors moved by L-BFGS, on the objective at their best weights.

The objective F(B) and its gradient are those of ``variable_projection.py``. Each
evaluation costs n k (d + k (1 + problems)) products on the n rows worked on.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import optimize

from corevec._runtime.types import Array
from corevec.backend.arrays import places
from corevec.solvers.basis.plans import Plan
from corevec.solvers.basis.variable_projection import Part
from corevec.solvers.numeric.deadline import Deadline, OutOfTime

# Arrays of the size of the vectors in SciPy's L-BFGS and around it (measured: 25 in all
# with 3 past steps), and past steps that it stores, each two such arrays.
ARRAYS_OF_A_STEP, MIN_PAST_STEPS, MAX_PAST_STEPS = 19, 3, 10
# So large a share of the rows is not worth a copy.
WHOLE_SHARE = 0.9


def bytes_of_moves(n_features: int) -> int:
    """Return the bytes that L-BFGS takes for each vector, at least."""
    return (ARRAYS_OF_A_STEP + 2 * MIN_PAST_STEPS) * 8 * n_features


def past_steps(part: Part, B: Array) -> int:
    """Return how many past steps L-BFGS stores: as many as fit the memory budget."""
    fitting = part.budget / max(B.nbytes, 1)
    pairs = (fitting - ARRAYS_OF_A_STEP) / 2
    return int(np.clip(pairs, MIN_PAST_STEPS, MAX_PAST_STEPS))


def move(
    part: Part, B: Array, steps: int, deadline: Deadline, plan: Plan, is_last: bool
) -> Array:
    """Return the vectors after at most `steps` steps of L-BFGS on F.

    The part is solved at the new vectors, unless these are the last: then it takes the
    weights of the last evaluation, as at the deadline.
    """
    kernel = part.kernel
    # In widths of the kernel, or longer: the first step has length 1.
    width = 1.0 / np.sqrt(2 * kernel.gamma) if kernel.uses_distance else 1.0
    width *= max(1.0, plan.stride * np.sqrt(len(B)))
    near, known = rows_to_move_for(part, plan.far, *part.solve(B))
    seen = B

    def objective(flat: Array) -> tuple[float, Array]:
        nonlocal known, seen
        vectors = flat.reshape(B.shape) * width
        if known is None:
            deadline.check()
        value, K = known or near.solve(vectors)
        known, seen = None, vectors
        return value, near.gradient(vectors, K).ravel() * width

    def check(intermediate_result: Any) -> None:
        if deadline.progress.spent() is not None:
            raise StopIteration

    options = {"maxiter": steps, "maxcor": past_steps(part, B), "ftol": plan.flat}
    given = objective, (B / width).ravel()
    how: Any = {"jac": True, "method": "L-BFGS-B", "callback": check}
    try:
        found = optimize.minimize(*given, options=options, **how)
        moved = found.x.reshape(B.shape) * width
    except OutOfTime:
        moved = seen
    part.take_weights(near)
    near.drop_factor()
    if not is_last and not deadline.is_over():
        part.solve(moved)  # to the end: the gap is told at the best weights
    return np.asarray(moved)


def rows_to_move_for(
    part: Part, far: float, value: float, K: Array
) -> tuple[Part, tuple[float, Array] | None]:
    """Return the rows within `far` of the margin, and F and the kernel values there.

    The others have no loss: F is that of all rows, and nothing is solved again.
    """
    inside = places(part.worst > -far)
    is_regression = part.problems[0].response is not None
    if is_regression or len(inside) > WHOLE_SHARE * len(part):
        return part, (value, K)
    near = part.take(inside, with_pulls=True)
    part.drop_factor()  # it is computed again at the end
    return near, (value, K[inside])
