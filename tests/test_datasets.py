"""The artificial data: shape, reproducibility, geometry, and the accuracy it lets one reach."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from vicinal.datasets import LAST_ANGLE, NOISE, gap_inwards, make_two_spirals, spiral


@pytest.mark.parametrize("n_samples", [2, 3, 1000, 1001])
def test_shape_types_and_balance(n_samples):
    X, y = make_two_spirals(n_samples, random_state=0)
    assert X.shape == (n_samples, 2)
    assert X.dtype == np.float64
    assert np.issubdtype(y.dtype, np.integer)
    assert_array_equal(np.bincount(y), [(n_samples + 1) // 2, n_samples // 2])


def test_same_seed_same_points():
    X, y = make_two_spirals(500, random_state=3)
    X_again, y_again = make_two_spirals(500, random_state=np.random.RandomState(3))
    X_other, _ = make_two_spirals(500, random_state=4)
    assert_array_equal(X, X_again)
    assert_array_equal(y, y_again)
    assert not np.array_equal(X, X_other)


def test_points_are_shuffled():
    _, y = make_two_spirals(1000, random_state=0)
    assert 0.4 < np.mean(y[:500]) < 0.6


def test_without_noise_the_classes_mirror_each_other():
    X, y = make_two_spirals(1000, noise=0, random_state=0)

    def sorted_rows(points):
        return points[np.lexsort(points.round(9).T)]

    assert_allclose(sorted_rows(X[y == 0]), sorted_rows(-X[y == 1]), atol=1e-9)


def test_gap_is_the_way_to_the_other_class_half_a_turn_inwards():
    tau = np.array([1.0, 4.0, 20.0])
    inner = -spiral(np.maximum(tau - np.pi, 0))
    assert_allclose(gap_inwards(tau), np.linalg.norm(spiral(tau) - inner, axis=1))


def test_variance_is_in_proportion_to_the_gap():
    n_samples = 200_000
    X, y = make_two_spirals(n_samples, random_state=0)
    clean, y_clean = make_two_spirals(n_samples, noise=0, random_state=0)
    assert_array_equal(y, y_clean)
    distance = np.linalg.norm(clean, axis=1)
    tau = (500 * distance) ** 0.4
    standardised = (X - clean) / np.sqrt(np.maximum(gap_inwards(tau), 1e-12))[:, None]
    for low, high in [(2, 10), (10, 20), (20, LAST_ANGLE)]:
        assert_allclose(standardised[(tau > low) & (tau < high)].var(), NOISE, rtol=0.03)


def density_of_class_0(points, n_angles=3000):
    """Mean over the spiral's angles of the Gaussian around each, up to a constant factor."""
    tau = (np.arange(n_angles) + 0.5) * LAST_ANGLE / n_angles
    variance = NOISE * gap_inwards(tau)
    centres = spiral(tau)
    density = np.empty(len(points))
    for block in np.array_split(np.arange(len(points)), max(1, len(points) // 500)):
        squared = np.square(points[block, None, :] - centres).sum(axis=2)
        density[block] = np.mean(np.exp(-squared / (2 * variance)) / variance, axis=1)
    return density


def test_best_attainable_accuracy_is_88_5_percent():
    X, y = make_two_spirals(6000, random_state=0)
    zero, one = density_of_class_0(X), density_of_class_0(-X)  # the classes mirror each other

    # What the Bayes rule is expected to get right; less noisy than what it gets right here.
    best = np.mean(np.maximum(zero, one) / (zero + one))
    assert abs(best - 0.885) < 0.005

    # The densities are those of the data: the rule's share of hits is its expectation.
    assert abs(np.mean((one > zero) == y) - best) < 3 * np.sqrt(best * (1 - best) / len(y))


@pytest.mark.parametrize(
    ("arguments", "name"),
    [({"n_samples": 1}, "n_samples"), ({"noise": -1.0}, "noise"), ({"noise": np.nan}, "noise")],
)
def test_bad_arguments_are_named(arguments, name):
    with pytest.raises(ValueError, match=name):
        make_two_spirals(**arguments)
