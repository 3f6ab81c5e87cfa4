"""Calibration of a model: with settings as given, or with those that keep to a share of changes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from vicinal.engine import Walking
from vicinal.nsv.calibration import (
    Rows,
    Traces,
    Truth,
    bounded_filter,
    paper_filter,
    train_filter,
)
from vicinal.nsv.embedding import BLOCK, Axes, Embedding, principal_axes, spread_landmarks
from vicinal.nsv.expansion import Expansion
from vicinal.nsv.generation import between_classes, widened
from vicinal.nsv.model import Level, LinearFilter, NearestVectors
from vicinal.nsv.regions import Regions
from vicinal.problem import Codes, Floats

AXES = (10, 20, 40, 80, 160)
LANDMARKS = (16, 32, 64, 128, 256)
"""The numbers of axes that are tried, principal ones and those of landmarks."""

MOST_LEVELS = 3

LEAST_QUERIES = 500
"""A region has at least as many, and as many as it takes to see two changes of those allowed."""

FILTERED = 0.25
"""The part of the changes that the filter may make; walks make fewer than they are allowed."""


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
    linear_filter : bool
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
    max_disagreement: float | None
    n_calibration: int
    n_generated: int
    n_regions: int

    @property
    def least_queries(self) -> int:
        """Return how many queries a region must have."""
        return int(max(LEAST_QUERIES, 2 / self.max_disagreement if self.max_disagreement else 0))

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

    def filter_thresholds(self, leaders: Codes, leads: Floats, truth: Truth) -> Floats:
        """Return the thresholds of a linear filter."""
        if self.max_disagreement is None:
            return paper_filter(leaders, leads, truth)
        return bounded_filter(leaders, leads, truth, FILTERED * self.max_disagreement)


@dataclass(frozen=True)
class Evidence:
    """Representative queries in random order, and the truth about them."""

    queries: Floats
    truth: Truth

    @property
    def halves(self) -> tuple[Rows, Rows]:
        """Rows of either half of the queries."""
        rows = np.arange(len(self.queries))
        return rows[::2], rows[1::2]


def folds(rows: Rows) -> Iterator[tuple[Rows, Rows]]:
    """Yield rows that thresholds are gathered on, and others that they are tried on."""
    yield rows[::2], rows[1::2]
    yield rows[1::2], rows[::2]


@dataclass(frozen=True)
class Walk:
    """One level that has been tried: its traces, and where each query stops."""

    embedding: Embedding
    n_axes: int
    n_steps: int
    traces: Traces
    stops: NDArray[np.intp]


def calibrate(
    expansion: Expansion,
    queries: Floats,
    settings: Settings,
    *,
    random_state: np.random.RandomState,
    n_threads: int,
) -> tuple[NearestVectors, dict[str, Any]]:
    """Gather thresholds for an expansion over representative queries.

    Returns
    -------
    model : NearestVectors
    report : dict
        What was chosen, what a query costs as a share of the exact sums, about, and the share of
        labels that change: counted by halves, with the thresholds of one half of the queries on
        the other.
    """
    queries = queries[random_state.permutation(len(queries))[: settings.n_calibration]]
    exact = NearestVectors.exact(expansion).machine
    evidence = Evidence(queries, Truth.of(exact, queries, n_threads=n_threads))
    linear, left_open, disagreement = _filter(evidence, settings, random_state)
    axes, walks = _walks(expansion, evidence, settings, random_state, n_threads)
    chosen = tuple(walks)
    costs = Costs(expansion)
    if settings.max_disagreement is not None:
        chosen = _cheapest(walks, left_open, costs)
    needed = [
        max((walk.n_axes for walk in chosen if walk.embedding == embedding), default=0)
        for embedding in ("pca", "kernel_pca")
    ]
    machine = expansion.machine(axes.first(*needed))
    regions = Regions.one()
    if chosen:
        in_vain = np.maximum(chosen[-1].traces.excess(), 0.0).mean(axis=1)
        regions = Regions.grow(
            queries, in_vain, settings.n_regions, settings.least_queries, random_state
        )
    parts = regions.rows(queries)
    for walk in chosen:
        for rows in parts:
            changed = _disagreement(walk.traces[rows], left_open[rows], settings)
            disagreement += changed * len(rows) / len(queries)
    report = {
        "n_queries": len(queries),
        "answered_by_filter": float(1 - left_open.mean()),
        "embeddings": [walk.embedding for walk in chosen],
        "n_axes": [walk.n_axes for walk in chosen],
        "n_steps": [walk.n_steps for walk in chosen],
        "n_regions": regions.n_regions,
        "disagreement": disagreement,
        "cost": (costs.of_filter(linear) + costs.of_levels(chosen, left_open)) / costs.exact,
    }
    levels = tuple(
        Level(
            walk.embedding,
            walk.n_axes,
            np.concatenate([settings.thresholds(walk.traces[rows]) for rows in parts]),
        )
        for walk in chosen
    )
    model = NearestVectors(expansion, machine, linear, levels, settings.walking, regions)
    if settings.n_generated:
        points = between_classes(
            model, queries, settings.n_generated, random_state=random_state, n_threads=n_threads
        )
        model = widened(model, points, settings, n_threads=n_threads)
    return model, report


def _filter(
    evidence: Evidence, settings: Settings, random_state: np.random.RandomState
) -> tuple[LinearFilter, NDArray[np.bool_], float]:
    """Return the filter, the queries that it leaves open, and the share of labels it changes.

    It is trained on one half of the queries, which it then knows too well to be judged by.
    """
    queries, truth = evidence.queries, evidence.truth
    known, fresh = evidence.halves
    linear = LinearFilter.none(queries.shape[1])
    if settings.linear_filter:
        linear = train_filter(
            queries, truth.winners, truth.n_classes, known, random_state=random_state
        )
    if not len(linear.weights):
        return linear, np.ones(len(queries), dtype=bool), 0.0
    leaders, leads = linear.scores(queries)

    def answered(gathered: Rows, tried: Rows) -> NDArray[np.bool_]:
        seen = leaders[gathered], leads[gathered], truth[gathered]
        return leads[tried] > settings.filter_thresholds(*seen)[leaders[tried]]

    wrong = leaders != truth.winners
    changes = sum(int((answered(*fold) & wrong[fold[1]]).sum()) for fold in folds(fresh))
    seen = leaders[fresh], leads[fresh], truth[fresh]
    thresholds = settings.filter_thresholds(*seen)
    if settings.max_disagreement is not None:
        of_all = settings.filter_thresholds(leaders, leads, truth)
        thresholds = np.maximum(thresholds, of_all)
    linear = linear._replace(thresholds=thresholds)
    return linear, leads <= linear.thresholds[leaders], changes / len(fresh)


def _walks(
    expansion: Expansion,
    evidence: Evidence,
    settings: Settings,
    random_state: np.random.RandomState,
    n_threads: int,
) -> tuple[Axes, list[Walk]]:
    """Return axes and the walks to choose from."""
    m, d = expansion.vectors.shape
    candidates = settings.candidates(m, d)
    axes = _axes(expansion, candidates, random_state)
    machine = expansion.machine(axes)
    n_blocks = int((-(-expansion.class_sv // BLOCK)).sum())
    walks = []
    for embedding, n_axes in candidates:
        if embedding == "kernel_pca" and n_axes > len(axes.landmarks):
            continue
        longest = min(settings.max_steps, n_blocks if embedding == "index" else m)
        lengths = {0, min(16, longest), longest}
        if settings.max_disagreement is None:
            lengths = {longest}
        elif embedding == "kernel_pca":
            lengths = {0}  # an order would cost as many times more as there are vectors
        longest = max(lengths)
        paths = machine.trace(
            evidence.queries, embedding, n_axes, longest, settings.walking, n_threads=n_threads
        )
        traces = Traces(*paths, evidence.truth)
        for n_steps in sorted(lengths):
            part = traces.shortened(n_steps)
            stops = part.steps(settings.thresholds(part))
            walks.append(Walk(embedding, n_axes, n_steps, part, stops))
    return axes, walks


def _axes(
    expansion: Expansion,
    candidates: Sequence[tuple[Embedding, int]],
    random_state: np.random.RandomState,
) -> Axes:
    """Return as many axes as some candidates need."""
    axes = Axes.none(expansion.vectors.shape[1])
    n_principal = max((n for embedding, n in candidates if embedding == "pca"), default=0)
    n_landmarks = max((n for embedding, n in candidates if embedding == "kernel_pca"), default=0)
    if n_principal:
        seed = random_state.randint(2**31 - 1)
        axes = axes._replace(principal=principal_axes(expansion.vectors, n_principal, seed))
    if n_landmarks:
        landmarks, basis = spread_landmarks(
            expansion.vectors, expansion.kernel, n_landmarks, random_state
        )
        axes = axes._replace(landmarks=landmarks, basis=basis)
    return axes


def _cheapest(
    walks: Sequence[Walk], left_open: NDArray[np.bool_], costs: Costs
) -> tuple[Walk, ...]:
    """Return the cheapest levels, which may be none: each costs more, steps in the last only."""
    walks = sorted(walks, key=costs.of_start)
    best: tuple[Walk, ...] = ()
    least = float(left_open.mean() * costs.exact)
    for n_levels in range(1, MOST_LEVELS + 1):
        for levels in combinations(walks, n_levels):
            if any(walk.n_steps for walk in levels[:-1]):
                continue
            if any(costs.of_start(a) >= costs.of_start(b) for a, b in pairwise(levels)):
                continue
            cost = costs.of_levels(levels, left_open)
            if cost < least:
                best, least = levels, cost
    return best


def _disagreement(traces: Traces, left_open: NDArray[np.bool_], settings: Settings) -> float:
    """Return the share of labels that a walk changes with thresholds of queries held out."""
    changes = 0
    for gathered, tried in folds(np.arange(len(left_open))):
        held_out = traces[tried[left_open[tried]]]
        steps = held_out.steps(settings.thresholds(traces[gathered]))
        changes += int(held_out.changed(steps).sum())
    return changes / len(left_open)


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
