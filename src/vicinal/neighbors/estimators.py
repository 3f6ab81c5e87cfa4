"""Nearest neighbours and the majority rule, with scikit-learn's interface."""

from __future__ import annotations

import warnings
from itertools import pairwise
from numbers import Integral, Real
from typing import Any, Literal, Self

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_matrix
from sklearn.base import BaseEstimator, ClassifierMixin, _fit_context
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from vicinal.chunks import in_chunks
from vicinal.neighbors.index import Algorithm, make_index
from vicinal.neighbors.metric import METRIC_CONSTRAINTS, FramedMetric, MetricName
from vicinal.problem import FLOATS, Floats

Indices = NDArray[np.intp]


class _Neighbours(BaseEstimator):
    """What both estimators share: the index and its parameters."""

    _parameter_constraints: dict[str, list[Any]] = {
        "n_neighbors": [Interval(Integral, 1, None, closed="left")],
        "algorithm": [StrOptions({"auto", "tree", "scan", "kd_tree"})],
        **METRIC_CONSTRAINTS,
    }

    n_neighbors: int
    algorithm: Algorithm
    base: float | None
    metric: MetricName
    gamma: float
    degree: int
    coef0: float
    n_jobs: int | None

    def _index(self, X: NDArray[Any]) -> None:
        metric = FramedMetric.of(
            X, self.metric, gamma=self.gamma, degree=self.degree, coef0=self.coef0
        )
        self._index_ = make_index(
            metric.frame.apply(X),
            metric.engine,
            algorithm=self.algorithm,
            k=self.n_neighbors,
            base=self.base,
            n_threads=self._n_threads,
        )
        self._metric = metric
        self.n_samples_fit_ = len(X)

    @property
    def _n_threads(self) -> int:
        return int(effective_n_jobs(self.n_jobs))

    def _queries(self, X: ArrayLike) -> Floats:
        return self._metric.frame.apply(validate_data(self, X, dtype=FLOATS, reset=False))

    def _at_most(self, k: int, n_points: int) -> int:
        if k > n_points:
            warnings.warn(
                f"n_neighbors={k} exceeds the {n_points} points there are; all of them are used.",
                stacklevel=3,
            )
        return min(k, n_points)

    def _nearest(self, X: ArrayLike | None, k: int) -> tuple[NDArray[np.float64], Indices]:
        if X is not None:
            k = self._at_most(k, self.n_samples_fit_)
            squared, indices = self._index_.query(self._queries(X), k, n_threads=self._n_threads)
            return self._metric.distances(squared), indices.astype(np.intp)
        # Every training point, without itself.
        if self.n_samples_fit_ == 1:
            raise ValueError("There is one training point only, which has no neighbours: give X.")
        k = self._at_most(k, self.n_samples_fit_ - 1)
        squared, indices = self._index_.query(self._index_.points, k + 1, n_threads=self._n_threads)
        other = indices != np.arange(self.n_samples_fit_)[:, None]
        other[other.all(axis=1), -1] = False  # many duplicates may crowd the point itself out
        shape = (self.n_samples_fit_, k)
        return self._metric.distances(squared[other].reshape(shape)), indices[other].reshape(
            shape
        ).astype(np.intp)


class CoverTreeNeighbors(_Neighbours):
    """Exact nearest neighbours, with the interface of :class:`sklearn.neighbors.NearestNeighbors`.

    Parameters
    ----------
    n_neighbors : int, default=5
        If there are fewer points, all of them are used, with a warning.
    radius : float, default=1.0
    algorithm : {"auto", "tree", "scan", "kd_tree"}, default="auto"
        "tree" is the cover tree, "scan" looks at every point, "kd_tree" is SciPy's, and "auto"
        chooses by a probe of the data. All give the same neighbours, up to rounding: "kd_tree"
        measures in double precision, so that distances which are equal for the others may not be.
    base : float, default=None
        Ratio of the distances of two neighbouring levels of the cover tree.
    metric : {"euclidean", "linear", "rbf", "poly"}, default="euclidean"
        The Euclidean distance, or that in the feature space of a kernel.
    gamma, degree, coef0 : float, int, float
        Parameters of the kernel, as in :class:`sklearn.svm.SVC`.
    n_jobs : int, default=None
        Threads; -1 means all cores. Results never depend on it.

    Attributes
    ----------
    n_samples_fit_ : int
    n_features_in_ : int
    feature_names_in_ : array of shape (n_features_in_,)

    Examples
    --------
    >>> from vicinal import CoverTreeNeighbors
    >>> neighbours = CoverTreeNeighbors(n_neighbors=2).fit([[0.0], [1.0], [5.0]])
    >>> distances, indices = neighbours.kneighbors([[0.75]])
    >>> indices
    array([[1, 0]])
    >>> distances
    array([[0.25, 0.75]])
    """

    _parameter_constraints: dict[str, list[Any]] = {
        **_Neighbours._parameter_constraints,
        "radius": [Interval(Real, 0, None, closed="left")],
    }

    def __init__(
        self,
        n_neighbors: int = 5,
        radius: float = 1.0,
        *,
        algorithm: Algorithm = "auto",
        base: float | None = None,
        metric: MetricName = "euclidean",
        gamma: float = 1.0,
        degree: int = 3,
        coef0: float = 0.0,
        n_jobs: int | None = None,
    ) -> None:
        self.n_neighbors = n_neighbors
        self.radius = radius
        self.algorithm = algorithm
        self.base = base
        self.metric = metric
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.n_jobs = n_jobs

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: ArrayLike, y: Any = None) -> Self:
        """Index the points.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : ignored

        Returns
        -------
        self : CoverTreeNeighbors
        """
        self._index(validate_data(self, X, dtype=FLOATS))
        return self

    def kneighbors(
        self,
        X: ArrayLike | None = None,
        n_neighbors: int | None = None,
        return_distance: bool = True,
    ) -> Any:
        """Find the nearest points.

        Parameters
        ----------
        X : array-like of shape (n_queries, n_features), default=None
            None asks for the neighbours of every indexed point, which is then not its own.
        n_neighbors : int, default=None
        return_distance : bool, default=True

        Returns
        -------
        distances : float array of shape (n_queries, n_neighbors)
            Only if `return_distance`; nearest first.
        indices : int array of shape (n_queries, n_neighbors)
            Equal distances are ordered by index.
        """
        check_is_fitted(self)
        k = self.n_neighbors if n_neighbors is None else n_neighbors
        if not isinstance(k, Integral) or k < 1:
            raise ValueError(f"n_neighbors must be a positive integer; got {k!r}.")
        distances, indices = self._nearest(X, int(k))
        return (distances, indices) if return_distance else indices

    def radius_neighbors(
        self,
        X: ArrayLike | None = None,
        radius: float | None = None,
        return_distance: bool = True,
        sort_results: bool = False,
    ) -> Any:
        """Find all points within a radius.

        Parameters
        ----------
        X : array-like of shape (n_queries, n_features), default=None
            None asks for the neighbours of every indexed point, which is then not its own.
        radius : float, default=None
        return_distance : bool, default=True
        sort_results : bool, default=False
            Only there for the interface: results are always sorted.

        Returns
        -------
        distances : object array of shape (n_queries,)
            Only if `return_distance`; an array for each query, nearest first.
        indices : object array of shape (n_queries,)
        """
        indptr, squared, indices = self._within(X, radius)
        rows = [slice(a, b) for a, b in pairwise(indptr)]
        near = _as_objects([indices[row] for row in rows])
        if not return_distance:
            return near
        distances = self._metric.distances(squared)
        return _as_objects([distances[row] for row in rows]), near

    def kneighbors_graph(
        self,
        X: ArrayLike | None = None,
        n_neighbors: int | None = None,
        mode: Literal["connectivity", "distance"] = "connectivity",
    ) -> csr_matrix:
        """Return the neighbours as a sparse matrix of ones or of distances.

        Parameters
        ----------
        X : array-like of shape (n_queries, n_features), default=None
        n_neighbors : int, default=None
        mode : {"connectivity", "distance"}, default="connectivity"

        Returns
        -------
        graph : CSR matrix of shape (n_queries, n_samples_fit)
        """
        distances, indices = self.kneighbors(X, n_neighbors)
        indptr = np.arange(0, indices.size + 1, indices.shape[1])
        return self._graph(mode, distances.ravel(), indices.ravel(), indptr)

    def radius_neighbors_graph(
        self,
        X: ArrayLike | None = None,
        radius: float | None = None,
        mode: Literal["connectivity", "distance"] = "connectivity",
        sort_results: bool = False,
    ) -> csr_matrix:
        """Return the points within a radius as a sparse matrix of ones or of distances.

        Parameters
        ----------
        X : array-like of shape (n_queries, n_features), default=None
        radius : float, default=None
        mode : {"connectivity", "distance"}, default="connectivity"
        sort_results : bool, default=False
            Only there for the interface: results are always sorted.

        Returns
        -------
        graph : CSR matrix of shape (n_queries, n_samples_fit)
        """
        indptr, squared, indices = self._within(X, radius)
        return self._graph(mode, self._metric.distances(squared), indices, indptr)

    def _within(
        self, X: ArrayLike | None, radius: float | None
    ) -> tuple[NDArray[np.int64], Floats, Indices]:
        check_is_fitted(self)
        radius = self.radius if radius is None else radius
        if not radius >= 0:
            raise ValueError(f"radius must not be negative; got {radius!r}.")
        queries = self._index_.points if X is None else self._queries(X)
        indptr, squared, indices = self._index_.query_radius(
            queries, self._metric.radius(radius), n_threads=self._n_threads
        )
        if X is None:
            rows = np.repeat(np.arange(len(queries)), np.diff(indptr))
            other = indices != rows
            indptr = np.concatenate([[0], np.cumsum(other)])[indptr]
            squared, indices = squared[other], indices[other]
        return indptr, squared, indices.astype(np.intp)

    def _graph(
        self, mode: str, distances: NDArray[np.float64], indices: Indices, indptr: NDArray[Any]
    ) -> csr_matrix:
        if mode not in ("connectivity", "distance"):
            raise ValueError(f"mode must be 'connectivity' or 'distance'; got {mode!r}.")
        values = distances if mode == "distance" else np.ones(len(indices))
        return csr_matrix((values, indices, indptr), shape=(len(indptr) - 1, self.n_samples_fit_))


class CoverTreeClassifier(ClassifierMixin, _Neighbours):
    """The majority among the nearest neighbours: FkNN in Segata & Blanzieri (2010).

    Parameters
    ----------
    n_neighbors : int, default=5
        If there are fewer points, all of them are used, with a warning.
    weights : {"uniform", "distance"}, default="uniform"
        "distance" counts a neighbour by one over its distance.
    algorithm : {"auto", "tree", "scan", "kd_tree"}, default="auto"
        "tree" is the cover tree, "scan" looks at every point, "kd_tree" is SciPy's, and "auto"
        chooses by a probe of the data. All give the same neighbours, up to rounding: "kd_tree"
        measures in double precision, so that distances which are equal for the others may not be.
    base : float, default=None
        Ratio of the distances of two neighbouring levels of the cover tree.
    metric : {"euclidean", "linear", "rbf", "poly"}, default="euclidean"
        The Euclidean distance, or that in the feature space of a kernel.
    gamma, degree, coef0 : float, int, float
        Parameters of the kernel, as in :class:`sklearn.svm.SVC`.
    n_jobs : int, default=None
        Threads; -1 means all cores. Results never depend on it.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
    n_samples_fit_ : int
    n_features_in_ : int
    feature_names_in_ : array of shape (n_features_in_,)

    Examples
    --------
    >>> from vicinal import CoverTreeClassifier
    >>> CoverTreeClassifier(n_neighbors=1).fit([[0.0], [4.0]], ["near", "far"]).predict([[1.0]])
    array(['near'], dtype='<U4')
    """

    _parameter_constraints: dict[str, list[Any]] = {
        **_Neighbours._parameter_constraints,
        "weights": [StrOptions({"uniform", "distance"})],
    }

    def __init__(
        self,
        n_neighbors: int = 5,
        *,
        weights: Literal["uniform", "distance"] = "uniform",
        algorithm: Algorithm = "auto",
        base: float | None = None,
        metric: MetricName = "euclidean",
        gamma: float = 1.0,
        degree: int = 3,
        coef0: float = 0.0,
        n_jobs: int | None = None,
    ) -> None:
        self.n_neighbors = n_neighbors
        self.weights = weights
        self.algorithm = algorithm
        self.base = base
        self.metric = metric
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.n_jobs = n_jobs

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Index the points and keep their labels.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)

        Returns
        -------
        self : CoverTreeClassifier
        """
        data, labels = validate_data(self, X, y, dtype=FLOATS)
        check_classification_targets(labels)
        self._index(data)
        self.classes_, self._targets = np.unique(labels, return_inverse=True)
        return self

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return the share of each class among the neighbours.

        Parameters
        ----------
        X : array-like of shape (n_queries, n_features)

        Returns
        -------
        shares : float array of shape (n_queries, n_classes)
        """
        check_is_fitted(self)
        data = validate_data(self, X, dtype=FLOATS, reset=False)
        k = self._at_most(self.n_neighbors, self.n_samples_fit_)
        row_bytes = data.itemsize * data.shape[1] + 40 * k
        return in_chunks(lambda rows: self._shares(rows, k), data, row_bytes)

    def _shares(self, data: NDArray[Any], k: int) -> NDArray[np.float64]:
        queries = self._metric.frame.apply(data)
        squared, indices = self._index_.query(queries, k, n_threads=self._n_threads)
        distances = self._metric.distances(squared)
        counts = np.ones_like(distances)
        if self.weights == "distance":
            # A neighbour at distance zero decides alone; dividing by the smallest distance keeps
            # the weights of tiny distances finite and changes no share.
            nearest = distances.min(axis=1, keepdims=True)
            apart = np.where(nearest > 0, distances, distances > 0)
            counts = np.divide(
                np.where(nearest > 0, nearest, apart == 0), np.where(apart > 0, apart, 1.0)
            )
        shares = np.zeros((len(indices), len(self.classes_)))
        rows = np.arange(len(indices))
        for column, targets in enumerate(self._targets[indices].T):
            shares[rows, targets] += counts[:, column]
        return shares / shares.sum(axis=1, keepdims=True)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the class of the majority, the earlier class where two have as many.

        Parameters
        ----------
        X : array-like of shape (n_queries, n_features)

        Returns
        -------
        labels : array of shape (n_queries,)
        """
        winners = self.predict_proba(X).argmax(axis=1)
        return self.classes_[winners]


def _as_objects(arrays: list[NDArray[Any]]) -> NDArray[np.object_]:
    out = np.empty(len(arrays), dtype=object)
    for i, array in enumerate(arrays):
        out[i] = array
    return out
