"""A shared expansion against scikit-learn's kernels in double precision."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics.pairwise import pairwise_kernels

from vicinal import engine
from vicinal.engine._load import instruction_sets, load
from vicinal.kernels import LINEAR, POLY, RBF
from vicinal.sparse import SharedExpansion
from vicinal.sparse.expansion import kernel_values

PARAMETERS = {
    "rbf": {"gamma": 0.3},
    "poly": {"gamma": 0.2, "coef0": 1.0, "degree": 3},
    "linear": {},
}


@pytest.mark.parametrize("kernel", PARAMETERS)
@pytest.mark.parametrize("n_outputs", [1, 4])
def test_outputs_are_those_of_pairwise_kernels(kernel, n_outputs):
    rng = np.random.default_rng(0)
    vectors, X = rng.normal(size=(23, 5)), rng.normal(size=(3000, 5))
    coef, bias = rng.normal(size=(23, n_outputs)), rng.normal(size=n_outputs)
    machine = SharedExpansion.make(vectors, coef, bias, kernel, **PARAMETERS[kernel])
    values = pairwise_kernels(X, vectors, metric=kernel, **PARAMETERS[kernel])
    np.testing.assert_allclose(machine.decision(X), values @ coef + bias, atol=1e-4, rtol=1e-4)


def test_an_offset_costs_no_digits():
    rng = np.random.default_rng(0)
    vectors, X = rng.normal(size=(23, 5)), rng.normal(size=(50, 5))
    coef, bias = rng.normal(size=(23, 1)), np.zeros(1)
    near = SharedExpansion.make(vectors, coef, bias, "rbf", gamma=0.3)
    far = SharedExpansion.make(vectors + 1e6, coef, bias, "rbf", gamma=0.3)
    np.testing.assert_allclose(far.decision(X + 1e6), near.decision(X), atol=1e-4)


@pytest.mark.parametrize("isa", instruction_sets())
@pytest.mark.parametrize("kernel", [(RBF, 0.3, 0.0, 1), (POLY, 0.2, 1.0, 3), (LINEAR, 1.5, 0.0, 1)])
@pytest.mark.parametrize(("n", "m", "d"), [(1, 1, 1), (7, 16, 3), (130, 33, 20), (64, 100, 5)])
def test_tiles_are_products(isa, kernel, n, m, d):
    rng = np.random.default_rng(0)
    X, Z = rng.normal(size=(n, d)), rng.normal(size=(m, d))
    single, few = X.astype(np.float32), Z.astype(np.float32)
    whole = kernel_values(kernel, X, Z)
    values = np.empty((n, m), dtype=np.float32)
    load(isa)[1].kernel_values(single, few, kernel, values, 2)
    np.testing.assert_allclose(values, whole, atol=2e-5, rtol=2e-5)
    coef, bias = rng.normal(size=(m, 3)), rng.normal(size=3)
    outputs = load(isa)[1].expand(single, few, coef, bias, kernel, 2)
    np.testing.assert_allclose(outputs, whole @ coef + bias, atol=1e-3, rtol=1e-4)


def test_a_point_has_the_same_outputs_in_any_company():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(301, 7)).astype(np.float32)
    vectors, coef = rng.normal(size=(37, 7)), rng.normal(size=(37, 5))
    machine = SharedExpansion.make(vectors, coef, np.zeros(5), "rbf", gamma=0.3)
    together = machine.outputs(X, n_threads=3)
    np.testing.assert_array_equal(np.concatenate([machine.outputs(x[None]) for x in X]), together)
    np.testing.assert_array_equal(machine.outputs(X[::-1])[::-1], together)


@pytest.mark.parametrize(
    ("points", "coef", "message"),
    [
        (np.zeros((2, 4)), np.zeros((5, 1)), "number of features"),
        (np.zeros((2, 3)), np.zeros((4, 1)), "a row for each vector"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(points, coef, message):
    vectors = np.zeros((5, 3), dtype=np.float32)
    with pytest.raises(ValueError, match=message):
        engine.expand(points.astype(np.float32), vectors, coef, np.zeros(1), (RBF, 1.0, 0.0, 1))
