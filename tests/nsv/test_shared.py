"""Machines whose outputs share their vectors, early and exactly."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.utils import shuffle

import vicinal
from vicinal.nsv import NSVClassifier
from vicinal.nsv.model import NearestVectors
from vicinal.nsv.shared import of_classes, of_pairs
from vicinal.sparse import (
    PSKClassifier,
    ReducedSetClassifier,
    RSVMClassifier,
    SharedExpansion,
)

DIGITS, NAMES = shuffle(*load_digits(return_X_y=True), random_state=0)
X, Y, QUERIES = DIGITS[:700], NAMES[:700], DIGITS[700:]


def shared(n_outputs, kernel="rbf", offset=0.0, seed=0):
    rng = np.random.default_rng(seed)
    coef, bias = rng.normal(size=(40, n_outputs)), rng.normal(size=n_outputs)
    vectors = rng.normal(size=(40, 6)) + offset
    return SharedExpansion.make(vectors, coef, bias, kernel, gamma=0.2, coef0=1.0), vectors


@pytest.mark.parametrize("offset", [0.0, 1e3])
@pytest.mark.parametrize("kernel", ["rbf", "poly", "linear"])
@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_outputs_of_pairs(n_classes, kernel, offset):
    pairs = list(combinations(range(n_classes), 2))
    machine, points = shared(len(pairs), kernel, offset if kernel == "rbf" else 0.0)
    queries, outputs = machine.frame.queries(points + 0.1), machine.decision(points + 0.1)
    model = NearestVectors.exact(of_pairs(machine, n_classes))
    _, leanings = model.machine.settle(queries)
    speaking = np.full((n_classes, len(queries), n_classes), np.inf)
    for column, (a, b) in enumerate(pairs):
        speaking[b, :, a], speaking[a, :, b] = outputs[:, column], -outputs[:, column]
    expected = speaking.min(axis=2).T
    np.testing.assert_allclose(leanings, expected, atol=1e-4 * np.abs(expected).max())


@pytest.mark.parametrize("kernel", ["rbf", "poly", "linear"])
@pytest.mark.parametrize("n_classes", [3, 7])
def test_the_largest_output_wins(n_classes, kernel):
    machine, points = shared(n_classes, kernel)
    outputs = machine.decision(points + 0.1)
    model = NearestVectors.exact(of_classes(machine, n_classes))
    codes = model.answer(machine.frame.queries(points + 0.1), n_threads=1).codes
    second, first = np.sort(outputs, axis=1)[:, -2:].T
    clear = first - second > 1e-4 * np.abs(outputs).max()
    assert clear.mean() > 0.9
    np.testing.assert_array_equal(codes[clear], outputs.argmax(axis=1)[clear])


def test_vectors_of_one_sign():
    machine, _ = shared(1)
    with pytest.raises(ValueError, match="no vectors of one class"):
        of_pairs(SharedExpansion(**{**vars(machine), "coef": np.abs(machine.coef)}), 2)


@pytest.mark.parametrize("kernel", ["rbf", "poly", "linear"])
@pytest.mark.parametrize("n_classes", [2, 10])
def test_reduced_sets(n_classes, kernel):
    A, a = X[n_classes > Y], Y[n_classes > Y]
    svc = make_pipeline(StandardScaler(), SVC(kernel=kernel, coef0=1.0))
    reduced = ReducedSetClassifier(svc, n_vectors=4 * n_classes, max_iter=10, random_state=0).fit(
        A, a
    )
    model = NSVClassifier(FrozenEstimator(reduced), max_disagreement=0.01, random_state=0).fit(A)
    queries = QUERIES[NAMES[700:] < n_classes]
    assert (model.predict(queries) != reduced.predict(queries)).mean() < 0.03
    exact = model.model_.answer_exactly(model._queries(QUERIES), n_threads=1)
    expected = reduced.decision_function(QUERIES)
    np.testing.assert_allclose(
        exact.decisions, expected, rtol=1e-3, atol=1e-4 * np.abs(expected).max()
    )


@pytest.mark.parametrize("kernel", ["rbf", "poly", "linear"])
@pytest.mark.parametrize("n_classes", [2, 5])
@pytest.mark.parametrize("sparse", [PSKClassifier, RSVMClassifier])
def test_sparse_machines(sparse, n_classes, kernel):
    A, a = X[n_classes > Y], Y[n_classes > Y]
    early = NSVClassifier(
        make_pipeline(StandardScaler(), sparse(6 * n_classes, kernel=kernel, random_state=0)),
        max_disagreement=0.01,
        random_state=0,
    ).fit(A, a)
    queries = QUERIES[NAMES[700:] < n_classes]
    expected = early.estimator_.predict(queries)
    assert (early.predict(queries) != expected).mean() < 0.03
    codes = early.model_.answer_exactly(early._queries(queries), n_threads=1).codes
    assert (early.classes_[codes] != expected).mean() < 0.003  # of outputs that rounding decides


def test_what_is_not_frozen_is_fitted_and_saved(tmp_path):
    reduced = ReducedSetClassifier(SVC(), n_vectors=30, max_iter=5, random_state=0)
    model = NSVClassifier(reduced, random_state=0).fit(X, Y)
    vicinal.save(model, tmp_path / "m")
    loaded = vicinal.load(tmp_path / "m")
    np.testing.assert_array_equal(loaded.predict(QUERIES), model.predict(QUERIES))
    again = loaded.fit(X, Y)
    np.testing.assert_array_equal(again.predict(QUERIES), model.predict(QUERIES))
