"""The solver of one machine: LIBSVM's objective, the KKT conditions, the constraints of the dual.

One neighbourhood that holds every point reaches the solver through `engine.train`. Everything is
recomputed here in float64 from the coefficients the machine keeps.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_iris
from sklearn.svm import SVC
from tests.reference.classifiers import Kernel

from vicinal import FaLKSVC, engine

TOL = 1e-3
KINDS = {"linear": 0, "rbf": 1, "poly": 2}


def train(X, y, weights, kernel, C, *, tol=TOL, cache_mb=200.0, n_threads=1):
    """One machine on all points, as a dict of arrays."""
    points = np.ascontiguousarray(X, dtype=np.float32)
    everything = np.arange(len(X), dtype=np.int32)[None]
    return engine.train(
        points,
        np.asarray(y, dtype=np.int32),
        np.asarray(weights, dtype=np.float32),
        everything,
        (KINDS[kernel.name], kernel.gamma, kernel.coef0, kernel.degree, 50.0),
        C=np.array([C], dtype=np.float32),
        gammas=None,
        tol=tol,
        cache_mb=cache_mb,
        n_threads=n_threads,
    )


def binary_problems(machine, X, y, weights, kernel, C):
    """For each pair of classes: (signs, upper bounds, alpha, Gram in float64, bias)."""
    classes = machine["classes"]
    sv = machine["sv"]
    coef = machine["coef"].reshape(len(classes) - 1, len(sv)).astype(float)
    X = np.asarray(X, dtype=np.float32).astype(float)
    for pair, (a, b) in enumerate(combinations(range(len(classes)), 2)):
        inside = np.flatnonzero((y == classes[a]) | (y == classes[b]))
        signs = np.where(y[inside] == classes[b], 1.0, -1.0)
        signed = np.zeros(len(X))
        # LIBSVM's layout: the coefficients of class a against b lie in row b - 1, of b in row a.
        for own, other in ((a, b), (b, a)):
            of_class = y[sv] == classes[own]
            row = other - 1 if other > own else other
            signed[sv[of_class]] = coef[row, of_class]
        gram = kernel(X[inside], X[inside], kernel.gamma)
        upper = C * np.asarray(weights, dtype=float)[inside]
        yield signs, upper, signs * signed[inside], gram, float(machine["bias"][pair])


def dual_objective(signs, alpha, gram):
    signed = signs * alpha
    return 0.5 * signed @ gram @ signed - alpha.sum()


def violation(signs, upper, alpha, gram):
    """The largest m(alpha) - M(alpha) of LIBSVM's stopping rule."""
    slope = -signs * (signs * (gram @ (signs * alpha)) - 1.0)
    margin = 1e-6 * upper
    at_zero, at_upper = alpha <= margin, alpha >= upper - margin
    up = np.where(signs > 0, ~at_upper, ~at_zero)
    low = np.where(signs > 0, ~at_zero, ~at_upper)
    return slope[up].max() - slope[low].min() if up.any() and low.any() else 0.0


def libsvm_objective(X, y, weights, kernel, C):
    svc = SVC(
        C=C,
        kernel=kernel.name,
        gamma=kernel.gamma,
        degree=kernel.degree,
        coef0=kernel.coef0,
        tol=1e-6,
    ).fit(X, y, sample_weight=weights)
    alpha = np.zeros(len(X))
    alpha[svc.support_] = np.abs(svc.dual_coef_[0])
    signs = np.where(y == svc.classes_[1], 1.0, -1.0)
    return dual_objective(signs, alpha, kernel(X, X, kernel.gamma))


def noisy(n, d, seed, flip=0.1):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)).astype(np.float32)
    y = (np.sin(2 * X[:, 0]) + X[:, 1] * X[:, -1] > 0).astype(int)
    y[rng.random(n) < flip] ^= 1
    return X.astype(float), y


def check(X, y, weights, kernel, C, *, tol=TOL, **how):
    machine = train(X, y, weights, kernel, C, tol=tol, **how)
    for signs, upper, alpha, gram, _ in binary_problems(machine, X, y, weights, kernel, C):
        assert (alpha >= -1e-6 * upper).all()
        assert (alpha <= upper * (1 + 1e-5)).all()
        # float32 coefficients: what they sum to is zero to their own precision
        assert abs((signs * alpha).sum()) <= 1e-5 * alpha.sum()
        # The stopping rule holds in the float32 arithmetic of the solver; recomputing it in
        # float64 from float32 coefficients adds a rounding error in proportion to C * |K|.
        rounding = 4e-7 * upper.max() * np.abs(gram).sum(axis=1).max() ** 0.5
        assert violation(signs, upper, alpha, gram) <= tol + rounding
    return machine


@pytest.mark.parametrize("C", [0.1, 1.0, 16.0, 256.0, 1024.0])
@pytest.mark.parametrize(
    "kernel",
    [
        Kernel("linear"),
        Kernel("rbf", 0.5),
        Kernel("rbf", 5.0),
        Kernel("poly", 0.5, degree=2, coef0=1.0),
        Kernel("poly", 0.5, degree=3),
    ],
    ids=str,
)
def test_objective_matches_libsvm(kernel, C):
    if kernel.name != "rbf" and C > 16:
        pytest.skip("LIBSVM itself takes very long on unbounded kernels at this C")
    X, y = noisy(300, 3, seed=0)
    weights = np.ones(len(X))
    machine = check(X, y, weights, kernel, C)
    ((signs, _, alpha, gram, _),) = binary_problems(machine, X, y, weights, kernel, C)
    expected = libsvm_objective(X, y, weights, kernel, C)
    assert dual_objective(signs, alpha, gram) == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("C", [1e6, 1e12, 1e300])
def test_bounds_far_above_all_coefficients(C):
    """Separable points, whose coefficients do not grow with C."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    y = (X.sum(axis=1) > 0).astype(int)
    X += 0.3 * (2 * y - 1)[:, None]
    ours, theirs = FaLKSVC(200, kernel="linear", C=C), SVC(kernel="linear", C=C)
    np.testing.assert_allclose(
        ours.fit(X, y).decision_function(X), theirs.fit(X, y).decision_function(X), atol=0.02
    )


@pytest.mark.parametrize("C", [1.0, 64.0])
def test_rows_on_demand_solve_the_same_problem(C):
    """A memory budget below k x k switches to cached rows: the same optimum."""
    X, y = noisy(900, 4, seed=1)
    weights, kernel = np.ones(len(X)), Kernel("rbf", 0.5)
    objectives = []
    for cache_mb in (200.0, 0.5):
        machine = check(X, y, weights, kernel, C, cache_mb=cache_mb)
        ((signs, _, alpha, gram, _),) = binary_problems(machine, X, y, weights, kernel, C)
        objectives.append(dual_objective(signs, alpha, gram))
    assert objectives[1] == pytest.approx(objectives[0], rel=1e-3)


def test_bias_matches_libsvm():
    X, y = noisy(300, 3, seed=2)
    kernel = Kernel("rbf", 0.5)
    machine = train(X, y, np.ones(len(X)), kernel, 4.0, tol=1e-4)
    svc = SVC(C=4.0, gamma=0.5, tol=1e-6).fit(X, y)
    assert machine["bias"][0] == pytest.approx(svc.intercept_[0], abs=2e-3)


def test_multi_class_solves_every_pair():
    X, y = load_iris(return_X_y=True)
    weights, kernel = np.ones(len(X)), Kernel("rbf", 0.3)
    machine = check(X, y, weights, kernel, 2.0)
    problems = list(binary_problems(machine, X, y, weights, kernel, 2.0))
    assert len(problems) == 3
    for (a, b), (signs, _, alpha, gram, _) in zip(combinations(range(3), 2), problems, strict=True):
        both = (y == a) | (y == b)
        expected = libsvm_objective(X[both], y[both], weights[both], kernel, 2.0)
        assert dual_objective(signs, alpha, gram) == pytest.approx(expected, rel=1e-3)


def test_sample_weights_scale_the_bounds():
    X, y = noisy(250, 3, seed=3)
    weights = np.random.default_rng(3).uniform(0.1, 5.0, len(X))
    kernel = Kernel("rbf", 0.5)
    machine = check(X, y, weights, kernel, 2.0)
    ((signs, _, alpha, gram, _),) = binary_problems(machine, X, y, weights, kernel, 2.0)
    expected = libsvm_objective(X, y, weights, kernel, 2.0)
    assert dual_objective(signs, alpha, gram) == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("ratio", [1e3, 1e7])
def test_bounds_of_very_different_sizes(ratio):
    """One class may weigh millions of times as much as the other: its alphas are near zero then."""
    X, y = noisy(200, 3, seed=5)
    weights = np.where(y == 0, 100.0, 100.0 / ratio)
    kernel = Kernel("rbf", 0.5)
    machine = check(X, y, weights, kernel, 1.0)
    ((signs, _, alpha, gram, _),) = binary_problems(machine, X, y, weights, kernel, 1.0)
    expected = libsvm_objective(X, y, weights, kernel, 1.0)
    assert dual_objective(signs, alpha, gram) == pytest.approx(expected, rel=1e-3)


def test_a_unanimous_neighbourhood_trains_nothing():
    X, _ = noisy(40, 2, seed=4)
    machine = train(X, np.full(40, 3), np.ones(40), Kernel("rbf", 1.0), 1.0)
    assert list(machine["classes"]) == [3]
    assert len(machine["sv"]) == len(machine["coef"]) == 0
    assert machine["n_iter"][0] == 0


@given(
    n=st.integers(2, 60),
    d=st.integers(1, 5),
    seed=st.integers(0, 10_000),
    C=st.sampled_from([1e-2, 1.0, 30.0, 1000.0]),
    kernel=st.sampled_from(
        [
            Kernel("linear"),
            Kernel("rbf", 0.1),
            Kernel("rbf", 10.0),
            Kernel("poly", 1.0, degree=2, coef0=1.0),
        ]
    ),
    duplicates=st.booleans(),
)
@settings(max_examples=150, deadline=None)
def test_kkt_conditions_and_constraints(n, d, seed, C, kernel, duplicates):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)).astype(np.float32).astype(float)
    if duplicates:  # equal points of both classes: a singular Gram
        X = X[rng.integers(0, max(1, n // 3), n)]
    y = rng.integers(0, 2, n)
    y[:2] = 0, 1
    if kernel.name != "rbf":
        C = min(C, 1.0)
    check(X, y, rng.uniform(0.2, 3.0, n).astype(np.float32), kernel, C)
