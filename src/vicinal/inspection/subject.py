"""The fitted model that a display looks at, and data as that model sees them."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted, validate_data

from vicinal.chunks import in_chunks
from vicinal.kernels import EUCLIDEAN
from vicinal.local.covered import CoveredClassifier
from vicinal.local.machines import Neighbourhoods
from vicinal.local.model import LocalModel
from vicinal.local.votes import labels
from vicinal.neighbors.index import make_index
from vicinal.problem import FLOATS, Codes


@dataclass(frozen=True)
class Subject:
    """A fitted classifier with one cover, the last step of a pipeline perhaps, and some data.

    Parameters
    ----------
    classifier : FaLKSVC, FastLSVC or FaLKSVCCV
    X : array of shape (n_samples, n_features)
        What the classifier gets: transformed by the other steps of a pipeline.
    names : list of str
        Of the features.
    """

    classifier: Any
    X: NDArray[Any]
    names: list[str]

    @classmethod
    def of(cls, estimator: Any, X: ArrayLike) -> Subject:
        """Look into an estimator, and take the data through the steps before it."""
        data: Any = X
        names = None
        if isinstance(estimator, Pipeline):
            check_is_fitted(estimator)
            if len(estimator) > 1:
                data = estimator[:-1].transform(X)
                with suppress(AttributeError, NotFittedError, ValueError):
                    names = estimator[:-1].get_feature_names_out()
            estimator = estimator[-1]
        if not isinstance(estimator, CoveredClassifier):
            raise TypeError(
                f"{type(estimator).__name__} has no cover of machines to look at: give a FaLKSVC, a"
                " FastLSVC or a FaLKSVCCV, or a Pipeline that ends in one."
            )
        check_is_fitted(estimator, "models_")
        if len(estimator.models_) > 1:
            raise ValueError(
                "With multi_class='global' every pair of classes has machines of its own, which no"
                " one picture shows: fit with multi_class='local' to look at the machines."
            )
        data = validate_data(estimator, data, dtype=FLOATS, reset=False)
        if names is None:
            numbered = [f"feature {column}" for column in range(data.shape[1])]
            names = getattr(estimator, "feature_names_in_", numbered)
        return cls(estimator, data, [str(name) for name in names])

    @property
    def model(self) -> LocalModel:
        """The machines and the way to them."""
        model: LocalModel = self.classifier.models_[0]
        return model

    @property
    def n_neighbors(self) -> int:
        """The size k of the neighbourhoods."""
        chosen = getattr(self.classifier, "best_params_", {})
        k = chosen.get("n_neighbors", self.classifier.n_neighbors)
        return min(int(k), self.model.problem.n_points)

    @property
    def is_flat(self) -> bool:
        """Whether neighbourhoods are discs: two features, and the Euclidean distance."""
        return self.X.shape[1] == 2 and self.model.kernel.metric == EUCLIDEAN

    def predict(self, X: NDArray[Any]) -> NDArray[Any]:
        """Return the predicted classes, for which X needs no names of features."""
        decisions = in_chunks(self.classifier._decide, X, self._bytes_per_row)
        return labels(decisions, self.classifier.classes_)

    def routes(self, X: NDArray[Any]) -> Codes:
        """Return the machine that answers each query."""
        return in_chunks(self._route, X, self._bytes_per_row)

    def _route(self, X: NDArray[Any]) -> Codes:
        queries = self.model.problem.frame.apply(X)
        return self.model.route(queries, n_threads=self._n_threads)

    def neighbourhoods(self, machines: NDArray[Any]) -> Neighbourhoods:
        """Return the k points, nearest first, on which each of some machines was trained."""
        problem = self.model.problem
        index = make_index(problem.points, self.model.kernel.metric, algorithm="scan")
        centres = problem.points[self.model.cover.centres[machines]]
        return index.query(centres, self.n_neighbors, n_threads=self._n_threads)[1]

    def places(self, points: Codes) -> NDArray[np.float64]:
        """Return some of the model's own points in the units of X."""
        problem = self.model.problem
        return problem.points[points] * problem.frame.scale + problem.frame.offset

    @property
    def _bytes_per_row(self) -> int:
        return 8 * self.X.shape[1] + self.model.bytes_per_query

    @property
    def _n_threads(self) -> int:
        return int(self.classifier._n_threads)
