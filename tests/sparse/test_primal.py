"""The inner optimum against a general optimiser, and the gradient against finite differences."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.svm import SVC

from vicinal.kernels import LINEAR, POLY, RBF
from vicinal.sparse.primal import Primal, Sides
from vicinal.sparse.skla import Dual

KERNELS = {
    "rbf": (RBF, 0.3, 0.0, 1),
    "poly": (POLY, 0.2, 1.0, 3),
    "linear": (LINEAR, 1.5, 0.0, 1),
}


def sides(dtype=np.float64, n=120, d=4, n_classes=3):
    rng = np.random.default_rng(0)
    points = rng.normal(size=(n, d)).astype(dtype)
    targets = rng.integers(n_classes, size=n)
    points += targets[:, None] * np.linspace(0, 1, d).astype(dtype)
    codes = np.arange(n_classes) if n_classes > 2 else np.array([1])
    signs = np.where(targets == codes[:, None], 1.0, -1.0)
    return Sides(points, signs, rng.uniform(0.5, 5, n))


def values_of(kernel, X, Z):
    kind, gamma, coef0, degree = kernel
    if kind == LINEAR:
        return gamma * X @ Z.T
    if kind == RBF:
        return pairwise_kernels(X, Z, metric="rbf", gamma=gamma)
    return pairwise_kernels(X, Z, metric="poly", gamma=gamma, coef0=coef0, degree=degree)


def objective(kernel, Z, data, k, unknown):
    """Equation 8 as it is written, and its derivatives."""
    beta, b = unknown[:-1], unknown[-1]
    K, psi = values_of(kernel, Z, Z), values_of(kernel, data.points, Z)
    y, c = data.signs[k], data.costs
    short = np.maximum(0, 1 - y * (psi @ beta + b))
    slope = -2 * c * short * y
    value = 0.5 * beta @ K @ beta + c @ short**2
    return value, np.append(K @ beta + psi.T @ slope, slope.sum())


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_optimum_is_that_of_a_general_optimiser(kernel, n_classes):
    data = sides(n_classes=n_classes)
    Z = np.random.default_rng(1).normal(size=(4 if kernel[0] == LINEAR else 7, 4))
    found = Primal(data, tol=1e-12).solve(kernel, Z)
    best = [
        minimize(
            lambda u, k=k: objective(kernel, Z, data, k, u),
            np.zeros(len(Z) + 1),
            jac=True,
            method="BFGS",
            options={"gtol": 1e-7, "maxiter": 5000},
        )
        for k in range(len(data.signs))
    ]
    assert found.value == pytest.approx(sum(each.fun for each in best), rel=1e-7)
    np.testing.assert_allclose(found.bias, [each.x[-1] for each in best], atol=1e-3)
    for k, each in enumerate(best):
        psi = values_of(kernel, data.points, Z)
        np.testing.assert_allclose(psi @ found.coef[:, k], psi @ each.x[:-1], atol=1e-3)


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_gradient_is_that_of_finite_differences(kernel, n_classes):
    data = sides(n_classes=n_classes)
    rng = np.random.default_rng(1)
    Z = rng.normal(size=(4 if kernel[0] == LINEAR else 7, 4))
    primal = Primal(data, tol=1e-20)
    by_vectors, by_gamma = primal.gradient(primal.solve(kernel, Z))
    for _ in range(5):
        direction, h = rng.normal(size=Z.shape), 1e-5
        ends = [primal.solve(kernel, Z + side * h * direction).value for side in (1, -1)]
        slope = (ends[0] - ends[1]) / (2 * h)
        assert np.vdot(by_vectors, direction) == pytest.approx(slope, rel=1e-4, abs=1e-4)
    if kernel[0] != LINEAR:
        h = 1e-5
        kind, gamma, *rest = kernel
        ends = [primal.solve((kind, gamma * np.exp(s * h), *rest), Z).value for s in (1, -1)]
        assert by_gamma == pytest.approx((ends[0] - ends[1]) / (2 * h), rel=1e-4, abs=1e-4)


def test_dual_optimum_is_that_of_the_modified_kernel():
    data, kernel = sides(n_classes=2), KERNELS["rbf"]
    Z = np.random.default_rng(1).normal(size=(7, 4))
    found = Dual(data, svc_tol=1e-6).solve(kernel, Z)
    psi, K = values_of(kernel, data.points, Z), values_of(kernel, Z, Z)
    modified = psi @ np.linalg.solve(K, psi.T)
    svc = SVC(kernel="precomputed", C=1.0, tol=1e-6)
    svc.fit(modified, data.signs[0], sample_weight=data.costs)
    outputs = svc.decision_function(modified)
    np.testing.assert_allclose(psi @ found.coef[:, 0] + found.bias[0], outputs, atol=1e-3)
    alpha = svc.dual_coef_[0]
    quadratic = alpha @ modified[np.ix_(svc.support_, svc.support_)] @ alpha
    short = np.maximum(0, 1 - data.signs[0] * outputs)
    assert found.value == pytest.approx(0.5 * quadratic + data.costs @ short, rel=1e-4)


def test_dual_gradient_is_that_of_finite_differences():
    data, kernel, rng = sides(), KERNELS["rbf"], np.random.default_rng(1)
    Z = rng.normal(size=(7, 4))
    dual = Dual(data, svc_tol=1e-6)
    by_vectors, _ = dual.gradient(dual.solve(kernel, Z))
    for _ in range(3):
        direction, h = rng.normal(size=Z.shape), 1e-3
        ends = [dual.solve(kernel, Z + side * h * direction).value for side in (1, -1)]
        slope = (ends[0] - ends[1]) / (2 * h)
        assert np.vdot(by_vectors, direction) == pytest.approx(slope, rel=1e-2, abs=2e-2)
