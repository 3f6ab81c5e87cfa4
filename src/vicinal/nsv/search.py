"""Calibration of a model: with settings as given, or with those that keep to a share of changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vicinal.nsv.calibration import Traces, Truth
from vicinal.nsv.costs import Costs, Walk
from vicinal.nsv.embedding import BLOCK, Axes, Embedding, principal_axes, spread_landmarks
from vicinal.nsv.expansion import Expansion
from vicinal.nsv.filters import (
    FILTERED,
    SKETCHED,
    Believed,
    Scored,
    believe,
    linear_scores,
    sketch_scores,
)
from vicinal.nsv.generation import between_classes, widened
from vicinal.nsv.model import Level, LinearFilter, NearestVectors, Sketch
from vicinal.nsv.regions import Regions
from vicinal.nsv.settings import Evidence, Settings, folds
from vicinal.problem import Floats

MOST_LEVELS = 3

TIGHTENED = 3
"""The share of changes is halved so often at most until queries held out keep to the limit."""


class Path(NamedTuple):
    """What queries would see on a walk of some length."""

    embedding: Embedding
    n_axes: int
    traces: Traces


@dataclass(frozen=True)
class Found:
    """What has been found out about the queries, whatever share of changes is allowed."""

    expansion: Expansion
    evidence: Evidence
    axes: Axes
    paths: list[Path]
    linear: Scored[LinearFilter] | None
    sketches: list[Scored[Sketch]]


@dataclass(frozen=True)
class Plan:
    """What is used, with thresholds that some settings ask for.

    Parameters
    ----------
    linear : Believed or None
    sketch : Believed or None
    walks : tuple of Walk
    regions : Regions
    disagreement : float
        The share of labels changed, with thresholds of one half of the queries on the other.
    cost : float
        Of a query, as a share of the exact sums.
    """

    linear: Believed[LinearFilter] | None
    sketch: Believed[Sketch] | None
    walks: tuple[Walk, ...]
    regions: Regions
    disagreement: float
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
        What was chosen, what a query costs as a share of the exact sums, about, and the share of
        labels that change: counted by halves, with the thresholds of one half of the queries on
        the other.
    """
    queries = settings.drawn(queries, random_state)
    exact = NearestVectors.exact(expansion).machine
    evidence = Evidence(queries, Truth.of(exact, queries, n_threads=n_threads))
    axes, paths = _paths(expansion, evidence, settings, random_state, n_threads)
    found = Found(
        expansion,
        evidence,
        axes,
        paths,
        linear_scores(evidence, settings, random_state),
        sketch_scores(expansion, axes, evidence, settings, random_state),
    )
    plan, limit = _plan(found, settings, random_state), settings.max_disagreement
    if limit is not None:
        for halvings in range(1, TIGHTENED + 1):
            if plan.disagreement <= limit:
                break
            tighter = replace(settings, max_disagreement=limit / 2**halvings)
            other = _plan(found, tighter, random_state)
            if other.disagreement < plan.disagreement:
                plan, settings = other, tighter
    model = _model(found, plan, settings)
    if settings.n_generated:
        points = between_classes(
            model, queries, settings.n_generated, random_state=random_state, n_threads=n_threads
        )
        model = widened(model, points, settings, n_threads=n_threads)
    report = {
        "n_queries": len(queries),
        "answered_by_filter": float(plan.linear.answered.mean()) if plan.linear else 0.0,
        "answered_by_sketch": float(plan.sketch.answered.mean()) if plan.sketch else 0.0,
        "embeddings": [walk.embedding for walk in plan.walks],
        "n_axes": [walk.n_axes for walk in plan.walks],
        "n_steps": [walk.n_steps for walk in plan.walks],
        "n_regions": plan.regions.n_regions,
        "disagreement": plan.disagreement,
        "cost": plan.cost,
    }
    return model, report


def _plan(found: Found, settings: Settings, random_state: np.random.RandomState) -> Plan:
    """Choose what answers at the least cost, if there is a share of changes to keep to."""
    evidence, costs = found.evidence, Costs(found.expansion)
    left_open = np.ones(len(evidence.queries), dtype=bool)
    linear, sketch, spent = None, None, 0.0
    if found.linear is not None:
        linear = believe(found.linear, left_open, evidence, settings, FILTERED)
    if linear is not None:
        left_open = left_open & ~linear.answered
        spent = costs.of_filter(linear.scorer)
    walks = tuple(Walk.of(*path, settings.thresholds(path.traces)) for path in found.paths)
    if settings.max_disagreement is None:
        chosen, rest = walks, costs.of_levels(walks, left_open)
    else:
        chosen, rest = _cheapest(walks, left_open, costs)
        sketch = _best_sketch(found, left_open, settings, costs, rest)
        if sketch is not None:
            spent += left_open.mean() * costs.of_sketch(sketch.scorer)
            left_open = left_open & ~sketch.answered
            chosen, rest = _cheapest(walks, left_open, costs)
    regions = Regions.one()
    if chosen:
        in_vain = np.maximum(chosen[-1].traces.excess(), 0.0).mean(axis=1)
        regions = Regions.grow(
            evidence.queries, in_vain, settings.n_regions, settings.least_queries, random_state
        )
    disagreement = sum(part.changes for part in (linear, sketch) if part is not None)
    for rows in regions.rows(evidence.queries):
        share = len(rows) / len(left_open)
        for walk in chosen:
            disagreement += share * _disagreement(walk.traces[rows], left_open[rows], settings)
    return Plan(linear, sketch, chosen, regions, disagreement, (spent + rest) / costs.exact)


def _best_sketch(
    found: Found, left_open: NDArray[np.bool_], settings: Settings, costs: Costs, rest: float
) -> Believed[Sketch] | None:
    """Return the sketch that saves most, if what it leaves open costs as it did without it."""
    best, least = None, rest
    for scored in found.sketches:
        sketch = believe(scored, left_open, found.evidence, settings, SKETCHED)
        if sketch is None:
            continue
        still_open = (left_open & ~sketch.answered).sum() / max(left_open.sum(), 1)
        cost = left_open.mean() * costs.of_sketch(sketch.scorer) + still_open * rest
        if cost < least:
            best, least = sketch, cost
    return best


def _model(found: Found, plan: Plan, settings: Settings) -> NearestVectors:
    """Return the model of a plan."""
    expansion, queries = found.expansion, found.evidence.queries
    needed = [
        max((walk.n_axes for walk in plan.walks if walk.embedding == embedding), default=0)
        for embedding in ("pca", "kernel_pca")
    ]
    parts = plan.regions.rows(queries)
    levels = [
        np.concatenate([settings.thresholds(walk.traces[rows]) for rows in parts])
        for walk in plan.walks
    ]
    return NearestVectors(
        expansion,
        expansion.machine(found.axes.first(*needed)),
        plan.linear.scorer if plan.linear else LinearFilter.none(queries.shape[1]),
        plan.sketch.scorer if plan.sketch else None,
        tuple(
            Level(walk.embedding, walk.n_axes, limits)
            for walk, limits in zip(plan.walks, levels, strict=True)
        ),
        settings.walking,
        plan.regions,
    )


def _paths(
    expansion: Expansion,
    evidence: Evidence,
    settings: Settings,
    random_state: np.random.RandomState,
    n_threads: int,
) -> tuple[Axes, list[Path]]:
    """Return axes and the paths to choose from."""
    m, d = expansion.vectors.shape
    candidates = settings.candidates(m, d)
    axes = _axes(expansion, candidates, random_state)
    machine = expansion.machine(axes)
    n_blocks = int((-(-expansion.class_sv // BLOCK)).sum())
    paths = []
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
        seen = machine.trace(
            evidence.queries, embedding, n_axes, longest, settings.walking, n_threads=n_threads
        )
        traces = Traces(*seen, evidence.truth)
        paths += [Path(embedding, n_axes, traces.shortened(n)) for n in sorted(lengths)]
    return axes, paths


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
) -> tuple[tuple[Walk, ...], float]:
    """Return the cheapest levels, which may be none, and what they cost a query.

    Each level costs more than the one before, and only the last has steps.
    """
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
    return best, least


def _disagreement(traces: Traces, left_open: NDArray[np.bool_], settings: Settings) -> float:
    """Return the share of labels that a walk changes with thresholds of queries held out."""
    changes = 0
    for gathered, tried in folds(np.arange(len(left_open))):
        held_out = traces[tried[left_open[tried]]]
        steps = held_out.steps(settings.thresholds(traces[gathered]))
        changes += int(held_out.changed(steps).sum())
    return changes / len(left_open)
