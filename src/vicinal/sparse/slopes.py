"""Derivatives of kernel values with respect to the vectors, and to the logarithm of gamma.

Every kernel here is a function of one number t for a point x and a vector z: |x - z|² for "rbf",
⟨x, z⟩ for the others. What is needed is its slope in t; the rest are products of matrices.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from vicinal.kernels import LINEAR, RBF, Metric


def pull_back(
    kernel: Metric,
    weights: NDArray[Any],
    points: NDArray[Any],
    vectors: NDArray[Any],
    values: NDArray[Any],
    *,
    by_gamma: bool = True,
) -> tuple[NDArray[Any], float]:
    """Return the derivatives of the weighted sum of all kernel values of points with vectors.

    Parameters
    ----------
    kernel : tuple
    weights : array of shape (n_points, n_vectors)
        Overwritten.
    points : array of shape (n_points, n_features)
    vectors : array of shape (n_vectors, n_features)
    values : array of shape (n_points, n_vectors)
        The kernel values.
    by_gamma : bool
        Whether the second derivative is wanted; else it is 0.

    Returns
    -------
    by_vectors : array of shape (n_vectors, n_features)
    by_log_gamma : float
    """
    kind, gamma, coef0, degree = kernel
    if kind == RBF:
        weights *= values
        of_vector = weights.sum(axis=0)
        by_vectors = 2 * gamma * (weights.T @ points - of_vector[:, None] * vectors)
        if not by_gamma:
            return by_vectors, 0.0
        apart = np.log(np.maximum(values, np.finfo(values.dtype).tiny))  # -gamma t
        return by_vectors, float(np.vdot(weights, apart))
    weights *= weights.dtype.type(gamma)
    if kind == LINEAR:
        return weights.T @ points, 0.0
    dots = points @ vectors.T
    inner = dots * dots.dtype.type(gamma) + dots.dtype.type(coef0)
    weights *= degree * inner ** (degree - 1)
    return weights.T @ points, float(np.vdot(weights, dots))
