"""What an experiment asks the harness to measure."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

from benchmarks.records import digest_of


@dataclass(frozen=True)
class Case:
    """One fit to measure. `probe` replaces the fit by a measurement of its own."""

    solver: str
    dataset: str
    params: dict
    data_args: dict = field(default_factory=dict)
    seed: int = 0
    probe: Callable[..., dict] | None = None

    @cached_property
    def key(self):
        """Name the case: same key, same measurement."""
        parts = [self.solver, self.dataset, self.data_args, self.params, self.seed]
        return digest_of(parts)

    def __str__(self):
        given = {**self.data_args, **self.params, "seed": self.seed}
        shown = ", ".join(f"{name}={value}" for name, value in given.items())
        return f"{self.solver} on {self.dataset} ({shown})"
