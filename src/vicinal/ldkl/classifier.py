"""Local deep kernel learning for classes."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, softmax
from sklearn.base import ClassifierMixin, _fit_context
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import _check_partial_fit_first_call
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from vicinal.ldkl.base import LocalDeepMachine, as_samples, depth_for
from vicinal.ldkl.export_c import classifier_source
from vicinal.ldkl.forest import unit_frame
from vicinal.ldkl.training import Samples
from vicinal.problem import FLOATS, Floats, make_problem


def _has_probabilities(estimator: Any) -> bool:
    if estimator.loss == "logistic":
        return True
    raise AttributeError(
        f"loss={estimator.loss!r} gives no probabilities: use loss='logistic', or calibrate with"
        " sklearn.calibration.CalibratedClassifierCV."
    )


class LDKLClassifier(ClassifierMixin, LocalDeepMachine):
    """Local deep kernel learning: a non-linear classifier at the price of a few linear ones.

    Each node of a tree has a linear machine, and a gate between -1 and 1 that says how much the
    machine counts. A query walks from the root to a leaf, and the machines that it meets add up:
    three dot products at each inner node and two at the leaf, whatever the size of the training
    set. Trees, gates and machines are learned together, while the splits grow from soft to hard.

    Features should vary by about as much as each other, as after
    :class:`sklearn.preprocessing.StandardScaler`. Of a few thousand samples or less, or with few
    nodes, one start often ends well below another: take ``n_init=8``, which costs little there.

    Parameters
    ----------
    depth : int, default=8
        Levels of nodes; a tree has ``2**depth - 1`` nodes.
    n_trees : int, default=1
        Trees whose scores are added up. They are trained together.
    loss : {"logistic", "hinge", "squared_hinge"}, default="logistic"
        For more than two classes the softmax, and the hinges of the margin to the strongest rival;
        all classes share the trees.
    embedding : {"tree", "softmax", "anchors"}, default="tree"
        What blends the machines. "softmax" and "anchors" are there for comparison: as many
        machines side by side, all of which a query meets, blended by learned gates as in localised
        multiple kernel learning, or by fixed anchors as in locally linear support vector machines.
    global_features : {"linear", "quadratic"}, default="linear"
        What the machines of the nodes multiply: the features, or the products of all pairs.
    compositional : bool, default=False
        Whether a gate is multiplied by all gates above it.
    sigma : float, default=1.0
        Factor of the gates' arguments.
    constant : float or "auto", default=1.0
        The value of one more feature, in place of a bias; "auto" chooses on held out samples.
    alpha_weights, alpha_splits, alpha_gates : float, default=0.0
        How fast machines, splits and gates decay: their regularisation.
    sharpness : tuple of float, default=(4.0, 300.0)
        Factors of the splits' arguments at the first and the last step; it grows geometrically.
    learning_rate : float, default=0.02
        Of the first step; it falls to zero along a cosine.
    batch_size : int or "auto", default="auto"
        Samples of a step; "auto" takes 2,048, less if there are few.
    max_iter : int or "auto", default="auto"
        Passes over the data; "auto" takes 40, more if there are few samples.
    n_init : int, default=1
        Starts, of which the best is kept, by the score on held out samples if there are any and
        otherwise by the loss. Small trees vary most from start to start: for small data take 8.
    early_stopping : bool, default=False
        Whether to hold samples out, to end once their score no longer improves, and to keep the
        best trees.
    validation_fraction : float, default=0.1
        Share of the samples held out.
    n_iter_no_change : int, default=10
        Passes without improvement after which training ends.
    class_weight : dict or "balanced", default=None
    warm_start : bool, default=False
        Whether a fit goes on from the trees of the last one, with sharp splits.
    random_state : int, RandomState instance or None, default=None
        For the first trees and the order of the samples.
    n_jobs : int, default=None
        Threads; None means 1 and -1 all cores. Results never depend on it.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
    cost_ : float
        Dot products that a prediction costs.
    model_ : LDKLModel
    n_iter_ : int
        Passes over the data.
    loss_curve_ : list of float
        Mean loss of each pass, with the splits as soft as they were then.
    validation_scores_ : list of float or None
        Accuracy on the samples held out, after each pass.
    n_features_in_ : int
    feature_names_in_ : array of shape (n_features_in_,)

    See Also
    --------
    LDKLRegressor : The same for numbers.

    References
    ----------
    C. Jose, P. Goyal, P. Aggrwal, M. Varma: Local deep kernel learning for efficient non-linear SVM
    prediction, ICML 2013.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from vicinal.ldkl import LDKLClassifier
    >>> X, y = make_moons(1000, noise=0.1, random_state=0)
    >>> model = LDKLClassifier.from_budget(cost=8, random_state=0).fit(X, y)
    >>> model.cost_
    8.0
    >>> bool(model.score(X, y) > 0.97)
    True
    """

    classes_: NDArray[Any]

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LocalDeepMachine._parameter_constraints,
        "loss": [StrOptions({"logistic", "hinge", "squared_hinge"})],
        "embedding": [StrOptions({"tree", "softmax", "anchors"})],
        "class_weight": [StrOptions({"balanced"}), dict, None],
    }

    def __init__(
        self,
        depth: int = 8,
        *,
        n_trees: int = 1,
        loss: Literal["logistic", "hinge", "squared_hinge"] = "logistic",
        embedding: Literal["tree", "softmax", "anchors"] = "tree",
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
        class_weight: Any = None,
        warm_start: bool = False,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.depth = depth
        self.n_trees = n_trees
        self.loss = loss
        self.embedding = embedding
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
        self.class_weight = class_weight
        self.warm_start = warm_start
        self.random_state = random_state
        self.n_jobs = n_jobs

    @classmethod
    def from_budget(
        cls, cost: float = 33, *, n_trees: int = 1, n_classes: int = 2, **parameters: Any
    ) -> Self:
        """Return the classifier of the deepest trees within a budget.

        Parameters
        ----------
        cost : float, default=33
            At most so many times what a linear machine costs, which is a dot product for two
            classes and one for each class for more.
        n_trees : int, default=1
        n_classes : int, default=2
        **parameters : dict
            All others.

        Returns
        -------
        classifier : LDKLClassifier
        """
        n_outputs = 1 if n_classes == 2 else n_classes
        embedding = parameters.get("embedding", "tree")
        depth = depth_for(cost * n_outputs, n_trees, n_outputs, embedding=embedding)
        return cls(depth, n_trees=n_trees, **parameters)

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
        data, labels = validate_data(self, X, y, dtype=FLOATS)
        going_on = self.warm_start and getattr(self, "_soft", None) is not None
        problem = make_problem(
            data,
            labels,
            sample_weight=sample_weight,
            class_weight=self.class_weight,
            find_frame=(lambda *_, **__: self.model_.frame) if going_on else unit_frame,
        )
        if going_on and not np.array_equal(problem.classes, self.classes_):
            raise ValueError(
                f"warm_start goes on with the classes {self.classes_} of the last fit, but y holds"
                f" {problem.classes}."
            )
        samples = as_samples(problem.points, problem.targets, problem.weights)
        self._learn(samples, _n_outputs(problem.classes), problem.frame, _accuracy)
        self.classes_ = problem.classes
        return self

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Pass some samples once.

        Splits reach their final sharpness after 2,000 steps. The origin and the unit of the
        features are those of the first call.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        classes : array-like of shape (n_classes,), default=None
            All classes, in the first call.
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        self : object
        """
        first = _check_partial_fit_first_call(self, classes) or getattr(self, "_soft", None) is None
        data, y = validate_data(self, X, y, dtype=FLOATS, reset=not hasattr(self, "model_"))
        if self.class_weight == "balanced":
            raise ValueError(
                "class_weight='balanced' needs all samples, which partial_fit never sees: give the"
                " weights of the classes as a dict."
            )
        unknown = np.setdiff1d(y, self.classes_)
        if len(unknown):
            raise ValueError(f"y holds {unknown}, which classes={self.classes_} does not.")
        if len(self.classes_) < 2:
            raise ValueError(f"a classifier needs at least two classes, got {self.classes_}.")
        weights = _check_sample_weight(sample_weight, data, dtype=np.float64)
        for label, factor in (self.class_weight or {}).items():
            weights = np.where(y == label, weights * factor, weights)
        frame = unit_frame(data) if first else self.model_.frame
        samples = Samples(
            frame.apply(data),
            np.searchsorted(self.classes_, y).astype(np.float32),
            weights.astype(np.float32),
        )
        self._learn_part(samples, _n_outputs(self.classes_), frame, first)
        return self

    def decision_function(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return the scores of queries.

        Parameters
        ----------
        X : array-like of shape (n_queries, n_features)

        Returns
        -------
        decisions : array of shape (n_queries,) or (n_queries, n_classes)
            For two classes one number, positive for the second class.
        """
        scores = self._scores(X).astype(np.float64)
        return scores[:, 0] if len(self.classes_) == 2 else scores

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the label of each query.

        Parameters
        ----------
        X : array-like of shape (n_queries, n_features)

        Returns
        -------
        labels : array of shape (n_queries,)
        """
        scores = self._scores(X)
        return self.classes_[_codes(scores)]

    @available_if(_has_probabilities)
    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return the probabilities of the classes that the loss has learned.

        Parameters
        ----------
        X : array-like of shape (n_queries, n_features)

        Returns
        -------
        probabilities : array of shape (n_queries, n_classes)
        """
        decisions = self.decision_function(X)
        if decisions.ndim == 2:
            return softmax(decisions, axis=1)
        return np.column_stack([expit(-decisions), expit(decisions)])

    def to_c(self, name: str = "ldkl", *, scaler: Any = None) -> str:
        """Return C99 source that answers single queries, for devices without Python.

        It allocates nothing and needs no library but the standard one.

        Parameters
        ----------
        name : str, default="ldkl"
            What the names of the functions begin with.
        scaler : transformer, default=None
            What scaled the features before the classifier: a fitted ``StandardScaler``,
            ``MinMaxScaler``, ``MaxAbsScaler`` or ``RobustScaler``, or a Pipeline of them. The
            functions then take queries as they were before it.

        Returns
        -------
        source : str
            With ``int ldkl_predict(const float *x)``, which returns the position of the label in
            `classes_`, and ``void ldkl_scores(const float *x, float *scores)``, which writes what
            `decision_function` returns, but for the rounding of sums in another order.

        Examples
        --------
        >>> from sklearn.datasets import make_moons
        >>> from vicinal import LDKLClassifier
        >>> X, y = make_moons(200, noise=0.1, random_state=0)
        >>> model = LDKLClassifier(3, max_iter=5, random_state=0).fit(X, y)
        >>> "int moons_predict(const float *x);" in model.to_c("moons")
        True
        """
        check_is_fitted(self, "model_")
        return classifier_source(self.model_, self.classes_, name, scaler)


def _n_outputs(classes: NDArray[Any]) -> int:
    return 1 if len(classes) == 2 else len(classes)


def _codes(scores: Floats) -> NDArray[np.intp]:
    return (scores[:, 0] > 0).astype(np.intp) if scores.shape[1] == 1 else scores.argmax(axis=1)


def _accuracy(scores: Floats, samples: Samples) -> float:
    return float(np.average(_codes(scores) == samples.targets, weights=samples.weights))
