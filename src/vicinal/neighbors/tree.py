"""A cover tree that grows and shrinks."""

from __future__ import annotations

import warnings
from numbers import Integral
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_array
from sklearn.utils._param_validation import validate_parameter_constraints

from vicinal import engine
from vicinal.neighbors.metric import METRIC_CONSTRAINTS, FramedMetric, MetricName
from vicinal.problem import FLOATS

Ids = NDArray[np.int64]


class CoverTree:
    """Exact nearest neighbours by a cover tree, with insertion and removal of points.

    The tree is built at once from many points. A point inserted later waits in a short list beside
    it that every query scans, a removed one is only marked, and when either have become many the
    tree is built anew: queries stay exact. A change copies the points, so make many at once.

    Parameters
    ----------
    points : array-like of shape (n_points, n_features)
    base : float, default=None
        Ratio of the distances of two neighbouring levels, above 1. None leaves it to the tree.
    metric : {"euclidean", "linear", "rbf", "poly"}, default="euclidean"
        The Euclidean distance, or that in the feature space of a kernel.
    gamma, degree, coef0 : float, int, float
        Parameters of the kernel, as in :class:`sklearn.svm.SVC`.
    n_jobs : int, default=None
        Threads; -1 means all cores. Results never depend on it.

    References
    ----------
    A. Beygelzimer, S. Kakade, J. Langford: Cover trees for nearest neighbor, ICML 2006.
    M. Izbicki, C. Shelton: Faster cover trees, ICML 2015.
    Y. Elkin, V. Kurlin: A new near-linear time algorithm for k-nearest neighbor search using a
    compressed cover tree, ICML 2023.

    Examples
    --------
    >>> from vicinal import CoverTree
    >>> tree = CoverTree([[0.0], [1.0], [5.0]])
    >>> tree.insert([[1.25]])
    array([3])
    >>> distances, ids = tree.query([[1.2]], k=2)
    >>> ids
    array([[3, 1]])
    >>> tree.remove([3])
    >>> tree.query([[1.2]], k=2)[1]
    array([[1, 0]])
    """

    _FEW, _SHARE = 256, 0.1  # changes that are borne before the tree is built anew
    _FAR = 16.0  # from the origin, in a frame made for points within 1: farther ones lose digits

    # Points are known by position: the first of them are in the tree, and the rest wait beside it.
    _data: NDArray[Any]
    _points: NDArray[np.float32]
    _ids: Ids
    _alive: NDArray[np.bool_]

    def __init__(
        self,
        points: ArrayLike,
        *,
        base: float | None = None,
        metric: MetricName = "euclidean",
        gamma: float = 1.0,
        degree: int = 3,
        coef0: float = 0.0,
        n_jobs: int | None = None,
    ) -> None:
        parameters = {
            "base": base,
            "metric": metric,
            "gamma": gamma,
            "degree": degree,
            "coef0": coef0,
            "n_jobs": n_jobs,
        }
        validate_parameter_constraints(METRIC_CONSTRAINTS, parameters, "CoverTree")
        self.n_jobs = n_jobs
        self._base = base
        self._kernel: dict[str, Any] = {
            "name": metric,
            "gamma": gamma,
            "degree": degree,
            "coef0": coef0,
        }
        self._data = check_array(points, dtype=FLOATS, input_name="points")
        self._ids = np.arange(len(self._data))
        self._n_ids = len(self._data)
        self._build()

    def __len__(self) -> int:
        """Return the number of points."""
        return int(self._alive.sum())

    def __repr__(self) -> str:
        return f"CoverTree({len(self)} points, metric={self._kernel['name']!r}, base={self.base:g})"

    @property
    def ids(self) -> Ids:
        """The points that the tree holds, in the order of their insertion."""
        return self._ids[self._alive]

    @property
    def base(self) -> float:
        """Ratio of the distances of two neighbouring levels."""
        return float(self._tree.base)

    @property
    def unit(self) -> float:
        """The distance that belongs to level 0: level i has base**i times as much."""
        return 1.0 if self._kernel["name"] == "poly" else self._metric.frame.scale

    def query(self, X: ArrayLike, k: int = 1) -> tuple[NDArray[np.float64], Ids]:
        """Find the k nearest points of each query.

        Parameters
        ----------
        X : array-like of shape (n_queries, n_features)
        k : int, default=1

        Returns
        -------
        distances : float array of shape (n_queries, k)
            Nearest first.
        ids : int array of shape (n_queries, k)
            Equal distances are ordered by id.
        """
        if not isinstance(k, Integral) or k < 1:
            raise ValueError(f"k must be a positive integer; got {k!r}.")
        if k > len(self):
            warnings.warn(
                f"k={k} exceeds the {len(self)} points there are; all of them are used.",
                stacklevel=2,
            )
        k = min(int(k), len(self))
        queries = self._queries(X)
        squared, positions = self._nearest_in_tree(queries, k)
        waiting = self._n_indexed + np.flatnonzero(self._alive[self._n_indexed :])
        if len(waiting):
            tail = self._scan(self._points[waiting])
            more = tail.query(queries, min(k, len(waiting)), n_threads=self._n_threads)
            squared = np.hstack([squared, more[0]])
            positions = np.hstack([positions, waiting[more[1]]])
            order = np.lexsort((positions, squared), axis=-1)[:, :k]
            squared = np.take_along_axis(squared, order, axis=1)
            positions = np.take_along_axis(positions, order, axis=1)
        return self._metric.distances(squared[:, :k]), self._ids[positions[:, :k]]

    def query_radius(
        self, X: ArrayLike, radius: float
    ) -> tuple[NDArray[np.object_], NDArray[np.object_]]:
        """Find all points within a radius of each query.

        Parameters
        ----------
        X : array-like of shape (n_queries, n_features)
        radius : float

        Returns
        -------
        distances, ids : object arrays of shape (n_queries,)
            One array for each query, nearest first.
        """
        if not radius >= 0:
            raise ValueError(f"radius must not be negative; got {radius}.")
        queries = self._queries(X)
        radius = self._metric.radius(radius)
        distances = np.empty(len(queries), dtype=object)
        ids = np.empty(len(queries), dtype=object)
        indexes = [(self._tree, np.arange(self._n_indexed))]
        if self._n_indexed < len(self._points):
            waiting = np.arange(self._n_indexed, len(self._points))
            indexes.append((self._scan(self._points[waiting]), waiting))
        found = [
            (index.query_radius(queries, radius, n_threads=self._n_threads), positions)
            for index, positions in indexes
        ]
        for q in range(len(queries)):
            rows = [slice(answer[0][q], answer[0][q + 1]) for answer, _ in found]
            parts = list(zip(found, rows, strict=True))
            squared = np.concatenate([answer[1][row] for (answer, _), row in parts])
            at = np.concatenate([positions[answer[2][row]] for (answer, positions), row in parts])
            kept = self._alive[at]
            squared, at = squared[kept], at[kept]
            order = np.lexsort((at, squared))
            distances[q] = self._metric.distances(squared[order])
            ids[q] = self._ids[at[order]]
        return distances, ids

    def insert(self, X: ArrayLike) -> Ids:
        """Add points.

        Returns
        -------
        ids : int array of shape (n_points,)
            A point keeps its id as long as the tree lives; ids are never used twice.
        """
        data = check_array(X, dtype=self._data.dtype, input_name="X")
        self._check_width(data)
        before = dict(vars(self))
        try:
            return self._insert(data)
        except BaseException:
            vars(self).update(before)
            raise

    def _insert(self, data: NDArray[Any]) -> Ids:
        new = np.arange(self._n_ids, self._n_ids + len(data))
        self._n_ids += len(data)
        points = self._metric.frame.apply(data)
        self._data = np.vstack([self._data, data])
        self._points = np.vstack([self._points, points])
        self._ids = np.concatenate([self._ids, new])
        self._alive = np.concatenate([self._alive, np.ones(len(data), dtype=bool)])
        if np.abs(points).max() > self._FAR:
            self._build_if_changed()
        else:
            self._build_if_worn()
        return new

    def remove(self, ids: ArrayLike) -> None:
        """Take points away.

        Parameters
        ----------
        ids : array-like of int
        """
        wanted = np.unique(np.asarray(ids))
        if wanted.dtype.kind not in "iu":
            raise TypeError(f"ids must hold integers; got {wanted.dtype}.")
        at = np.searchsorted(self._ids, wanted)
        known = at < len(self._ids)
        known[known] = self._ids[at[known]] == wanted[known]
        known[known] = self._alive[at[known]]
        if not known.all():
            raise ValueError(f"ids holds {wanted[~known][:5].tolist()}, which are not in the tree.")
        if len(wanted) == len(self):
            raise ValueError("ids names every point: a tree holds at least one.")
        self._alive[at] = False
        self._build_if_worn()

    def levels(self) -> NDArray[np.int32]:
        """Return the level of every point of :attr:`ids`.

        That of a point is the highest i at which it is a node: its parent is within
        ``unit * base**(i + 1)``, and the children of that parent which reach level i are farther
        than ``unit * base**i`` from each other and from the parent. A duplicate of an earlier
        point has no level of its own and carries the smallest int32.
        """
        self._build_if_changed()
        return np.asarray(self._tree.levels)

    def parents(self) -> Ids:
        """Return the id of the parent of every point of :attr:`ids`, and -1 for the root."""
        self._build_if_changed()
        positions = np.asarray(self._tree.parents)
        return np.where(positions < 0, -1, self._ids[positions])

    @property
    def _n_threads(self) -> int:
        return int(effective_n_jobs(self.n_jobs))

    def _build(self) -> None:
        self._metric = FramedMetric.of(self._data, **self._kernel)
        self._points = self._metric.frame.apply(self._data)
        self._alive = np.ones(len(self._data), dtype=bool)
        self._n_indexed = len(self._data)
        self._tree = engine.NeighbourIndex(
            self._points,
            structure="tree",
            base=self._base,
            metric=self._metric.engine,
            n_threads=self._n_threads,
        )

    def _build_if_changed(self) -> None:
        if self._n_indexed < len(self._data) or not self._alive.all():
            self._data, self._ids = self._data[self._alive], self._ids[self._alive]
            self._build()

    def _build_if_worn(self) -> None:
        borne = max(self._FEW, self._SHARE * self._n_indexed)
        n_waiting = len(self._data) - self._n_indexed
        n_dead = int((~self._alive).sum())
        if n_waiting > borne or n_dead > borne:
            self._build_if_changed()

    def _scan(self, points: NDArray[np.float32]) -> Any:
        return engine.NeighbourIndex(
            points, structure="scan", metric=self._metric.engine, n_threads=self._n_threads
        )

    def _nearest_in_tree(
        self, queries: NDArray[np.float32], k: int
    ) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Find the k nearest living points, or all of them; asks for more where dead ones are."""
        alive = self._alive[: self._n_indexed]
        n_alive = int(alive.sum())
        k = min(k, n_alive)
        out_squared = np.empty((len(queries), k), dtype=np.float32)
        out = np.empty((len(queries), k), dtype=np.int64)
        open_rows = np.arange(len(queries) if k else 0)
        asked = k if n_alive == len(alive) else min(k + 8, len(alive))
        while len(open_rows):
            squared, found = self._tree.query(queries[open_rows], asked, n_threads=self._n_threads)
            living = alive[found]
            enough = living.sum(axis=1) >= k
            # The first k living ones of each row, in order.
            first = np.argsort(~living[enough], axis=1, kind="stable")[:, :k]
            rows = open_rows[enough]
            out_squared[rows] = np.take_along_axis(squared[enough], first, axis=1)
            out[rows] = np.take_along_axis(found[enough], first, axis=1)
            open_rows = open_rows[~enough]
            asked = min(2 * asked, len(alive))
        return out_squared, out

    def _queries(self, X: ArrayLike) -> NDArray[np.float32]:
        data = check_array(X, dtype=FLOATS, input_name="X")
        self._check_width(data)
        return self._metric.frame.apply(data)

    def _check_width(self, X: NDArray[Any]) -> None:
        if X.shape[1] != self._data.shape[1]:
            raise ValueError(
                f"X has {X.shape[1]} features, but the tree was built from points of"
                f" {self._data.shape[1]}."
            )
