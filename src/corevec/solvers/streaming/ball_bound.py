"""The bound of the radius of a ball around a stream.

It is no certificate of the machine that predicts: the objective depends on ``|w|^2``,
which is small beside the radius. `corevec.certify` measures the machine, on rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from corevec.models.certificate_text import ball_card, ball_facts


@dataclass(frozen=True)
class BallBound:
    """The radius of a stream's ball, and a lower bound of the smallest radius.

    It is no certificate of the machine that predicts: a ball of nearly the smallest
    radius may belong to a machine that is far from optimal.

    Attributes
    ----------
    radius : float
        Every lifted row seen lies within this distance of the centre.
    lower_radius : float
        A lower bound of the radius of the smallest such ball.
    n_rows : int
        Number of rows seen, without those of weight 0.
    seconds : float
        Training time.
    interrupted : bool
        Whether Ctrl-C or a callback ended the stream before its last block.
    parts : tuple of BallBound
        One per class where there are more than two; this one is then the loosest.
    """

    radius: float
    lower_radius: float
    n_rows: int
    seconds: float = 0.0
    interrupted: bool = False
    parts: tuple[BallBound, ...] = ()

    @property
    def factor(self) -> float:
        """A proved upper bound of the ball's radius, in radii of the smallest ball."""
        if self.lower_radius > 0:
            return self.radius / self.lower_radius
        return 1.0 if self.radius == 0 else float(np.inf)

    def __str__(self) -> str:
        lines = [f"  {name:<14}{value}" for name, value in ball_facts(self)]
        return "\n".join(["Bound of a ball, not of the machine that predicts:", *lines])

    def _repr_html_(self) -> str:
        """Return the bound as a small card, for notebooks."""
        return ball_card(self)


def loosest_of(parts: list[BallBound]) -> BallBound:
    """Return the bound of several balls: that of the one with the largest factor."""
    if len(parts) == 1:
        return parts[0]
    return replace(max(parts, key=lambda part: part.factor), parts=tuple(parts))


__all__ = ["BallBound", "loosest_of"]
