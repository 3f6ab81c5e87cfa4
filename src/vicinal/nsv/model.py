"""A machine with everything that answering a query early needs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from vicinal import engine
from vicinal.chunks import in_chunks
from vicinal.engine import Walking
from vicinal.kernels import Metric
from vicinal.nsv.embedding import Axes, Embedding, kernel_values
from vicinal.nsv.expansion import Expansion
from vicinal.nsv.regions import Regions
from vicinal.problem import Codes, Floats


class LinearFilter(NamedTuple):
    """Linear scores that answer the easy queries, in the frame of the expansion.

    `weights` has a row for each class, or one row for two classes, or none where there is no
    filter. A query is answered where the best score leads the second by more than the threshold of
    its class.
    """

    weights: Floats
    bias: Floats
    thresholds: Floats

    @classmethod
    def none(cls, n_features: int) -> Self:
        """Return the filter that answers nothing."""
        nothing = np.zeros(0, dtype=np.float32)
        return cls(np.zeros((0, n_features), dtype=np.float32), nothing, nothing)

    def scores(self, queries: Floats) -> tuple[Codes, Floats]:
        """Return the leader of each query and how far it leads."""
        return _lead(queries @ self.weights.T + self.bias)


class Sketch(NamedTuple):
    """A small machine whose scores stand for the large one's, believed as a filter's are.

    A score, of each class or of the second of two, is linear in the coordinates on a few axes, and
    in the kernel values with landmarks that live on these axes.
    """

    axes: Floats
    landmarks: Floats
    linear: Floats
    weights: Floats
    bias: Floats
    thresholds: Floats

    def scores(self, queries: Floats, kernel: Metric) -> tuple[Codes, Floats]:
        """Return the leader of each query and how far it leads."""

        def score(some: Floats) -> Floats:
            z = some @ self.axes.T
            values = kernel_values(z, self.landmarks, kernel)
            scores = z @ self.linear.T + values @ self.weights.T + self.bias
            return scores.astype(np.float32, copy=False)

        return _lead(in_chunks(score, queries, 4 * len(self.landmarks)))


def _lead(scores: Floats) -> tuple[Codes, Floats]:
    if scores.shape[1] == 1:
        scores = np.column_stack([np.zeros_like(scores), scores])
    second, best = np.partition(scores, -2, axis=1)[:, -2:].T
    return scores.argmax(axis=1).astype(np.int32), best - second


class Answers(NamedTuple):
    """What the engine says about some queries."""

    decisions: NDArray[np.float64]
    codes: Codes
    n_touched: Codes


class Level(NamedTuple):
    """A walk on some axes of an embedding: thresholds for each class as leader, after each step.

    There are as many rows again for each further region.
    The index has no axes, and each of its steps touches a block of vectors.
    """

    embedding: Embedding
    n_axes: int
    thresholds: Floats


@dataclass(frozen=True)
class NearestVectors:
    """A machine, the axes of its approximations, and the thresholds at which it stops.

    Parameters
    ----------
    expansion : Expansion
    machine : EarlyMachine
    linear : LinearFilter
    sketch : Sketch or None
    levels : tuple of Level
        Each at a higher cost than the last. What none of them answers is answered exactly.
    walking : Walking
    regions : Regions
        Whose thresholds count for a query.
    """

    expansion: Expansion
    machine: engine.EarlyMachine
    linear: LinearFilter
    sketch: Sketch | None
    levels: tuple[Level, ...]
    walking: Walking
    regions: Regions

    @classmethod
    def exact(cls, expansion: Expansion, linear: LinearFilter | None = None) -> Self:
        """Return the model that adds up all vectors for every query that the filter leaves."""
        n_features = expansion.vectors.shape[1]
        machine = expansion.machine(Axes.none(n_features))
        return cls(
            expansion,
            machine,
            linear or LinearFilter.none(n_features),
            None,
            (),
            Walking(),
            Regions.one(),
        )

    def answer(self, queries: Floats, *, n_threads: int) -> Answers:
        """Answer queries that are in the frame of the expansion."""
        regions = self.regions.of(queries) if self.regions.n_regions > 1 else None
        return Answers(
            *self.machine.answer(
                queries,
                self.levels,
                self.linear,
                self.walking,
                sketch=self.sketch,
                regions=regions,
                n_threads=n_threads,
            )
        )

    def answer_exactly(self, queries: Floats, *, n_threads: int) -> Answers:
        """Answer without the filter, and with all vectors."""
        exact = replace(
            self,
            linear=LinearFilter.none(queries.shape[1]),
            sketch=None,
            levels=(),
            regions=Regions.one(),
        )
        return exact.answer(queries, n_threads=n_threads)
