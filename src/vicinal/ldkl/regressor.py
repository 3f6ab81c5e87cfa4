"""Local deep kernel learning for numbers."""

from __future__ import annotations

from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import RegressorMixin, _fit_context
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from vicinal.ldkl.base import LocalDeepMachine, as_samples, depth_for
from vicinal.ldkl.export_c import regressor_source
from vicinal.ldkl.forest import unit_frame
from vicinal.ldkl.training import Samples
from vicinal.problem import FLOATS, Doubles, Floats


class LDKLRegressor(RegressorMixin, LocalDeepMachine):
    """Local deep kernel learning: a non-linear regressor at the price of a few linear ones.

    The trees of :class:`LDKLClassifier`, whose score is the prediction, trained for the squared
    error. Parameters and attributes are the same, but for those that speak of classes.

    Parameters
    ----------
    depth : int, default=8
    n_trees : int, default=1
    global_features : {"linear", "quadratic"}, default="linear"
    compositional : bool, default=False
    sigma : float, default=1.0
    constant : float or "auto", default=1.0
    alpha_weights, alpha_splits, alpha_gates : float, default=0.0
    sharpness : tuple of float, default=(4.0, 300.0)
    learning_rate : float, default=0.02
    batch_size : int or "auto", default="auto"
    max_iter : int or "auto", default="auto"
    n_init : int, default=1
    early_stopping : bool, default=False
    validation_fraction : float, default=0.1
    n_iter_no_change : int, default=10
    warm_start : bool, default=False
    random_state : int, RandomState instance or None, default=None
    n_jobs : int, default=None

    Attributes
    ----------
    cost_ : float
        Dot products that a prediction costs.
    model_ : LDKLModel
        Predicts numbers of mean zero and variance one.
    target_mean_, target_scale_ : float
        Which become the user's by these.
    n_iter_ : int
    loss_curve_ : list of float
    validation_scores_ : list of float or None
        Minus the mean squared error on the samples held out, for targets of variance one.
    n_features_in_ : int
    feature_names_in_ : array of shape (n_features_in_,)

    See Also
    --------
    LDKLClassifier : The same for classes.

    References
    ----------
    C. Jose, P. Goyal, P. Aggrwal, M. Varma: Local deep kernel learning for efficient non-linear SVM
    prediction, ICML 2013.

    Examples
    --------
    >>> import numpy as np
    >>> from vicinal.ldkl import LDKLRegressor
    >>> X = np.random.default_rng(0).uniform(-3, 3, (2000, 1))
    >>> model = LDKLRegressor(5, random_state=0).fit(X, np.sin(X[:, 0]))
    >>> bool(model.score(X, np.sin(X[:, 0])) > 0.99)
    True
    """

    def __init__(
        self,
        depth: int = 8,
        *,
        n_trees: int = 1,
        global_features: Literal["linear", "quadratic"] = "linear",
        compositional: bool = False,
        sigma: float = 1.0,
        constant: float | Literal["auto"] = 1.0,
        alpha_weights: float = 0.0,
        alpha_splits: float = 0.0,
        alpha_gates: float = 0.0,
        sharpness: tuple[float, float] = (4.0, 300.0),
        learning_rate: float = 0.02,
        batch_size: int | Literal["auto"] = "auto",
        max_iter: int | Literal["auto"] = "auto",
        n_init: int = 1,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 10,
        warm_start: bool = False,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.depth = depth
        self.n_trees = n_trees
        self.global_features = global_features
        self.compositional = compositional
        self.sigma = sigma
        self.constant = constant
        self.alpha_weights = alpha_weights
        self.alpha_splits = alpha_splits
        self.alpha_gates = alpha_gates
        self.sharpness = sharpness
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.n_init = n_init
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.warm_start = warm_start
        self.random_state = random_state
        self.n_jobs = n_jobs

    @classmethod
    def from_budget(cls, cost: float = 33, *, n_trees: int = 1, **parameters: Any) -> Self:
        """Return the regressor of the deepest trees within a budget.

        Parameters
        ----------
        cost : float, default=33
            At most so many times what a linear machine costs.
        n_trees : int, default=1
        **parameters : dict
            All others.

        Returns
        -------
        regressor : LDKLRegressor
        """
        return cls(depth_for(cost, n_trees, 1), n_trees=n_trees, **parameters)

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Train on all samples.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        self : object
        """
        data, targets, weights = self._check(X, y, sample_weight, reset=True)
        going_on = self.warm_start and getattr(self, "_soft", None) is not None
        if not going_on:
            self._standardise(targets, weights)
        frame = self.model_.frame if going_on else unit_frame(data)
        samples = as_samples(frame.apply(data), self._standard(targets), weights)
        self._learn(samples, 1, frame, _minus_squared_error)
        return self

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Pass some samples once.

        Splits reach their final sharpness after 2,000 steps. Origins and units of features and
        targets are those of the first call.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        self : object
        """
        first = getattr(self, "_soft", None) is None
        data, targets, weights = self._check(X, y, sample_weight, reset=first)
        if first:
            self._standardise(targets, weights)
        frame = unit_frame(data) if first else self.model_.frame
        samples = as_samples(frame.apply(data), self._standard(targets), weights)
        self._learn_part(samples, 1, frame, first)
        return self

    def predict(self, X: ArrayLike) -> Doubles:
        """Return the prediction for each query.

        Parameters
        ----------
        X : array-like of shape (n_queries, n_features)

        Returns
        -------
        predictions : array of shape (n_queries,)
        """
        scores = self._scores(X)[:, 0].astype(np.float64)
        return scores * self.target_scale_ + self.target_mean_

    def to_c(self, name: str = "ldkl", *, scaler: Any = None) -> str:
        """Return C99 source that answers single queries, for devices without Python.

        It allocates nothing and needs no library but the standard one.

        Parameters
        ----------
        name : str, default="ldkl"
            What the names of the functions begin with.
        scaler : transformer, default=None
            What scaled the features before the regressor: a fitted ``StandardScaler``,
            ``MinMaxScaler``, ``MaxAbsScaler`` or ``RobustScaler``, or a Pipeline of them. The
            functions then take queries as they were before it.

        Returns
        -------
        source : str
            With ``float ldkl_predict(const float *x)``, which returns what `predict` does, but for
            rounding.
        """
        check_is_fitted(self, "model_")
        return regressor_source(self.model_, self.target_mean_, self.target_scale_, name, scaler)

    def _check(
        self, X: ArrayLike, y: ArrayLike, sample_weight: Any, *, reset: bool
    ) -> tuple[NDArray[Any], Doubles, Doubles]:
        data, targets = validate_data(self, X, y, dtype=FLOATS, y_numeric=True, reset=reset)
        weights = _check_sample_weight(
            sample_weight, data, dtype=np.float64, ensure_non_negative=True
        )
        kept = weights > 0
        if not kept.any():
            raise ValueError(
                "sample_weight is zero for all samples: nothing is left to learn from."
            )
        return data[kept], targets[kept].astype(np.float64), weights[kept]

    def _standardise(self, targets: Doubles, weights: Doubles) -> None:
        self.target_mean_ = float(np.average(targets, weights=weights))
        spread = np.sqrt(np.average((targets - self.target_mean_) ** 2, weights=weights))
        self.target_scale_ = float(spread) if 0 < spread < np.inf else 1.0

    def _standard(self, targets: Doubles) -> Doubles:
        return (targets - self.target_mean_) / self.target_scale_


def _minus_squared_error(scores: Floats, samples: Samples) -> float:
    return -float(np.average((scores[:, 0] - samples.targets) ** 2, weights=samples.weights))
