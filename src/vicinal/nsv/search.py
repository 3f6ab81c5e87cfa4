"""Calibration of a model: with settings as given, or with those that keep to a share of changes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vicinal import engine
from vicinal.engine import Walking
from vicinal.nsv.calibration import (
    Rows,
    Traces,
    Truth,
    bounded_filter,
    paper_filter,
    train_filter,
)
from vicinal.nsv.expansion import Expansion
from vicinal.nsv.model import Level, LinearFilter, NearestVectors, principal_axes
from vicinal.problem import Codes, Floats

AXES = (10, 20, 40, 80, 160)
"""The numbers of axes that are tried."""

MOST_LEVELS = 3

FILTERED = 0.25
"""The part of the changes that the filter may make; walks make fewer than they are allowed."""


@dataclass(frozen=True)
class Settings:
    """How a model is calibrated.

    Parameters
    ----------
    walking : Walking
    n_components, window, max_steps : int
    linear_filter : bool
    max_disagreement : float or None
        Share of changed labels to keep to; then numbers of axes and steps are chosen.
    """

    walking: Walking
    n_components: int
    window: int
    max_steps: int
    linear_filter: bool
    max_disagreement: float | None

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
        What was chosen, and the labels that it changes: counted by halves, with the thresholds of
        one half of the queries on the other.
    """
    queries = queries[random_state.permutation(len(queries))]
    exact = NearestVectors.exact(expansion).machine
    evidence = Evidence(queries, Truth.of(exact, queries, n_threads=n_threads))
    linear, left_open, disagreement = _filter(evidence, settings, random_state)
    machine, walks = _walks(expansion, evidence, settings, random_state, n_threads)
    chosen = tuple(walks)
    if settings.max_disagreement is not None:
        chosen = _cheapest(walks, left_open, _Costs(expansion))
    for walk in chosen:
        disagreement += _disagreement(walk.traces, left_open, settings)
    report = {
        "n_queries": len(queries),
        "answered_by_filter": float(1 - left_open.mean()),
        "n_axes": [walk.n_axes for walk in chosen],
        "n_steps": [walk.n_steps for walk in chosen],
        "disagreement": disagreement,
    }
    levels = tuple(Level(walk.n_axes, settings.thresholds(walk.traces)) for walk in chosen)
    return NearestVectors(expansion, machine, linear, levels, settings.walking), report


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
) -> tuple[engine.EarlyMachine, list[Walk]]:
    """Return a machine and the walks to choose from: on few axes to many, short ones first."""
    m, d = expansion.vectors.shape
    wanted = (settings.n_components,) if settings.max_disagreement is None else AXES
    counts = [n for n in wanted if n < min(m, d)]
    if not counts:
        return NearestVectors.exact(expansion).machine, []
    seed = random_state.randint(2**31 - 1)
    machine = expansion.machine(principal_axes(expansion.vectors, max(counts), seed))
    longest = min(settings.max_steps, m)
    walks = []
    for n_axes in counts:
        paths = machine.trace(
            evidence.queries, n_axes, longest, settings.walking, n_threads=n_threads
        )
        traces = Traces(*paths, evidence.truth)
        lengths = {longest} if settings.max_disagreement is None else {0, min(16, longest), longest}
        for n_steps in sorted(lengths):
            part = traces.shortened(n_steps)
            walks.append(Walk(n_axes, n_steps, part, part.steps(settings.thresholds(part))))
    return machine, walks


def _cheapest(
    walks: Sequence[Walk], left_open: NDArray[np.bool_], costs: _Costs
) -> tuple[Walk, ...]:
    """Return the cheapest levels, which may be none: more and more axes, steps in the last only."""
    best: tuple[Walk, ...] = ()
    least = float(left_open.mean() * costs.exact)
    for n_levels in range(1, MOST_LEVELS + 1):
        for levels in combinations(walks, n_levels):
            if any(walk.n_steps for walk in levels[:-1]):
                continue
            if any(a.n_axes >= b.n_axes for a, b in pairwise(levels)):
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


class _Costs:
    """What a query costs, in multiply-adds of a dense product; about, as measured."""

    def __init__(self, expansion: Expansion) -> None:
        self.m, self.d = expansion.vectors.shape
        self.a_value = 24.0 + expansion.n_classes
        self.exact = self.m * (self.d + self.a_value)
        self.rank = 13.0 * self.m
        self.touch = 2000.0 + 100.0 * expansion.n_classes + 3.0 * self.d + self.m / 2

    def of_levels(self, levels: Sequence[Walk], left_open: NDArray[np.bool_]) -> float:
        """Return the mean cost of a query, whichever level answers it."""
        cost, open_ = 0.0, left_open
        for walk in levels:
            stops = walk.stops[open_]
            start = walk.n_axes * self.d + self.m * (walk.n_axes + self.a_value)
            walked = np.where(stops >= 0, stops, walk.n_steps)
            cost += len(stops) * start + walked.sum() * self.touch
            cost += np.count_nonzero(walked) * self.rank
            open_ = open_ & (walk.stops < 0)
        return float(cost + open_.sum() * self.exact) / len(left_open)
