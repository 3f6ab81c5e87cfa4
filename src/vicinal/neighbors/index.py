"""Exact neighbour indexes, and the choice among them."""

from __future__ import annotations

from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from vicinal import engine
from vicinal.kernels import EUCLIDEAN, Metric
from vicinal.problem import Floats

Algorithm = Literal["auto", "tree", "scan", "kd_tree"]
Neighbours = tuple[Floats, NDArray[np.int32]]
"""Squared distances and indices, a row for each query, nearest first, ties by index."""


class NeighbourIndex(Protocol):
    """What every index can do."""

    points: Floats
    metric: Metric

    @property
    def structure(self) -> str:
        """What it is: a tree, a scan or a kd-tree."""

    def query(self, queries: Floats, k: int, *, n_threads: int) -> Neighbours:
        """Return the k nearest points of each query."""

    def query_radius(
        self, queries: Floats, radius: float, *, n_threads: int
    ) -> tuple[NDArray[np.int64], Floats, NDArray[np.int32]]:
        """Return row starts, squared distances and indices of all points within a radius."""


def make_index(
    points: Floats,
    metric: Metric = EUCLIDEAN,
    *,
    algorithm: Algorithm = "auto",
    k: int = 1,
    base: float | None = None,
    n_threads: int = 1,
) -> NeighbourIndex:
    """Index some points for queries of about k neighbours."""
    if algorithm == "kd_tree":
        if metric != EUCLIDEAN:
            raise ValueError(
                "algorithm='kd_tree' knows the Euclidean distance only, and a polynomial kernel"
                " has its own: use algorithm='tree', 'scan' or 'auto'."
            )
        if _few_twins(points):
            return KDTreeIndex(points)
        algorithm = "scan"  # SciPy's tree cannot split twins, and a leaf of many takes for ever
    few = points.shape[1] <= 3 and k <= 64
    if algorithm == "auto" and metric == EUCLIDEAN and few and _few_twins(points):
        return KDTreeIndex(points)
    index = engine.NeighbourIndex(
        points,
        structure="scan" if algorithm == "scan" else "tree",
        base=base,
        metric=metric,
        n_threads=n_threads,
    )
    return fastest(index, k, n_threads=n_threads) if algorithm == "auto" else index


def _few_twins(points: Floats) -> bool:
    sample = points[:: max(1, len(points) // 1000)]
    return len(np.unique(sample, axis=0)) > len(sample) / 2


def fastest(tree: engine.NeighbourIndex, k: int, *, n_threads: int = 1) -> engine.NeighbourIndex:
    """Return the tree, or a scan of its points where that answers queries for k sooner.

    A tree is cheap to build, so it is asked: how many distances does it compute for a few of its
    own points? One of those costs many times one of a scan, which reads the points in order, eight
    queries at a time. The prices are nanoseconds as measured; the choice changes no result.
    """
    points = tree.points
    n_points, n_features = points.shape
    flat = k == 1 and tree.metric == EUCLIDEAN and n_features >= 32 and n_points >= 128
    sifted = flat and engine.sieve_axes(points)[2] >= 0.6
    structure: Literal["scan", "sieve"] = "sieve" if sifted else "scan"
    k = min(k + 1, n_points)  # the nearest of an indexed point is the point itself
    n_distances = tree.count_distances(points[:: -(-n_points // 32)], k)
    tree_ns = n_distances * (8.0 + 0.12 * n_features) + 60.0 * k
    insertions = k * (1.0 + np.log(n_points / k))
    n_numbers = 16 if sifted else n_features
    scan_ns = n_points * (0.05 + 0.0165 * n_numbers) + 37.0 * insertions
    if tree_ns <= scan_ns:
        return tree
    return engine.NeighbourIndex(
        points, structure=structure, metric=tree.metric, n_threads=n_threads
    )


class KDTreeIndex:
    """SciPy's kd-tree with the manners of the engine's indexes: squared floats, ties by index."""

    _CHUNK = 1 << 16  # neighbours found at a time: SciPy does not look for Ctrl-C meanwhile

    metric: Metric = EUCLIDEAN
    structure = "kd_tree"

    def __init__(self, points: Floats) -> None:
        self.points = points
        self._tree = cKDTree(points)

    def query(self, queries: Floats, k: int, *, n_threads: int) -> Neighbours:
        squared = np.empty((len(queries), k), dtype=np.float32)
        indices = np.empty((len(queries), k), dtype=np.int32)
        size = max(1, self._CHUNK // k)
        for rows in (slice(start, start + size) for start in range(0, len(queries), size)):
            squared[rows], indices[rows] = self._query(queries[rows], k, n_threads)
        return squared, indices

    def _query(self, queries: Floats, k: int, n_threads: int) -> Neighbours:
        # One neighbour more than asked for shows whether the last one is tied with others. Which of
        # them SciPy returns is chance, so all within that distance are looked at.
        wanted = min(k + 1, len(self.points))
        distances, indices = self._tree.query(queries, range(1, wanted + 1), workers=n_threads)
        squared, indices = _in_order(distances, indices)
        if wanted > k:
            tied = np.flatnonzero(squared[:, k] == squared[:, k - 1])
            squared, indices = squared[:, :k], indices[:, :k]
            if len(tied):
                reach = distances[tied, -1] * (1 + 1e-6)
                starts, every, index = self._within(queries[tied], reach, n_threads)
                nearest = starts[:-1, None] + np.arange(k)
                squared[tied], indices[tied] = every[nearest], index[nearest]
        return squared, indices

    def query_radius(
        self, queries: Floats, radius: float, *, n_threads: int
    ) -> tuple[NDArray[np.int64], Floats, NDArray[np.int32]]:
        return self._within(queries, np.full(len(queries), radius), n_threads)

    def _within(
        self, queries: Floats, radii: NDArray[Any], n_threads: int
    ) -> tuple[NDArray[np.int64], Floats, NDArray[np.int32]]:
        found = self._tree.query_ball_point(queries, radii, workers=n_threads)
        indptr = np.zeros(len(queries) + 1, dtype=np.int64)
        np.cumsum([len(row) for row in found], out=indptr[1:])
        indices = np.concatenate([np.asarray(row, dtype=np.int32) for row in found])
        owners = np.repeat(np.arange(len(queries)), np.diff(indptr))
        gaps = self.points[indices].astype(np.float64) - queries[owners]
        squared = np.einsum("ij,ij->i", gaps, gaps).astype(np.float32)
        order = np.lexsort((indices, squared, owners))
        return indptr, squared[order], indices[order]


def _in_order(distances: NDArray[Any], indices: NDArray[Any]) -> Neighbours:
    squared = (distances**2).astype(np.float32)
    order = np.lexsort((indices, squared), axis=-1)
    take = np.take_along_axis
    return take(squared, order, axis=1), take(indices, order, axis=1).astype(np.int32)
