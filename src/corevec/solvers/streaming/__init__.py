"""Balls around the rows of a stream (StreamSVM)."""

from corevec.solvers.streaming.ball_bound import BallBound, loosest_of
from corevec.solvers.streaming.certificate import best_scale, gap_of
from corevec.solvers.streaming.geometry import Balls, Form, UnusableRow, enclosed
from corevec.solvers.streaming.kernel_stream import KernelStream
from corevec.solvers.streaming.reservoir import RowSample
from corevec.solvers.streaming.stream import (
    BallStream,
    LinearStream,
    Signs,
    Whole,
    stacked,
)

__all__ = [
    "BallBound",
    "BallStream",
    "Balls",
    "Form",
    "KernelStream",
    "LinearStream",
    "RowSample",
    "Signs",
    "UnusableRow",
    "Whole",
    "best_scale",
    "enclosed",
    "gap_of",
    "loosest_of",
    "stacked",
]
