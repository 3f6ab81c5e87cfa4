"""Answers of trained trees against a walk in NumPy."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest
from tests.ldkl.forests import FORMS, random_forest
from tests.reference import ldkl as reference

from vicinal.ldkl.forest import LDKLModel, unit_frame

every_form = pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)


def queries_for(forest, n=50, seed=1):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, forest.n_features)).astype(np.float32)


@every_form
@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("n_features", [1, 5, 15, 16, 40])
def test_scores(form, n_outputs, n_features):
    forest = random_forest(n_features, n_outputs=n_outputs, form=form)
    queries = queries_for(forest)
    expected = reference.score(forest, queries)
    atol = 1e-5 * np.abs(expected).max()
    np.testing.assert_allclose(forest.score(queries), expected, rtol=1e-5, atol=atol)


@pytest.mark.parametrize("n", [0, 1, 15, 16, 17, 2100])
def test_a_score_depends_on_no_other_query_and_no_thread(n):
    forest = random_forest(depths=(1, 6))
    queries = queries_for(forest, n)
    scores = forest.score(queries)
    np.testing.assert_array_equal(forest.score(queries, n_threads=3), scores)
    alone = [forest.score(queries[i : i + 1])[0] for i in range(n)]
    np.testing.assert_array_equal(np.reshape(alone, scores.shape), scores)


def test_walks_end_where_children_are_missing():
    forest = random_forest(depths=(4,))
    children = forest.children.copy()
    children[0, 1] = children[3] = -1
    forest = replace(forest, children=children)
    queries = queries_for(forest)
    np.testing.assert_allclose(
        forest.score(queries), reference.score(forest, queries), rtol=1e-4, atol=1e-4
    )


def test_cost():
    assert random_forest(depths=(11,), n_features=2).cost == 32
    assert random_forest(depths=(2,)).cost == 5
    assert random_forest(depths=(1,)).cost == 2
    assert random_forest(depths=(5, 3), n_outputs=4).cost == 6 * 8 - 2


def test_pickle():
    forest = random_forest()
    queries = queries_for(forest)
    scores = forest.score(queries)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(forest)).score(queries), scores)


def test_children_that_lead_back_are_refused():
    forest = random_forest()
    children = forest.children.copy()
    children[1, 0] = 0
    with pytest.raises(ValueError, match="precedes its parent"):
        replace(forest, children=children).score(queries_for(forest))


def test_standardised_features_are_not_moved():
    X = np.random.default_rng(0).normal(size=(500, 3))
    assert unit_frame(X).is_identity
    assert not unit_frame(X + 5).is_identity
    assert not unit_frame(3 * X).is_identity


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_queries_where_single_precision_ends(dtype):
    forest = random_forest(3)
    model = LDKLModel(unit_frame(queries_for(forest, 500)), forest)
    assert model.frame.is_identity
    far = np.array([[3e38, 3e38, 3e38], [1, -3e38, 3e38], [0, 1, 2]], dtype=dtype)
    if dtype == np.float64:
        far[0, 0] = 1e300
    scores = model.score(far)
    assert np.isfinite(scores).all()
    np.testing.assert_array_equal(scores, forest.score(model.frame.apply(far)))
