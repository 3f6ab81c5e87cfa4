"""Small machines that learn from large ones: the objective, its minimum and its gradient."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.metrics.pairwise import pairwise_kernels

from vicinal.kernels import POLY, RBF, KernelSpec
from vicinal.sparse.distillation import _RIDGE, Lesson

KERNELS = {
    "rbf": KernelSpec(RBF, 0.2, 1.0, 1, 50.0),
    "poly": KernelSpec(POLY, 0.2, 1.0, 3, 50.0),
}


def lesson(kernel, n_pairs, seed=0):
    rng = np.random.default_rng(seed)
    n_machines, n_points, n_vectors, width = 3, 60, 6, 4
    points = rng.normal(size=(n_machines, n_points, width)).astype(np.float32)
    outputs = np.clip(1.5 * rng.normal(size=(n_machines, n_points, n_pairs)), -1, 1)
    weights = rng.random((n_machines, n_points, n_pairs))
    weights /= weights.sum(axis=1, keepdims=True)
    owners = np.tile(np.arange(n_vectors) % 3, (n_machines, 1))
    made = Lesson(
        points,
        outputs.astype(np.float32),
        weights.astype(np.float32),
        owners,
        KERNELS[kernel],
        np.full(n_machines, 0.3),
    )
    return made, points[:, :n_vectors]


def settled(made, Z, width):
    for _ in range(3):
        found = made._value(Z, width)
    return found


@pytest.mark.parametrize("kernel", KERNELS)
def test_weights_are_those_that_a_general_optimiser_finds(kernel):
    made, Z = lesson(kernel, 1)
    *_, small = settled(made, Z, np.zeros(3))
    parameters = {"gamma": 0.3} | ({"coef0": 1.0, "degree": 3} if kernel == "poly" else {})
    for b in range(3):
        X, t, w = made.points[b], made.outputs[b, :, 0], made.weights[b, :, 0]
        K = pairwise_kernels(X, Z[b], metric=kernel, **parameters)
        K_zz = pairwise_kernels(Z[b], metric=kernel, **parameters)
        ridge = _RIDGE * np.trace(K_zz) / len(K_zz)

        def slow(flat, K=K, K_zz=K_zz, t=t, w=w, ridge=ridge):
            left = t - K @ flat[:-1] - flat[-1]
            left[(np.abs(t) >= 1) & (left * t <= 0)] = 0
            return w @ left**2 + ridge * flat[:-1] @ K_zz @ flat[:-1]

        ours = np.append(small.coef[b, 0], small.bias[b, 0])
        best = minimize(slow, ours, method="BFGS", options={"gtol": 1e-7}).fun
        assert slow(ours) == pytest.approx(best, abs=1e-5)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("n_pairs", [1, 3])
def test_gradient_is_that_of_finite_differences(kernel, n_pairs):
    made, Z = lesson(kernel, n_pairs)
    width, step = np.zeros(3), 3e-3
    _, by_vectors, by_width, _ = settled(made, Z, width)
    rng = np.random.default_rng(1)
    for _ in range(3):
        direction, wider = rng.normal(size=Z.shape), rng.normal(size=3) * (kernel == "rbf")
        up, down = (settled(made, Z + s * direction, width + s * wider)[0] for s in (step, -step))
        expected = (by_vectors * direction).sum() + by_width @ wider
        assert (up - down) / (2 * step) == pytest.approx(expected, rel=1e-2, abs=1e-3)


@pytest.mark.parametrize("n_pairs", [1, 3])
def test_vectors_take_part_in_the_pairs_of_their_class(n_pairs):
    made, Z = lesson("rbf", n_pairs)
    small = made.learn(Z, 5)
    pairs = [(0, 1), (0, 2), (1, 2)]
    for pair in range(n_pairs):
        takes_part = np.isin(made.owners, pairs[pair]) if n_pairs > 1 else made.owners >= 0
        assert (small.coef[:, pair][~takes_part] == 0).all()
        assert (small.coef[:, pair][takes_part] != 0).any()


def test_machines_of_one_stack_learn_as_each_alone():
    made, Z = lesson("rbf", 1)
    together = settled(made, Z, np.zeros(3))[1]
    for b in range(3):
        part = slice(b, b + 1)
        alone = Lesson(
            made.points[part],
            made.outputs[part],
            made.weights[part],
            made.owners[part],
            made.kernel,
            made.gamma[part],
        )
        np.testing.assert_allclose(
            settled(alone, Z[part], np.zeros(1))[1], together[part], atol=1e-4
        )
