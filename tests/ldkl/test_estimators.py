"""Classifier and regressor: what they learn, and how their parameters act."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_digits, make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from tests.ldkl.forests import random_forest
from tests.reference import ldkl as reference

from vicinal.ldkl import LDKLClassifier, LDKLRegressor
from vicinal.ldkl.forest import Forest


@pytest.fixture(scope="module")
def moons():
    return train_test_split(*make_moons(1500, noise=0.2, random_state=0), random_state=0)


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return train_test_split(X / 8 - 1, y, random_state=0)


def short(depth=4, **parameters):
    given = {"batch_size": 64, "max_iter": 25, "random_state": 0, **parameters}
    return LDKLClassifier(depth, **given)


def arrays(model):
    forest = model.model_.forest
    return forest.splits, forest.gates, forest.weights


def assert_same(a, b):
    for one, other in zip(arrays(a), arrays(b), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("loss", ["logistic", "hinge", "squared_hinge"])
def test_curved_classes(moons, loss):
    X, X_test, y, y_test = moons
    model = short(loss=loss).fit(X, y)
    linear = LogisticRegression().fit(X, y).score(X_test, y_test)
    assert model.score(X_test, y_test) > max(0.95, linear + 0.05)
    assert model.cost_ == 11


@pytest.mark.parametrize("loss", ["logistic", "hinge", "squared_hinge"])
def test_many_classes_share_the_trees(digits, loss):
    X, X_test, y, y_test = digits
    names = np.array([f"digit {d}" for d in range(10)])
    model = short(3, loss=loss).fit(X, names[y])
    assert model.score(X_test, names[y_test]) > 0.9
    assert model.decision_function(X_test).shape == (len(X_test), 10)
    assert model.cost_ == 3 * 12 - 1


@pytest.mark.parametrize(
    "parameters",
    [
        {"compositional": True},
        {"global_features": "quadratic"},
        {"n_trees": 3, "depth": 3},
        {"constant": "auto"},
        {"sigma": 3.0, "alpha_weights": 1e-3, "alpha_splits": 1e-3, "alpha_gates": 1e-3},
    ],
    ids=str,
)
def test_options(moons, parameters):
    X, X_test, y, y_test = moons
    model = short(**parameters).fit(X, y)
    assert model.score(X_test, y_test) > 0.93
    np.testing.assert_allclose(
        model.decision_function(X_test[:20]),
        reference.score(model.model_.forest, model.model_.frame.apply(X_test[:20]))[:, 0],
        rtol=1e-3,
        atol=1e-3,
    )


def test_probabilities(moons):
    X, X_test, y, _y_test = moons
    model = short(alpha_weights=1e-2).fit(X, y)
    probabilities = model.predict_proba(X_test)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    np.testing.assert_array_equal(probabilities.argmax(axis=1), model.predict(X_test))
    assert not hasattr(short(loss="hinge").fit(X, y), "predict_proba")


def test_threads_and_seeds(moons):
    X, _, y, _ = moons
    alone = short(max_iter=3).fit(X, y)
    assert_same(alone, short(max_iter=3, n_jobs=3).fit(X, y))
    other = short(max_iter=3, random_state=1).fit(X, y)
    assert (arrays(alone)[0] != arrays(other)[0]).all()


@pytest.mark.parametrize(("cost", "n_trees", "depth"), [(33, 1, 11), (5, 1, 2), (100, 3, 11)])
def test_budget(cost, n_trees, depth):
    model = LDKLClassifier.from_budget(cost, n_trees=n_trees, max_iter=1, random_state=0)
    assert model.depth == depth
    X = np.random.default_rng(0).normal(size=(40, 2))
    assert model.fit(X, X[:, 0] > 0).cost_ <= cost


def test_budget_of_many_classes_is_in_linear_machines(digits):
    X, _, y, _ = digits
    model = LDKLClassifier.from_budget(cost=5, n_classes=10, max_iter=1).fit(X, y)
    assert 3.8 < model.cost_ / 10 <= 5


def test_a_budget_for_nothing():
    with pytest.raises(ValueError, match=r"cost=1 is too little"):
        LDKLClassifier.from_budget(1)


def test_weights_count(moons):
    X, X_test, y, y_test = moons
    flipped = np.r_[y, 1 - y]
    weights = np.r_[np.ones(len(y)), np.full(len(y), 1e-3)]
    model = short().fit(np.r_[X, X], flipped, sample_weight=weights)
    assert model.score(X_test, y_test) > 0.95
    heavy = short(3, class_weight={0: 1, 1: 100}).fit(X, y)
    assert heavy.predict(X_test).mean() > 0.6
    assert_same(
        short().fit(X, y),
        short().fit(np.r_[X, X[:5]], np.r_[y, y[:5]], np.r_[np.ones(len(y)), np.zeros(5)]),
    )


def test_partial_fit(moons):
    X, X_test, y, y_test = moons
    model = short(alpha_weights=1e-2)
    for start in range(0, 60 * 96, 96):
        rows = np.arange(start, start + 96) % len(X)
        model.partial_fit(X[rows], y[rows], classes=[0, 1])
    assert model.n_iter_ == 60
    assert model.score(X_test, y_test) > 0.93


def test_warm_start_goes_on(moons):
    X, X_test, y, y_test = moons
    model = short(warm_start=True, max_iter=15).fit(X, y)
    first = model.loss_curve_[-1]
    model.set_params(learning_rate=0.002, max_iter=2).fit(X, y)
    assert model.loss_curve_[0] < 1.5 * first
    assert model.score(X_test, y_test) > 0.95
    with pytest.raises(ValueError, match="warm_start goes on"):
        model.set_params(depth=5).fit(X, y)


def test_early_stopping_keeps_the_best(moons):
    X, _, y, _ = moons
    model = short(early_stopping=True, n_iter_no_change=3, max_iter=60, validation_fraction=0.2)
    model.fit(X, y)
    assert model.n_iter_ == len(model.validation_scores_) <= 60
    assert model.validation_scores_[-1] <= max(model.validation_scores_)


def test_divergence_is_rescued(moons):
    X, _, y, _ = moons
    with pytest.warns(ConvergenceWarning, match="diverged in epoch 1"):
        model = short(loss="squared_hinge", learning_rate=1e25, max_iter=3).fit(X, y)
    assert all(np.isfinite(a).all() for a in arrays(model))


@pytest.mark.parametrize("scale", [1e-12, 1e12])
def test_any_unit_of_the_features(moons, scale):
    X, X_test, y, y_test = moons
    model = short().fit(X * scale + 3 * scale, y)
    assert model.score(X_test * scale + 3 * scale, y_test) > 0.95


def test_columns_of_very_different_size(moons):
    X, _, y, _ = moons
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = short().fit(np.c_[X, 1e20 * X[:, 0], np.full(len(X), 7.0)], y)
    assert all(np.isfinite(a).all() for a in arrays(model))


@pytest.mark.parametrize("sharpness", [(1.0,), (0.0, 3.0), (5.0, 1.0), ("a", "b")])
def test_bad_sharpness(moons, sharpness):
    X, _, y, _ = moons
    with pytest.raises(ValueError, match="sharpness must be two positive numbers"):
        short(sharpness=sharpness).fit(X, y)


def test_the_best_of_some_starts(moons):
    X, _, y, _ = moons
    one, many = (short(2, n_init=n, max_iter=10).fit(X, y) for n in (1, 5))
    assert many.loss_curve_[-1] <= one.loss_curve_[-1]


class TestPrune:
    def test_nothing_vanishes(self):
        forest = random_forest(depths=(3, 4))
        pruned = forest.prune()
        np.testing.assert_array_equal(pruned.children, forest.children)
        np.testing.assert_array_equal(pruned.weights, forest.weights)

    def test_scores_stay(self):
        forest = random_forest(depths=(5, 5))
        gates = forest.gates.copy()
        gates[np.random.default_rng(0).random(len(gates)) < 0.7] = 0
        forest = replace(forest, gates=gates)
        pruned = forest.prune()
        assert pruned.n_nodes < forest.n_nodes
        queries = np.random.default_rng(1).normal(size=(200, 5)).astype(np.float32)
        np.testing.assert_allclose(pruned.score(queries), forest.score(queries), rtol=1e-5)

    def test_all_vanish(self):
        forest = random_forest(depths=(3,))
        pruned = replace(forest, gates=0 * forest.gates).prune()
        assert (pruned.n_nodes, pruned.n_inner) == (1, 0)
        assert not pruned.score(np.ones((3, 5), np.float32)).any()

    def test_estimator(self, moons):
        X, X_test, y, _ = moons
        model = short(max_iter=2).fit(X, y)
        before = model.decision_function(X_test)
        np.testing.assert_array_equal(model.prune().decision_function(X_test), before)
        assert model.prune(1e9).cost_ == 2


def test_hard_and_soft_agree_once_sharp(moons):
    X, _, y, _ = moons
    model = short(warm_start=True, sharpness=(1.0, 1e4)).fit(X, y)
    points = model.model_.frame.apply(X)
    soft = model._soft.score(model._descent(), points, sharpness=1e4)
    hard = Forest.of(model._soft).score(points)
    close = np.isclose(soft, hard, rtol=1e-2, atol=1e-2)
    assert close.mean() > 0.98


class TestRegressor:
    def test_a_curve(self):
        rng = np.random.default_rng(0)
        X = rng.uniform(-3, 3, (1500, 1))
        y = 1e4 + 100 * np.sin(X[:, 0])
        model = LDKLRegressor(6, random_state=0).fit(X, y)
        assert model.score(X, y) > 0.98

    def test_partial_fit_and_early_stopping(self):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(600, 3))
        y = np.abs(X[:, 0])
        model = LDKLRegressor(3, random_state=0)
        for _ in range(40):
            model.partial_fit(X, y)
        assert model.score(X, y) > 0.8
        stopped = LDKLRegressor(3, random_state=0, early_stopping=True, max_iter=30).fit(X, y)
        assert stopped.score(X, y) > 0.8

    def test_constant_targets(self):
        X = np.random.default_rng(0).normal(size=(50, 2))
        model = LDKLRegressor(3, random_state=0, max_iter=5).fit(X, np.full(50, 3.0))
        np.testing.assert_allclose(model.predict(X), 3.0, atol=0.2)

    def test_budget(self):
        assert LDKLRegressor.from_budget(33).depth == 11
