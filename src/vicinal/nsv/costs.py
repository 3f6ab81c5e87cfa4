"""What answering a query costs, so that the cheapest way can be chosen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from vicinal.nsv.calibration import Traces
from vicinal.nsv.embedding import BLOCK, Embedding
from vicinal.nsv.expansion import Expansion
from vicinal.nsv.model import LinearFilter, Sketch
from vicinal.problem import Floats


@dataclass(frozen=True)
class Walk:
    """One level that has been tried: its traces, and where each query stops, -1 for nowhere."""

    embedding: Embedding
    n_axes: int
    n_steps: int
    traces: Traces
    stops: NDArray[np.intp]

    @classmethod
    def of(cls, embedding: Embedding, n_axes: int, traces: Traces, thresholds: Floats) -> Self:
        """Walk as far as some thresholds ask for."""
        n_steps = traces.leaders.shape[1] - 1
        return cls(embedding, n_axes, n_steps, traces, traces.steps(thresholds))


class Costs:
    """What a query costs, in multiply-adds of a dense product; about, as measured."""

    VALUE = 24.0
    """A kernel value, whatever its dot product costs."""

    def __init__(self, expansion: Expansion) -> None:
        self.m, self.d = expansion.vectors.shape
        self.n_classes = expansion.n_classes
        self.a_value = self.VALUE + self.n_classes
        self.exact = self.m * (self.d + self.a_value)
        # The engine pads the blocks of each class to a multiple of sixteen.
        self.n_heads = float((BLOCK * -(-expansion.class_sv // BLOCK**2)).sum())

    def of_start(self, walk: Walk) -> float:
        """Return the cost of the approximations."""
        n, n_pairs = walk.n_axes, self.n_classes * (self.n_classes - 1) / 2
        if walk.embedding == "pca":
            return n * self.d + self.m * (n + self.a_value)
        if walk.embedding == "index":
            return 2000.0 + self.n_heads * (2 * self.d + self.a_value)
        start = 2000.0 + n * (self.d + 24.0) + n**2 + (n + 50.0) * n_pairs
        return start + self.m * (n + 20.0) if walk.n_steps else start

    def of_steps(self, walk: Walk, n_steps: NDArray[np.intp]) -> float:
        """Return the cost of all steps of some queries."""
        rank = 13.0 * self.m
        touch = 2000.0 + 100.0 * self.n_classes + 3.0 * self.d + self.m / 2
        if walk.embedding == "index":
            rank = self.m / 2
            touch = 3500.0 + 150.0 * self.n_classes + 35.0 * self.d + self.m / 8
        return float(n_steps.sum() * touch + np.count_nonzero(n_steps) * rank)

    def of_sketch(self, sketch: Sketch) -> float:
        """Return the cost of the scores of a sketch."""
        n, n_axes = sketch.landmarks.shape
        return n_axes * self.d + n * (n_axes + self.VALUE + len(sketch.bias))

    def of_filter(self, linear: LinearFilter) -> float:
        """Return the cost of the linear scores of a query."""
        return float(linear.weights.size)

    def of_levels(self, levels: Sequence[Walk], left_open: NDArray[np.bool_]) -> float:
        """Return the mean cost of a query, whichever level answers it."""
        cost, open_ = 0.0, left_open
        for walk in levels:
            stops = walk.stops[open_]
            cost += len(stops) * self.of_start(walk)
            cost += self.of_steps(walk, np.where(stops >= 0, stops, walk.n_steps))
            open_ = open_ & (walk.stops < 0)
        return float(cost + open_.sum() * self.exact) / len(left_open)
