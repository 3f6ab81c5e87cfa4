"""Calibration of a model: with settings as given, or with those that keep to a share of changes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
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
from vicinal.nsv.model import LinearFilter, NearestVectors, principal_axes
from vicinal.problem import Codes, Floats

AXES = (10, 20, 40, 60, 80, 120)
STEPS = (0, 4, 16, 64)
"""The numbers of axes and the longest walks that are tried."""


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
        return bounded_filter(leaders, leads, truth, self.max_disagreement / 2)


@dataclass(frozen=True)
class Evidence:
    """Representative queries and the truth about them."""

    queries: Floats
    truth: Truth
    order: Rows

    def folds(self) -> Iterator[tuple[Rows, Rows]]:
        """Yield rows that thresholds are gathered on, and others that they are tried on."""
        halves = self.order[::2], self.order[1::2]
        yield halves
        yield halves[::-1]


@dataclass(frozen=True)
class Candidate:
    """A way to walk, with the traces of all queries that take it."""

    machine: engine.EarlyMachine
    n_axes: int
    n_steps: int
    traces: Traces
    cost: float


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
    exact = NearestVectors.exact(expansion).machine
    truth = Truth.of(exact, queries, n_threads=n_threads)
    evidence = Evidence(queries, truth, random_state.permutation(len(queries)))
    linear, left_open, filter_changes = _filter(evidence, settings, random_state)
    report: dict[str, Any] = {
        "n_queries": len(queries),
        "answered_by_filter": float(1 - left_open.mean()),
        "n_axes": 0,
        "max_steps": 0,
        "disagreement": filter_changes / len(queries),
    }
    candidates = _candidates(expansion, evidence, left_open, settings, random_state, n_threads)
    best = min(candidates, key=lambda candidate: candidate.cost, default=None)
    if best is None or (
        settings.max_disagreement is not None and best.cost >= _Costs(expansion, 0).exact
    ):
        return NearestVectors.exact(expansion, linear), report

    traces = best.traces.shortened(best.n_steps)
    walk_changes = 0
    for gathered, tried in evidence.folds():
        held_out = traces[tried[left_open[tried]]]
        steps = held_out.steps(settings.thresholds(traces[gathered]))
        walk_changes += int(held_out.changed(steps).sum())
    report["n_axes"], report["max_steps"] = best.n_axes, best.n_steps
    report["disagreement"] += walk_changes / len(queries)
    thresholds = np.ascontiguousarray(settings.thresholds(traces))
    return NearestVectors(expansion, best.machine, linear, thresholds, settings.walking), report


def _filter(
    evidence: Evidence, settings: Settings, random_state: np.random.RandomState
) -> tuple[LinearFilter, NDArray[np.bool_], int]:
    """Return the filter, the queries that it leaves open, and how many labels it changes."""
    queries, truth = evidence.queries, evidence.truth
    linear = LinearFilter.none(queries.shape[1])
    if settings.linear_filter:
        linear = train_filter(queries, truth.winners, truth.n_classes, random_state=random_state)
    if not len(linear.weights):
        return linear, np.ones(len(queries), dtype=bool), 0
    leaders, leads = linear.scores(queries)

    def answered(gathered: Rows, tried: Rows) -> NDArray[np.bool_]:
        seen = leaders[gathered], leads[gathered], truth[gathered]
        return leads[tried] > settings.filter_thresholds(*seen)[leaders[tried]]

    wrong = leaders != truth.winners
    changes = sum(int((answered(*fold) & wrong[fold[1]]).sum()) for fold in evidence.folds())
    linear = linear._replace(thresholds=settings.filter_thresholds(leaders, leads, truth))
    return linear, leads <= linear.thresholds[leaders], changes


def _candidates(
    expansion: Expansion,
    evidence: Evidence,
    left_open: NDArray[np.bool_],
    settings: Settings,
    random_state: np.random.RandomState,
    n_threads: int,
) -> Iterator[Candidate]:
    m, d = expansion.vectors.shape
    chosen = settings.max_disagreement is not None
    counts = [n for n in (AXES if chosen else (settings.n_components,)) if n < min(m, d)]
    if not counts:
        return
    axes = principal_axes(expansion.vectors, max(counts), random_state.randint(2**31 - 1))
    longest = min(settings.max_steps, m)
    lengths = [*(n for n in STEPS if n < longest), longest] if chosen else [longest]
    cheapest = _Costs(expansion, 0).exact
    for n_axes in counts:
        costs = _Costs(expansion, n_axes)
        if chosen and costs.start > cheapest:
            return  # dearer before its first step than another in all
        machine = expansion.machine(np.ascontiguousarray(axes[:n_axes]))
        paths = machine.trace(evidence.queries, longest, settings.walking, n_threads=n_threads)
        traces = Traces(*paths, evidence.truth)
        steps = traces.steps(settings.thresholds(traces))[left_open]
        for n_steps in lengths:
            cost = costs.of_walks(np.where(steps <= n_steps, steps, -1), n_steps)
            cheapest = min(cheapest, cost)
            yield Candidate(machine, n_axes, n_steps, traces, cost)


class _Costs:
    """What a query costs, in multiply-adds of a dense product; about, as measured."""

    def __init__(self, expansion: Expansion, n_axes: int) -> None:
        m, d = expansion.vectors.shape
        a_value = 24.0 + expansion.n_classes
        self.exact = m * (d + a_value)
        self.start = n_axes * d + m * (n_axes + a_value)
        self.touch = 3.0 * d + 2500.0 + m / 2

    def of_walks(self, steps: NDArray[np.intp], n_steps: int) -> float:
        """Return the mean over queries that stopped at some steps, -1 for those that did not."""
        if not len(steps):
            return self.start
        stopped = steps >= 0
        walked = np.where(stopped, steps, n_steps).mean() * self.touch
        return float(self.start + walked + (1 - stopped.mean()) * self.exact)
