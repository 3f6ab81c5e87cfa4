"""Soft trees against a reference in NumPy: scores, gradients, regimes and threads."""

from __future__ import annotations

import numpy as np
import pytest
from tests.ldkl.forests import FORMS
from tests.reference import ldkl as reference

from vicinal.engine import LOCAL_LOSSES, LocalDescent, LocalShape, SoftForest

every_form = pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
REGIMES = {
    "dense": {"paths": False},
    "paths": {"dense": False, "threshold": 0.0},
    "both": {"threshold": 0.0},
}
every_regime = pytest.mark.parametrize("regime", REGIMES.values(), ids=REGIMES)


class Task:
    """Soft trees with random parameters, and samples."""

    def __init__(self, form, n_outputs=1, n=150, shape=(2, 4), d=5, seed=0, size=0.6):
        rng = np.random.default_rng(seed)
        self.forest = SoftForest(LocalShape(*shape, n_outputs, d), form)
        for view in (self.forest.splits, self.forest.gates, self.forest.weights):
            view[...] = rng.normal(size=view.shape) * size
        self.points = rng.normal(size=(n, d)).astype(np.float32)
        self.targets = rng.integers(0, max(2, n_outputs), n).astype(np.float32)
        self.sample_weight = rng.uniform(0.5, 1.5, n).astype(np.float32)

    @property
    def data(self):
        return self.points, self.targets, self.sample_weight

    def descend(self, descent, n_steps=6, batch=64, n_threads=1, sharpness=2.0):
        order = np.resize(np.arange(len(self.points)), n_steps * batch).astype(np.int32)
        rates = np.full(n_steps, 0.02, np.float32)
        sharp = np.full(n_steps, sharpness, np.float32)
        return self.forest.descend(
            descent,
            *self.data,
            order,
            batch=batch,
            rates=rates,
            sharpness=sharp,
            n_threads=n_threads,
        )


@every_form
@every_regime
@pytest.mark.parametrize("n_outputs", [1, 3])
def test_soft_scores(form, regime, n_outputs):
    task = Task(form, n_outputs)
    expected = reference.soft_score(task.forest, 1.7, task.points)
    scores = task.forest.score(LocalDescent(**regime), task.points, sharpness=1.7)
    np.testing.assert_allclose(scores, expected, rtol=1e-4, atol=1e-5 * np.abs(expected).max())


@every_form
@every_regime
@pytest.mark.parametrize("loss", LOCAL_LOSSES)
@pytest.mark.parametrize("n_outputs", [1, 3])
def test_gradients_are_differences_of_the_loss(form, regime, loss, n_outputs):
    if loss == "squared_error" and n_outputs > 1:
        pytest.skip("regression has one output")
    task = Task(form, n_outputs, n=12, shape=(2, 3), d=3)
    found, gradient = task.forest.gradient(LocalDescent(loss, **regime), *task.data, sharpness=1.3)

    def loss_now():
        scores = reference.soft_score(task.forest, 1.3, task.points)
        return reference.loss(loss, scores, task.targets, task.sample_weight)

    assert found == pytest.approx(loss_now(), rel=1e-4)
    rng = np.random.default_rng(1)
    used = np.argwhere(task.forest.parameters != 0)
    for at in map(tuple, used[rng.choice(len(used), 6, replace=False)]):
        kept = task.forest.parameters[at]
        values = []
        for step in (-1e-3, 1e-3):
            task.forest.parameters[at] = kept + step
            values.append((task.forest.parameters[at].astype(np.float64), loss_now()))
        task.forest.parameters[at] = kept
        (low, before), (high, after) = values
        slope = (after - before) / (high - low)
        assert gradient[at] == pytest.approx(
            slope, rel=2e-2, abs=float(3e-3 * np.abs(gradient).max())
        )


@every_form
@pytest.mark.parametrize("joint", [True, False])
def test_threads_change_nothing(form, joint):
    tasks = [Task(form, n=500) for _ in range(3)]
    descent = LocalDescent(joint=joint)
    losses = [
        task.descend(descent, batch=400, n_threads=t)
        for task, t in zip(tasks, (1, 2, 5), strict=True)
    ]
    for task, loss in zip(tasks[1:], losses[1:], strict=True):
        np.testing.assert_array_equal(loss, losses[0])
        np.testing.assert_array_equal(task.forest.parameters, tasks[0].forest.parameters)


def test_regimes_agree():
    tasks = [Task(FORMS["plain"], n=500) for _ in REGIMES]
    for task, regime in zip(tasks, REGIMES.values(), strict=True):
        task.descend(LocalDescent(**regime))
        np.testing.assert_allclose(
            task.forest.parameters, tasks[0].forest.parameters, rtol=1e-3, atol=1e-4
        )


def test_threshold_loses_little():
    exact, cut = (Task(FORMS["plain"], shape=(1, 6)) for _ in range(2))
    scores = exact.forest.score(LocalDescent(threshold=0.0), exact.points, sharpness=20.0)
    close = cut.forest.score(LocalDescent(threshold=1e-4), cut.points, sharpness=20.0)
    np.testing.assert_allclose(close, scores, atol=3e-3 * np.abs(scores).max())


def test_trees_of_their_own_loss_ignore_each_other():
    both = Task(FORMS["plain"], shape=(2, 4))
    alone = Task(FORMS["plain"], shape=(1, 4))
    alone.forest.parameters[0] = both.forest.parameters[0]
    alone.points, alone.targets, alone.sample_weight = both.data
    descent = LocalDescent(joint=False)
    both.descend(descent)
    alone.descend(descent)
    np.testing.assert_array_equal(alone.forest.parameters[0], both.forest.parameters[0])


def test_descent_descends():
    task = Task(FORMS["plain"], n=2000, shape=(1, 5), size=0.2)
    task.targets = (task.points[:, 0] * task.points[:, 1] > 0).astype(np.float32)
    losses = task.descend(LocalDescent(), n_steps=300, batch=200)
    assert np.mean(losses[-20:]) < 0.4 * np.mean(losses[:5])


def test_a_loss_that_is_not_finite_ends_the_descent():
    task = Task(FORMS["plain"])
    task.points[3] = 3e38
    losses = task.descend(LocalDescent("squared_error"), n_steps=5)
    assert len(losses) == 1
    assert not np.isfinite(losses[0])
