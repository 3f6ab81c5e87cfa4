"""How a model is calibrated, and the evidence that it is calibrated on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from vicinal.engine import Walking
from vicinal.nsv.calibration import Rows, Traces, Truth, bounded_filter, paper_filter
from vicinal.nsv.embedding import BLOCK, Embedding
from vicinal.problem import Codes, Floats

AXES = (10, 20, 40, 80, 160)
LANDMARKS = (16, 32, 64, 128, 256)
"""The numbers of axes that are tried, principal ones and those of landmarks."""

LEAST_QUERIES = 500
"""A region has at least as many, and as many as it takes to see two changes of those allowed."""


@dataclass(frozen=True)
class Settings:
    """How a model is calibrated.

    Parameters
    ----------
    walking : Walking
    embedding : str
        "auto" takes principal axes, or the index where there are too few features; all are tried if
        there is a share to keep to.
    n_components, window, max_steps : int
    linear_filter, sketch : bool
    max_disagreement : float or None
        Share of changed labels to keep to; then numbers of axes and steps are chosen.
    n_calibration : int
        At most as many queries calibrate a machine.
    n_generated : int
        So many points between the classes widen the thresholds afterwards.
    n_regions : int
        Sets of thresholds, at most.
    """

    walking: Walking
    embedding: Embedding | Literal["auto"]
    n_components: int
    window: int
    max_steps: int
    linear_filter: bool
    sketch: bool
    max_disagreement: float | None
    n_calibration: int
    n_generated: int
    n_regions: int

    @property
    def least_queries(self) -> int:
        """Return how many queries a region must have."""
        return int(max(LEAST_QUERIES, 2 / self.max_disagreement if self.max_disagreement else 0))

    def drawn(self, queries: Floats, random_state: np.random.RandomState) -> Floats:
        """Return as many queries as calibrate a machine, in their order."""
        chosen = random_state.permutation(len(queries))[: self.n_calibration]
        return queries[np.sort(chosen)]

    def candidates(self, n_vectors: int, n_features: int) -> list[tuple[Embedding, int]]:
        """Return the embeddings and numbers of axes to try."""
        most: dict[Embedding, int] = {
            "pca": min(n_vectors, n_features) - 1,
            "kernel_pca": n_vectors - 1,
        }
        if self.max_disagreement is not None:
            tried: dict[Embedding, tuple[int, ...]] = {
                "pca": AXES,
                "kernel_pca": LANDMARKS,
                "index": (0,),
            }
        elif self.embedding == "auto":
            tried = {"pca": (self.n_components,)}
            if self.n_components > most["pca"]:
                tried = {"index": (0,)}
        else:
            tried = {self.embedding: (self.n_components * (self.embedding != "index"),)}
        return [
            (embedding, n)
            for embedding, counts in tried.items()
            if self.embedding in ("auto", embedding)
            for n in counts
            if n <= most.get(embedding, n_vectors // BLOCK)
        ]

    def thresholds(self, traces: Traces) -> Floats:
        """Return the thresholds that the traces ask for."""
        if self.max_disagreement is None:
            return traces.paper_thresholds(self.window)
        return traces.bounded_thresholds(self.max_disagreement)

    def filter_thresholds(self, leaders: Codes, leads: Floats, truth: Truth, part: float) -> Floats:
        """Return the thresholds of scores that may make this part of the changes."""
        if self.max_disagreement is None:
            return paper_filter(leaders, leads, truth)
        return bounded_filter(leaders, leads, truth, part * self.max_disagreement)


@dataclass(frozen=True)
class Evidence:
    """Representative queries, in the order in which they came, and the truth about them."""

    queries: Floats
    truth: Truth

    @property
    def halves(self) -> tuple[Rows, Rows]:
        """Rows of either half: of each class the first and third quarter, the second and fourth.

        Where data drift, a quarter tells more about the next than a random half about the other.
        """
        winners = self.truth.winners
        quarter = np.empty(len(winners), dtype=np.intp)
        for code in range(self.truth.n_classes):
            rows = np.flatnonzero(winners == code)
            quarter[rows] = 4 * np.arange(len(rows)) // max(len(rows), 1)
        return np.flatnonzero(quarter % 2 == 0), np.flatnonzero(quarter % 2)


def folds(rows: Rows) -> Iterator[tuple[Rows, Rows]]:
    """Yield rows that thresholds are gathered on, and others that they are tried on."""
    yield rows[::2], rows[1::2]
    yield rows[1::2], rows[::2]
