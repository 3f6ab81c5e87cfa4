"""The reduced support vector machine: random vectors, and the best weights for them."""

from __future__ import annotations

from typing import Any, Literal

from numpy.typing import ArrayLike

from vicinal.kernels import KernelName
from vicinal.problem import Problem
from vicinal.sparse.base import OnStep, SparseClassifier
from vicinal.sparse.placement import Placed


class RSVMClassifier(SparseClassifier):
    """Reduced support vector machine: random training points as vectors, only weights are learnt.

    The machine is the one that minimises ``beta' K beta / 2`` plus C times the sum of squared hinge
    losses, for every class against the rest, all on the same vectors.

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
    init : {"random", "k-means"} or array-like of shape (n_vectors, n_features), default="random"
        Random points, centres of each class, or given vectors.
    class_weight : dict or "balanced", default=None
        Factors of C for each class.
    warm_start : bool, default=False
        Whether a fit starts from the machine of the last one, if that has as many vectors.
    cache_size : float, default=500
        Memory for kernel values of the training points in megabytes; what does not fit is made
        again when it is needed.
    random_state : int, RandomState instance or None, default=None
        For `init`.
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
    objective_ : array of shape (n_iter_,)
        The value of the objective, summed over the classes.
    fit_report_ : dict
        Seconds and counts of the steps "start" and "training".
    expansion_ : SharedExpansion
    n_features_in_ : int
    feature_names_in_ : array of shape (n_features_in_,)

    See Also
    --------
    PSKClassifier : Moves the vectors too.

    References
    ----------
    Y.-J. Lee, O. L. Mangasarian: RSVM: Reduced support vector machines, SIAM data mining, 2001.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from vicinal import RSVMClassifier
    >>> X, y = make_moons(1000, noise=0.1, random_state=0)
    >>> model = RSVMClassifier(20, C=10, random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.95)
    True
    """

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
        init: Literal["random", "k-means"] | ArrayLike = "random",
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
        self.init = init
        self.class_weight = class_weight
        self.warm_start = warm_start
        self.cache_size = cache_size
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _train(self, problem: Problem, start: Placed, on_step: OnStep) -> tuple[Placed, int]:
        weights = self._primal(problem).solve(start.kernel, start.vectors, start.weights)
        placed = Placed(start.vectors, start.kernel, weights)
        on_step(placed)
        return placed, 1
