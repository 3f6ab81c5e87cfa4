"""Reduced sets: a trained machine said again in a few vectors of its own choosing.

A machine's weights are a sum of its support vectors' images, w = sum_i a_i phi(x_i). Find vectors Z
and coefficients b that make

    |sum_i a_i phi(x_i) - sum_j b_j phi(z_j)|^2

small, without the data that w was learned from. For fixed Z the best coefficients are the solution
of K_zz b = K_zx a, so what is left is a function of Z alone, and its gradient is that with b held
fixed. L-BFGS descends from the centres of clusters of support vectors. Where there are several
outputs, one for each pair of classes, the errors add up, and all of them share Z: a prediction
costs as many kernel values as there are vectors. A linear machine needs no descent: its vectors are
the leading right singular vectors of the outputs' normals.

A step costs m n_support d for the kernel values and m n_support n_pairs for the products with the
coefficients, twice, by matrix products over blocks of support vectors.

C. J. C. Burges: Simplified support vector decision rules, ICML 1996.
B. Schölkopf, A. Smola: Learning with kernels, MIT Press 2002, chapter 18.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize
from sklearn.cluster import KMeans
from sklearn.utils import gen_batches

from vicinal.kernels import LINEAR
from vicinal.problem import Doubles, Floats
from vicinal.sparse.expansion import SharedExpansion, kernel_values
from vicinal.sparse.slopes import pull_back
from vicinal.sparse.starts import shares

Start = Literal["k-means", "random"]

_ROWS = 4096
"""Support vectors whose kernel values are in memory at a time."""

_RIDGE = 1e-8
"""Of the diagonal of K_zz: vectors that meet share their coefficient."""


OnStep = Callable[[int, Callable[[], "Reduction"]], bool]
"""Hears of the number of steps and how to make what they have found; says whether to stop."""


@dataclass(frozen=True)
class Reduction:
    """A smaller expansion and how far it lies from the one it stands for.

    Parameters
    ----------
    expansion : SharedExpansion
    error : float
        The squared distance between the weights of both, of all outputs together, relative to the
        squared length of the whole one's.
    n_iter : int
        Steps, one at least.
    """

    expansion: SharedExpansion
    error: float
    n_iter: int


def reduce_expansion(
    whole: SharedExpansion,
    n_vectors: int,
    *,
    groups: NDArray[Any] | None = None,
    start: Start = "k-means",
    max_iter: int = 100,
    tol: float = 1e-5,
    random_state: np.random.RandomState,
    on_step: OnStep = lambda n_steps, so_far: False,
) -> Reduction:
    """Say an expansion in fewer vectors.

    Parameters
    ----------
    whole : SharedExpansion
    n_vectors : int
        A linear expansion takes no more than it has outputs or features, and none more than `whole`
        has.
    groups : array of shape (whole.n_vectors,), default=None
        The class of each vector: vectors start at clusters within a class.
    start : {"k-means", "random"}
    max_iter, tol : int, float
        Of L-BFGS: how many steps, and the decrease that is not worth another, relative to the
        squared length of the whole weights.
    random_state : RandomState
    on_step : callable
        Is told of every step of L-BFGS.
    """
    if whole.kernel[0] == LINEAR:
        return _leading_directions(whole, n_vectors)
    if n_vectors >= whole.n_vectors:
        return Reduction(whole, 0.0, 1)
    start_at = start_vectors(whole, n_vectors, groups, start, random_state)
    error = _Error(whole)
    n_steps = 0

    def reduction(flat: Doubles) -> Reduction:
        Z = flat.reshape(start_at.shape)
        smaller = replace(whole, vectors=Z.astype(np.float32), coef=error.coefficients(Z))
        # What is lost need not have mean zero: the mean output at the support vectors is kept.
        lost = error.at_vectors - smaller.outputs(whole.vectors)
        bias = whole.bias + np.average(lost, axis=0, weights=np.abs(whole.coef))
        left = max(0.0, 1.0 + error(flat)[0])
        return Reduction(replace(smaller, bias=bias), left, max(1, n_steps))

    def after_step(flat: Doubles) -> None:
        nonlocal n_steps
        n_steps += 1
        if on_step(n_steps, lambda: reduction(flat)):
            raise StopIteration

    found = minimize(
        error,
        start_at.ravel(),
        jac=True,
        method="L-BFGS-B",
        callback=after_step,
        options={"maxiter": max_iter, "ftol": tol, "gtol": 0.0},
    )
    return reduction(found.x)


def merged(whole: SharedExpansion, groups: NDArray[Any]) -> tuple[SharedExpansion, NDArray[Any]]:
    """Make one vector of equal ones of a group; return the groups of those that are left."""
    keys = np.column_stack([groups, whole.vectors])
    _, first, place = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    coef = np.zeros((len(first), whole.n_outputs))
    np.add.at(coef, place.ravel(), whole.coef)
    return replace(whole, vectors=whole.vectors[first], coef=coef), groups[first]


class _Error:
    """The reconstruction error of vectors with their best coefficients, and its gradient.

    It is relative to the squared length of the whole machine's weights, and less by one.
    """

    def __init__(self, whole: SharedExpansion) -> None:
        self._kernel, self._points = whole.kernel, whole.vectors
        self._coef = whole.coef.astype(np.float32)
        self.at_vectors = whole.outputs(whole.vectors)
        squared_length = float(np.sum(whole.coef * (self.at_vectors - whole.bias)))
        self._scale = max(squared_length, 1e-300)

    def __call__(self, flat: Doubles) -> tuple[float, Doubles]:
        Z = flat.reshape(-1, self._points.shape[1])
        single = Z.astype(np.float32)
        K_zz, cross = kernel_values(self._kernel, Z, Z), self._cross(single)
        coef = _solve(K_zz, cross)
        # Z moves K_zx, of which the error has -2 b' K_zx a, and K_zz, of which it has b' K_zz b.
        gradient, _ = pull_back(self._kernel, 2 * coef @ coef.T, Z, Z, K_zz, by_gamma=False)
        for rows in gen_batches(len(self._points), _ROWS):
            points = self._points[rows]
            values = kernel_values(self._kernel, points, single)
            weights = self._coef[rows] @ (-2 * coef).astype(np.float32).T
            gradient += pull_back(self._kernel, weights, points, single, values, by_gamma=False)[0]
        return -float(np.sum(coef * cross)) / self._scale, gradient.ravel() / self._scale

    def coefficients(self, Z: Doubles) -> Doubles:
        """Return the best coefficients of some vectors."""
        return _solve(kernel_values(self._kernel, Z, Z), self._cross(Z.astype(np.float32)))

    def _cross(self, Z: Floats) -> Doubles:
        """Return K_zx a."""
        cross = np.zeros((len(Z), self._coef.shape[1]))
        for rows in gen_batches(len(self._points), _ROWS):
            cross += kernel_values(self._kernel, self._points[rows], Z).T @ self._coef[rows]
        return cross


def _solve(K: Doubles, right: Doubles) -> Doubles:
    ridge = _RIDGE * np.trace(K) / len(K)
    factor = cho_factor(K + ridge * np.eye(len(K)), lower=True, check_finite=False)
    solution: Doubles = cho_solve(factor, right, check_finite=False)
    return solution


def start_vectors(
    whole: SharedExpansion,
    n_vectors: int,
    groups: NDArray[Any] | None,
    start: Start,
    random_state: np.random.RandomState,
) -> Doubles:
    """Return vectors to start from: each class has a share, one at least."""
    points, weights = whole.vectors.astype(np.float64), np.abs(whole.coef).sum(axis=1)
    if groups is None or len(np.unique(groups)) > n_vectors:
        groups = np.zeros(len(points), dtype=np.intp)
    _, members = np.unique(groups, return_inverse=True)
    parts = []
    for group, n in enumerate(shares(np.bincount(members), n_vectors)):
        own = members == group
        if start == "random" or n == own.sum():
            parts.append(points[own][random_state.permutation(own.sum())[:n]])
        else:
            clusters = KMeans(n, n_init=1, max_iter=20, random_state=random_state)
            parts.append(clusters.fit(points[own], sample_weight=weights[own]).cluster_centers_)
    return np.concatenate(parts)


def _leading_directions(whole: SharedExpansion, n_vectors: int) -> Reduction:
    normals = whole.coef.T @ whole.vectors.astype(np.float64)
    left, lengths, directions = np.linalg.svd(normals, full_matrices=False)
    spanned = max(1, int(np.sum(lengths > lengths[0] * np.finfo(np.float32).eps)))
    kept, squares = min(n_vectors, spanned), lengths**2
    vectors = directions[:kept].astype(np.float32)
    coef = (left[:, :kept] * lengths[:kept]).T
    error = float(squares[kept:].sum() / max(squares.sum(), 1e-300))
    return Reduction(replace(whole, vectors=vectors, coef=coef), error, 1)
