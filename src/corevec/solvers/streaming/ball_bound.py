"""What is proved about a ball around a stream, in its own words.

A ball says nothing of the machine that predicts: the objective depends on ``|w|^2``,
which is small beside the radius. `corevec.certify` measures the machine, on rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from corevec.models.certificate_text import ball_card, ball_facts


@dataclass(frozen=True)
class BallBound:
    """How near the ball of a stream is to the smallest one around the rows seen.

    It is no certificate of the machine that predicts: a ball of nearly the smallest
    radius may belong to a machine that is far from optimal.

    Attributes
    ----------
    radius : float
        Every row seen, lifted, lies within this of the centre.
    lower_radius : float
        The smallest such ball is not smaller than this.
    n_rows : int
        Rows seen, those of weight 0 apart.
    seconds : float
        Time spent on learning them.
    interrupted : bool
        Whether Ctrl-C or a callback ended the stream before its last block.
    parts : tuple of BallBound
        One per class where there are more than two; this one is then the worst.
    """

    radius: float
    lower_radius: float
    n_rows: int
    seconds: float = 0.0
    interrupted: bool = False
    parts: tuple[BallBound, ...] = ()

    @property
    def factor(self) -> float:
        """What the ball's radius is at most, in radii of the smallest ball: proved."""
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
