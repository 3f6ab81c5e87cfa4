"""Primal sparse kernel classifier: vectors and weights learnt together."""

from __future__ import annotations

from dataclasses import replace
from numbers import Integral, Real
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike
from sklearn.model_selection import train_test_split
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval

from vicinal.kernels import KernelName
from vicinal.local.votes import winners
from vicinal.problem import Problem
from vicinal.sparse.base import OnStep, SparseClassifier
from vicinal.sparse.expansion import SharedExpansion
from vicinal.sparse.placement import Placed, place


class PSKClassifier(SparseClassifier):
    """Primal sparse kernel classifier: a kernel machine whose few vectors are learnt too.

    Vectors start at the centres of each class and move, by L-BFGS, to where the best weights for
    them have the least objective: ``beta' K beta / 2`` plus C times the sum of squared hinge
    losses. All classes share the vectors, each with weights of its own against the rest, so a
    prediction takes as many kernel values as there are vectors.

    Parameters
    ----------
    n_vectors : int, default=None
        None takes `fraction`. If there are fewer points, all are used, with a warning.
    fraction : float, default=0.01
        Of the training points, as many vectors; at least 10.
    C : float, default=1.0
        Penalty of the errors; of their squares, unlike in :class:`sklearn.svm.SVC`.
    kernel : {"rbf", "linear", "poly"}, default="rbf"
    gamma : float or "scale", default="scale"
        As in :class:`sklearn.svm.SVC`.
    degree : int, default=3
        Of the kernel "poly".
    coef0 : float, default=0.0
        Of the kernel "poly".
    learn_gamma : bool, default=False
        Whether gamma is only where the search for a better one starts. It follows the objective on
        the training data, as the vectors do.
    init : {"k-means", "random"} or array-like of shape (n_vectors, n_features), default="k-means"
        Where vectors start: at centres of each class, random points, or given vectors.
    max_iter : int, default=100
        Steps of the vectors, at most. Each costs about two products of the training points with the
        vectors.
    tol : float, default=1e-3
        The vectors stop after a step that lowers the objective by a smaller part.
    early_stopping : bool, default=False
        Whether a share of the training points is held out, and vectors stop where the accuracy on
        them no longer rises.
    validation_fraction : float, default=0.1
        The share that is held out.
    n_iter_no_change : int, default=10
        Steps without a better accuracy before early stopping; the best machine is kept.
    class_weight : dict or "balanced", default=None
        Factors of C for each class.
    warm_start : bool, default=False
        Whether a fit starts from the machine of the last one, if that has as many vectors.
    cache_size : float, default=500
        Memory for kernel values of the training points in megabytes; what does not fit is made
        again when it is needed.
    random_state : int, RandomState instance or None, default=None
        For `init` and for the points held out.
    n_jobs : int, default=None
        Threads for kernel values; None means 1 and -1 all cores. Products of matrices use those of
        BLAS.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
    n_vectors_ : int
    vectors_ : array of shape (n_vectors_, n_features)
    dual_coef_ : array of shape (n_outputs, n_vectors_)
        A row for each class, or one for two classes.
    intercept_ : array of shape (n_outputs,)
    gamma_ : float
    n_iter_ : int
        Steps taken.
    objective_ : array of shape (n_iter_,)
        The value of the objective after every step, summed over the classes; at the start, if there
        is no step that lowers it.
    validation_scores_ : array of shape (n_iter_,)
        The accuracy on the points held out after every step, with early stopping.
    fit_report_ : dict
        Seconds and counts of "start" and "training".
    expansion_ : SharedExpansion
    n_features_in_ : int
    feature_names_in_ : array of shape (n_features_in_,)

    See Also
    --------
    RSVMClassifier : Random vectors that stay where they are.

    Notes
    -----
    A fit stopped by a callback keeps the machine of that step. A fit that fails or is interrupted
    leaves the estimator as it was.

    References
    ----------
    Z. Fu, G. Lu, K.-M. Ting, D. Zhang: Learning sparse kernel classifiers in the primal, 2012.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from vicinal import PSKClassifier
    >>> X, y = make_moons(1000, noise=0.1, random_state=0)
    >>> model = PSKClassifier(8, C=10, random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.99)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **SparseClassifier._parameter_constraints,
        "learn_gamma": ["boolean"],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "early_stopping": ["boolean"],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "n_iter_no_change": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(
        self,
        n_vectors: int | None = None,
        *,
        fraction: float = 0.01,
        C: float = 1.0,
        kernel: KernelName = "rbf",
        gamma: float | Literal["scale"] = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        learn_gamma: bool = False,
        init: Literal["k-means", "random"] | ArrayLike = "k-means",
        max_iter: int = 100,
        tol: float = 1e-3,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 10,
        class_weight: dict[Any, float] | Literal["balanced"] | None = None,
        warm_start: bool = False,
        cache_size: float = 500,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.n_vectors = n_vectors
        self.fraction = fraction
        self.C = C
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.learn_gamma = learn_gamma
        self.init = init
        self.max_iter = max_iter
        self.tol = tol
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.class_weight = class_weight
        self.warm_start = warm_start
        self.cache_size = cache_size
        self.random_state = random_state
        self.n_jobs = n_jobs

    @property
    def _n_steps(self) -> int:
        return int(self.max_iter)

    def _train(self, problem: Problem, start: Placed, on_step: OnStep) -> tuple[Placed, int]:
        if self.learn_gamma and self.kernel == "linear":
            raise ValueError("learn_gamma=True, but kernel='linear' has no gamma: leave it False.")
        judge: _HeldOut | None = None
        kept = problem
        if self.early_stopping:
            kept, held_out = self._split(problem)
            judge = _HeldOut(held_out, self.n_iter_no_change)

        def stops(placed: Placed) -> bool:
            stopped = on_step(placed)
            return (judge is not None and judge.has_seen_enough(placed)) or stopped

        placed, n_evaluations = place(
            self._primal(kept),
            start,
            max_iter=self.max_iter,
            tol=self.tol,
            learn_gamma=self.learn_gamma,
            on_step=stops,
        )
        if judge is not None:
            self.validation_scores_ = np.array(judge.scores)
            placed = judge.best or placed
        return placed, n_evaluations

    def _split(self, problem: Problem) -> tuple[Problem, Problem]:
        counts = np.bincount(problem.targets)
        held = self.validation_fraction * problem.n_points
        if counts.min() < 2 or min(held, problem.n_points - held) < problem.n_classes:
            raise ValueError(
                f"early_stopping=True would hold out {held:.0f} of {problem.n_points} points, the"
                f" smallest class has {counts.min()}, and both parts need points of all"
                f" {problem.n_classes} classes: change validation_fraction, or stop by tol alone."
            )
        kept, held_out = train_test_split(
            np.arange(problem.n_points),
            test_size=self.validation_fraction,
            stratify=problem.targets,
            random_state=check_random_state(self.random_state),
        )
        return _part(problem, kept), _part(problem, held_out)


class _HeldOut:
    """Judges machines by points that they have not seen."""

    def __init__(self, problem: Problem, patience: int) -> None:
        self.problem, self.patience = problem, patience
        self.best: Placed | None = None
        self.scores: list[float] = []

    def has_seen_enough(self, placed: Placed) -> bool:
        """Judge one more machine; return whether the last ones were no better."""
        weights, problem = placed.weights, self.problem
        vectors = placed.vectors.astype(np.float32)
        machine = SharedExpansion(vectors, weights.coef, weights.bias, placed.kernel, problem.frame)
        outputs = machine.outputs(problem.points)
        codes = winners(outputs[:, 0] if problem.n_classes == 2 else outputs)
        score = float(np.average(codes == problem.targets, weights=problem.weights))
        if not self.scores or score > max(self.scores):
            self.best = placed
        self.scores.append(score)
        return len(self.scores) - int(np.argmax(self.scores)) > self.patience


def _part(problem: Problem, places: Any) -> Problem:
    return replace(
        problem,
        points=problem.points[places],
        targets=problem.targets[places],
        weights=problem.weights[places],
        rows=problem.rows[places],
    )
