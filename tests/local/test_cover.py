"""The cover as a property: everything is covered, and batches choose what one by one would."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.reference.classifiers import Kernel, cover, neighbours

from vicinal import FaLKSVC, engine

EUCLIDEAN = (0, 1.0, 0.0, 1)
UNRANKED = np.iinfo(np.int32).max


@st.composite
def problems(draw):
    n = draw(st.integers(4, 120))
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    X = rng.normal(size=(n, draw(st.integers(1, 4))))
    if draw(st.booleans()):
        X = np.round(2 * X) / 2 + 0.0  # duplicates and ties, exact in float32; no -0.0
    k = draw(st.integers(1, n))
    return np.ascontiguousarray(X, dtype=np.float32), k, draw(st.integers(1, k)), rng


def accept_in_batches(X, order, k, n_assigned, batch):
    """The library's way: neighbourhoods of a whole batch first, then acceptance in order."""
    index = engine.NeighbourIndex(X, structure="scan", metric=EUCLIDEAN, n_threads=1)
    covered = np.zeros(len(X), dtype=np.uint8)
    ranks = np.full(len(X), UNRANKED, dtype=np.int32)
    owners = np.full(len(X), -1, dtype=np.int32)
    centres: list[int] = []
    for start in range(0, len(order), batch):
        candidates = np.ascontiguousarray(order[start : start + batch], dtype=np.int32)
        candidates = candidates[covered[candidates] == 0]
        if not len(candidates):
            continue
        _, rows = index.query(X[candidates], k, n_threads=1)
        accepted = engine.accept_centres(
            candidates, rows, n_assigned, covered, ranks, owners, len(centres)
        )
        centres.extend(candidates[np.asarray(accepted, dtype=bool)].tolist())
    return centres, covered, ranks, owners


@given(problem=problems(), batch=st.integers(1, 50))
@settings(max_examples=150, deadline=None)
def test_batches_choose_what_one_by_one_would(problem, batch):
    X, k, n_assigned, rng = problem
    _, first_of_place = np.unique(X, axis=0, return_index=True)
    order = rng.permutation(first_of_place)  # twins are never candidates
    rows = neighbours(X.astype(float), X.astype(float), k, Kernel("linear"))
    expected = cover(order, lambda centre: rows[centre], len(X), n_assigned)
    centres, covered, ranks, owners = accept_in_batches(X, order, k, n_assigned, batch)
    assert centres == expected.centres
    np.testing.assert_array_equal(owners, expected.nearest)
    np.testing.assert_array_equal(covered.astype(bool), expected.first >= 0)
    np.testing.assert_array_equal(ranks[centres], 0)


@given(problem=problems(), order=st.sampled_from(["levels", "random"]))
@settings(max_examples=60, deadline=None)
def test_every_point_is_covered(problem, order):
    X, k, n_assigned, _ = problem
    y = (X[:, 0] > np.median(X[:, 0])).astype(int)
    y[0] = 1 - y[1]
    model = FaLKSVC(k, n_assigned, centres=order, random_state=0).fit(X, y)
    rows = neighbours(X.astype(float), X[model.centres_].astype(float), n_assigned, Kernel())
    inside = {X[point].tobytes() for row in rows for point in row}
    inside |= {X[centre].tobytes() for centre in model.centres_}
    assert inside == {point.tobytes() for point in X}  # twins are covered by their twin
    assert model.owners_.min() >= 0
    assert model.owners_.max() < model.n_machines_


@pytest.mark.parametrize("routing", ["rank", "first"])
def test_owner_holds_the_point_in_its_neighbourhood(routing):
    X = np.random.default_rng(0).normal(size=(500, 2))
    y = (X[:, 0] > 0).astype(int)
    model = FaLKSVC(30, 15, routing=routing).fit(X, y)
    rows = neighbours(X, X[model.centres_], 15, Kernel())
    for point, owner in enumerate(model.owners_):
        assert point in rows[owner]


def test_levels_need_fewer_machines_than_random_centres():
    X = np.random.default_rng(1).uniform(size=(2000, 2))
    y = (X[:, 0] > 0.5).astype(int)
    levels = FaLKSVC(60, 30).fit(X, y).n_machines_
    random = [
        FaLKSVC(60, 30, centres="random", random_state=seed).fit(X, y).n_machines_
        for seed in range(3)
    ]
    assert levels <= 1.1 * np.mean(random)
