"""The compiled core against its slow twin in `tests/reference/engine.py`, function by function."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import pdist
from tests.reference import engine as twin

from vicinal import engine

SPECS = {
    "linear": (0, 1.0, 0.0, 1, 50.0),
    "rbf": (1, 2.0, 0.0, 1, 50.0),
    "rbf, local width": (1, 0.0, 0.0, 1, 20.0),
    "poly": (2, 0.7, 1.0, 3, 50.0),
}
SETTINGS = {"tol": 1e-5, "n_threads": 2}

every_kernel = pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
two_and_three = pytest.mark.parametrize("n_classes", [2, 3])


class Problem:
    """Points of several classes, weights, some neighbourhoods and queries beside their centres."""

    def __init__(self, n_classes: int, n: int = 160, k: int = 40, m: int = 25) -> None:
        rng = np.random.default_rng(n_classes)
        self.points = rng.uniform(-1, 1, size=(n, 3)).astype(np.float32)
        bends = self.points[:, 0] + 0.3 * np.sin(4 * self.points[:, 1])
        self.targets = np.digitize(bends, np.linspace(-1, 1, n_classes + 1)[1:-1]).astype(np.int32)
        self.targets[rng.random(n) < 0.1] = 0
        self.weights = rng.uniform(0.5, 2.0, n).astype(np.float32)
        index = twin.NeighbourIndex(self.points, structure="scan")
        centres = self.points[rng.choice(n, m, replace=False)]
        self.neighbourhoods = index.query(centres, k)[1]
        self.queries = (centres + rng.normal(0, 0.05, centres.shape)).astype(np.float32)
        self.C = np.geomspace(0.1, 10, m).astype(np.float32)
        self.data = (self.points, self.targets, self.weights, self.neighbourhoods)


def assert_close(decisions, expected):
    """All but a few agree: where a pair is a toss-up, a vote may fall to either side."""
    assert decisions.shape == expected.shape
    off = np.abs(decisions - expected) > 5e-3 * (1 + np.abs(expected))
    assert off.reshape(len(off), -1).any(axis=1).mean() <= 0.04


@two_and_three
@every_kernel
class TestMachines:
    def test_train_and_evaluate(self, spec, n_classes):
        problem = Problem(n_classes)
        ours = engine.train(*problem.data, spec, C=problem.C, **SETTINGS)
        theirs = twin.train(*problem.data, spec, C=problem.C, **SETTINGS)
        assert set(ours) == set(theirs)
        mixed = np.diff(theirs["class_ptr"]) > 1  # others have no use for a width
        np.testing.assert_allclose(ours["gamma"][mixed], theirs["gamma"][mixed], rtol=0.02)
        # A local width is a percentile of a sample of pairs: from here on both take the same.
        theirs = twin.train(*problem.data, spec, C=problem.C, gammas=ours["gamma"], **SETTINGS)
        for name in ("class_ptr", "classes", "bias_ptr"):
            np.testing.assert_array_equal(ours[name], theirs[name])
        routes = np.arange(len(problem.queries), dtype=np.int32)
        arguments = (problem.queries, routes, n_classes, spec)
        expected = twin.evaluate(problem.points, theirs, *arguments)
        assert_close(engine.evaluate(problem.points, ours, *arguments), expected)
        # Either evaluates the machines of the other.
        assert_close(engine.evaluate(problem.points, theirs, *arguments), expected)
        assert_close(twin.evaluate(problem.points, ours, *arguments), expected)

    def test_train_and_evaluate_at_once(self, spec, n_classes):
        problem = Problem(n_classes)
        arguments = (*problem.data, problem.queries, n_classes, spec)
        gammas = np.linspace(0.5, 3, len(problem.queries), dtype=np.float32)
        given = {"C": problem.C, "gammas": gammas if spec[0] == twin.RBF else None}
        assert_close(
            engine.train_and_evaluate(*arguments, **given, **SETTINGS),
            twin.train_and_evaluate(*arguments, **given, **SETTINGS),
        )

    def test_cross_validate(self, spec, n_classes):
        problem = Problem(n_classes, m=6)
        local = spec == SPECS["rbf, local width"]
        other = (*spec[:4], 10.0) if local else (spec[0], 0.5, *spec[2:])
        arguments = (*problem.data, 20, 5, [spec, other])
        ours = engine.cross_validate(*arguments, Cs=[0.5, 4.0], **SETTINGS)
        theirs = twin.cross_validate(*arguments, Cs=[0.5, 4.0], **SETTINGS)
        assert ours.shape == theirs.shape
        assert np.abs(ours - theirs).max() <= 0.0501  # one of twenty may be a toss-up
        assert (ours == theirs).mean() > 0.8


class TestIndex:
    @pytest.mark.parametrize("structure", ["tree", "scan"])
    @pytest.mark.parametrize("metric", [SPECS["linear"][:4], SPECS["poly"][:4]], ids=str)
    def test_queries(self, structure, metric):
        problem = Problem(2)
        ours = engine.NeighbourIndex(problem.points, structure=structure, metric=metric)
        theirs = twin.NeighbourIndex(problem.points, structure="scan", metric=metric)
        squared, indices = ours.query(problem.queries, 12)
        expected = theirs.query(problem.queries, 12)
        np.testing.assert_allclose(squared, expected[0], rtol=1e-4, atol=1e-6)
        assert (indices == expected[1]).mean() > 0.98
        indptr, squared, _ = ours.query_radius(problem.queries, 0.4)
        expected = theirs.query_radius(problem.queries, 0.4)
        np.testing.assert_array_equal(indptr, expected[0])
        np.testing.assert_allclose(squared, expected[1], rtol=1e-4, atol=1e-6)

    def test_both_trees_mark_the_same_duplicates(self):
        points = Problem(2).points[np.random.default_rng(0).integers(0, 60, 160)]
        ours = engine.NeighbourIndex(points, base=1.5)
        theirs = twin.NeighbourIndex(points, base=1.5)
        np.testing.assert_array_equal(
            np.asarray(ours.levels) == engine.DUPLICATE, theirs.levels == twin.DUPLICATE
        )
        assert engine.DUPLICATE == twin.DUPLICATE


@pytest.mark.parametrize("n_assigned", [1, 7, 40])
def test_accept_centres(n_assigned):
    problem = Problem(2, m=60)
    answers = []
    for accept in (engine.accept_centres, twin.accept_centres):
        index = twin.NeighbourIndex(problem.points, structure="scan")
        covered = np.zeros(160, dtype=np.uint8)
        ranks = np.full(160, np.iinfo(np.int32).max, dtype=np.int32)
        owners = np.full(160, -1, dtype=np.int32)
        accepted, first = [], 0
        for candidates in np.split(np.arange(160, dtype=np.int32), 4):
            rows = index.query(problem.points[candidates], 40)[1]
            new = accept(candidates, rows, n_assigned, covered, ranks, owners, first)
            accepted.append(np.asarray(new, dtype=bool))
            first += int(accepted[-1].sum())
        answers.append((np.concatenate(accepted), covered, ranks, owners))
    for ours, theirs in zip(*answers, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("k", [91, 92, 250, 592, 1184, 2000])
def test_a_local_width_is_a_percentile_of_all_distances(k):
    """Of a large neighbourhood it comes from some pairs, which must favour none of its points."""
    rng = np.random.default_rng(k)
    points = rng.normal(size=(4 * k, 8)).astype(np.float32)
    row = np.argsort(np.square(points).sum(axis=1))[:k].astype(np.int32)
    targets, weights = rng.integers(0, 2, 4 * k).astype(np.int32), np.ones(4 * k, np.float32)
    squared = pdist(points[row].astype(float), "sqeuclidean")
    for percentile in (10, 50, 90):
        machine = engine.train(
            points, targets, weights, row[None], (1, 0.0, 0.0, 1, percentile), C=np.float32([1e-3])
        )
        width = 1 / machine["gamma"][0]
        below = 100 * (squared < width).mean()
        assert abs(below - percentile) < (0.1 if k == 91 else 3)


def _chain(n_cells, n_points, n_children):
    last = n_children - 1
    inner = [[0, 0, n_points, c + 1, n_children] for c in range(n_cells)]
    return np.array(inner + [[0, 0, n_points, 0, 0]] * (last + 1), dtype=np.int32)


def _with_first_cells(state, change):
    cells = state["cells"].copy()
    change(cells)
    return {"cells": cells}


def _with_orphans(state, n):
    """An unreached twin of the root claims its children, and a leaf beyond the points no one."""
    cells = state["cells"]
    first = int(cells[0, 3])
    twin = [0, 0, n, first + 2, cells[0, 4]]
    shifted = cells[first:].copy()
    shifted[shifted[:, 4] > 0, 3] += 2
    root = [*cells[0, :3], first + 2, cells[0, 4]]
    orphans = [[0, -1_000_000, -999_000, 0, 0]] * int(cells[0, 4] - 1)
    return {"cells": np.array([root, twin, orphans[0], *shifted, *orphans[1:]], dtype=np.int32)}


NO_TREES = {
    "cells that hang nowhere": _with_orphans,
    "children shared": lambda s, n: {"cells": _chain(100, n, 2)},
    "a chain": lambda s, n: {"cells": _chain(100, n, 1)},
    "a point twice": lambda s, n: {"order": np.zeros_like(s["order"])},
    "points left out": lambda s, n: _with_first_cells(s, lambda c: c.__setitem__((0, 2), n - 1)),
    "an empty cell": lambda s, n: _with_first_cells(s, lambda c: c.__setitem__((-1, 2), c[-1, 1])),
    "a gap": lambda s, n: _with_first_cells(s, lambda c: c.__setitem__((2, 1), c[2, 1] + 1)),
}


@pytest.mark.parametrize("kind", NO_TREES)
def test_what_is_no_tree_is_refused(kind):
    """A search in cells that are no tree need not end, and may miss points."""
    points = np.random.default_rng(0).normal(size=(400, 2)).astype(np.float32)
    state = engine.NeighbourIndex(points).state()
    assert len(engine.NeighbourIndex.from_state(points, state).points) == 400
    state |= NO_TREES[kind](state, 400)
    state["radius"] = np.zeros(len(state["cells"]), dtype=np.float32)
    with pytest.raises(ValueError, match="not the state of a tree"):
        engine.NeighbourIndex.from_state(points, state)
