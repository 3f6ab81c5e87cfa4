"""What the estimators of the local family share: parameters, checks and predictions.

They hold no algorithm. They check, and then call the steps in order.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any, ClassVar, Protocol

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from vicinal.chunks import in_chunks
from vicinal.kernels import Kernel
from vicinal.local.votes import Decisions, combine_pairs, labels
from vicinal.problem import FLOATS, Floats, Problem, make_problem


class Model(Protocol):
    """Decides about queries in the frame of its problem."""

    @property
    def problem(self) -> Problem:
        """The training data."""

    @property
    def bytes_per_query(self) -> int:
        """Memory that a query takes while it is answered."""

    def decide(self, queries: Floats, *, n_threads: int) -> Decisions:
        """Return a decision for each query, in scikit-learn's shapes."""


class LocalClassifier(ClassifierMixin, BaseEstimator):
    """Base of the local classifiers."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_neighbors": [Interval(Integral, 1, None, closed="left")],
        "n_assigned": [Interval(Integral, 1, None, closed="left"), None],
        "C": [Interval(Real, 0, None, closed="neither")],
        "kernel": [StrOptions({"linear", "rbf", "poly"})],
        "gamma": [StrOptions({"scale", "local"}), Interval(Real, 0, None, closed="neither")],
        "gamma_percentile": [Interval(Real, 0, 100, closed="both")],
        "degree": [Interval(Integral, 1, 1000, closed="both")],
        "coef0": [Interval(Real, 0, None, closed="left")],
        "multi_class": [StrOptions({"local", "global"})],
        "class_weight": [StrOptions({"balanced"}), dict, None],
        "algorithm": [StrOptions({"auto", "tree", "scan", "kd_tree"})],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "cache_size": [Interval(Real, 0, None, closed="neither")],
        "random_state": ["random_state"],
        "n_jobs": [Integral, None],
    }

    models_: Sequence[Model]
    classes_: NDArray[Any]

    def decision_function(self, X: ArrayLike) -> Decisions:
        """Return the decision of the machine that each query is routed to.

        Parameters
        ----------
        X : array-like of shape (n_queries, n_features)

        Returns
        -------
        decisions : array of shape (n_queries,) or (n_queries, n_classes)
            For two classes one number, positive for the second class. For more, the votes of the
            one-against-one decisions for each class plus a confidence within a third of a vote; a
            class that is absent from the neighbourhood has -1. A neighbourhood of one class
            decides -1 or 1 for two classes.
        """
        check_is_fitted(self, "models_")
        data = validate_data(self, X, dtype=FLOATS, reset=False)
        row_bytes = data.itemsize * data.shape[1] + self.models_[0].bytes_per_query
        return in_chunks(self._decide, data, row_bytes)

    def _decide(self, data: NDArray[Any]) -> Decisions:
        queries = self.models_[0].problem.frame.apply(data)
        decisions = [model.decide(queries, n_threads=self._n_threads) for model in self.models_]
        if len(decisions) == 1:
            return decisions[0]
        return combine_pairs(np.column_stack(decisions), len(self.classes_))

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the class that wins the decision.

        Parameters
        ----------
        X : array-like of shape (n_queries, n_features)

        Returns
        -------
        labels : array of shape (n_queries,)
        """
        return labels(self.decision_function(X), self.classes_)

    @property
    def _n_threads(self) -> int:
        return int(effective_n_jobs(self.n_jobs))

    def _kernel(self) -> Kernel:
        return Kernel(self.kernel, self.gamma, self.degree, self.coef0)

    def _check(self, X: ArrayLike, y: ArrayLike, sample_weight: Any) -> Problem:
        if self.algorithm == "kd_tree" and self.kernel == "poly" and self.degree > 1:
            raise ValueError(
                "algorithm='kd_tree' knows the Euclidean distance only, and kernel='poly' has its"
                " own: use algorithm='tree', 'scan' or 'auto'."
            )
        return make_problem(
            *validate_data(self, X, y, dtype=FLOATS),
            sample_weight=sample_weight,
            class_weight=self.class_weight,
            centred=self._kernel().translation_invariant,
        )

    def _problems(self, problem: Problem) -> list[Problem]:
        """The problems that are solved one by one: one for each pair of classes if "global"."""
        if self.multi_class == "global" and problem.n_classes > 2:
            return list(problem.by_pairs())
        return [problem]

    def _check_assigned(self, smallest: int) -> None:
        if self.n_assigned is not None and self.n_assigned > smallest:
            raise ValueError(
                f"n_assigned={self.n_assigned} (k') exceeds n_neighbors={smallest} (k), but k' are"
                " some of the k neighbours: lower n_assigned, or leave it at None."
            )

    def _size(self, n_neighbors: int, problem: Problem) -> int:
        """Return the size of neighbourhoods, which cannot exceed the number of points."""
        if n_neighbors > problem.n_points:
            warnings.warn(
                f"n_neighbors={n_neighbors} exceeds the {problem.n_points} training points; every"
                " neighbourhood holds all of them.",
                stacklevel=4,
            )
        return min(n_neighbors, problem.n_points)


def or_several(*names: str) -> dict[str, list[Any]]:
    """Return the constraints of some parameters that take a list of values too."""
    return {name: ["array-like", *LocalClassifier._parameter_constraints[name]] for name in names}
