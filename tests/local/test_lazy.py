"""kNNSVM against its slow reference, and the limits the papers name."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC
from tests.local.problems import (
    CLOSE,
    KERNELS,
    TOL,
    assert_same_answers,
    binary,
    parameters,
    three_classes,
)
from tests.reference.classifiers import KNNSVM, Kernel, internal_error, neighbours

from vicinal import KNNSVC


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
@pytest.mark.parametrize("data", [binary, three_classes], ids=["binary", "multi-class"])
def test_agrees_with_the_reference(data, kernel):
    X, y, Q = data(n_queries=60)
    model = KNNSVC(30, C=4.0, **parameters(kernel)).fit(X, y)
    assert_same_answers(model, KNNSVM(30, 4.0, kernel).fit(X, y), Q)


def test_global_multi_class_makes_the_binary_problems_first():
    X, y, Q = three_classes()
    kernel = Kernel("rbf", 2.0)
    model = KNNSVC(30, multi_class="global", **parameters(kernel)).fit(X, y)
    assert_same_answers(model, KNNSVM(30, 1.0, kernel, "global").fit(X, y), Q)


@pytest.mark.parametrize(
    "kernel", [{"kernel": "linear"}, {"gamma": 0.7}, {"gamma": "local"}], ids=str
)
@pytest.mark.parametrize("data", [binary, three_classes], ids=["binary", "multi-class"])
def test_two_neighbours_are_one_nearest_neighbour(data, kernel):
    X, y, Q = data(n_queries=600)
    nearest = KNeighborsClassifier(1).fit(X, y)
    model = KNNSVC(2, C=1000.0, **kernel).fit(X, y)
    np.testing.assert_array_equal(model.predict(Q), nearest.predict(Q))


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_all_neighbours_are_one_svm(kernel):
    X, y, Q = binary(n=120, n_queries=20)
    svc = SVC(
        kernel=kernel.name, gamma=kernel.gamma, degree=kernel.degree, coef0=kernel.coef0, tol=1e-6
    ).fit(X, y)
    model = KNNSVC(len(X), **parameters(kernel)).fit(X, y)
    np.testing.assert_allclose(model.decision_function(Q), svc.decision_function(Q), **CLOSE)


def test_weights_scale_c():
    X, y, Q = binary()
    weights = np.random.default_rng(0).uniform(0.2, 3.0, len(X))
    kernel = Kernel("rbf", 2.0)
    model = KNNSVC(30, **parameters(kernel)).fit(X, y, sample_weight=weights)
    reference = KNNSVM(30, 1.0, kernel).fit(X, y, sample_weight=weights)
    assert_same_answers(model, reference, Q)


class TestSelection:
    """Parameters chosen for each query inside its own neighbourhood (Definitions 3 and 4)."""

    def test_a_grid_of_one_is_no_selection(self):
        X, y, Q = binary()
        plain = KNNSVC(30, C=4.0, gamma_percentile=50, tol=TOL).fit(X, y)
        chosen = KNNSVC(30, C=(4.0,), gamma_percentile=(50,), selection="internal", tol=TOL).fit(
            X, y
        )
        np.testing.assert_allclose(chosen.decision_function(Q), plain.decision_function(Q), **CLOSE)

    def test_every_query_uses_its_best_candidate(self):
        X, y, Q = binary(n=200, n_queries=30)
        Cs, percentiles = (0.5, 8.0), (10, 90)
        chosen = KNNSVC(40, C=Cs, gamma_percentile=percentiles, selection="internal", tol=TOL).fit(
            X, y
        )
        grid = [(C, p) for C in Cs for p in percentiles]
        models = [KNNSVC(40, C=C, gamma_percentile=p, tol=TOL).fit(X, y) for C, p in grid]
        candidates = np.stack([model.decision_function(Q) for model in models])
        off = np.abs(candidates - chosen.decision_function(Q))
        assert (off.min(axis=0) < 5e-3).all()
        for row, of_query in zip(neighbours(X, Q, 40, Kernel()), off.T, strict=True):
            errors = np.array(
                [
                    internal_error(X[row], y[row], 20, 5, Kernel("rbf", "local", p), C)
                    for C, p in grid
                ]
            )
            # one of the twenty may lie on the boundary, and candidates may agree on the query
            assert errors[of_query < 5e-3].min() <= errors.min() + 0.0501

    def test_it_pays_where_one_width_does_not_fit_all(self):
        X, y, Q = binary(n=400, n_queries=400, seed=4)
        truth = np.asarray(binary(n=800, n_queries=0, seed=4)[1][400:])
        chosen = KNNSVC(60, C=(1.0, 64.0), gamma_percentile=(10, 90), selection="internal")
        assert (chosen.fit(X, y).predict(Q) == truth).mean() > 0.88
