"""Where kernel values are approximated: principal axes, landmarks, or blocks of close vectors."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from sklearn.decomposition import TruncatedSVD
from sklearn.metrics.pairwise import pairwise_kernels

from vicinal.kernels import LINEAR, POLY, RBF, Metric
from vicinal.problem import Codes, Floats

Embedding = Literal["pca", "kernel_pca", "index"]

BLOCK = 16
"""The engine touches so many vectors at once where it goes by the index."""

CANDIDATES = 1024
"""Landmarks are chosen from at most so many vectors."""

INDEPENDENT = 1e-6
"""A landmark adds an axis if at least this part of its squared length is new; less would ask for
more digits than single precision has."""


class Axes(NamedTuple):
    """The axes of the two embeddings that have some.

    `principal` has a row for each axis; `landmarks` names vectors, and `basis`, lower triangular,
    leads from kernel values with them to orthogonal axes of the kernel's feature space.
    """

    principal: Floats
    landmarks: Codes
    basis: Floats

    @classmethod
    def none(cls, n_features: int) -> Self:
        """Return no axes."""
        empty = np.zeros((0, 0), dtype=np.float32)
        return cls(np.zeros((0, n_features), np.float32), np.zeros(0, np.int32), empty)

    def first(self, n_principal: int, n_landmarks: int) -> Self:
        """Return the first axes of either kind."""
        basis = np.ascontiguousarray(self.basis[:n_landmarks, :n_landmarks])
        return type(self)(self.principal[:n_principal], self.landmarks[:n_landmarks], basis)


def principal_axes(vectors: Floats, n_axes: int, seed: int) -> Floats:
    """Return the first axes of the singular value decomposition of the vectors, in its order."""
    n_axes = min(n_axes, *vectors.shape)
    svd = TruncatedSVD(n_axes, n_iter=4, random_state=seed)
    return np.ascontiguousarray(svd.fit(vectors).components_, dtype=np.float32)


def spread_landmarks(
    vectors: Floats, kernel: Metric, n_axes: int, random_state: np.random.RandomState
) -> tuple[Codes, Floats]:
    """Choose landmarks, and orthogonal axes in the space that their images span.

    By an incomplete Cholesky decomposition of some of the kernel matrix, with random pivots: a
    vector is chosen with a chance in proportion to how far it lies off the axes so far (Chen,
    Epperly, Tropp, Webber: Randomly pivoted Cholesky, 2022). There may be fewer axes than asked
    for.
    """
    sample = random_state.permutation(len(vectors))[:CANDIDATES]
    candidates = vectors[sample].astype(np.float64)
    gram = kernel_values(candidates, candidates, kernel)
    squared = np.maximum(gram.diagonal(), 0.0)
    off = squared.copy()
    factor = np.zeros((len(sample), n_axes))
    pivots: list[int] = []
    while len(pivots) < n_axes and off.any():
        n = len(pivots)
        pivot = int(random_state.choice(len(off), p=off / off.sum()))
        pivots.append(pivot)
        column = gram[:, pivot] - factor[:, :n] @ factor[pivot, :n]
        factor[:, n] = column / np.sqrt(column[pivot])
        off -= np.square(factor[:, n])
        off[off < INDEPENDENT * squared] = 0.0
        off[pivot] = 0.0
    n = len(pivots)
    basis = solve_triangular(factor[pivots, :n], np.eye(n), lower=True)
    return sample[pivots].astype(np.int32), np.ascontiguousarray(basis, dtype=np.float32)


def kernel_values(points: NDArray[Any], others: NDArray[Any], kernel: Metric) -> NDArray[Any]:
    """Return the kernel values of some points with others, in their precision."""
    kind, gamma, coef0, degree = kernel
    parameters: dict[str, Any] = {"gamma": gamma}
    if kind in (LINEAR, POLY):
        parameters |= {"coef0": coef0, "degree": degree}
    elif kind != RBF:
        parameters["coef0"] = coef0
    name = {LINEAR: "poly", POLY: "poly", RBF: "rbf"}.get(kind, "sigmoid")
    return pairwise_kernels(points, others, metric=name, **parameters)


def in_blocks(points: NDArray[Any]) -> NDArray[np.intp]:
    """Return an order in which points that follow each other, block by block, lie close together.

    The leaves of a kd-tree: the feature of the largest spread is cut in the middle, until a block
    is left.
    """
    order, open_ = [], [np.arange(len(points))]
    while open_:
        rows = open_.pop()
        if len(rows) <= BLOCK:
            order.append(rows)
            continue
        here = points[rows]
        widest = here[:, here.var(axis=0).argmax()]
        n_blocks = -(-len(rows) // BLOCK)
        half = BLOCK * (n_blocks // 2)
        rows = rows[np.argpartition(widest, half)]
        open_ += [rows[half:], rows[:half]]
    return np.concatenate(order) if order else np.zeros(0, dtype=np.intp)
