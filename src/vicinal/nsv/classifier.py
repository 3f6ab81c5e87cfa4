"""A kernel classifier whose queries touch as few support vectors as they need."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar, Literal, Self

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, _fit_context, clone
from sklearn.svm import SVC
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from vicinal.engine import Walking
from vicinal.nsv.cover import EarlyCover, Expansions, calibrate_cover
from vicinal.nsv.fidelity import Fidelity, Usual, check
from vicinal.nsv.model import Answers, NearestVectors
from vicinal.nsv.search import calibrate
from vicinal.nsv.settings import Settings
from vicinal.nsv.subjects import Subject, is_frozen
from vicinal.pretrained import weights_of_machine
from vicinal.problem import FLOATS

_count = [Interval(Integral, 1, None, closed="left")]


class NSVClassifier(ClassifierMixin, BaseEstimator):
    """Nearest support vectors: answers of a kernel machine, at a cost that follows the difficulty.

    A linear filter answers the easy queries, and a sketch of the machine those that are clear
    enough for a few vectors. For the others all kernel values are approximated, on a few principal
    axes, by landmarks or by an index over the vectors. Then the support vectors bring in their
    exact values, nearest first, until the outputs lean so far to one class that their sign is
    unlikely to turn: as far as no class leaned in vain on the calibration data. Queries that never
    lean so far get the exact sums.

    Parameters
    ----------
    estimator : estimator, default=None
        :class:`sklearn.svm.SVC`, :class:`sklearn.svm.NuSVC`, :class:`~vicinal.PSKClassifier`,
        :class:`~vicinal.RSVMClassifier` or :class:`~vicinal.ReducedSetClassifier`, also as the last
        step of a :class:`sklearn.pipeline.Pipeline`; it is fitted first. In a
        :class:`sklearn.frozen.FrozenEstimator`, or as a :class:`KernelMachine`, it is only
        calibrated. None is ``SVC()``. Of a :class:`~vicinal.FaLKSVC`, or another classifier with a
        cover, those machines stop early that are large enough for it to pay; all others answer as
        ever.
    max_disagreement : float, default=0.001
        The share of labels that may differ from the exact machine's, on data like the calibration
        data. Thresholds are bounds of the error of the approximations, and the number of axes and
        the length of walks are chosen for the least cost. None takes the paper's thresholds, and
        these numbers as given.
    embedding : {"auto", "pca", "kernel_pca", "index"}, default="auto"
        What kernel values are approximated by. "pca": dot products on principal axes.
        "kernel_pca": kernel values with a few of the vectors, landmarks, whose images in feature
        space give the axes. "index": a kd-tree over the vectors of each class, with one kernel
        value for each of its leaves, which hold sixteen vectors and are touched as a whole; for
        data of few features. "auto" chooses among all by cost; if `max_disagreement` is None, it is
        "pca", or "index" where there are no more features than `n_components`.
    n_components : int, default=20
        Axes of the approximations, if `max_disagreement` is None. With as many principal axes as
        there are features, or more, they would be no cheaper than the kernel values, and all sums
        are exact.
    start : {"approximations", "bias"}, default="approximations"
        Where the outputs start. From "bias", as in the paper, each vector adds its term; from
        "approximations" its exact term takes the place of the approximate one, and far fewer
        vectors are touched.
    order : {"score", "term", "tug_of_war"}, default="term"
        Which vector is next: that of the largest kernel value, that of the largest term, or by
        score, but with the cumulative weights of the classes kept balanced.
    thresholds : {"max_smoothed", "simple"}, default="max_smoothed"
        If `max_disagreement` is None: the largest leaning of a class that did not win, as it is
        or over a window of steps.
    window : int, default=10
        Steps to either side that "max_smoothed" looks at.
    n_regions : int, default=1
        Regions with thresholds of their own, at most: leaves of a shallow tree over the features,
        grown so that leaders lean in vain equally far in each. None has less than 500 calibration
        queries, nor less than it takes to see two changes of those allowed.
    linear_filter : bool, default=True
        Whether linear scores may answer the easy queries before all else.
    sketch : bool, default=True
        If `max_disagreement` is given: whether a sketch of the machine may answer queries next: a
        few of the vectors on a few axes, whose weights are the least squares fit to its outputs.
    max_steps : int, default=128
        The longest walk. After it the exact sums cost less than a longer one.
    n_calibration : int, default=20000
        At most as many of the calibration points are used, drawn at random; for a cover, for each
        machine.
    n_generated : int, default=0
        So many points are generated between the classes, inside the hull of the data and near
        crowds of support vectors that do not win there. Thresholds are widened where these points
        ask for it: they guard against queries unlike the calibration data, at a cost in speed.
    random_state : int, RandomState instance or None, default=None
        For these draws, the filter and the axes.
    n_jobs : int, default=None
        Threads; None means 1 and -1 all cores. Results never depend on it.

    Attributes
    ----------
    estimator_ : estimator
        The fitted estimator whose answers these are. Model files leave it out: what it has learnt
        is in `model_`, and a model that was loaded has its parameters alone, as `estimator`.
    classes_ : array of shape (n_classes,)
    n_support_ : int, or int array of shape (n_machines,)
        Number of support vectors; a linear machine has one for each pair of classes. Where all
        outputs share their vectors, each counts once for every class that it supports. For a cover,
        that of each machine.
    calibration_ : dict
        The settings in use, what a query costs as a share of the exact sums, about, and the share
        of labels that changed on queries held out. For a cover, the number of machines that stop
        early, and means over all queries.
    model_ : NearestVectors or EarlyCover
    n_features_in_ : int
    feature_names_in_ : array of shape (n_features_in_,)

    See Also
    --------
    FaLKSVC : Many small machines, for more data than one machine can learn from.

    Notes
    -----
    The machines of a cover are calibrated on the points that are routed to them, and on those
    nearest to their centre where these are few. A route costs what it has always cost, so covers
    gain where machines are large and routes short: with ``n_neighbors`` of some thousands, many
    features, and ``routing="centre"``.

    For more than two classes the leader is the class that wins all its pairs, and its leaning the
    least of these outputs: all other classes can no longer win, whatever the pairs among them say.

    References
    ----------
    D. DeCoste, D. Mazzoni: Fast Query-Optimized Kernel Machine Classification via Incremental
    Approximate Nearest Support Vectors, ICML 2003.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.svm import SVC
    >>> from vicinal import NSVClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = NSVClassifier(SVC(C=10), random_state=0).fit(X[:1000], y[:1000])
    >>> bool((model.predict(X[1000:]) == model.estimator_.predict(X[1000:])).mean() > 0.98)
    True
    >>> bool(model.n_touched(X[1000:]).mean() < model.n_support_ / 10)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "estimator": [HasMethods(["fit", "predict"]), None],
        "max_disagreement": [Interval(Real, 0, 1, closed="both"), None],
        "embedding": [StrOptions({"auto", "pca", "kernel_pca", "index"})],
        "n_components": _count,
        "start": [StrOptions({"approximations", "bias"})],
        "order": [StrOptions({"score", "term", "tug_of_war"})],
        "thresholds": [StrOptions({"max_smoothed", "simple"})],
        "window": [Interval(Integral, 0, None, closed="left")],
        "n_regions": _count,
        "linear_filter": ["boolean"],
        "sketch": ["boolean"],
        "max_steps": _count,
        "n_calibration": _count,
        "n_generated": [Interval(Integral, 0, None, closed="left")],
        "random_state": ["random_state"],
        "n_jobs": [Integral, None],
    }

    def __init__(
        self,
        estimator: Any = None,
        *,
        max_disagreement: float | None = 0.001,
        embedding: Literal["auto", "pca", "kernel_pca", "index"] = "auto",
        n_components: int = 20,
        start: Literal["approximations", "bias"] = "approximations",
        order: Literal["score", "term", "tug_of_war"] = "term",
        thresholds: Literal["max_smoothed", "simple"] = "max_smoothed",
        window: int = 10,
        n_regions: int = 1,
        linear_filter: bool = True,
        sketch: bool = True,
        max_steps: int = 128,
        n_calibration: int = 20_000,
        n_generated: int = 0,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.max_disagreement = max_disagreement
        self.embedding = embedding
        self.n_components = n_components
        self.start = start
        self.order = order
        self.thresholds = thresholds
        self.window = window
        self.n_regions = n_regions
        self.linear_filter = linear_filter
        self.sketch = sketch
        self.max_steps = max_steps
        self.n_calibration = n_calibration
        self.n_generated = n_generated
        self.random_state = random_state
        self.n_jobs = n_jobs

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        X_calibration: ArrayLike | None = None,
    ) -> Self:
        """Fit the estimator, unless it is frozen, and gather its thresholds.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            May be absent where the estimator is frozen.
        sample_weight : array-like of shape (n_samples,), default=None
            For the fit of the estimator, if there is any. Thresholds take every point for one.
        X_calibration : array-like of shape (n_calibration_samples, n_features), default=None
            Queries like those to come; None takes X. Labels are not needed: what counts is what
            the machine says.

        Returns
        -------
        self : object
        """
        estimator = SVC() if self.estimator is None else self.estimator
        if y is None and is_frozen(estimator):
            data = validate_data(self, X, dtype=FLOATS)
        else:
            data, y = validate_data(self, X, y, dtype=FLOATS)
            check_classification_targets(y)
        fitted = estimator
        if not is_frozen(estimator):
            fitted = clone(estimator).fit(data, y, **weights_of_machine(estimator, sample_weight))
        subject = Subject.of(fitted)
        if X_calibration is not None:
            data = validate_data(self, X_calibration, dtype=FLOATS, reset=False)
        queries = subject.queries(data)
        how: dict[str, Any] = {
            "settings": self._settings(),
            "random_state": check_random_state(self.random_state),
            "n_threads": self._n_threads,
        }
        model: NearestVectors | EarlyCover
        if isinstance(subject.expansion, Expansions):
            model, report = calibrate_cover(subject.expansion, queries, **how)
        else:
            model, report = calibrate(subject.expansion, queries, **how)
        self.estimator_ = fitted
        self.classes_ = subject.classes
        self.n_support_ = subject.expansion.n_vectors
        self.calibration_ = report
        self.model_ = model
        self._subject = subject
        self._usual = Usual.of(queries)
        return self

    def _settings(self) -> Settings:
        return Settings(
            walking=Walking(
                corrected=self.start == "approximations",
                weighted=self.order == "term",
                balanced=self.order == "tug_of_war",
            ),
            embedding=self.embedding,
            n_components=self.n_components,
            window=self.window if self.thresholds == "max_smoothed" else 0,
            max_steps=self.max_steps,
            linear_filter=self.linear_filter,
            sketch=self.sketch,
            max_disagreement=self.max_disagreement,
            n_calibration=self.n_calibration,
            n_generated=self.n_generated,
            n_regions=self.n_regions,
        )

    @property
    def _n_threads(self) -> int:
        return int(effective_n_jobs(self.n_jobs))

    def _queries(self, X: ArrayLike) -> NDArray[np.float32]:
        check_is_fitted(self, "model_")
        return self._subject.queries(validate_data(self, X, dtype=FLOATS, reset=False))

    def _answer(self, X: ArrayLike) -> Answers:
        queries = self._queries(X)
        return self.model_.answer(queries, n_threads=self._n_threads)

    def decision_function(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return the outputs at which each query stopped.

        Parameters
        ----------
        X : array-like of shape (n_queries, n_features)

        Returns
        -------
        decisions : array of shape (n_queries,) or (n_queries, n_classes)
            For two classes one number, positive for the second class; of the linear filter where
            that has answered. For more, the votes for each class plus a confidence within a third
            of a vote.
        """
        return self._answer(X).decisions

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the label of each query.

        Parameters
        ----------
        X : array-like of shape (n_queries, n_features)

        Returns
        -------
        labels : array of shape (n_queries,)
        """
        decisions, codes, _ = self._answer(X)
        return self.classes_[codes if self._votes_decide else self._winners(decisions)]

    def _winners(self, decisions: NDArray[np.float64]) -> NDArray[np.intp]:
        """Return the codes of the labels that go with some decisions."""
        if decisions.ndim == 1:
            return (decisions > 0).astype(np.intp)
        return (np.rint(decisions) if self._votes_decide else decisions).argmax(axis=1)

    @property
    def _votes_decide(self) -> bool:
        """Whether the first class of most votes has won, whatever the outputs."""
        return len(self.classes_) > 2 and not self._subject.break_ties

    def n_touched(self, X: ArrayLike) -> NDArray[np.int32]:
        """Return how many support vectors each query touches.

        Parameters
        ----------
        X : array-like of shape (n_queries, n_features)

        Returns
        -------
        counts : array of shape (n_queries,)
            0 where the filter or the approximations suffice, all where the sums are exact.
        """
        return self._answer(X).n_touched

    def fidelity_check(
        self,
        X: ArrayLike,
        *,
        share: float = 0.01,
        limit: float | None = None,
        random_state: Any = None,
    ) -> Fidelity:
        """Compare some answers with the exact machine's.

        Parameters
        ----------
        X : array-like of shape (n_queries, n_features)
        share : float, default=0.01
            Of the queries to check, about. Those unlike the calibration data are checked more
            often.
        limit : float, default=None
            Warn if more labels have changed; None is `max_disagreement`.
        random_state : int, RandomState instance or None, default=None

        Returns
        -------
        fidelity : Fidelity
            Numbers of queries checked and changed, and the share of all that this speaks for.
        """
        queries = self._queries(X)
        if not 0 < share <= 1:
            raise ValueError(f"share must lie in (0, 1], got {share}.")
        fidelity, _ = check(
            self.model_,
            self._usual,
            queries,
            share=share,
            limit=self.max_disagreement if limit is None else limit,
            random_state=check_random_state(random_state),
            n_threads=self._n_threads,
        )
        return fidelity
