"""Probabilities through `CalibratedClassifierCV`: valid, in step with `predict`, and honest."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import brier_score_loss, log_loss
from tests.local.problems import three_classes

from vicinal import KNNSVC, CoverTreeClassifier, FaLKSVC, FastLSVC
from vicinal.datasets import make_two_spirals


@pytest.mark.parametrize("method", ["sigmoid", "isotonic"])
@pytest.mark.parametrize(
    "model", [FaLKSVC(100, C=4.0), FastLSVC(100, random_state=0), KNNSVC(50)], ids=str
)
def test_binary_probabilities(model, method):
    X, y = make_two_spirals(3000, random_state=0)
    X_test, y_test = make_two_spirals(1000, random_state=1)
    calibrated = CalibratedClassifierCV(model, method=method, cv=3).fit(X, y)
    probabilities = calibrated.predict_proba(X_test)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-6)
    np.testing.assert_array_equal(
        calibrated.predict(X_test), calibrated.classes_[probabilities.argmax(axis=1)]
    )
    constant = brier_score_loss(y_test, np.full(len(y_test), 0.5))
    assert brier_score_loss(y_test, probabilities[:, 1]) < 0.6 * constant
    # Of the points said to be of class 1 with probability p, a share of about p is.
    for low, high in ((0.0, 0.3), (0.7, 1.0)):
        said = (probabilities[:, 1] >= low) & (probabilities[:, 1] <= high)
        assert abs(probabilities[said, 1].mean() - y_test[said].mean()) < 0.08


def test_multi_class_probabilities():
    X, y, Q = three_classes(n=900)
    _, answers, _ = three_classes(n=1020, n_queries=0)
    calibrated = CalibratedClassifierCV(FaLKSVC(60, C=4.0), cv=3).fit(X, y)
    probabilities = calibrated.predict_proba(Q)
    assert probabilities.shape == (len(Q), 3)
    assert log_loss(answers[900:], probabilities, labels=calibrated.classes_) < 0.5


def test_a_fitted_model_is_calibrated_as_it_is():
    X, y = make_two_spirals(3000, random_state=0)
    model = FaLKSVC(100).fit(X[:2000], y[:2000])
    calibrated = CalibratedClassifierCV(FrozenEstimator(model)).fit(X[2000:], y[2000:])
    assert (calibrated.predict(X[2000:]) == model.predict(X[2000:])).mean() > 0.95


def test_neighbours_have_probabilities_of_their_own():
    X, y = make_two_spirals(500, random_state=0)
    probabilities = CoverTreeClassifier(5).fit(X, y).predict_proba(X)
    assert set(np.unique(np.round(probabilities * 5, 6))) <= set(range(6))
