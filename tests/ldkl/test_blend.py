"""Blends of machines: gradients, and what the embeddings learn."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import make_moons
from tests.reference import ldkl as reference

from vicinal.engine import LocalDescent, LocalForm
from vicinal.ldkl import LDKLClassifier
from vicinal.ldkl.blend import start_blend


@pytest.mark.parametrize("loss", ["logistic", "hinge", "squared_hinge", "squared_error"])
@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("quadratic", [False, True])
def test_gradients_are_differences_of_the_loss(loss, n_outputs, quadratic):
    if loss == "squared_error" and n_outputs > 1:
        pytest.skip("regression has one output")
    rng = np.random.RandomState(0)
    points = rng.normal(size=(30, 3)).astype(np.float32)
    targets = rng.randint(max(2, n_outputs), size=30).astype(np.float32)
    weights = rng.uniform(0.5, 1.5, 30).astype(np.float32)
    form = LocalForm(sigma=0.7, constant=0.5, quadratic=quadratic)
    soft = start_blend("softmax", 4, n_outputs, points, form, rng)
    soft.parameters[...] = rng.normal(size=soft.parameters.shape)
    found, gradient = soft.gradient(LocalDescent(loss), points, targets, weights)

    def loss_now():
        return reference.loss(
            loss, soft.harden().score(points).astype(np.float64), targets, weights
        )

    assert found == pytest.approx(loss_now(), rel=1e-4)
    for at in rng.choice(soft.parameters.size, 8, replace=False):
        kept = soft.parameters[at]
        values = []
        for step in (-5e-3, 5e-3):
            soft.parameters[at] = kept + step
            values.append(loss_now())
        soft.parameters[at] = kept
        slope = (values[1] - values[0]) / 1e-2
        assert gradient[at] == pytest.approx(slope, rel=3e-2, abs=3e-3)


@pytest.mark.parametrize("embedding", ["softmax", "anchors"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_embeddings(embedding, n_classes):
    X, y = make_moons(1500, noise=0.15, random_state=0)
    y = y + ((n_classes == 3) & (X[:, 0] > 0.5))
    model = LDKLClassifier(
        3, embedding=embedding, random_state=0, batch_size=64, max_iter=40, learning_rate=0.05
    ).fit(X, y)
    assert model.score(X, y) > 0.93
    assert model.cost_ == 7 * (2 if n_classes == 2 else 1 + len(np.unique(y)))
    with pytest.raises(ValueError, match="Only trees can be pruned"):
        model.prune()


def test_anchors_stay():
    X, y = make_moons(300, random_state=0)
    parameters = {"embedding": "anchors", "random_state": 0, "batch_size": 64}
    short = LDKLClassifier(2, max_iter=1, **parameters).fit(X, y).model_.forest
    long = LDKLClassifier(2, max_iter=5, **parameters).fit(X, y).model_.forest
    np.testing.assert_array_equal(short.gates, long.gates)
    assert (short.weights != long.weights).any()


def test_budget():
    model = LDKLClassifier.from_budget(33, embedding="softmax")
    assert model.depth == 4  # 15 machines, two dot products each
