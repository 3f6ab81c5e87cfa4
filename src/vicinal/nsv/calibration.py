"""Thresholds from representative data: how misleading each step has been there.

A query that stops is answered with its leader. What speaks against stopping are leaders that did
not win in the end, so a threshold is the largest leaning of such a leader: Simple in the paper.
MaxSmoothed takes the largest over a window of steps. Two classes have thresholds of their own, the
paper's L_k and H_k; more share theirs, because each has too few misleading steps to show.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import maximum_filter1d
from sklearn.svm import LinearSVC

from vicinal.nsv.model import LinearFilter
from vicinal.problem import Codes, Floats

Method = Literal["simple", "max_smoothed"]

MOST_FILTERED = 10_000
"""The filter is trained on at most as many queries."""

Rows = NDArray[np.intp]


@dataclass(frozen=True)
class Traces:
    """Leaders and leanings of some queries after every step, and who wins in the end."""

    leaders: Codes
    leanings: Floats
    winners: Codes
    n_classes: int

    def thresholds(self, rows: Rows, *, window: int, margin: float) -> Floats:
        """Return the thresholds that some of the queries ask for, `margin` times as wide."""
        misled = self.leaders[rows] != self.winners[rows, None]
        leanings = np.where(misled, self.leanings[rows], 0.0)
        highest = np.empty((self.n_classes, leanings.shape[1]), dtype=np.float32)
        if self.n_classes > 2:
            highest[:] = leanings.max(axis=0, initial=0.0)
        else:
            for code in range(2):
                leads = self.leaders[rows] == code
                highest[code] = np.where(leads, leanings, 0.0).max(axis=0, initial=0.0)
        smoothed = maximum_filter1d(highest, 2 * window + 1, axis=1, mode="nearest")
        return (margin * smoothed).astype(np.float32)

    def outcome(self, rows: Rows, thresholds: Floats) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
        """Return the step at which each query stops, -1 for none, and whether its label changes."""
        leaders = self.leaders[rows]
        stops = self.leanings[rows] > thresholds[leaders, np.arange(thresholds.shape[1])]
        steps = np.where(stops.any(axis=1), stops.argmax(axis=1), -1)
        last = leaders[np.arange(len(rows)), steps]
        return steps, (steps >= 0) & (last != self.winners[rows])


def train_filter(
    queries: Floats, winners: Codes, n_classes: int, *, seed: np.random.RandomState
) -> LinearFilter:
    """Train linear scores to say what the machine says; nothing is answered yet."""
    none = LinearFilter.none(queries.shape[1])
    rows = seed.permutation(len(queries))[:MOST_FILTERED]
    if len(np.unique(winners[rows])) < n_classes:
        return none
    # The fit is told of features of size one, whatever the unit of the machine's frame.
    unit = float(np.sqrt(np.square(queries[rows]).sum(axis=1, dtype=np.float64).mean())) or 1.0
    svc = LinearSVC(C=1.0, dual="auto", tol=1e-2, max_iter=300, random_state=seed)
    svc.fit(queries[rows] / np.float32(unit), winners[rows])
    return LinearFilter(
        np.ascontiguousarray(svc.coef_ / unit, dtype=np.float32),
        np.asarray(svc.intercept_, dtype=np.float32),
        np.full(n_classes, np.inf, dtype=np.float32),
    )


def filter_thresholds(
    leaders: Codes, leads: Floats, winners: Codes, n_classes: int, *, margin: float
) -> Floats:
    """Return how far each class must lead the linear scores to be believed.

    The largest lead of a class that did not win, or the mean and three standard deviations of such
    leads where that is less: outliers do not rule.
    """
    highest = np.zeros(n_classes, dtype=np.float32)
    for code in range(n_classes):
        misled = leads[(leaders == code) & (winners != code)]
        if len(misled):
            highest[code] = min(misled.max(), misled.mean() + 3 * misled.std())
    return (margin * highest).astype(np.float32)
