"""Thresholds from representative data: how misleading each step has been there.

A query that stops is answered with its leader, so what speaks against stopping are leaders that do
not win in the end. Two rules turn them into thresholds.

The paper's takes the largest leaning of such a leader (Simple), over a window of steps
(MaxSmoothed). It asks for many queries near the border, and data that the machine was trained on
has few: training has pushed them away.

The other rule bounds a share of changes. It looks at the excess of every leader: how much more it
leans than its exact output will. A leader that leans further than the excess of all but that share
of queries is wrong for no larger share, wherever the border runs. Errors of an approximation are
much the same on data that the machine has seen and on data that it has not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import maximum_filter1d
from sklearn.svm import LinearSVC

from vicinal import engine
from vicinal.nsv.model import LinearFilter
from vicinal.problem import Codes, Floats

MOST_FILTERED = 10_000
"""The filter is trained on at most as many queries."""

BORDER = 0.25
"""The filter takes classes that lead by less than this part of the median output for lost: few
queries like the training data fall on the wrong side, and these stand for others that will."""

Rows = NDArray[np.intp]


@dataclass(frozen=True)
class Truth:
    """What the exact machine says: the winner, and the leaning of every class."""

    winners: Codes
    leanings: Floats

    @classmethod
    def of(cls, machine: engine.EarlyMachine, queries: Floats, *, n_threads: int) -> Self:
        """Ask a machine about some queries."""
        return cls(*machine.settle(queries, n_threads=n_threads))

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return self.leanings.shape[1]

    def border(self) -> float:
        """Return the leaning below which a query counts as near the border."""
        won = np.take_along_axis(self.leanings, self.winners[:, None], axis=1)
        return BORDER * float(np.median(np.maximum(won, 0.0)))

    def __getitem__(self, rows: Rows) -> Self:
        """Return the truth about some of the queries."""
        return type(self)(self.winners[rows], self.leanings[rows])


@dataclass(frozen=True)
class Traces:
    """Leaders and leanings of some queries after 0, 1, … steps, and the truth about them."""

    leaders: Codes
    leanings: Floats
    truth: Truth

    def __getitem__(self, rows: Rows) -> Traces:
        """Return the traces of some of the queries."""
        return Traces(self.leaders[rows], self.leanings[rows], self.truth[rows])

    def shortened(self, n_steps: int) -> Traces:
        """Return the first steps of the same walks."""
        shown = slice(n_steps + 1)
        return Traces(self.leaders[:, shown], self.leanings[:, shown], self.truth)

    def paper_thresholds(self, window: int) -> Floats:
        """Return the largest leaning of leaders that lose, over a window of steps.

        Two classes have thresholds of their own, the paper's L_k and H_k; more share theirs.
        """
        n_classes = self.truth.n_classes
        lost = np.where(self.leaders != self.truth.winners[:, None], self.leanings, 0.0)
        highest = np.empty((n_classes, lost.shape[1]), dtype=np.float32)
        for code in range(n_classes):
            mine = lost if n_classes > 2 else np.where(self.leaders == code, lost, 0.0)
            highest[code] = mine.max(axis=0, initial=0.0)
        return maximum_filter1d(highest, 2 * window + 1, axis=1, mode="nearest")

    def excess(self) -> Floats:
        """Return how much more each leader leans than its exact output will."""
        return self.leanings - np.take_along_axis(self.truth.leanings, self.leaders, axis=1)

    def bounded_thresholds(self, share: float) -> Floats:
        """Return the excess that all but a share of the leaders stay below."""
        highest = np.maximum(np.quantile(self.excess(), 1.0 - share, axis=0, method="higher"), 0.0)
        return np.tile(highest.astype(np.float32), (self.truth.n_classes, 1))

    def steps(self, thresholds: Floats) -> NDArray[np.intp]:
        """Return the step after which each query stops, -1 for none."""
        stops = self.leanings > thresholds[self.leaders, np.arange(thresholds.shape[1])]
        return np.where(stops.any(axis=1), stops.argmax(axis=1), -1)

    def changed(self, steps: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Return whose labels change if queries stop after these steps."""
        last = self.leaders[np.arange(len(steps)), steps]
        return (steps >= 0) & (last != self.truth.winners)


def train_filter(
    queries: Floats,
    winners: Codes,
    n_classes: int,
    rows: Rows,
    *,
    random_state: np.random.RandomState,
) -> LinearFilter:
    """Train linear scores on some queries to say what the machine says."""
    if len(rows) > MOST_FILTERED:
        rows = random_state.permutation(rows)[:MOST_FILTERED]
    if len(np.unique(winners[rows])) < n_classes:
        return LinearFilter.none(queries.shape[1])
    # Queries of length one, about, whatever the unit of the machine's frame.
    squares = np.einsum("ij,ij->i", queries[rows], queries[rows], dtype=np.float64)
    unit = float(np.sqrt(squares.mean())) or 1.0
    svc = LinearSVC(C=10.0, dual="auto", tol=1e-2, max_iter=300, random_state=random_state)
    with np.errstate(all="ignore"):
        svc.fit(queries[rows] / np.float32(unit), winners[rows])
    return LinearFilter(
        np.ascontiguousarray(svc.coef_ / unit, dtype=np.float32),
        np.asarray(svc.intercept_, dtype=np.float32),
        np.full(n_classes, np.inf, dtype=np.float32),
    )


def paper_filter(leaders: Codes, leads: Floats, truth: Truth) -> Floats:
    """Return how far each class must lead the linear scores to be believed.

    The largest lead of a class that does not win, or the mean and three standard deviations of such
    leads where that is less: outliers do not rule.
    """
    highest = np.zeros(truth.n_classes, dtype=np.float32)
    for code in range(truth.n_classes):
        lost = leads[(leaders == code) & (truth.winners != code)]
        if len(lost):
            highest[code] = min(lost.max(), lost.mean() + 3 * lost.std())
    return highest


def bounded_filter(leaders: Codes, leads: Floats, truth: Truth, share: float) -> Floats:
    """Return such leads that no more than a share of the queries is believed wrongly.

    Two classes have leads of their own; more share theirs.
    """
    doubtful = truth.leanings[np.arange(len(leaders)), leaders] < truth.border()
    groups = [doubtful]
    if truth.n_classes == 2:
        groups = [doubtful & (leaders == code) for code in range(2)]
    allowed = int(share * len(leaders) / len(groups))
    highest = [
        np.partition(np.append(leads[group], np.zeros(allowed + 1)), -allowed - 1)[-allowed - 1]
        for group in groups
    ]
    return np.resize(highest, truth.n_classes).astype(np.float32)
