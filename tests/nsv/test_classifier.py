"""`NSVClassifier` and `KernelMachine` against the machines that they stand for."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.datasets import load_digits, make_classification, make_moons
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, StandardScaler
from sklearn.svm import SVC, NuSVC
from sklearn.utils import shuffle
from tests.nsv.machines import never_stopping

from vicinal.nsv import KernelMachine, NSVClassifier

DIGITS, NAMES = shuffle(*load_digits(return_X_y=True), random_state=0)
X, Y = DIGITS[:1100], NAMES[:1100]
QUERIES = DIGITS[1100:]

MACHINES = {
    "rbf": SVC(C=10),
    "linear": SVC(kernel="linear"),
    "poly": SVC(kernel="poly", coef0=1.0, C=10),
    "sigmoid": make_pipeline(StandardScaler(), SVC(kernel="sigmoid", gamma=0.01)),
    "nu": NuSVC(nu=0.1),
    "scaled": make_pipeline(StandardScaler(), "passthrough", SVC(C=10)),
    "unit length": make_pipeline(
        Normalizer(), SVC(kernel="poly", degree=9, gamma=0.5, coef0=0.5, C=10)
    ),
}
every_machine = pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)


def two_classes(a=3, b=8):
    kept = np.isin(Y, [a, b])
    return X[kept], np.where(Y[kept] == b, "b", "a")


@every_machine
class TestExactMachine:
    def test_many_classes(self, machine):
        model = NSVClassifier(machine, max_disagreement=None, random_state=0).fit(X, Y)
        svc = model.estimator_
        early = model.predict(QUERIES)
        assert (early == svc.predict(QUERIES)).mean() > 0.95
        never_stopping(model)
        expected = svc.decision_function(QUERIES)
        np.testing.assert_allclose(model.decision_function(QUERIES), expected, atol=2e-3)
        np.testing.assert_array_equal(model.predict(QUERIES), svc.predict(QUERIES))
        assert (model.n_touched(QUERIES) == model.n_support_).all()

    def test_two_classes(self, machine):
        model = NSVClassifier(machine, max_disagreement=None, random_state=0).fit(*two_classes())
        svc = model.estimator_
        assert set(model.classes_) == {"a", "b"}
        never_stopping(model)
        expected = svc.decision_function(QUERIES)
        np.testing.assert_allclose(
            model.decision_function(QUERIES), expected, atol=1e-4 * np.abs(expected).max()
        )
        np.testing.assert_array_equal(model.predict(QUERIES), svc.predict(QUERIES))

    def test_a_bound_on_changes_is_kept(self, machine):
        model = NSVClassifier(machine, max_disagreement=0.01, random_state=0).fit(X, Y)
        changed = model.predict(QUERIES) != model.estimator_.predict(QUERIES)
        assert changed.mean() <= 0.02  # of few digits, and the machine has seen those it asked
        assert model.calibration_["disagreement"] <= 0.01

    def test_frozen(self, machine):
        fitted = clone(machine).fit(X, Y)
        model = NSVClassifier(FrozenEstimator(fitted), random_state=0).fit(X)
        again = NSVClassifier(machine, random_state=0).fit(X, Y)
        for one, other in zip(model._answer(QUERIES), again._answer(QUERIES), strict=True):
            np.testing.assert_array_equal(one, other)


def test_few_vectors_are_touched():
    model = NSVClassifier(SVC(C=10), max_disagreement=0.002, random_state=0).fit(X, Y)
    assert model.n_touched(QUERIES).mean() < model.n_support_ / 20
    exact = NSVClassifier(SVC(C=10), max_disagreement=0, linear_filter=False, random_state=0)
    np.testing.assert_array_equal(exact.fit(X, Y).predict(X), exact.estimator_.predict(X))


@pytest.mark.parametrize("start", ["approximations", "bias"])
@pytest.mark.parametrize("order", ["score", "term", "tug_of_war"])
@pytest.mark.parametrize("thresholds", ["simple", "max_smoothed"])
def test_the_ways_of_the_paper(start, order, thresholds):
    A, a = two_classes()
    settings = {"start": start, "order": order, "thresholds": thresholds, "random_state": 0}
    model = NSVClassifier(SVC(C=10), max_disagreement=None, max_steps=10**6, **settings).fit(A, a)
    queries = QUERIES[np.isin(NAMES[1100:], [3, 8])]
    assert (model.predict(queries) == model.estimator_.predict(queries)).mean() > 0.95
    assert model.n_touched(A).mean() < model.n_support_
    # On the calibration data themselves only the filter may err, of which outliers do not rule.
    unfiltered = clone(model).set_params(linear_filter=False).fit(A, a)
    np.testing.assert_array_equal(unfiltered.predict(A), unfiltered.estimator_.predict(A))


def test_ties_as_the_machine_breaks_them():
    A, a = make_classification(600, 8, n_informative=6, n_classes=5, random_state=0)
    for break_ties in (False, True):
        svc = SVC(break_ties=break_ties).fit(A[:200], a[:200])
        model = never_stopping(NSVClassifier(FrozenEstimator(svc), random_state=0).fit(A))
        np.testing.assert_array_equal(model.predict(A), svc.predict(A))


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_large_offsets_and_small_units(kernel):
    """Single precision is enough in the right frame."""
    A, a = two_classes()
    svc = SVC(kernel=kernel, gamma=1e-3).fit(A, a)
    offset, unit = np.full(64, 30.0), 1e-3
    gamma = 1e-3 / unit**2
    vectors, coef = offset + unit * svc.support_vectors_, svc.dual_coef_[0]
    if kernel == "linear":
        coef = coef / unit**2  # the same outputs, but for the bias that goes with the offset
    machine = KernelMachine(vectors, coef, float(svc.intercept_[0]), kernel, gamma=gamma)
    queries = offset + unit * QUERIES
    if kernel == "linear":
        machine.bias -= float(np.mean(machine.decision_function(queries)))
    model = never_stopping(NSVClassifier(machine, random_state=0).fit(queries))
    exact = machine.decision_function(queries)
    np.testing.assert_allclose(
        model.decision_function(queries), exact, atol=2e-4 * np.abs(exact).max()
    )


def test_float32_and_float64():
    model = NSVClassifier(random_state=0).fit(X, Y)
    single = NSVClassifier(random_state=0).fit(X.astype(np.float32), Y)
    np.testing.assert_array_equal(
        model.decision_function(QUERIES), single.decision_function(QUERIES.astype(np.float32))
    )


def test_a_calibration_set_of_ones_own():
    model = NSVClassifier(SVC(C=10), random_state=0).fit(X, Y, X_calibration=QUERIES)
    assert model.calibration_["n_queries"] == len(QUERIES)
    assert (model.predict(QUERIES) == model.estimator_.predict(QUERIES)).mean() > 0.998
    some = NSVClassifier(SVC(C=10), n_calibration=100, random_state=0).fit(X, Y)
    assert some.calibration_["n_queries"] == 100


def test_pickle_and_clone():
    model = NSVClassifier(SVC(C=10), random_state=0, n_jobs=2).fit(X, Y)
    kept = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(kept.decision_function(QUERIES), model.decision_function(QUERIES))
    again = clone(model).fit(X, Y)
    np.testing.assert_array_equal(again.predict(QUERIES), model.predict(QUERIES))


def test_weights_are_the_estimators():
    weights = np.where(np.arange(len(Y)) % 3 == 0, 0.05, 1.0)
    model = NSVClassifier(SVC(), random_state=0).fit(X, Y, weights)
    scaled = NSVClassifier(make_pipeline(StandardScaler(), SVC())).fit(X, Y, sample_weight=weights)
    expected = SVC().fit(X, Y, weights).dual_coef_
    np.testing.assert_array_equal(model.estimator_.dual_coef_, expected)
    expected = SVC().fit(StandardScaler().fit_transform(X), Y, weights).dual_coef_
    np.testing.assert_array_equal(scaled.estimator_[-1].dual_coef_, expected)


class TestFidelity:
    def test_queries_like_the_calibration_data(self):
        model = NSVClassifier(SVC(C=10), random_state=0).fit(X, Y)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = model.fidelity_check(QUERIES, share=0.3, limit=0.01, random_state=0)
        assert found.n_queries == len(QUERIES)
        assert 0.2 * len(QUERIES) < found.n_checked < 0.4 * len(QUERIES)

    def test_all_queries(self):
        model = NSVClassifier(SVC(C=10), max_disagreement=0.3, random_state=0).fit(X, Y)
        changed = model.predict(QUERIES) != model.estimator_.predict(QUERIES)
        found = model.fidelity_check(QUERIES, share=1.0, limit=1.0, random_state=0)
        assert found.n_checked > 0.6 * len(QUERIES)
        assert 0 < found.n_changed <= changed.sum()
        assert abs(found.disagreement - changed.mean()) < 0.5 * changed.mean()

    def test_queries_of_another_kind(self):
        A, a = two_classes()
        model = NSVClassifier(SVC(C=10), max_disagreement=0.02, random_state=0).fit(A, a)
        others = np.random.default_rng(0).uniform(0, 16, size=(2000, 64))
        with pytest.warns(UserWarning, match="get another label than the exact"):
            found = model.fidelity_check(others, share=0.5, limit=1e-6, random_state=0)
        assert found.n_changed > 0

    def test_share(self):
        model = NSVClassifier(random_state=0).fit(X, Y)
        with pytest.raises(ValueError, match="share"):
            model.fidelity_check(QUERIES, share=0)


class TestKernelMachine:
    @pytest.mark.parametrize("kernel", ["rbf", "linear", "poly", "sigmoid"])
    def test_decisions_are_those_of_the_machine_it_was_taken_from(self, kernel):
        A, a = two_classes()
        svc = SVC(kernel=kernel, gamma=1e-3, coef0=0.5).fit(A, a)
        machine = KernelMachine(
            svc.support_vectors_,
            svc.dual_coef_[0],
            float(svc.intercept_[0]),
            kernel,
            gamma=1e-3,
            coef0=0.5,
            classes=svc.classes_,
        )
        expected = svc.decision_function(QUERIES)
        np.testing.assert_allclose(machine.decision_function(QUERIES), expected)
        np.testing.assert_array_equal(machine.predict(QUERIES), svc.predict(QUERIES))
        model = never_stopping(NSVClassifier(machine, random_state=0).fit(A, a))
        np.testing.assert_array_equal(model.predict(QUERIES), svc.predict(QUERIES))
        assert model.estimator_ is machine

    def test_normalised_polynomial(self):
        A, a = two_classes()
        unit = A / np.linalg.norm(A, axis=1, keepdims=True)
        kernel = {"kernel": "poly", "degree": 9, "gamma": 0.5, "coef0": 0.5}
        svc = SVC(**kernel).fit(unit, a)
        # (x.v + 1)^9, normalised, is ((x.v + 1) / 2)^9 on points of length one.
        kernel |= {"kernel": "normalised_poly", "gamma": 1.0, "coef0": 1.0}
        machine = KernelMachine(
            svc.support_vectors_, svc.dual_coef_[0], float(svc.intercept_[0]), **kernel
        )
        queries = QUERIES / np.linalg.norm(QUERIES, axis=1, keepdims=True)
        expected = svc.decision_function(queries)
        np.testing.assert_allclose(machine.decision_function(queries), expected, atol=1e-9)
        model = never_stopping(NSVClassifier(machine, random_state=0).fit(unit))
        np.testing.assert_allclose(model.decision_function(queries), expected, atol=1e-5)

    def test_kernel_fisher_discriminant(self):
        """Any expansion will do: here all training points, with coefficients of both signs."""
        A, a = make_moons(300, noise=0.1, random_state=0)
        gram = np.exp(-2.0 * np.square(A[:, None] - A[None]).sum(axis=2))
        coef = np.linalg.solve(gram + 0.1 * np.eye(len(A)), 2.0 * a - 1)
        machine = KernelMachine(A, coef, gamma=2.0)
        assert machine.score(A, a) > 0.98
        model = NSVClassifier(machine, random_state=0).fit(A)
        assert (model.predict(A) == machine.predict(A)).mean() > 0.98

    def test_what_does_not_fit(self):
        with pytest.raises(ValueError, match="coef must hold one number"):
            KernelMachine(np.ones((3, 2)), [1.0, -1.0]).predict([[0.0, 0.0]])
        with pytest.raises(ValueError, match="classes must name two"):
            KernelMachine(np.ones((2, 2)), [1.0, -1.0], classes=["a"]).predict([[0.0, 0.0]])
        with pytest.raises(ValueError, match="kernel"):
            KernelMachine(np.ones((2, 2)), [1.0, -1.0], kernel="laplacian").predict([[0.0, 0.0]])
        with pytest.raises(ValueError, match="vectors of one class"):
            NSVClassifier(KernelMachine(np.ones((2, 2)), [1.0, 1.0])).fit(np.ones((4, 2)))


class TestBadInput:
    def test_no_kernel_machine(self):
        what = r"LogisticRegression is no kernel machine.*SVC.*NuSVC.*KernelMachine"
        with pytest.raises(TypeError, match=what):
            NSVClassifier(LogisticRegression()).fit(X, Y)
        with pytest.raises(TypeError, match=what):
            NSVClassifier(make_pipeline(PCA(5), LogisticRegression())).fit(X, Y)

    def test_kernels_without_vectors(self):
        A, a = two_classes()
        with pytest.raises(ValueError, match=r"kernel='precomputed'.*'rbf'"):
            NSVClassifier(FrozenEstimator(SVC(kernel="precomputed").fit(A @ A.T, a))).fit(A, a)
        with pytest.raises(ValueError, match="callable kernel"):
            NSVClassifier(SVC(kernel=lambda A, B: A @ B.T)).fit(A, a)

    def test_sparse(self):
        A, a = two_classes()
        with pytest.raises(ValueError, match="sparse"):
            NSVClassifier(FrozenEstimator(SVC().fit(csr_array(A), a))).fit(A, a)

    def test_no_vectors_of_one_class(self):
        A, a = two_classes()
        svc = SVC().fit(A, a)
        svc._n_support = np.array([0, len(svc.support_)], dtype=np.int32)
        with pytest.raises(ValueError, match="no support vectors of one class"):
            NSVClassifier(FrozenEstimator(svc)).fit(A, a)

    def test_not_fitted(self):
        with pytest.raises(NotFittedError):
            NSVClassifier().n_touched(X)
        with pytest.raises(NotFittedError):
            NSVClassifier().fidelity_check(X)
        with pytest.raises(NotFittedError):
            NSVClassifier(FrozenEstimator(SVC())).fit(X)

    def test_labels_are_needed_to_fit(self):
        with pytest.raises(ValueError, match="requires y"):
            NSVClassifier(SVC()).fit(X)

    def test_calibration_data_of_another_width(self):
        with pytest.raises(ValueError, match="5 features"):
            NSVClassifier(SVC()).fit(X, Y, X_calibration=X[:, :5])
