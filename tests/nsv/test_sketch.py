"""Sketches of a machine: what they are fitted to, and what the engine makes of them."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import Ridge
from sklearn.svm import SVC
from tests.nsv.machines import KERNELS, random_machine

from vicinal.engine import EarlyMachine, Walking
from vicinal.nsv import NSVClassifier
from vicinal.nsv.calibration import Truth
from vicinal.nsv.embedding import kernel_values
from vicinal.nsv.model import LinearFilter
from vicinal.nsv.settings import Evidence
from vicinal.nsv.sketch import RIDGE, sketches


def trained(n_classes, kernel, monkeypatch, sizes=(20, 35)):
    monkeypatch.setattr("vicinal.nsv.sketch.LANDMARKS", sizes)
    monkeypatch.setattr("vicinal.nsv.sketch.AXES", (4, 7))
    arguments, _ = random_machine(n_classes, m=90, d=12, kernel=kernel)
    machine, vectors = EarlyMachine(*arguments), arguments[0]
    rng = np.random.default_rng(1)
    queries = vectors[rng.integers(90, size=200)] + rng.normal(size=(200, 12))
    queries = queries.astype(np.float32)
    truth = Truth.of(machine, queries, n_threads=1)
    axes = np.linalg.svd(vectors, full_matrices=False)[2][:9].astype(np.float32)
    found = list(
        sketches(vectors, axes, kernel, queries, truth, random_state=np.random.RandomState(0))
    )
    return machine, queries, truth, found


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
@pytest.mark.parametrize("n_classes", [2, 4])
def test_scores_are_a_least_squares_fit(n_classes, kernel, monkeypatch):
    _, queries, truth, found = trained(n_classes, kernel, monkeypatch)
    assert [sketch.landmarks.shape for sketch in found] == [(20, 4), (35, 4), (20, 7), (35, 7)]
    certain = 2 * np.median(truth.leanings.max(axis=1))
    targets = np.clip(truth.leanings[:, n_classes == 2 :], -certain, certain)
    for sketch in found:
        z = queries.astype(float) @ sketch.axes.T
        features = np.hstack([z, kernel_values(z, sketch.landmarks.astype(float), kernel)])
        units = features.std(axis=0)
        expected = Ridge(RIDGE * len(z)).fit(features / units, targets).predict(features / units)
        weights = np.hstack([sketch.linear, sketch.weights])
        scores = features @ weights.T + sketch.bias
        np.testing.assert_allclose(scores, expected.reshape(scores.shape), atol=2e-2 * certain)


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
@pytest.mark.parametrize("n_classes", [2, 4])
def test_the_engine_believes_what_leads_by_more_than_a_threshold(n_classes, kernel, monkeypatch):
    machine, queries, truth, found = trained(n_classes, kernel, monkeypatch)
    linear = LinearFilter.none(queries.shape[1])
    for sketch in found:
        leaders, leads = sketch.scores(queries, kernel)
        level = np.sort(leads)[len(leads) // 3 : len(leads) // 3 + 2].mean()
        sure = np.abs(leads - level) > 1e-3 * leads.max()
        sketch = sketch._replace(thresholds=np.full(n_classes, level, dtype=np.float32))
        for n_threads in (1, 3):
            decisions, codes, touched = machine.answer(
                queries, (), linear, Walking(), sketch=sketch, n_threads=n_threads
            )
            believed = leads > level
            np.testing.assert_array_equal((touched == 0)[sure], believed[sure])
            np.testing.assert_array_equal(
                codes[sure], np.where(believed, leaders, truth.winners)[sure]
            )
        if n_classes == 2:
            given = np.abs(decisions)[sure & believed]
            np.testing.assert_allclose(given, leads[sure & believed], rtol=1e-3)


def test_a_sketch_that_does_not_fit_is_refused(monkeypatch):
    machine, queries, _, found = trained(4, KERNELS["rbf"], monkeypatch)
    linear, sketch = LinearFilter.none(queries.shape[1]), found[0]
    for part in ("axes", "landmarks", "linear", "weights"):
        wrong = sketch._replace(**{part: np.ascontiguousarray(getattr(sketch, part)[:, :-1])})
        with pytest.raises(ValueError, match="sketch does not fit"):
            machine.answer(queries, (), linear, Walking(), sketch=wrong)
    with pytest.raises(ValueError, match="sketch does not fit"):
        machine.answer(
            queries, (), linear, Walking(), sketch=sketch._replace(bias=sketch.bias[:-1])
        )


def test_halves_are_quarters_of_each_class_in_order():
    winners = np.array([0] * 8 + [1] * 4 + [0] * 8, dtype=np.int32)
    evidence = Evidence(np.zeros((20, 1), np.float32), Truth(winners, np.zeros((20, 2))))
    known, fresh = evidence.halves
    np.testing.assert_array_equal(known, [0, 1, 2, 3, 8, 10, 12, 13, 14, 15])
    np.testing.assert_array_equal(np.union1d(known, fresh), np.arange(20))


def test_a_sketch_answers_and_can_be_left_out():
    X, y = load_digits(return_X_y=True)
    svc = SVC(C=10, gamma=0.001).fit(X[:900], y[:900])
    model = NSVClassifier(FrozenEstimator(svc), max_disagreement=0.01, random_state=0).fit(X[:1500])
    assert model.calibration_["answered_by_sketch"] > 0.3
    assert (model.predict(X[1500:]) == svc.predict(X[1500:])).mean() > 0.98
    without = NSVClassifier(
        FrozenEstimator(svc), max_disagreement=0.01, sketch=False, random_state=0
    ).fit(X[:1500])
    assert without.model_.sketch is None
    assert without.calibration_["answered_by_sketch"] == 0
