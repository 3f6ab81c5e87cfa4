"""Calibration of a model: with settings as given, or with those that keep to a share of changes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vicinal.engine import Walking
from vicinal.kernels import RBF
from vicinal.nsv.calibration import Rows, Traces, filter_thresholds, train_filter
from vicinal.nsv.expansion import Expansion
from vicinal.nsv.model import LinearFilter, NearestVectors, principal_axes
from vicinal.problem import Codes, Floats

AXES = (10, 20, 40, 60, 80, 120)
WINDOWS = (0, 2, 10)
MARGINS = (1.0, 1.25, 1.5, 2.0, 3.0, 4.0)
STEPS = (8, 16, 32, 64, 128)

CAUTION = 0.5
"""The part of the allowed changes that may show on data which the machine may have seen."""


@dataclass(frozen=True)
class Settings:
    """How a model is calibrated.

    Parameters
    ----------
    walking : Walking
    n_components, window, max_steps : int
    linear_filter : bool
    max_disagreement : float or None
        Share of changed labels to keep to; then the other numbers are chosen.
    """

    walking: Walking
    n_components: int
    window: int
    max_steps: int
    linear_filter: bool
    max_disagreement: float | None


class Evidence(NamedTuple):
    """Representative queries and who wins them, in halves that are held out in turn."""

    queries: Floats
    winners: Codes
    halves: tuple[Rows, Rows]

    def folds(self) -> Iterator[tuple[Rows, Rows]]:
        """Yield the rows that thresholds are gathered on, and those that they are tried on."""
        yield self.halves
        yield self.halves[::-1]


class Choice(NamedTuple):
    """Settings of a walk, and what they cost and change on held-out queries."""

    cost: float
    changes: int
    n_axes: int
    window: int = 0
    margin: float = 1.0
    n_steps: int = 0


def calibrate(
    expansion: Expansion,
    queries: Floats,
    settings: Settings,
    *,
    random_state: np.random.RandomState,
    n_threads: int,
) -> tuple[NearestVectors, dict[str, Any]]:
    """Gather thresholds for an expansion over representative queries.

    Disagreement is counted by halves: with thresholds of one half of the queries, on the other.

    Returns
    -------
    model : NearestVectors
    report : dict
        The settings, and what they changed on queries held out.
    """
    exact = NearestVectors.exact(expansion)
    winners = exact.answer(queries, n_threads=n_threads).codes
    order = random_state.permutation(len(queries))
    evidence = Evidence(queries, winners, (order[::2], order[1::2]))
    budget = np.inf
    if settings.max_disagreement is not None:
        budget = CAUTION * settings.max_disagreement * len(queries)

    linear, left_open, filter_changes = LinearFilter.none(queries.shape[1]), winners >= 0, 0
    if settings.linear_filter:
        linear = train_filter(queries, winners, expansion.n_classes, seed=random_state)
        if len(linear.weights):
            linear, left_open, filter_changes = _fit_filter(linear, evidence, expansion, budget / 2)
    report = {
        "n_queries": len(queries),
        "answered_by_filter": float(1 - left_open.mean()),
        "disagreement": filter_changes / len(queries),
    }
    search = _Search(expansion, evidence, left_open, budget - filter_changes, settings, n_threads)
    choice = search.best(random_state.randint(2**31 - 1))
    report["disagreement"] += choice.changes / len(queries)
    report |= {"n_axes": choice.n_axes}
    if choice.n_axes == 0:
        return NearestVectors.exact(expansion, linear), report
    report |= {"window": choice.window, "margin": choice.margin, "max_steps": choice.n_steps}
    machine, traces = search.traced[choice.n_axes]
    thresholds = traces.thresholds(order, window=choice.window, margin=choice.margin)
    thresholds = np.ascontiguousarray(thresholds[:, : choice.n_steps + 1])
    return NearestVectors(expansion, machine, linear, thresholds, settings.walking), report


def _fit_filter(
    linear: LinearFilter, evidence: Evidence, expansion: Expansion, budget: float
) -> tuple[LinearFilter, NDArray[np.bool_], int]:
    """Return the filter with thresholds, what it leaves open, and how many labels it changes."""
    leaders, leads = linear.scores(evidence.queries)
    winners, n_classes = evidence.winners, expansion.n_classes

    def thresholds(rows: Rows, margin: float) -> Floats:
        return filter_thresholds(
            leaders[rows], leads[rows], winners[rows], n_classes, margin=margin
        )

    everything = np.arange(len(winners))
    for margin in MARGINS:
        answered = np.zeros(len(winners), dtype=bool)
        for gathered, tried in evidence.folds():
            answered[tried] = leads[tried] > thresholds(gathered, margin)[leaders[tried]]
        changes = int((answered & (leaders != winners)).sum())
        if changes <= budget:
            linear = linear._replace(thresholds=thresholds(everything, margin))
            return linear, ~answered, changes
    return LinearFilter.none(evidence.queries.shape[1]), winners >= 0, 0


@dataclass
class _Search:
    """Tries walks on the queries that the filter leaves."""

    expansion: Expansion
    evidence: Evidence
    left_open: NDArray[np.bool_]
    budget: float
    settings: Settings
    n_threads: int
    traced: dict[int, Any] = field(default_factory=dict)

    def best(self, seed: int) -> Choice:
        """Return the cheapest walk that stays within the budget, or the exact sums."""
        m, d = self.expansion.vectors.shape
        exact = Choice(_Costs(self.expansion, 0).exact, 0, 0)
        given = self.settings.max_disagreement is None
        asked = (self.settings.n_components,) if given else AXES
        counts = [n for n in asked if n < min(m, d)]
        if not counts:
            return exact
        axes = principal_axes(self.expansion.vectors, max(counts), seed)
        choices = [] if given else [exact]
        for n_axes in counts:
            if not given and _Costs(self.expansion, n_axes).start > min(choices).cost:
                break  # before its first step it would cost more than all of another
            self._trace(axes[:n_axes])
            choices += self._choices(n_axes)
        return min(choice for choice in choices if choice.changes <= self.budget)

    def _trace(self, axes: Floats) -> None:
        queries, winners, _ = self.evidence
        machine = self.expansion.machine(np.ascontiguousarray(axes))
        n_steps = min(self.settings.max_steps, self.expansion.n_vectors)
        leaders, leanings = machine.trace(
            queries, n_steps, self.settings.walking, n_threads=self.n_threads
        )
        traces = Traces(leaders, leanings, winners, self.expansion.n_classes)
        self.traced[len(axes)] = (machine, traces)

    def _choices(self, n_axes: int) -> Iterator[Choice]:
        traces: Traces = self.traced[n_axes][1]
        longest = traces.leanings.shape[1] - 1
        given = self.settings.max_disagreement is None
        windows, margins = ((self.settings.window,), (1.0,)) if given else (WINDOWS, MARGINS)
        lengths = [longest] if given else [n for n in STEPS if n < longest] + [longest]
        costs = _Costs(self.expansion, n_axes)
        for window, margin in product(windows, margins):
            steps, changed = [], []
            for gathered, tried in self.evidence.folds():
                tried = tried[self.left_open[tried]]
                thresholds = traces.thresholds(gathered, window=window, margin=margin)
                found = traces.outcome(tried, thresholds)
                steps.append(found[0])
                changed.append(found[1])
            all_steps, all_changed = np.concatenate(steps), np.concatenate(changed)
            for n_steps in lengths:
                stopped = (all_steps >= 0) & (all_steps <= n_steps)
                yield Choice(
                    costs.of_walks(np.where(stopped, all_steps, -1), n_steps),
                    int((all_changed & stopped).sum()),
                    n_axes,
                    window,
                    margin,
                    n_steps,
                )


class _Costs:
    """What a query costs, in multiply-adds of a dense product; about, as measured."""

    def __init__(self, expansion: Expansion, n_axes: int) -> None:
        m, d = expansion.vectors.shape
        a_value = 24.0 + expansion.n_classes
        self.exact = m * (d * (2.0 if expansion.kernel[0] == RBF else 1.0) + a_value)
        self.start = n_axes * d + m * (n_axes + a_value)
        self.touch = d + 800.0 + m / 8

    def of_walks(self, steps: NDArray[np.intp], n_steps: int) -> float:
        """Return the mean over queries that stopped at some steps, -1 for those that did not."""
        if not len(steps):
            return self.start
        stopped = steps >= 0
        walked = np.where(stopped, steps, n_steps).mean() * self.touch
        return float(self.start + walked + (1 - stopped.mean()) * self.exact)
