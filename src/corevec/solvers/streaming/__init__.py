"""One pass over a stream: a core set with a summary, and balls (StreamSVM)."""

from corevec.solvers.streaming.ball_bound import BallBound, loosest_of
from corevec.solvers.streaming.certificate import best_scale, gap_of
from corevec.solvers.streaming.core_stream import CoreForm, CoreStream, Targets
from corevec.solvers.streaming.geometry import Balls, Form, UnusableRow, enclosed
from corevec.solvers.streaming.kernel_stream import KernelStream
from corevec.solvers.streaming.objective_bound import (
    ObjectiveBound,
    SeenRows,
    bound_of,
    excess_of_mean,
)
from corevec.solvers.streaming.reservoir import RowSample
from corevec.solvers.streaming.squared_stream import SquaredStream
from corevec.solvers.streaming.stream import (
    BallStream,
    LinearStream,
    Signs,
    Whole,
    stacked,
)
from corevec.solvers.streaming.summary import Summary

__all__ = [
    "BallBound",
    "BallStream",
    "Balls",
    "CoreForm",
    "CoreStream",
    "Form",
    "KernelStream",
    "LinearStream",
    "ObjectiveBound",
    "RowSample",
    "SeenRows",
    "Signs",
    "SquaredStream",
    "Summary",
    "Targets",
    "UnusableRow",
    "Whole",
    "best_scale",
    "bound_of",
    "enclosed",
    "excess_of_mean",
    "gap_of",
    "loosest_of",
    "stacked",
]
