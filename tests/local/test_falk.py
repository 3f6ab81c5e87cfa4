"""FaLK-SVM and FastLSVM against their slow references, point by point."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.preprocessing import MinMaxScaler
from sklearn.svm import SVC
from tests.local.problems import (
    CLOSE,
    KERNELS,
    TOL,
    assert_same_answers,
    at_random,
    binary,
    by_levels,
    parameters,
    three_classes,
)
from tests.reference.classifiers import FaLKSVM, Kernel

from vicinal import FaLKSVC, FastLSVC


@pytest.mark.parametrize("routing", ["rank", "first", "centre"])
@pytest.mark.parametrize("kernel", KERNELS, ids=str)
@pytest.mark.parametrize("data", [binary, three_classes], ids=["binary", "multi-class"])
def test_agrees_with_the_reference(data, kernel, routing):
    X, y, Q = data()
    model = FaLKSVC(40, 20, C=4.0, routing=routing, **parameters(kernel)).fit(X, y)
    reference = FaLKSVM(
        40, 4.0, kernel, n_assigned=20, order=by_levels(kernel), routing=routing
    ).fit(X, y)
    np.testing.assert_array_equal(model.centres_, reference.cover.centres)
    if routing == "rank":
        np.testing.assert_array_equal(model.owners_, reference.cover.nearest)
    if routing == "first":
        np.testing.assert_array_equal(model.owners_, reference.cover.first)
    assert_same_answers(model, reference, Q)


@pytest.mark.parametrize(("k", "n_assigned"), [(30, 1), (30, 7), (30, 30), (12, 6)])
def test_any_number_of_assigned_points(k, n_assigned):
    X, y, Q = binary()
    kernel = Kernel("rbf", 2.0)
    model = FaLKSVC(k, n_assigned, **parameters(kernel)).fit(X, y)
    reference = FaLKSVM(k, 1.0, kernel, n_assigned=n_assigned, order=by_levels(kernel)).fit(X, y)
    np.testing.assert_array_equal(model.centres_, reference.cover.centres)
    np.testing.assert_array_equal(model.owners_, reference.cover.nearest)
    assert_same_answers(model, reference, Q)


@pytest.mark.parametrize("routing", ["rank", "first"])
def test_random_centres(routing):
    X, y, Q = binary()
    kernel = Kernel("rbf", 2.0)
    model = FaLKSVC(
        40, 10, centres="random", routing=routing, random_state=3, **parameters(kernel)
    ).fit(X, y)
    reference = FaLKSVM(
        40,
        1.0,
        kernel,
        n_assigned=10,
        order=at_random(3),
        routing=routing,
    ).fit(X, y)
    np.testing.assert_array_equal(model.centres_, reference.cover.centres)
    assert_same_answers(model, reference, Q)


def test_fast_lsvc_is_random_centres_and_first_come():
    X, y, Q = binary()
    fast = FastLSVC(40, C=2.0, gamma=2.0, random_state=0).fit(X, y)
    same = FaLKSVC(40, 10, C=2.0, gamma=2.0, random_state=0, centres="random", routing="first").fit(
        X, y
    )
    np.testing.assert_array_equal(fast.centres_, same.centres_)
    np.testing.assert_array_equal(fast.decision_function(Q), same.decision_function(Q))


@pytest.mark.parametrize("kernel", [Kernel("linear"), Kernel("rbf", 2.0)], ids=str)
def test_global_multi_class_makes_the_binary_problems_first(kernel):
    X, y, Q = three_classes()
    # In random order: levels are in units of the frame, which is that of all classes together.
    model = FaLKSVC(
        40, 20, multi_class="global", centres="random", random_state=3, **parameters(kernel)
    ).fit(X, y)
    reference = FaLKSVM(40, 1.0, kernel, "global", n_assigned=20, order=at_random(3)).fit(X, y)
    assert_same_answers(model, reference, Q)


@pytest.mark.parametrize("percentile", [1, 10, 50, 90])
@pytest.mark.parametrize("data", [binary, three_classes], ids=["binary", "multi-class"])
def test_local_width(data, percentile):
    X, y, Q = data()
    kernel = Kernel("rbf", "local", percentile)
    model = FaLKSVC(25, 10, C=2.0, **parameters(kernel)).fit(X, y)
    reference = FaLKSVM(25, 2.0, kernel, n_assigned=10, order=by_levels(kernel)).fit(X, y)
    # The library takes a sample of the pairs, so widths are near and not equal.
    expected, decisions = reference.decision_function(Q), model.decision_function(Q)
    assert np.median(np.abs(decisions - expected)) < 0.05
    assert (model.predict(Q) == reference.predict(Q)).mean() > 0.9


def test_scale_width_is_scikit_learns():
    X, y, Q = binary()
    width = 1 / (X.shape[1] * X.var())
    scale = FaLKSVC(40, gamma="scale").fit(X, y).decision_function(Q)
    np.testing.assert_allclose(
        scale, FaLKSVC(40, gamma=width).fit(X, y).decision_function(Q), rtol=1e-3, atol=1e-3
    )


@pytest.mark.parametrize(("kernel", "C"), list(product(KERNELS, [1.0, 32.0])), ids=str)
def test_one_neighbourhood_of_everything_is_svc(kernel, C):
    if kernel.name == "poly" and C > 1:
        pytest.skip("LIBSVM itself takes very long on unbounded kernels at this C")
    X, y, Q = binary()
    model = FaLKSVC(len(X), len(X), C=C, **parameters(kernel)).fit(X, y)
    svc = SVC(
        C=C, kernel=kernel.name, gamma=kernel.gamma, degree=kernel.degree, coef0=kernel.coef0,
        tol=1e-6,
    ).fit(X, y)  # fmt: skip
    assert model.n_machines_ == 1
    np.testing.assert_allclose(model.decision_function(Q), svc.decision_function(Q), **CLOSE)
    sure = np.abs(svc.decision_function(Q)) > 5e-3
    np.testing.assert_array_equal(model.predict(Q)[sure], svc.predict(Q)[sure])


@pytest.mark.parametrize("gamma", [3.0, "scale"])
@pytest.mark.parametrize("multi_class", ["local", "global"])
def test_one_neighbourhood_of_everything_is_multi_class_svc(multi_class, gamma):
    X, y = load_iris(return_X_y=True)
    X = MinMaxScaler().fit_transform(X)
    svc = SVC(C=8.0, gamma=gamma, tol=1e-6, decision_function_shape="ovr", break_ties=True).fit(
        X[::2], y[::2]
    )
    model = FaLKSVC(75, 75, C=8.0, gamma=gamma, tol=TOL, multi_class=multi_class)
    model.fit(X[::2], y[::2])
    np.testing.assert_allclose(
        model.decision_function(X), svc.decision_function(X), rtol=1e-2, atol=1e-2
    )
    np.testing.assert_array_equal(model.predict(X), svc.predict(X))


class TestWeights:
    def test_weights_scale_c_as_in_libsvm(self):
        X, y, Q = binary()
        weights = np.random.default_rng(0).uniform(0.2, 3.0, len(X))
        kernel = Kernel("rbf", 2.0)
        model = FaLKSVC(40, 20, **parameters(kernel)).fit(X, y, sample_weight=weights)
        reference = FaLKSVM(40, 1.0, kernel, n_assigned=20, order=by_levels(kernel))
        assert_same_answers(model, reference.fit(X, y, sample_weight=weights), Q)

    def test_a_point_of_weight_zero_is_as_if_absent(self):
        X, y, Q = binary()
        weights = np.ones(len(X))
        weights[::3] = 0
        with_zeros = FaLKSVC(40).fit(X, y, sample_weight=weights).decision_function(Q)
        without = FaLKSVC(40).fit(X[weights > 0], y[weights > 0]).decision_function(Q)
        np.testing.assert_array_equal(with_zeros, without)

    @pytest.mark.parametrize("class_weight", [{0: 1.0, 1: 5.0}, "balanced"])
    def test_class_weight(self, class_weight):
        X, y, Q = binary()
        keep = np.concatenate([np.flatnonzero(y == 0), np.flatnonzero(y == 1)[:60]])
        X, y = X[keep], y[keep]
        svc = SVC(gamma=2.0, tol=1e-6, class_weight=class_weight).fit(X, y)
        model = FaLKSVC(len(X), len(X), gamma=2.0, tol=TOL, class_weight=class_weight).fit(X, y)
        np.testing.assert_allclose(model.decision_function(Q), svc.decision_function(Q), **CLOSE)


class TestFittedAttributes:
    def test_they_count_what_they_say(self):
        X, y, _ = binary()
        model = FaLKSVC(30, 10, C=2.0, gamma=2.0).fit(X, y)
        owners = model.owners_
        assert model.n_machines_ == len(model.centres_) == len(np.unique(model.centres_))
        assert owners.shape == (len(X),)
        assert owners.min() >= 0
        assert owners.max() < model.n_machines_
        np.testing.assert_array_equal(owners[model.centres_], np.arange(model.n_machines_))
        assert 0 <= model.n_unanimous_ < model.n_machines_
        assert np.sum(model.n_support_) > 0

    def test_unanimous_neighbourhoods_train_nothing(self):
        X = np.concatenate([np.zeros((50, 1)), np.full((50, 1), 9.0)])
        X += np.random.default_rng(0).normal(scale=0.1, size=X.shape)
        y = np.repeat(["a", "b"], 50)
        model = FaLKSVC(10, 5).fit(X, y)
        assert model.n_unanimous_ == model.n_machines_
        np.testing.assert_array_equal(model.decision_function([[0.0], [9.0]]), [-1.0, 1.0])
        np.testing.assert_array_equal(model.predict([[0.0], [9.0]]), ["a", "b"])

    def test_report_has_seconds_and_counts(self):
        X, y, _ = binary()
        model = FaLKSVC(30).fit(X, y)
        report = model.fit_report_
        for step in ("index", "cover", "training"):
            assert report[step]["seconds"] >= 0
        assert report["cover"]["centres"] == model.n_machines_
        assert report["training"]["unanimous"] == model.n_unanimous_
