"""Exact neighbours and the cover tree, against NumPy and as properties.

Two kinds of data: continuous values, where the reported distances must be right to float32, and
small integers, where float32 is exact, ties are common and the order must be (distance, index).
"""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.neighbors import KNeighborsClassifier, NearestNeighbors
from tests.reference.classifiers import Kernel, neighbours

from vicinal import CoverTree, CoverTreeClassifier, CoverTreeNeighbors, engine

EUCLIDEAN = (0, 1.0, 0.0, 1)
POLY = (2, 0.5, 1.0, 2)  # kind, gamma, coef0, degree
METRICS = {EUCLIDEAN: Kernel("linear"), POLY: Kernel("poly", 0.5, degree=2, coef0=1.0)}


@st.composite
def lattices(draw, max_points=80):
    """Integer points in few places: many duplicates and many equal distances."""
    n = draw(st.integers(1, max_points))
    d = draw(st.integers(1, 4))
    side = draw(st.sampled_from([1, 2, 5, 40]))
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    return np.asarray(rng.integers(0, side, (n, d)), dtype=np.float32)


@st.composite
def clouds(draw, max_points=150):
    """Continuous points on very different scales, in clusters, some of them twice."""
    n = draw(st.integers(1, max_points))
    d = draw(st.integers(1, 20))
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    spread = 10.0 ** draw(st.integers(-6, 0))
    clusters = draw(st.integers(1, 5))
    X = rng.normal(size=(clusters, d))[rng.integers(0, clusters, n)]
    X = X + spread * rng.normal(size=(n, d))
    if draw(st.booleans()):
        X = X[rng.integers(0, n, n)]
    return np.ascontiguousarray(X, dtype=np.float32)


def true_squared(points, queries, metric):
    return METRICS[metric].squared_distances(np.asarray(queries, float), np.asarray(points, float))


@pytest.mark.parametrize("structure", ["tree", "scan"])
@pytest.mark.parametrize("metric", METRICS, ids=["euclidean", "poly"])
class TestIndex:
    """`engine.NeighbourIndex`, the two structures under every estimator."""

    @given(points=lattices(), k=st.integers(1, 90), seed=st.integers(0, 100))
    @settings(max_examples=100, deadline=None)
    def test_ties_go_to_the_lower_index(self, structure, metric, points, k, seed):
        rng = np.random.default_rng(seed)
        queries = np.asarray(rng.integers(-1, 6, (7, points.shape[1])), dtype=np.float32)
        queries = np.concatenate([queries, points[:5]])
        k = min(k, len(points))
        index = engine.NeighbourIndex(points, structure=structure, metric=metric, n_threads=1)
        squared, found = index.query(queries, k, n_threads=2)
        expected = neighbours(points.astype(float), queries.astype(float), k, METRICS[metric])
        np.testing.assert_array_equal(found, expected)
        true = np.take_along_axis(true_squared(points, queries, metric), expected, axis=1)
        np.testing.assert_allclose(squared, true, rtol=1e-5, atol=1e-5)

    @given(points=clouds(), k=st.integers(1, 40), seed=st.integers(0, 100))
    @settings(max_examples=60, deadline=None)
    def test_distances_are_the_k_smallest(self, structure, metric, points, k, seed):
        rng = np.random.default_rng(seed)
        queries = points[rng.integers(0, len(points), 9)]
        queries = queries + np.float32(0.1) * rng.normal(size=queries.shape).astype(np.float32)
        k = min(k, len(points))
        index = engine.NeighbourIndex(points, structure=structure, metric=metric, n_threads=1)
        squared, found = index.query(queries, k, n_threads=1)
        true = true_squared(points, queries, metric)
        # poly: K(x,x) + K(y,y) - 2 K(x,y) cancels, so its error is relative to K
        scale = 1e-5 if metric == EUCLIDEAN else 1e-5 * (1 + np.abs(true).max())
        smallest = np.sort(true, axis=1)[:, :k]
        np.testing.assert_allclose(squared, smallest, rtol=1e-4, atol=scale)
        of_found = np.take_along_axis(true, found.astype(np.int64), axis=1)
        np.testing.assert_allclose(of_found, smallest, rtol=1e-4, atol=scale)
        assert all(len(set(row)) == k for row in found)
        assert (np.diff(squared, axis=1) >= 0).all()

    @given(points=lattices(), radius=st.sampled_from([0.0, 1.0, 1.5, 3.0]))
    @settings(max_examples=50, deadline=None)
    def test_radius(self, structure, metric, points, radius):
        index = engine.NeighbourIndex(points, structure=structure, metric=metric, n_threads=1)
        queries = points[:6]
        indptr, squared, found = index.query_radius(queries, radius, n_threads=1)
        true = true_squared(points, queries, metric)
        for q in range(len(queries)):
            order = np.argsort(true[q], kind="stable")
            expected = order[true[q][order] <= radius**2]
            row = slice(indptr[q], indptr[q + 1])
            np.testing.assert_array_equal(found[row], expected)
            np.testing.assert_allclose(squared[row], true[q][expected], rtol=1e-5, atol=1e-5)

    def test_state_brings_the_index_back(self, structure, metric):
        points = np.random.default_rng(0).normal(size=(500, 5)).astype(np.float32)
        index = engine.NeighbourIndex(points, structure=structure, metric=metric, n_threads=1)
        again = engine.NeighbourIndex.from_state(points, index.state())
        for one, other in zip(
            index.query(points[:50], 7, n_threads=1),
            again.query(points[:50], 7, n_threads=1),
            strict=True,
        ):
            np.testing.assert_array_equal(one, other)


def check_invariants(X, tree, distance):
    """Nesting, covering and separation of a compressed cover tree.

    C_i holds the points of level i and more. A child lies one or more levels below its parent and
    is within unit * base**(level + 1) of it; in C_i the children of one node and the node itself
    are more than unit * base**i apart.
    """
    levels, parents, base, unit = tree.levels(), tree.parents(), tree.base, tree.unit
    assert base > 1
    roots = np.flatnonzero(parents < 0)
    assert len(roots) == 1
    twins = levels == engine.DUPLICATE
    slack = 1 + 1e-5
    rounding = 4e-7 * np.abs(X).max()  # of the tree's own copy of the points, in float32
    for point in np.flatnonzero(parents >= 0):
        if twins[point]:
            continue
        parent = parents[point]
        assert not twins[parent]
        assert levels[point] < levels[parent]  # nesting
        reach = unit * base ** (levels[point] + 1.0)
        assert distance(point, parent) <= reach * slack + rounding  # covering
    for node in np.flatnonzero(~twins):
        children = np.flatnonzero((parents == node) & ~twins)
        family = [node, *children]
        for i, one in enumerate(family):
            for other in family[:i]:
                level = min(levels[one], levels[other])
                apart = unit * base ** float(level)
                assert distance(one, other) > apart / slack - rounding  # separation
    # no place is in the tree twice, and a twin hangs under the point that has its place
    assert len(np.unique(X[~twins], axis=0)) == (~twins).sum()
    for point in np.flatnonzero(twins):
        assert distance(point, parents[point]) <= rounding


class TestTree:
    @given(X=st.one_of(lattices(60), clouds(60)), base=st.sampled_from([None, 1.3, 2.0]))
    @settings(max_examples=80, deadline=None)
    def test_invariants(self, X, base):
        tree = CoverTree(X, base=base)
        X64 = X.astype(float)
        check_invariants(X, tree, lambda a, b: np.linalg.norm(X64[a] - X64[b]))

    @given(X=lattices(50))
    @settings(max_examples=40, deadline=None)
    def test_invariants_in_feature_space(self, X):
        tree = CoverTree(X, metric="poly", gamma=0.5, degree=2, coef0=1.0)
        squared = true_squared(X, X, POLY)
        levels, parents = tree.levels(), tree.parents()
        for point in np.flatnonzero((parents >= 0) & (levels != engine.DUPLICATE)):
            reach = tree.unit * tree.base ** (levels[point] + 1.0)
            assert levels[point] < levels[parents[point]]
            assert squared[point, parents[point]] <= reach**2 * (1 + 1e-4)

    @given(X=clouds(120), seed=st.integers(0, 1000), batches=st.integers(1, 4))
    @settings(max_examples=40, deadline=None)
    def test_insert_and_remove_equal_a_fresh_tree(self, X, seed, batches):
        rng = np.random.default_rng(seed)
        first, *later = np.array_split(X, batches + 1) if len(X) > batches + 1 else (X,)
        tree = CoverTree(first)
        for batch in later:
            tree.insert(batch)
        kept = np.ones(len(X), dtype=bool)
        kept[rng.permutation(len(X))[: len(X) // 3]] = False
        tree.remove(np.flatnonzero(~kept))
        k = min(5, int(kept.sum()))
        distances, indices = tree.query(X[:10], k)
        true = np.sqrt(true_squared(X, X[:10], EUCLIDEAN))
        assert kept[indices].all()
        np.testing.assert_allclose(
            distances, np.sort(true[:, kept], axis=1)[:, :k], rtol=1e-4, atol=1e-6
        )
        np.testing.assert_allclose(
            np.take_along_axis(true, indices, axis=1), distances, rtol=1e-4, atol=1e-6
        )

    def test_many_inserts_and_removes(self):
        """Past the share at which the tree is rebuilt, in both directions."""
        rng = np.random.default_rng(0)
        X = rng.normal(size=(3000, 3))
        tree = CoverTree(X[:1000])
        for start in range(1000, 3000, 250):
            tree.insert(X[start : start + 250])
        tree.remove(np.arange(0, 3000, 2))
        kept = np.arange(1, 3000, 2)
        distances, indices = tree.query(X[:100], 3)
        expected, positions = (
            NearestNeighbors(algorithm="brute").fit(X[kept]).kneighbors(X[:100], 3)
        )
        np.testing.assert_array_equal(indices, kept[positions])
        np.testing.assert_allclose(distances, expected, rtol=1e-4, atol=1e-6)
        levels = tree.levels()  # rebuilds, and still answers the same
        assert len(levels) >= len(kept)
        np.testing.assert_array_equal(tree.query(X[:100], 3)[1], kept[positions])

    def test_inserted_points_may_lie_where_the_first_ones_do_not(self):
        """Single precision fits the bulk of the points, wherever that has moved to."""
        tree = CoverTree([[0.0], [1e-18]])
        tree.insert([[1.0], [2.0]])
        distances, ids = tree.query([[2.0]], 2)
        np.testing.assert_array_equal(ids, [[3, 2]])
        np.testing.assert_allclose(distances, [[0, 1]])
        tree.insert(1e9 + 4 * np.arange(20)[:, None])
        distances, ids = tree.query([[1e9 + 3]], 2)
        np.testing.assert_array_equal(ids, [[5, 4]])
        np.testing.assert_allclose(distances, [[1, 3]])

    def test_pickle(self):
        X = np.random.default_rng(1).normal(size=(400, 4))
        tree = CoverTree(X)
        tree.insert(X[:20] + 0.01)
        again = pickle.loads(pickle.dumps(tree))
        for one, other in zip(tree.query(X, 5), again.query(X, 5), strict=True):
            np.testing.assert_array_equal(one, other)

    def test_all_points_equal(self):
        tree = CoverTree(np.ones((50, 3)))
        distances, indices = tree.query(np.ones((1, 3)), 4)
        np.testing.assert_array_equal(indices, [[0, 1, 2, 3]])
        np.testing.assert_array_equal(distances, np.zeros((1, 4)))


class TestEstimators:
    @pytest.fixture
    def data(self):
        rng = np.random.default_rng(5)
        X = rng.normal(size=(700, 6))
        return X, (X[:, 0] + X[:, 1] ** 2 > 0.5).astype(int), rng.normal(size=(90, 6))

    @pytest.mark.parametrize("algorithm", ["auto", "tree", "scan", "kd_tree"])
    def test_neighbours_as_scikit_learn(self, data, algorithm):
        X, _, Q = data
        ours = CoverTreeNeighbors(n_neighbors=8, radius=1.2, algorithm=algorithm).fit(X)
        theirs = NearestNeighbors(n_neighbors=8, radius=1.2).fit(X)
        for queries in (None, Q):
            distances, indices = ours.kneighbors(queries)
            expected_distances, expected = theirs.kneighbors(queries)
            np.testing.assert_array_equal(indices, expected)
            np.testing.assert_allclose(distances, expected_distances, rtol=1e-5, atol=1e-6)
        distances, indices = ours.radius_neighbors(Q, sort_results=True)
        expected_distances, expected = theirs.radius_neighbors(Q, sort_results=True)
        for one, other in zip(indices, expected, strict=True):
            np.testing.assert_array_equal(one, other)
        for one, other in zip(distances, expected_distances, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5)
        for mode in ("connectivity", "distance"):
            graph = ours.kneighbors_graph(Q, mode=mode)
            np.testing.assert_allclose(
                graph.toarray(), theirs.kneighbors_graph(Q, mode=mode).toarray(), rtol=1e-5
            )

    @pytest.mark.parametrize("weights", ["uniform", "distance"])
    def test_classifier_as_scikit_learn(self, data, weights):
        X, y, Q = data
        ours = CoverTreeClassifier(n_neighbors=9, weights=weights).fit(X, y)
        theirs = KNeighborsClassifier(n_neighbors=9, weights=weights).fit(X, y)
        np.testing.assert_array_equal(ours.predict(Q), theirs.predict(Q))
        np.testing.assert_allclose(ours.predict_proba(Q), theirs.predict_proba(Q), rtol=1e-4)

    def test_huge_offsets_and_tiny_scales(self, data):
        """Distances are those of float64 data, though the engine computes in float32."""
        X, _, Q = data
        steps = np.round(X * 64), np.round(Q * 64)
        expected = CoverTreeNeighbors(n_neighbors=5).fit(steps[0]).kneighbors(steps[1])
        for scale, offset in ((1.0, 1e9), (2.0**-66, 0.0), (2.0**40, 0.0)):
            ours = CoverTreeNeighbors(n_neighbors=5).fit(scale * steps[0] + offset)
            distances, _ = ours.kneighbors(scale * steps[1] + offset)
            np.testing.assert_allclose(distances, scale * expected[0], rtol=1e-5)

    def test_one_far_value_costs_the_others_nothing(self, data):
        X, _, _ = data
        steps = np.round(X * 64) + 1.7e9
        expected = CoverTreeNeighbors(n_neighbors=5).fit(steps).kneighbors(steps[:50])
        with_a_gap = np.vstack([steps, np.zeros(6)])
        distances, indices = (
            CoverTreeNeighbors(n_neighbors=5).fit(with_a_gap).kneighbors(steps[:50])
        )
        np.testing.assert_array_equal(indices, expected[1])
        np.testing.assert_allclose(distances, expected[0], rtol=1e-5)

    @pytest.mark.parametrize("k", [1, 4, 30])
    def test_a_lattice_is_full_of_ties(self, k):
        rng = np.random.default_rng(0)
        lattice = rng.permutation(
            np.stack(np.meshgrid(np.arange(40), np.arange(40)), -1).reshape(-1, 2)
        )
        queries = rng.integers(0, 40, (60, 2)) + 0.5
        answers = [
            CoverTreeNeighbors(k, algorithm=a).fit(lattice).kneighbors(queries)
            for a in ("scan", "kd_tree", "tree")
        ]
        for distances, indices in answers[1:]:
            np.testing.assert_array_equal(distances, answers[0][0])
            np.testing.assert_array_equal(indices, answers[0][1])
