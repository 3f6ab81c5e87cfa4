"""Generated points: inside the hull, beyond the border, and never narrowing a threshold."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linprog
from sklearn.datasets import make_blobs, make_moons
from sklearn.frozen import FrozenEstimator
from sklearn.svm import SVC

from vicinal.nsv import KernelMachine, NSVClassifier
from vicinal.nsv.generation import between_classes

MOONS, SIDES = make_moons(300, noise=0.15, random_state=0)
BLOBS, NAMES = make_blobs(400, 6, centers=4, cluster_std=3.0, random_state=0)
ROUND = BLOBS / np.linalg.norm(BLOBS, axis=1, keepdims=True)
DATA = {"moons": (MOONS, SIDES), "blobs": (BLOBS, NAMES)}
every_data = pytest.mark.parametrize("data", DATA.values(), ids=DATA)


def generated(model, X, n=60, seed=0):
    queries = model._subject.queries(X)
    random_state = np.random.RandomState(seed)
    return queries, between_classes(
        model.model_, queries, n, random_state=random_state, n_threads=1
    )


def is_convex_combination(point, points):
    equations = np.vstack([points.T, np.ones(len(points))])
    found = linprog(np.zeros(len(points)), A_eq=equations, b_eq=np.append(point, 1.0))
    return found.status == 0


@every_data
def test_points_lie_inside_the_hull(data):
    X, y = data
    model = NSVClassifier(SVC(C=10), random_state=0).fit(X, y)
    queries, points = generated(model, X, n=15)
    assert len(points) == 15
    middle = points.mean(axis=0)
    for point in points:  # a little nearer to the middle, for rounding
        inner = middle + (1 - 1e-5) * (point - middle)
        assert is_convex_combination(inner.astype(float), queries.astype(float))


@every_data
def test_points_lie_just_beyond_the_border(data):
    """The crowd is near, and its class does not win; a little farther on it would."""
    X, y = data
    svc = SVC(C=10).fit(X, y)
    model = NSVClassifier(FrozenEstimator(svc), random_state=0).fit(X)
    _, points = generated(model, X, n=200)
    outputs = np.atleast_2d(model.model_.machine.settle(points)[1])
    usual = np.abs(model.model_.machine.settle(model._subject.queries(X))[1])
    assert np.median(np.abs(outputs).min(axis=1)) < 0.2 * np.median(usual.min(axis=1))
    distances = np.linalg.norm(points[:, None] - svc.support_vectors_[None], axis=2)
    owners = y[svc.support_]
    rival = owners[distances.argsort(axis=1)[:, :10]] != svc.predict(points)[:, None]
    assert rival.any(axis=1).mean() > 0.8


@every_data
@pytest.mark.parametrize("max_disagreement", [None, 0.01])
def test_thresholds_only_widen(data, max_disagreement):
    X, y = data
    plain, wide = (
        NSVClassifier(
            SVC(C=10),
            max_disagreement=max_disagreement,
            n_components=1,
            embedding="pca",
            n_generated=n,
            random_state=0,
        ).fit(X, y)
        for n in (0, 300)
    )
    one, other = plain.model_, wide.model_
    assert (other.linear.thresholds >= one.linear.thresholds).all()
    assert len(one.levels) == len(other.levels)
    for before, after in zip(one.levels, other.levels, strict=True):
        assert after[:-1] == before[:-1]
        assert (after.thresholds >= before.thresholds).all()
    assert wide.n_touched(X).sum() >= plain.n_touched(X).sum()


def test_they_find_what_the_data_do_not_show():
    """Thresholds of easy queries fail near the border, unless points there are generated."""
    svc = SVC(C=10, gamma=3.0).fit(MOONS, SIDES)
    easy = MOONS[np.abs(svc.decision_function(MOONS)) > 1.0]
    hard = make_moons(2000, noise=0.3, random_state=1)[0]
    changed = []
    for n_generated in (0, 1000):
        model = NSVClassifier(
            FrozenEstimator(svc),
            max_disagreement=None,
            start="bias",
            embedding="pca",
            n_components=1,
            max_steps=1000,
            n_generated=n_generated,
            random_state=0,
        ).fit(easy)
        changed.append((model.predict(hard) != svc.predict(hard)).mean())
    assert changed[1] < 0.5 * changed[0]


def test_lifted_points_stay_lifted():
    svc = SVC(kernel="poly", degree=5, gamma=0.5, coef0=0.5, C=10).fit(ROUND, NAMES > 1)
    kernel = {"kernel": "normalised_poly", "degree": 5, "gamma": 1.0, "coef0": 1.0}
    machine = KernelMachine(
        svc.support_vectors_, svc.dual_coef_[0], float(svc.intercept_[0]), **kernel
    )
    model = NSVClassifier(machine, random_state=0).fit(ROUND)
    _, points = generated(model, ROUND)
    np.testing.assert_allclose(np.linalg.norm(points, axis=1), 1.0, rtol=1e-6)


def test_where_there_is_nothing_to_generate():
    linear = NSVClassifier(SVC(kernel="linear"), n_generated=50, random_state=0).fit(*DATA["moons"])
    assert len(generated(linear, MOONS)[1]) == 0
    svc = SVC().fit(MOONS, SIDES)
    alone = MOONS[svc.predict(MOONS) == 1][:40]
    model = NSVClassifier(FrozenEstimator(svc), n_generated=50, random_state=0).fit(alone)
    _, points = generated(model, alone)
    assert (svc.predict(points) == 1).all()
    with pytest.raises(ValueError, match="n_generated"):
        NSVClassifier(n_generated=-1).fit(MOONS, SIDES)
