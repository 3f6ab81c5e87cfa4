"""Landmarks, blocks of close vectors, and classifiers that approximate by them."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits, make_moons
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.svm import SVC
from tests.nsv.machines import KERNELS
from tests.reference import nsv as reference

from vicinal.nsv import NSVClassifier
from vicinal.nsv.embedding import BLOCK, in_blocks, kernel_values, spread_landmarks

RNG = np.random.default_rng(0)
POINTS = RNG.normal(size=(90, 4)).astype(np.float32)


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_kernel_values(kernel):
    P = POINTS.astype(float)
    squared = (P**2).sum(axis=1)
    expected = reference.kernel_values(P @ P.T, kernel, squared, squared)
    np.testing.assert_allclose(kernel_values(P, P, kernel), expected, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("name", ["rbf", "poly"])
def test_axes_of_landmarks(name):
    """Dot products on them are the best approximation by the landmarks: Nyström's."""
    kernel = KERNELS[name]
    landmarks, basis = spread_landmarks(POINTS, kernel, 20, np.random.RandomState(0))
    assert len(set(landmarks)) == 20
    assert not np.triu(basis, 1).any()
    K = kernel_values(POINTS.astype(float), POINTS.astype(float), kernel)
    for n in (5, 20):  # the first n axes ask for the first n landmarks
        chosen = landmarks[:n]
        embedded = K[:, chosen] @ basis[:n, :n].T.astype(float)
        nystroem = K[:, chosen] @ np.linalg.solve(K[np.ix_(chosen, chosen)], K[chosen])
        np.testing.assert_allclose(embedded @ embedded.T, nystroem, atol=1e-3 * K.max())


def test_no_landmark_says_what_others_have_said():
    few = np.repeat(POINTS[:7], 10, axis=0)
    landmarks, _ = spread_landmarks(few, KERNELS["rbf"], 20, np.random.RandomState(0))
    assert len(landmarks) == 7
    flat = KERNELS["linear"]  # as many dimensions as features
    assert len(spread_landmarks(POINTS, flat, 20, np.random.RandomState(0))[0]) == 4
    nothing = np.zeros((5, 4), dtype=np.float32)
    assert len(spread_landmarks(nothing, flat, 3, np.random.RandomState(0))[0]) == 0


@pytest.mark.parametrize("n", [0, 1, 16, 17, 33, 250])
def test_blocks(n):
    points = RNG.uniform(size=(n, 2))
    order = in_blocks(points)
    np.testing.assert_array_equal(np.sort(order), np.arange(n))
    if n == 250:
        blocks = [points[order[i : i + BLOCK]] for i in range(0, n, BLOCK)]
        assert np.mean([block.std() for block in blocks]) < 0.7 * points.std()
        spreads = [np.ptp(block, axis=0).max() for block in blocks]
        assert max(spreads) < 0.8


def test_blocks_of_twins_and_constant_features():
    points = np.tile([[1.0, 2.0]], (40, 1))
    np.testing.assert_array_equal(np.sort(in_blocks(points)), np.arange(40))


class TestClassifier:
    X, y = make_moons(3000, noise=0.3, random_state=0)
    fresh = make_moons(2000, noise=0.3, random_state=1)[0]

    @pytest.mark.parametrize("embedding", ["kernel_pca", "index", "auto"])
    @pytest.mark.parametrize("start", ["approximations", "bias"])
    @pytest.mark.parametrize("order", ["score", "term", "tug_of_war"])
    def test_ways_of_the_paper(self, order, start, embedding):
        model = NSVClassifier(
            SVC(C=10, gamma=10), max_disagreement=None, embedding=embedding, order=order,
            start=start, linear_filter=False, max_steps=10**6, random_state=0,
        ).fit(self.X, self.y, X_calibration=self.fresh)  # fmt: skip
        exact = model.estimator_.predict(self.fresh)
        np.testing.assert_array_equal(model.predict(self.fresh), exact)
        expected = "index" if embedding == "auto" else embedding  # two features
        assert model.calibration_["embeddings"] == [expected]
        touched = model.n_touched(self.fresh)
        assert touched.max() <= model.n_support_
        assert touched.mean() < model.n_support_

    def test_the_cheapest_is_chosen(self):
        """Landmarks for a wide kernel, whatever the number of vectors; axes for many features."""
        wide = NSVClassifier(SVC(C=1, gamma=0.5), linear_filter=False, random_state=0)
        wide.fit(self.X, self.y, X_calibration=self.fresh)
        assert "kernel_pca" in wide.calibration_["embeddings"]
        assert wide.n_touched(self.X).mean() < 0.1 * wide.n_support_
        images = NSVClassifier(SVC(C=10), random_state=0).fit(*load_digits(return_X_y=True))
        assert "pca" in images.calibration_["embeddings"]

    @pytest.mark.parametrize("embedding", ["kernel_pca", "index"])
    def test_threads_change_nothing(self, embedding):
        model = NSVClassifier(SVC(C=10, gamma=10), embedding=embedding, random_state=0)
        model.fit(self.X, self.y)
        expected = model.decision_function(self.fresh)
        model.n_jobs = 3
        np.testing.assert_array_equal(model.decision_function(self.fresh), expected)
        one_by_one = [model.decision_function(x[None])[0] for x in self.fresh[:40]]
        np.testing.assert_array_equal(one_by_one, expected[:40])


def test_sigmoid_kernels_without_axes():
    """Not every such matrix is definite; whatever axes there are must do."""
    X, y = make_moons(400, noise=0.2, random_state=0)
    svc = SVC(kernel="sigmoid", gamma=3.0, coef0=-2.0)
    model = NSVClassifier(svc, embedding="kernel_pca", max_disagreement=None, random_state=0)
    model.set_params(linear_filter=False).fit(X, y)
    np.testing.assert_array_equal(model.predict(X), model.estimator_.predict(X))
    assert pairwise_kernels(X, metric="sigmoid", gamma=3.0, coef0=-2.0).diagonal().min() < 0
