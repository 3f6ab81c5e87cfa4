"""Reduced sets against a slow reference, and what holds of them on any data."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import check_grad
from sklearn.datasets import load_breast_cancer, load_wine, make_moons
from sklearn.frozen import FrozenEstimator
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC, NuSVC

from vicinal.sparse import ReducedSetClassifier, SharedExpansion
from vicinal.sparse.reduced_set import expansion_of
from vicinal.sparse.reduction import _Error

KERNELS = {
    "rbf": {"gamma": 0.2},
    "poly": {"gamma": 0.1, "coef0": 1.0, "degree": 3},
    "linear": {},
}


def wine():
    X, y = load_wine(return_X_y=True)
    return StandardScaler().fit_transform(X), y


def lengths(svc, Z, coef):
    """Squared distance of weights, pair by pair, and the squared length of the whole ones."""
    parameters = {} if svc.kernel == "linear" else KERNELS[svc.kernel]

    def kernel(A, B):
        return pairwise_kernels(A, B, metric=svc.kernel, **parameters)

    X, n_classes = svc.support_vectors_, len(svc.classes_)
    owner = np.repeat(np.arange(n_classes), svc.n_support_)
    distance = whole = 0.0
    pair = 0
    for a in range(n_classes):
        for b in range(a + 1, n_classes):
            alpha = np.zeros(len(X))
            alpha[owner == a] = -np.abs(svc.dual_coef_[b - 1, owner == a])
            alpha[owner == b] = np.abs(svc.dual_coef_[a, owner == b])
            both = alpha @ kernel(X, X) @ alpha
            beta = coef[:, pair]
            distance += both - 2 * beta @ kernel(Z, X) @ alpha + beta @ kernel(Z, Z) @ beta
            whole += both
            pair += 1
    return distance, whole


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("n_vectors", [1, 2, 8])
def test_error_is_that_of_the_definition(kernel, n_vectors):
    X, y = wine()
    svc = SVC(kernel=kernel, **KERNELS[kernel]).fit(X, y)
    model = ReducedSetClassifier(FrozenEstimator(svc), n_vectors, random_state=0).fit(X)
    expansion = model.expansion_
    assert expansion.frame.is_identity
    Z = expansion.vectors.astype(float)
    distance, whole = lengths(svc, Z, expansion.coef)
    assert model.reconstruction_error_ == pytest.approx(distance / whole, abs=1e-4)
    other, _ = lengths(svc, Z, expansion.coef * 1.01)
    assert other >= distance - 1e-6 * whole


@pytest.mark.parametrize("kernel", ["rbf", "poly"])
def test_gradient_is_that_of_finite_differences(kernel):
    X, y = wine()
    whole, _ = expansion_of(SVC(kernel=kernel, **KERNELS[kernel]).fit(X, y))
    error = _Error(whole)
    Z = np.random.default_rng(0).normal(size=(4, X.shape[1])).ravel()
    off = check_grad(lambda z: error(z)[0], lambda z: error(z)[1], Z, epsilon=1e-4)
    assert off < 2e-2 * np.linalg.norm(error(Z)[1])


def test_linear_machines_are_exact_with_a_vector_a_pair():
    X, y = wine()
    svc = SVC(kernel="linear").fit(X, y)
    model = ReducedSetClassifier(FrozenEstimator(svc), 20).fit(X)
    assert model.n_vectors_ == 3
    np.testing.assert_array_equal(model.predict(X), svc.predict(X))
    pairs = SVC(kernel="linear", decision_function_shape="ovo").fit(X, y).decision_function(X)
    np.testing.assert_allclose(model.expansion_.decision(X), -pairs, atol=1e-4)


@pytest.mark.parametrize("kernel", KERNELS)
def test_all_vectors_are_the_machine_itself(kernel):
    X, y = load_breast_cancer(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    svc = SVC(kernel=kernel, **KERNELS[kernel]).fit(X, y)
    model = ReducedSetClassifier(FrozenEstimator(svc), fraction=1.0).fit(X)
    np.testing.assert_allclose(
        model.decision_function(X), svc.decision_function(X), atol=1e-3, rtol=1e-4
    )


def test_more_vectors_are_nearer():
    X, y = make_moons(600, noise=0.2, random_state=0)
    svc = FrozenEstimator(SVC(gamma=2.0, C=10).fit(X, y))
    models = [ReducedSetClassifier(svc, m, random_state=0).fit(X) for m in (2, 5, 15, 40)]
    errors = [model.reconstruction_error_ for model in models]
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 1e-3
    assert (models[-1].predict(X) == svc.predict(X)).mean() > 0.995


def test_vectors_move():
    X, y = make_moons(600, noise=0.2, random_state=0)
    svc = FrozenEstimator(SVC(gamma=2.0).fit(X, y))
    first, last = (
        ReducedSetClassifier(svc, 8, max_iter=n, random_state=0).fit(X) for n in (1, 100)
    )
    assert last.reconstruction_error_ < 0.7 * first.reconstruction_error_


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_an_offset_costs_no_digits(dtype):
    X, y = make_moons(300, noise=0.2, random_state=0)
    X = np.round(X * 256) / 256
    near = ReducedSetClassifier(SVC(gamma=2.0), 12, random_state=0).fit(X.astype(dtype), y)
    far = ReducedSetClassifier(SVC(gamma=2.0), 12, random_state=0).fit(X + 2.0**8, y)
    assert max(far.reconstruction_error_, near.reconstruction_error_) < 0.02
    assert (far.predict(X + 2.0**8) == near.predict(X.astype(dtype))).mean() > 0.97


def test_a_pipeline_is_reduced_behind_its_steps():
    X, y = load_wine(return_X_y=True)
    names = np.array(["a", "b", "c"])[y]
    pipeline = make_pipeline(StandardScaler(), NuSVC(nu=0.3))
    model = ReducedSetClassifier(pipeline, 10, random_state=0).fit(X, names)
    assert (model.predict(X) == model.estimator_.predict(X)).mean() > 0.97
    frozen = ReducedSetClassifier(FrozenEstimator(model.estimator_), 10, random_state=0).fit(X)
    np.testing.assert_array_equal(frozen.predict(X), model.predict(X))


def test_weights_reach_the_machine():
    X, y = make_moons(200, noise=0.3, random_state=0)
    weights = np.where(y == 1, 10.0, 1.0)
    for estimator in (SVC(), make_pipeline(StandardScaler(), SVC())):
        plain, weighted = (
            ReducedSetClassifier(estimator, 10, random_state=0).fit(X, y, w)
            for w in (None, weights)
        )
        assert weighted.predict(X).sum() > plain.predict(X).sum()


def test_more_vectors_than_there_are():
    X, y = make_moons(60, noise=0.1, random_state=0)
    with pytest.warns(UserWarning, match=r"n_vectors=500 exceeds the \d+ distinct support vectors"):
        model = ReducedSetClassifier(SVC(gamma=2.0), 500).fit(X, y)
    np.testing.assert_array_equal(model.predict(X), model.estimator_.predict(X))


def test_identical_vectors_are_one():
    X, y = make_moons(60, noise=0.3, random_state=0)
    once, thrice = SVC(C=3).fit(X, y), SVC(C=1).fit(np.tile(X, (3, 1)), np.tile(y, 3))
    assert len(thrice.support_) > 2 * len(once.support_)
    expansion, groups = expansion_of(thrice)
    assert expansion.n_vectors <= 60
    assert len(groups) == expansion.n_vectors
    np.testing.assert_allclose(expansion.decision(X)[:, 0], thrice.decision_function(X), atol=1e-4)


def test_a_class_of_one_vector():
    X, y = make_moons(80, noise=0.1, random_state=0)
    X, y = np.vstack([X, [[9.0, 9.0]]]), np.append(y, 2)
    model = ReducedSetClassifier(SVC(C=100), 4, random_state=0).fit(X, y)
    assert model.predict([[9.0, 9.0]])[0] == 2


@pytest.mark.parametrize(
    ("estimator", "error", "message"),
    [
        (LinearSVC(), TypeError, "LinearSVC has no support vectors to be reduced"),
        (SVC(kernel="sigmoid"), ValueError, "kernel='sigmoid' cannot be reduced: .* and 'poly'"),
        (SVC(kernel=lambda A, B: A @ B.T), ValueError, "a callable kernel"),
    ],
)
def test_machines_that_cannot_be_reduced(estimator, error, message):
    X, y = make_moons(60, noise=0.3, random_state=0)
    with pytest.raises(error, match=message):
        ReducedSetClassifier(estimator).fit(X, y)


def test_expansion_is_shared_by_all_pairs():
    X, y = wine()
    model = ReducedSetClassifier(SVC(), 6, random_state=0).fit(X, y)
    assert type(model.expansion_) is SharedExpansion
    assert model.expansion_.vectors.shape == (6, X.shape[1])
    assert model.expansion_.coef.shape == (6, 3)


class Stop:
    """A callback that ends a fit after some steps."""

    def __init__(self, after):
        self.after = after

    def setup(self, estimator, context):
        self.seen = []

    def teardown(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context, *, X=None, fitted_estimator=None):
        if fitted_estimator is not None:
            self.seen.append(fitted_estimator.decision_function(X))
        return len(self.seen) >= self.after


def test_a_callback_sees_every_step_and_may_stop():
    X, y = make_moons(200, noise=0.2, random_state=0)
    stop = Stop(4)
    model = ReducedSetClassifier(SVC(), 6, tol=0, random_state=0).set_callbacks(stop).fit(X, y)
    assert model.n_iter_ == 4
    np.testing.assert_allclose(stop.seen[3], model.decision_function(X), atol=1e-6)


def test_a_fit_that_fails_leaves_the_model_as_it_was():
    X, y = make_moons(200, noise=0.2, random_state=0)
    model = ReducedSetClassifier(random_state=0).fit(X, y)
    before = model.predict(X)
    with pytest.raises(ValueError, match="class"):
        model.fit(X, np.zeros(200))
    np.testing.assert_array_equal(model.predict(X), before)
