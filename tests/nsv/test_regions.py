"""One set of thresholds for each leaf of a shallow tree."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.frozen import FrozenEstimator
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeRegressor
from tests.nsv.machines import random_machine

import vicinal
from vicinal.engine import EarlyMachine, Walking
from vicinal.nsv import NSVClassifier
from vicinal.nsv.regions import Regions


def queries_and_errors(n=900, seed=0):
    """Queries whose errors are larger where the first feature is."""
    rng = np.random.default_rng(seed)
    queries = rng.normal(size=(n, 4)).astype(np.float32)
    errors = np.abs(rng.normal(size=n)) * np.where(queries[:, 0] > 0.5, 2.0, 0.1)
    return queries, errors.astype(np.float32)


@pytest.mark.parametrize("n_regions", [1, 2, 5])
def test_the_tree_of_scikit_learn(n_regions):
    queries, errors = queries_and_errors()
    regions = Regions.grow(queries, errors, n_regions, 100, np.random.RandomState(0))
    assert regions.n_regions == n_regions
    if n_regions == 1:
        assert not regions.of(queries).any()
        return
    tree = DecisionTreeRegressor(
        max_leaf_nodes=n_regions, min_samples_leaf=100, random_state=np.random.RandomState(0)
    ).fit(queries, errors)
    _, expected = np.unique(tree.apply(queries), return_inverse=True)
    np.testing.assert_array_equal(regions.of(queries), expected)
    assert min(map(len, regions.rows(queries))) >= 100
    np.testing.assert_array_equal(
        np.sort(np.concatenate(regions.rows(queries))), np.arange(len(queries))
    )
    assert abs(regions.limit[0] - 0.5) < 0.1


def test_too_few_queries_are_not_parted():
    queries, errors = queries_and_errors()
    assert Regions.grow(queries, errors, 8, 500, np.random.RandomState(0)).n_regions == 1


@pytest.mark.parametrize("n_classes", [2, 4])
def test_each_query_has_the_thresholds_of_its_region(n_classes):
    arguments, queries = random_machine(n_classes)
    machine = EarlyMachine(*arguments)
    no_filter = np.zeros((0, 12), np.float32), np.zeros(0, np.float32), np.zeros(0, np.float32)
    _, leanings = machine.trace(queries, "pca", 3, 5, Walking())
    limits = [np.quantile(leanings, q, axis=0).clip(0).astype(np.float32) for q in (0.2, 0.6, 0.9)]
    sets = [np.tile(limit, (n_classes, 1)) for limit in limits]
    regions = (np.arange(len(queries)) % 3).astype(np.int32)
    levels = [("pca", 3, np.concatenate(sets))]
    for n_threads in (1, 3):
        found = machine.answer(
            queries, levels, no_filter, Walking(), regions=regions, n_threads=n_threads
        )
        for region in range(3):
            here = regions == region
            alone = machine.answer(queries[here], [("pca", 3, sets[region])], no_filter, Walking())
            for one, other in zip(found, alone, strict=True):
                np.testing.assert_array_equal(one[here], other)
    with pytest.raises(ValueError, match="region has no thresholds"):
        machine.answer(queries, levels, no_filter, Walking(), regions=regions + np.int32(1))
    with pytest.raises(ValueError, match="every query needs a region"):
        machine.answer(queries, levels, no_filter, Walking(), regions=regions[1:].copy())


@pytest.mark.parametrize("max_disagreement", [None, 0.02])
def test_both_rules(max_disagreement, tmp_path):
    X, y = make_classification(5000, 60, n_informative=12, random_state=1)
    svc = SVC(C=10).fit(X[:1500], y[:1500])
    model = NSVClassifier(
        FrozenEstimator(svc),
        max_disagreement=max_disagreement,
        embedding="pca",
        n_components=20,
        n_regions=4,
        linear_filter=False,
        random_state=0,
    ).fit(X[:3000])
    assert model.calibration_["n_regions"] == 4
    levels = model.model_.levels
    assert levels
    assert all(len(level.thresholds) == 8 for level in levels)
    assert len({tuple(row) for row in levels[0].thresholds[1::2]}) == 4
    wider = clone(model).set_params(n_generated=50).fit(X[:3000])
    for level, other in zip(levels, wider.model_.levels, strict=True):
        assert (other.thresholds >= level.thresholds).all()
    changed = model.predict(X[:3000]) != svc.predict(X[:3000])
    if max_disagreement is None:
        assert not changed.any()  # on the very data that the thresholds come from
    else:
        assert changed.mean() <= 0.02 * len(levels)
        assert (model.predict(X[3000:]) != svc.predict(X[3000:])).mean() <= 0.03
    vicinal.save(model, tmp_path / "model")
    kept = vicinal.load(tmp_path / "model")
    np.testing.assert_array_equal(kept.decision_function(X), model.decision_function(X))
