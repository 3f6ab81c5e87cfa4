"""A support vector machine said again in a few vectors, as a scikit-learn classifier."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, _fit_context, clone
from sklearn.callback import CallbackSupportMixin
from sklearn.frozen import FrozenEstimator
from sklearn.svm import SVC, NuSVC
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from vicinal.local.progress import Progress, all_or_nothing, hook_arguments
from vicinal.local.votes import Decisions, combine_pairs, labels
from vicinal.pretrained import (
    check_svc,
    pair_biases,
    pair_coefficients,
    unwrapped,
    weights_of_machine,
)
from vicinal.problem import FLOATS
from vicinal.sparse.expansion import SharedExpansion
from vicinal.sparse.reduction import OnStep, Reduction, Start, merged, reduce_expansion


class ReducedSetClassifier(CallbackSupportMixin, ClassifierMixin, BaseEstimator):
    """Reduced sets: a trained support vector machine, said again in a few vectors.

    The vectors need not be training points: they move until their span holds as much as it can of
    the machine's weights. All pairs of classes share them, so a prediction costs as many kernel
    values as there are vectors.

    Parameters
    ----------
    estimator : estimator, default=None
        :class:`sklearn.svm.SVC` or :class:`sklearn.svm.NuSVC` with a linear, polynomial or RBF
        kernel, also as the last step of a :class:`sklearn.pipeline.Pipeline`; it is fitted first.
        In a :class:`sklearn.frozen.FrozenEstimator` it is taken as it is. None is ``SVC()``.
    n_vectors : int, default=None
        None takes `fraction` of the support vectors.
    fraction : float, default=0.1
    init : {"k-means", "random"}, default="k-means"
        Vectors start at centres of clusters of support vectors, class by class, or at some of them.
    max_iter : int, default=100
        Steps of L-BFGS, at most.
    tol : float, default=1e-5
        It ends where a step lowers the error by less, relative to the squared length of the
        machine's weights.
    random_state : int, RandomState instance or None, default=None
        For the start.

    Attributes
    ----------
    estimator_ : estimator
        The fitted estimator. Model files leave it out.
    classes_ : array of shape (n_classes,)
    n_support_ : int
        Number of support vectors that it had.
    n_vectors_ : int
        Number of vectors; of a linear machine no more than its outputs span.
    reconstruction_error_ : float
        The squared distance between the weights of both machines, relative to the squared length of
        the whole one's.
    n_iter_ : int
        Steps; 1 for a linear machine, which needs none.
    expansion_ : SharedExpansion
        The vectors, a column of coefficients and a bias for each pair of classes, and the kernel.
    steps_ : tuple of transformers
        Those before the machine in a pipeline.
    n_features_in_ : int
    feature_names_in_ : array of shape (n_features_in_,)

    See Also
    --------
    vicinal.nsv.NSVClassifier : Keeps all support vectors, and asks few of them.

    Notes
    -----
    For more than two classes, equally many votes are decided by the outputs, as in
    :class:`sklearn.svm.SVC` with ``break_ties=True``.

    References
    ----------
    C. J. C. Burges: Simplified support vector decision rules, ICML 1996.

    B. Schölkopf, A. Smola: Learning with kernels, MIT Press 2002, chapter 18.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from sklearn.svm import SVC
    >>> from vicinal.sparse import ReducedSetClassifier
    >>> X, y = make_moons(500, noise=0.2, random_state=0)
    >>> model = ReducedSetClassifier(SVC(gamma=2), n_vectors=15, random_state=0).fit(X, y)
    >>> model.n_support_, model.n_vectors_
    (77, 15)
    >>> bool(model.score(X, y) > 0.97)
    True
    """

    classes_: NDArray[Any]
    expansion_: SharedExpansion
    steps_: tuple[Any, ...]

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "estimator": [HasMethods(["fit", "predict"]), None],
        "n_vectors": [Interval(Integral, 1, None, closed="left"), None],
        "fraction": [Interval(Real, 0, 1, closed="right")],
        "init": [StrOptions({"k-means", "random"})],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        estimator: Any = None,
        n_vectors: int | None = None,
        *,
        fraction: float = 0.1,
        init: Start = "k-means",
        max_iter: int = 100,
        tol: float = 1e-5,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.n_vectors = n_vectors
        self.fraction = fraction
        self.init = init
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(
        self, X: ArrayLike, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Fit the estimator, unless it is frozen, and reduce it.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            May be absent where the estimator is frozen: only its vectors count.
        sample_weight : array-like of shape (n_samples,), default=None
            Passed to the estimator's fit, if there is any.

        Returns
        -------
        self : ReducedSetClassifier
        """
        hooks = hook_arguments(self, X, y, sample_weight)
        context = self._init_callback_context(max_subtasks=self.max_iter)
        context.call_on_fit_task_begin(**hooks)
        with all_or_nothing(self):
            fitted = self._estimator(X, y, sample_weight)
            steps, svc = unwrapped(fitted)
            progress = Progress(context, "steps", self.max_iter, hooks)

            def attributes(reduction: Reduction) -> dict[str, Any]:
                return {
                    "estimator_": fitted,
                    "steps_": steps,
                    "classes_": svc.classes_,
                    "n_support_": len(svc.support_),
                    "n_vectors_": reduction.expansion.n_vectors,
                    "reconstruction_error_": reduction.error,
                    "n_iter_": reduction.n_iter,
                    "expansion_": reduction.expansion,
                }

            def on_step(n_steps: int, so_far: Callable[[], Reduction]) -> bool:
                return progress.reach(n_steps / self.max_iter, lambda: attributes(so_far()))

            self.__dict__.update(attributes(self._reduced(svc, on_step)))
            progress.reach(1.0)
            context.call_on_fit_task_end(**hooks, reconstruction_attributes={})
        return self

    def _estimator(self, X: ArrayLike, y: Any, sample_weight: Any) -> Any:
        """Return the estimator, fitted."""
        estimator = SVC() if self.estimator is None else self.estimator
        if isinstance(estimator, FrozenEstimator):
            validate_data(self, X, dtype=FLOATS)
            return estimator
        data, y = validate_data(self, X, y, dtype=FLOATS)
        check_classification_targets(y)
        return clone(estimator).fit(data, y, **weights_of_machine(estimator, sample_weight))

    def _reduced(self, svc: Any, on_step: OnStep) -> Reduction:
        whole, groups = expansion_of(svc)
        n_vectors = self.n_vectors or max(1, round(self.fraction * whole.n_vectors))
        if n_vectors > whole.n_vectors:
            warnings.warn(
                f"n_vectors={n_vectors} exceeds the {whole.n_vectors} distinct support vectors: all"
                " of them are kept.",
                stacklevel=4,
            )
        return reduce_expansion(
            whole,
            n_vectors,
            groups=groups,
            start=self.init,
            max_iter=self.max_iter,
            tol=self.tol,
            random_state=check_random_state(self.random_state),
            on_step=on_step,
        )

    def decision_function(self, X: ArrayLike) -> Decisions:
        """Return the decisions of the reduced machine.

        Parameters
        ----------
        X : array-like of shape (n_queries, n_features)

        Returns
        -------
        decisions : array of shape (n_queries,) or (n_queries, n_classes)
            For two classes one number, positive for the second class. For more, the votes for each
            class plus a confidence within a third of a vote.
        """
        check_is_fitted(self, "expansion_")
        data = validate_data(self, X, dtype=FLOATS, reset=False)
        for step in self.steps_:
            data = step.transform(data)
        outputs = self.expansion_.decision(data)
        n_classes = len(self.classes_)
        return outputs[:, 0] if n_classes == 2 else combine_pairs(outputs, n_classes)

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


def expansion_of(svc: BaseEstimator) -> tuple[SharedExpansion, NDArray[np.intp]]:
    """Return the distinct vectors of a fitted machine, with an output a pair, and their classes."""
    if not isinstance(svc, SVC | NuSVC):
        raise TypeError(
            f"{type(svc).__name__} has no support vectors to be reduced: supported are SVC and"
            " NuSVC, alone or as the last step of a Pipeline."
        )
    check_is_fitted(svc)
    check_svc(svc, ("linear", "rbf", "poly"), "reduced")
    whole = SharedExpansion.make(
        np.asarray(svc.support_vectors_, dtype=np.float64),
        pair_coefficients(svc),
        pair_biases(svc),
        svc.kernel,
        gamma=svc._gamma,
        coef0=svc.coef0,
        degree=svc.degree,
    )
    return merged(whole, np.repeat(np.arange(len(svc.classes_)), svc.n_support_))
