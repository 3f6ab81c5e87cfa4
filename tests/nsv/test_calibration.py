"""Thresholds against their definitions, and shares of changes on data that nobody has seen."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.frozen import FrozenEstimator
from sklearn.svm import SVC
from tests.reference import nsv as reference

from vicinal.nsv import NSVClassifier
from vicinal.nsv.calibration import Traces, Truth, bounded_filter, paper_filter, train_filter


def random_traces(n_classes, n=400, n_steps=30, seed=0):
    """Outputs of two classes, or leanings of some, that come nearer to the truth step by step."""
    rng = np.random.default_rng(seed)
    exact = -np.abs(rng.normal(size=(n, n_classes)))  # all but one of them lose a pair
    exact[np.arange(n), rng.integers(n_classes, size=n)] *= -1
    if n_classes == 2:
        exact[:, 0] = -exact[:, 1]
    noise = np.geomspace(1.5, 0.05, n_steps + 1)
    errors = rng.normal(size=(n, n_steps + 1, n_classes)) * noise[None, :, None]
    if n_classes == 2:
        errors[..., 0] = -errors[..., 1]
    partial = exact[:, None] + errors
    truth = Truth(exact.argmax(axis=1).astype(np.int32), exact.astype(np.float32))
    leaders = partial.argmax(axis=2).astype(np.int32)
    return Traces(leaders, partial.max(axis=2).astype(np.float32), truth), partial


@pytest.mark.parametrize("window", [0, 3, 10])
def test_two_classes_get_the_thresholds_of_the_paper(window):
    traces, partial = random_traces(2)
    low, high = reference.simple_thresholds(partial[:, :, 1], traces.truth.leanings[:, 1])
    low, high = reference.max_smoothed(low, high, window)
    np.testing.assert_allclose(traces.paper_thresholds(window), [-low, high], rtol=1e-6)


def test_more_classes_share_theirs():
    traces, _ = random_traces(3)
    lost = np.where(traces.leaders != traces.truth.winners[:, None], traces.leanings, 0)
    np.testing.assert_array_equal(traces.paper_thresholds(0), np.tile(lost.max(axis=0), (3, 1)))


@pytest.mark.parametrize("n_classes", [2, 5])
@pytest.mark.parametrize("share", [0.0, 0.01, 0.1])
def test_no_more_than_a_share_of_the_leaders_exceed_their_excess(n_classes, share):
    traces, _ = random_traces(n_classes)
    thresholds = traces.bounded_thresholds(share)
    for step in range(traces.leanings.shape[1]):
        leaning, leader = traces.leanings[:, step], traces.leaders[:, step]
        excess = leaning - traces.truth.leanings[np.arange(len(leaning)), leader]
        assert (excess > thresholds[0, step]).mean() <= share
        wrong = (leader != traces.truth.winners) & (leaning > thresholds[leader, step])
        assert wrong.mean() <= share


def test_outcomes():
    traces, _ = random_traces(3)
    thresholds = traces.paper_thresholds(2)
    steps = traces.steps(thresholds)
    for q, step in enumerate(steps):
        exceeds = [
            traces.leanings[q, k] > thresholds[traces.leaders[q, k], k]
            for k in range(traces.leanings.shape[1])
        ]
        assert step == (exceeds.index(True) if any(exceeds) else -1)
    assert not traces.changed(steps).any()  # thresholds of these very queries
    assert traces.changed(np.zeros(len(steps), dtype=int)).any()
    short = traces.shortened(4)
    np.testing.assert_array_equal(short.steps(thresholds[:, :5]), np.where(steps <= 4, steps, -1))


def test_paper_filter():
    rng = np.random.default_rng(0)
    leads = rng.exponential(size=500).astype(np.float32)
    leads[7] = 50.0  # an outlier
    leaders = rng.integers(2, size=500).astype(np.int32)
    leaders[7] = 0
    winners = np.where(rng.random(500) < 0.2, 1 - leaders, leaders)
    winners[7] = 1
    found = paper_filter(leaders, leads, Truth(winners, np.zeros((500, 2), np.float32)))
    for code in range(2):
        lost = leads[(leaders == code) & (winners != code)]
        expected = min(lost.max(), lost.mean() + 3 * lost.std())
        np.testing.assert_allclose(found[code], expected, rtol=1e-5)
    assert found[0] < 50


@pytest.mark.parametrize("n_classes", [2, 4])
def test_bounded_filter(n_classes):
    traces, _ = random_traces(n_classes, n=2000)
    leaders, leads, truth = traces.leaders[:, 0], traces.leanings[:, 0], traces.truth
    widest = 0.0
    for share in (0.0, 0.002, 0.05):
        limits = bounded_filter(leaders, leads, truth, share)
        wrong = (leads > limits[leaders]) & (leaders != truth.winners)
        assert wrong.mean() <= share
        answered = (leads > limits[leaders]).mean()
        assert answered >= widest
        widest = answered
    assert widest > 0.1


def test_a_filter_of_absent_classes_answers_nothing():
    queries = np.random.default_rng(0).normal(size=(50, 3)).astype(np.float32)
    linear = train_filter(
        queries, np.zeros(50, np.int32), 2, np.arange(50), random_state=np.random.RandomState(0)
    )
    assert len(linear.weights) == 0


@pytest.mark.parametrize("n_classes", [2, 5])
def test_the_bound_holds_on_data_never_seen(n_classes):
    X, y = make_classification(
        9000, 60, n_informative=12, n_classes=n_classes, n_clusters_per_class=2, random_state=1
    )
    svc = SVC(C=10).fit(X[:1500], y[:1500])
    model = NSVClassifier(FrozenEstimator(svc), max_disagreement=0.005, random_state=0)
    model.fit(X[:4000])
    fresh = X[4000:]
    assert (model.predict(fresh) != svc.predict(fresh)).mean() <= 0.005
    if n_classes == 2:
        assert model.n_touched(fresh).mean() < 0.7 * model.n_support_
