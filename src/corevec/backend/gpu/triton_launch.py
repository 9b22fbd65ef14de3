"""A scan of rows on a GPU: launching the kernels of `triton_scan`.

What a scan found is copied to the host at once, rows and numbers together.
"""

# mypy: ignore-errors
# As in `triton_times`, whose launches these are.

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from corevec.backend.gpu.triton_scan import (
    GROUP,
    SUMS,
    THREADS,
    few_scans,
    given_scans,
    many_scans,
)
from corevec.backend.gpu.triton_times import FEW_COLUMNS, ready, shares

if TYPE_CHECKING:
    from corevec.backend.gpu.kernels import Functions

_GIVEN_ROWS = 512  # of a program, where the values are given


Found = list[tuple[np.ndarray, np.ndarray, np.ndarray]]


def answers(
    functions: Functions,
    X: torch.Tensor,
    mapping: torch.Tensor,
    numbers: torch.Tensor,
    asked: list,
) -> Found:
    """Return (sums, violations, rows) for each of `asked` (`kernels.Asked`).

    Rows and basis as `triton_times.ready` takes them; `numbers` of the rows increase.
    """
    found, (profile, basis, coef, intercept) = [], functions
    run = few_scans if X.shape[1] <= FEW_COLUMNS else many_scans
    for start, stop in shares(X.shape[1], coef.shape[1]):
        some = [one for one in asked if start <= one.column < stop]
        if not some:
            continue
        few = coef[:, start:stop]
        launch = ready(profile, (X, None), basis, few, mapping)
        work = _Work(some, intercept, numbers, launch.rows, start)
        run[launch.grid](*launch.arguments, *work.arguments, **launch.constants)
        found.append((some, work.found()))
    return _to_host(found, asked)


def answers_of(
    values: torch.Tensor, intercept: np.ndarray, numbers: torch.Tensor, asked: list
) -> Found:
    """Return the same for given values, a column of them for each output."""
    n, width = values.shape
    work = _Work(asked, intercept, numbers, _GIVEN_ROWS, 0)
    grid = (-(-n // _GIVEN_ROWS),)
    given_scans[grid](values, n, width, *work.arguments, ROWS=_GIVEN_ROWS, num_warps=4)
    return _to_host([(asked, work.found())], asked)


class _Work:
    """What one launch reads and writes for its requests."""

    def __init__(self, asked, intercept, numbers, tile, first):
        self.asked, self.numbers, self.tile = asked, numbers, tile
        self.trials = max(len(one.trials) for one in asked)
        tiles, size = -(-len(numbers) // tile), len(asked)
        kind = {"dtype": torch.float64, "device": numbers.device}
        self.violations = torch.empty((size, tiles * tile), **kind)
        self.maxima = torch.empty((size, tiles * tile // GROUP.value), **kind)
        self.sums = torch.empty((size, SUMS.value + self.trials, tiles), **kind)
        self.terms = [_terms(one, numbers) for one in asked]  # kept until the end
        table = np.array(
            [
                [one.column - first, *_addresses(terms)]
                for one, terms in zip(asked, self.terms, strict=True)
            ],
            dtype=np.int64,
        )
        settings = np.array([self._settings(one, intercept) for one in asked])
        # In one copy; of memory that is not locked CUDA has taken it on return. The
        # settings, whose number is even, come first: then both are at multiples of 16
        # bytes. Triton compiles once more for a pointer that is not.
        both = np.concatenate([settings.ravel().view(np.int64), table.ravel()])
        there = torch.from_numpy(both).to(numbers.device, non_blocking=True)
        self.settings = there[: settings.size].view(torch.float64)
        self.table = there[settings.size :]

    def _settings(self, one, intercept):
        trials = list(one.trials) + [one.trials[0]] * (self.trials - len(one.trials))
        pairs = [number for pair in trials for number in pair]
        return [float(intercept[one.column]), float(one.has_offset), *pairs]

    @property
    def arguments(self):
        """The kernels' arguments from `table` to `trials`."""
        made = self.table, self.settings, self.violations, self.maxima, self.sums
        return *made, len(self.asked), self.trials

    def found(self):
        """Return for each request its sums, its worst violations and their rows."""
        totals = self.sums.sum(dim=2)
        parts = []
        for place, one in enumerate(self.asked):
            own, count = self.violations[place], min(one.n_worst, len(self.numbers))
            at = _worst(own, self.maxima[place], count, self.tile)
            rows = self.numbers[at.clamp(max=len(self.numbers) - 1)]  # -inf beyond
            parts.append((totals[place], own[at], rows.view(torch.float64)))
        return parts


def _terms(one, numbers):
    """Return sign, omega, target and a mark for rows that are left out."""
    kind, n = torch.float64, len(numbers)
    if one.left_out is None:
        marks = torch.zeros((), dtype=torch.int8, device=numbers.device).expand(n)
    else:
        few = torch.from_numpy(np.ascontiguousarray(one.left_out)).to(numbers.device)
        at = torch.searchsorted(numbers, few).clip(max=n - 1)
        at = torch.where(numbers[at] == few, at, n)  # beyond the rows: not among them
        marks = torch.zeros(n + 1, dtype=torch.int8, device=numbers.device)
        marks[at] = 1
    return one.sign.to(kind), one.omega.to(kind), one.target.to(kind), marks


def _addresses(terms):
    return [number for one in terms for number in (one.data_ptr(), one.stride(0))]


def _worst(violations, maxima, count, tile):
    """Return the places of the `count` largest violations, exactly, in any order.

    They are in the `count` groups whose largest are largest: each of these has a row
    at least as bad as any row of another group.
    """
    if 4 * count > len(maxima):
        return torch.topk(violations, count, sorted=False).indices
    groups = torch.topk(maxima, count, sorted=False).indices
    layers, each = max(1, tile // THREADS.value), tile // GROUP.value
    near = GROUP.value // layers  # rows of a group in each layer
    tiles, groups = groups // each, groups % each
    some = violations.view(-1, layers, each, near)[tiles, :, groups, :]
    best = torch.topk(some.flatten(), count, sorted=False).indices
    group, rest = best // GROUP.value, best % GROUP.value
    layer = tiles[group] * layers + rest // near
    return (layer * each + groups[group]) * near + rest % near


def _to_host(found, asked):
    """Return (sums, violations, rows) for each of `asked`, on the host: one copy."""
    places = {id(one): place for place, one in enumerate(asked)}
    order = [places[id(one)] for some, _ in found for one in some]
    parts = [part for _, parts in found for three in parts for part in three]
    together = torch.cat(parts).cpu().numpy()
    cut = np.split(together, np.cumsum([len(part) for part in parts])[:-1])
    result = [None] * len(asked)
    for number, place in enumerate(order):
        sums, violations, rows = cut[3 * number : 3 * number + 3]
        result[place] = sums, violations, rows.view(np.int64)
    return result
