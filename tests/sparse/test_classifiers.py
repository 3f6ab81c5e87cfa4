"""The sparse classifiers: what they learn, how they start and stop, and bad input."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import make_blobs, make_moons
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from vicinal.sparse import PSKClassifier, RSVMClassifier, SKLAClassifier, primal

BOTH = pytest.mark.parametrize("classifier", [PSKClassifier, RSVMClassifier])


def moons(n=400, noise=0.15):
    return make_moons(n, noise=noise, random_state=0)


def blobs(n=500, centers=5):
    X, y = make_blobs(n, n_features=4, centers=centers, cluster_std=1.5, random_state=0)
    return StandardScaler().fit_transform(X), np.array(list("abcdefgh"))[y]


def test_every_point_a_vector_is_nearly_the_whole_machine():
    X, y = moons(200)
    whole = SVC(C=10, gamma=1.0).fit(X, y)
    model = RSVMClassifier(200, C=10, gamma=1.0).fit(X, y)
    assert (model.predict(X) == whole.predict(X)).mean() > 0.98


@pytest.mark.parametrize("kernel", ["rbf", "poly", "linear"])
@pytest.mark.parametrize("data", [moons, blobs])
def test_moving_vectors_lowers_the_objective(kernel, data):
    X, y = data()
    parameters = {"kernel": kernel, "gamma": 0.5, "coef0": 1.0, "degree": 2, "C": 10}
    fixed = RSVMClassifier(6, init="k-means", random_state=0, **parameters).fit(X, y)
    moved = PSKClassifier(6, random_state=0, max_iter=30, **parameters).fit(X, y)
    assert (np.diff(moved.objective_) <= 0).all()
    # Linear machines in few dimensions have all that they need at once.
    assert moved.objective_[-1] < fixed.objective_[-1] * (0.99 if kernel == "rbf" else 1.001)
    assert moved.score(X, y) >= fixed.score(X, y) - 0.01


def test_vectors_find_the_centres_of_the_clusters():
    X, y = make_blobs(400, centers=[[0, 0], [0, 6], [6, 0], [6, 6]], random_state=0)
    far = np.array([[-3.0, -3.0], [-3.0, 9.0], [9.0, -3.0], [9.0, 9.0]])
    model = PSKClassifier(init=far, gamma=0.1, C=10).fit(X, y)
    assert model.score(X, y) > 0.99
    means = np.array([X[y == code].mean(axis=0) for code in range(4)])
    apart = np.linalg.norm(model.vectors_[:, None] - means, axis=2).min(axis=0)
    assert (apart < np.linalg.norm(far[:, None] - means, axis=2).min(axis=0)).all()


def test_gamma_follows_the_objective():
    X, y = moons()
    fixed = PSKClassifier(8, gamma=30.0, C=10, random_state=0).fit(X, y)
    learnt = PSKClassifier(8, gamma=30.0, C=10, learn_gamma=True, random_state=0).fit(X, y)
    assert fixed.gamma_ == pytest.approx(30.0)
    assert learnt.gamma_ < 15.0
    assert learnt.objective_[-1] < fixed.objective_[-1]


def test_a_linear_kernel_has_no_gamma_to_learn():
    with pytest.raises(ValueError, match="learn_gamma"):
        PSKClassifier(5, kernel="linear", learn_gamma=True).fit(*moons())


@BOTH
def test_decisions_are_those_of_the_published_arrays(classifier):
    X, y = blobs()
    model = classifier(12, gamma=0.3, random_state=0).fit(X, y)
    apart = ((X[:, None] - model.vectors_) ** 2).sum(axis=2)
    outputs = np.exp(-0.3 * apart) @ model.dual_coef_.T + model.intercept_
    np.testing.assert_allclose(model.decision_function(X), outputs, atol=1e-4, rtol=1e-4)


@BOTH
def test_far_data_are_the_same_data(classifier):
    X, y = moons()
    here, there = (classifier(8, gamma=1.0, init="k-means", random_state=0) for _ in range(2))
    here.fit(X, y), there.fit(X + 1e5, y)
    same = here.predict(X) == there.predict(X + 1e5)
    assert same.mean() > 0.98


@BOTH
def test_a_weight_of_two_is_a_point_that_is_there_twice(classifier):
    X, y = moons(100)
    weight = np.random.default_rng(0).integers(0, 3, len(X))
    init = X[:7]
    once = classifier(init=init, gamma=1.0).fit(X, y, sample_weight=weight)
    twice = classifier(init=init, gamma=1.0).fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    np.testing.assert_allclose(once.decision_function(X), twice.decision_function(X), atol=0.02)


@BOTH
def test_class_weights_move_the_border(classifier):
    X, y = moons(noise=0.4)
    plain, heavy = (classifier(8, class_weight=w, random_state=0) for w in (None, {1: 20.0}))
    assert (heavy.fit(X, y).predict(X) == 1).sum() > (plain.fit(X, y).predict(X) == 1).sum() + 10


@BOTH
def test_blocks_change_nothing(classifier, monkeypatch):
    X, y = blobs(2000)
    whole = classifier(init=X[:10]).fit(X, y)
    monkeypatch.setattr(primal, "BLOCK_BYTES", 1000)
    parts = classifier(init=X[:10], cache_size=0.04).fit(X, y)
    np.testing.assert_allclose(parts.objective_[:3], whole.objective_[:3], rtol=1e-4)
    assert (parts.predict(X) == whole.predict(X)).mean() > 0.99


def test_warm_start_goes_on():
    X, y = moons()
    model = PSKClassifier(8, gamma=2.0, max_iter=3, warm_start=True, random_state=0).fit(X, y)
    first = model.objective_[-1]
    assert model.fit(X, y).objective_[0] < first
    model.set_params(n_vectors=9).fit(X, y)
    assert model.vectors_.shape == (9, 2)


def test_early_stopping_keeps_the_best():
    X, y = moons(noise=0.35)
    model = PSKClassifier(20, gamma=20.0, C=100, early_stopping=True, tol=0, random_state=0)
    model.set_params(n_iter_no_change=3, max_iter=60).fit(X, y)
    scores = model.validation_scores_
    assert len(scores) == model.n_iter_ < 60
    assert len(scores) - scores.argmax() == 4


@pytest.mark.parametrize("model", [PSKClassifier(50, max_iter=5), RSVMClassifier(50)])
def test_more_vectors_than_points(model):
    X, y = moons(30)
    with pytest.warns(UserWarning, match="n_vectors=50 exceeds the 30 training points"):
        model.fit(X, y)
    assert model.vectors_.shape == (30, 2)


def test_a_class_smaller_than_its_share():
    X, y = moons(100)
    y = np.where(np.arange(100) < 2, 2, y)
    model = PSKClassifier(60, random_state=0, max_iter=5).fit(X, y)
    assert model.vectors_.shape == (60, 2)


@BOTH
def test_identical_points(classifier):
    X, y = np.repeat([[0.0, 0.0], [1.0, 1.0]], 20, axis=0), np.repeat([0, 1], 20)
    model = classifier(6, gamma=1.0, init="k-means", random_state=0).fit(X, y)
    assert model.score(X, y) == 1.0
    assert np.isfinite(model.dual_coef_).all()


@BOTH
def test_vectors_that_meet_cost_nothing(classifier):
    X, y = moons()
    one = RSVMClassifier(init=X[:5], gamma=1.0).fit(X, y)
    two = RSVMClassifier(init=np.repeat(X[:5], 2, axis=0), gamma=1.0).fit(X, y)
    assert two.objective_[-1] == pytest.approx(one.objective_[-1], rel=1e-5)
    assert np.abs(two.dual_coef_).max() <= np.abs(one.dual_coef_).max()


@BOTH
@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"init": np.zeros((3, 7))}, "init has 7 features, but X has 2"),
        ({"init": np.zeros((3, 2)), "n_vectors": 5}, "init holds 3 vectors"),
        ({"init": np.full((3, 2), np.nan)}, "NaN"),
        ({"n_vectors": 0}, "n_vectors"),
        ({"fraction": 0.0}, "fraction"),
    ],
)
def test_bad_parameters_are_named(classifier, parameters, message):
    with pytest.raises(ValueError, match=message):
        classifier(**parameters).fit(*moons(50))


@BOTH
def test_one_class(classifier):
    X, _ = moons(50)
    with pytest.raises(ValueError, match="one class only"):
        classifier().fit(X, np.zeros(50))


def test_a_fit_that_fails_leaves_the_last_one():
    X, y = moons(100)
    model = PSKClassifier(5, random_state=0, max_iter=5).fit(X, y)
    before = model.predict(X)
    with pytest.raises(ValueError, match="one class"):
        model.fit(X, np.zeros(100))
    np.testing.assert_array_equal(model.predict(X), before)


class Stop:
    """A callback that ends a fit after some steps."""

    def __init__(self, after):
        self.after = after

    def setup(self, estimator, context):
        self.seen = []

    def teardown(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context, *, X=None, fitted_estimator=None):
        if fitted_estimator is not None:
            self.seen.append(fitted_estimator.decision_function(X))
        return len(self.seen) >= self.after


@pytest.mark.parametrize("classifier", [PSKClassifier, SKLAClassifier])
def test_a_callback_sees_every_step_and_may_stop(classifier):
    X, y = moons(200)
    stop = Stop(4)
    model = classifier(6, gamma=2.0, tol=0, random_state=0).set_callbacks(stop).fit(X, y)
    assert model.n_iter_ == len(model.objective_) == 4
    np.testing.assert_allclose(stop.seen[3], model.decision_function(X), atol=1e-6)


@pytest.mark.parametrize("data", [moons, blobs])
def test_the_dual_version_lowers_its_objective_too(data):
    X, y = data(200)
    fixed = SKLAClassifier(6, gamma=0.5, C=10, max_iter=1, random_state=0).fit(X, y)
    moved = SKLAClassifier(6, gamma=0.5, C=10, max_iter=15, random_state=0).fit(X, y)
    assert moved.objective_[-1] < fixed.objective_[-1]
    assert moved.score(X, y) > 0.9


@BOTH
@pytest.mark.parametrize("scale", [1e-20, 1e20, 1e300])
@pytest.mark.filterwarnings("error")
def test_any_units_will_do(classifier, scale):
    X, y = moons()
    init = X[:8]
    usual, odd = (classifier(init=init * s).fit(X * s, y) for s in (1.0, scale))
    assert (odd.predict(X * scale) == usual.predict(X)).mean() > 0.98


@BOTH
def test_extreme_penalties_and_widths_give_numbers(classifier):
    X, y = blobs(200)
    for parameters in ({"C": 1e-12}, {"C": 1e20}, {"gamma": 1e-12}, {"gamma": 1e12}):
        model = classifier(6, random_state=0, **parameters).fit(X, y)
        assert np.isfinite(model.decision_function(X)).all()
        assert len(model.objective_) >= 1


def test_too_few_points_to_stop_early():
    X, y = moons(8)
    with pytest.raises(ValueError, match="change validation_fraction"):
        PSKClassifier(2, early_stopping=True).fit(X, y)
