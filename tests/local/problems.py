"""Problems, settings and the point-by-point comparison that the tests of the local family share."""

from __future__ import annotations

import numpy as np
from sklearn.datasets import make_moons
from sklearn.utils import check_random_state
from tests.reference.classifiers import Kernel

from vicinal import CoverTree, engine

KERNELS = [
    Kernel("linear"),
    Kernel("rbf", 2.0),
    Kernel("poly", 1.0, degree=2),
    Kernel("poly", 0.5, degree=3, coef0=1.0),
]
TOL = 1e-5  # of the solver here, so that two solvers can be compared point by point
CLOSE = {"rtol": 2e-3, "atol": 2e-3}


def binary(n=360, n_queries=120, seed=0):
    X, y = make_moons(n + n_queries, noise=0.25, random_state=seed)
    return X[:n], y[:n], X[n:]


def three_classes(n=330, n_queries=120, seed=1):
    """Three classes that meet, so that neighbourhoods hold one, two and three of them."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.5, 1.5, size=(n + n_queries, 3))
    y = np.digitize(X[:, 0] + 0.3 * np.sin(4 * X[:, 1]), [-0.5, 0.4])
    y[rng.random(len(y)) < 0.05] = 0
    return X[:n], np.array(["low", "middle", "top"])[y[:n]], X[n:]


def by_levels(kernel):
    """The order of Eq. 9: from the top level of the cover tree, by index within a level."""

    def order(points):
        metric = {}
        if kernel.name == "poly":
            metric = {
                "metric": "poly",
                "gamma": kernel.gamma,
                "degree": kernel.degree,
                "coef0": kernel.coef0,
            }
        levels = CoverTree(points, **metric).levels()
        distinct = np.flatnonzero(levels != engine.DUPLICATE)
        return distinct[np.argsort(-levels[distinct], kind="stable")]

    return order


def at_random(seed):
    """One permutation after the other from one generator, a binary problem each."""
    rng = check_random_state(seed)
    return lambda points: rng.permutation(np.arange(len(points)))


def parameters(kernel):
    return {
        "kernel": kernel.name,
        "gamma": kernel.gamma,
        "gamma_percentile": kernel.percentile,
        "degree": kernel.degree,
        "coef0": kernel.coef0,
        "tol": TOL,
    }


def assert_same_answers(model, reference, Q):
    expected = reference.decision_function(Q)
    decisions = model.decision_function(Q)
    assert decisions.shape == expected.shape
    if expected.ndim == 1:
        np.testing.assert_allclose(decisions, expected, **CLOSE)
        sure = np.abs(expected) > 5e-3
    else:
        # A vote is a whole step: where one pair is a toss-up the scores may differ by it.
        toss_up = np.abs(decisions - expected).max(axis=1) > 0.5
        assert toss_up.mean() <= 0.02
        np.testing.assert_allclose(decisions[~toss_up], expected[~toss_up], **CLOSE)
        best = np.sort(expected, axis=1)
        sure = ~toss_up & (best[:, -1] - best[:, -2] > 5e-3)
    np.testing.assert_array_equal(model.predict(Q)[sure], reference.predict(Q)[sure])
    assert sure.mean() > 0.9
