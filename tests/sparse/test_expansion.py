"""A shared expansion against scikit-learn's kernels in double precision."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics.pairwise import pairwise_kernels

from vicinal.sparse import SharedExpansion

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
