"""What to do where a fit is not certified: the cheapest changes, with their numbers.

A number comes from the rounds of the fit itself. Nothing is advised that these rounds
do not support: where the gap no longer falls, more time is not the remedy.
"""

from __future__ import annotations

import math
from typing import Any

from corevec.models.certificate import Certificate

# Rounds and seconds that the last rounds predict are multiplied by this: the gap falls
# more slowly towards the end.
MARGIN = 1.5
# A gap that falls by less than this share in a round is not taken to fall.
LEAST_FALL = 0.05
# Above this gap a core set of four times the size is no remedy.
WIDE = 0.5
MOST_ROUNDS = 100
ALL_ROWS = "method='auto' lets all rows decide"


def advice(
    found: Certificate, history: list[dict[str, Any]], model: Any
) -> tuple[str, ...]:
    """Return at most two changes, the cheapest first; none where nothing is known."""
    reason = found.stopped_by
    said = []
    if reason in ("max_time", "max_iter"):
        said += _more_rounds(found, history, reason)
        if not said and getattr(model, "method", "auto") != "auto":
            said.append(ALL_ROWS)
    elif reason == "max_vectors":
        said += _more_vectors(found, model)
    elif reason == "memory_budget":
        # 30 numbers per row and problem, in half of the budget.
        size = 2 * 8 * 30 * found.n_rows * max(len(found.parts), 1)
        said.append(f"memory_budget={_rounded_up(size):.2g} would hold all rows")
    elif reason == "ball_epsilon":
        said.append("method__sampling='full' scans all rows for violators")
        said.append("method__ball_epsilon=None stops by the duality gap")
    elif reason == "interrupt" and hasattr(model, "warm_start"):
        said.append("fit again with warm_start=True to go on")
    met = _rounded_up(found.relative_gap, steps=(1, 2, 5, 10))
    if reason != "ball_epsilon" and met < 1:
        said.append(f"tol={met:g} is already met")
    return tuple(said[:2])


def _more_rounds(
    found: Certificate, history: list[dict[str, Any]], limit: str
) -> list[str]:
    """Return the limit that the last rounds predict, if the gap was falling."""
    told = [one for one in history if math.isfinite(one.get("gap", math.nan))]
    if len(told) < 2:
        return []
    before, last = told[-2], told[-1]
    tol, fall = found.tol, last["gap"] / max(before["gap"], 1e-300)
    if not (0 < fall < 1 - LEAST_FALL and tol > 0):
        return []
    rounds = math.ceil(MARGIN * math.log(tol / last["gap"]) / math.log(fall))
    if not 0 < rounds <= MOST_ROUNDS:
        return []
    took = max(last["seconds"] - before["seconds"], 1e-3)
    fell = f"the gap fell from {before['gap']:.0e} to {last['gap']:.0e}"
    if limit == "max_iter":
        return [f"max_iter={len(history) + rounds} (in the last round {fell})"]
    needed = _rounded_up(found.seconds + rounds * took)
    return [f"max_time={needed:g} (the last round took {took:.2g} s and {fell})"]


def _more_vectors(found: Certificate, model: Any) -> list[str]:
    """Return the methods that need no bound, or a larger bound."""
    method = getattr(model, "method", "auto")
    most = getattr(method, "max_vectors", None)
    said = []
    if method != "auto":
        said.append(ALL_ROWS)
    if most is not None and found.relative_gap < WIDE:
        said.append(f"method__max_vectors={min(4 * int(most), found.n_rows)}")
    elif most is None and hasattr(model, "memory_budget"):
        size = _rounded_up(4 * float(model.memory_budget))
        said.append(f"memory_budget={size:.2g} holds a core set of twice the size")
    return said


STEPS = (1, 1.5, 2, 3, 5, 7, 10)


def _rounded_up(value: float, steps: tuple[float, ...] = STEPS) -> float:
    """Return the next round number."""
    if not (math.isfinite(value) and value > 0):
        return math.inf
    unit = 10.0 ** math.floor(math.log10(value))
    return next(step * unit for step in steps if step * unit >= value * (1 - 1e-9))


__all__ = ["advice"]
