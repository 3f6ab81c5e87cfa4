"""What stands before the walks: a linear filter, and a sketch of the machine."""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from vicinal.nsv.calibration import Rows, train_filter
from vicinal.nsv.embedding import Axes
from vicinal.nsv.expansion import Expansion
from vicinal.nsv.model import LinearFilter, Sketch
from vicinal.nsv.settings import Evidence, Settings, folds
from vicinal.nsv.sketch import sketches
from vicinal.problem import Codes, Floats

FILTERED, SKETCHED = 0.25, 0.5
"""The part of the changes that each may make; walks make fewer than they are allowed."""

LEAST = 0.15
"""Scores that answer a smaller share of the queries are not used: to save so little is not worth
the risk that queries come which are unlike those that the scores were learnt from."""


Scorer = TypeVar("Scorer", LinearFilter, Sketch)


class Scored(NamedTuple, Generic[Scorer]):
    """Scores of all queries, learnt from one half of them: who leads each, and how far."""

    scorer: Scorer
    leaders: Codes
    leads: Floats


class Believed(NamedTuple, Generic[Scorer]):
    """The same with thresholds: the queries it answers, and the share of labels that it changes."""

    scorer: Scorer
    answered: NDArray[np.bool_]
    changes: float


def linear_scores(
    evidence: Evidence, settings: Settings, random_state: np.random.RandomState
) -> Scored[LinearFilter] | None:
    """Train a linear filter, if it is wanted and can be."""
    queries, truth = evidence.queries, evidence.truth
    if not settings.linear_filter:
        return None
    linear = train_filter(
        queries, truth.winners, truth.n_classes, evidence.halves[0], random_state=random_state
    )
    return Scored(linear, *linear.scores(queries)) if len(linear.weights) else None


def sketch_scores(
    expansion: Expansion,
    axes: Axes,
    evidence: Evidence,
    settings: Settings,
    random_state: np.random.RandomState,
) -> list[Scored[Sketch]]:
    """Train sketches of all sizes, if they are wanted and can be."""
    if settings.max_disagreement is None or not settings.sketch:
        return []
    known = evidence.halves[0]
    trained = sketches(
        expansion.vectors,
        axes.principal,
        expansion.kernel,
        evidence.queries[known],
        evidence.truth[known],
        random_state=random_state,
    )
    return [
        Scored(sketch, *sketch.scores(evidence.queries, expansion.kernel)) for sketch in trained
    ]


def believe(
    scored: Scored[Scorer],
    left_open: NDArray[np.bool_],
    evidence: Evidence,
    settings: Settings,
    part: float,
) -> Believed[Scorer] | None:
    """Believe scores that make no more than this part of the changes; None if few are left."""
    truth, fresh = evidence.truth, evidence.halves[1]
    scorer, leaders, leads = scored

    def thresholds(rows: Rows) -> Floats:
        return settings.filter_thresholds(leaders[rows], leads[rows], truth[rows], part)

    changes = 0
    for gathered, tried in folds(fresh):
        answered = left_open[tried] & (leads[tried] > thresholds(gathered)[leaders[tried]])
        changes += int((answered & (leaders != truth.winners)[tried]).sum())
    highest = thresholds(fresh)
    if settings.max_disagreement is not None:
        highest = np.maximum(highest, thresholds(np.arange(len(leaders))))
    answered = left_open & (leads > highest[leaders])
    if settings.max_disagreement is not None and answered.sum() < LEAST * left_open.sum():
        return None
    return Believed(scorer._replace(thresholds=highest), answered, changes / len(fresh))
