"""The sparse kernel learning algorithm: vectors moved by the dual of a machine with hinge losses.

Minimises over the vectors Z the value of

    min over β, b of ½ βᵀKβ + C Σᵢ cᵢ max(0, 1 - yᵢ (βᵀψᵢ + b)),

which is that of a support vector machine with the kernel ψᵢᵀK⁻¹ψⱼ, in the notation of `primal.py`:

    M. Wu, B. Schölkopf, G. Bakır: A direct method for building sparse kernel learning algorithms,
    JMLR 7, 2006.

The value loses by a move of a vector what it loses with the dual variables α as they are, and so
-αᵢyᵢ takes the place of the slope of the squared loss. Here the gradient costs 2 N m d
multiply-adds, as that of the primal, and not N² m² d. What remains is a support vector machine on
all points for every class and step, between N² and N³.
"""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike
from sklearn.svm import SVC
from sklearn.utils._param_validation import Interval

from vicinal.kernels import KernelName, Metric
from vicinal.problem import Doubles, Problem
from vicinal.sparse.base import OnStep, SparseClassifier
from vicinal.sparse.placement import Placed, place
from vicinal.sparse.primal import Primal, Sides, Weights


class Dual(Primal):
    """Finds weights for one set of vectors after the other, by LIBSVM.

    Parameters
    ----------
    sides : Sides
    svc_tol : float
        Of the solver.
    cache_mb : float
        Memory for its kernel values.
    n_threads : int
    """

    def __init__(
        self, sides: Sides, *, svc_tol: float = 1e-4, cache_mb: float = 500, n_threads: int = 1
    ) -> None:
        super().__init__(sides, cache_bytes=np.inf, n_threads=n_threads)
        self._svc = SVC(C=1.0, kernel="linear", tol=svc_tol, cache_size=cache_mb)

    def solve(self, kernel: Metric, vectors: Doubles, start: Weights | None = None) -> Weights:
        """Return the best weights for some vectors; where they start makes no difference."""
        self._move(kernel, vectors)
        features = np.concatenate([found for _, _, found in self._blocks()])
        signs, costs = self.sides.signs, self.sides.costs
        theta, bias = np.zeros((len(signs), len(vectors))), np.zeros(len(signs))
        self._pulls = np.zeros_like(signs)
        value = 0.0
        for k, sign in enumerate(signs):
            self._svc.fit(features, sign, sample_weight=costs)
            theta[k], bias[k] = self._svc.coef_[0], self._svc.intercept_[0]
            self._pulls[k, self._svc.support_] = -self._svc.dual_coef_[0]
            short = np.maximum(0.0, 1.0 - sign * (features @ theta[k] + bias[k]))
            value += 0.5 * float(theta[k] @ theta[k]) + float(costs @ short)
        return Weights(self._inverse_root @ theta.T, bias, value, len(signs))


class SKLAClassifier(SparseClassifier):
    """Sparse kernel learning algorithm: learnt vectors, by support vector machines on all points.

    The forerunner of :class:`PSKClassifier`, for comparison. Its errors count once, as in
    :class:`sklearn.svm.SVC`, and not squared, and every step of the vectors trains a support vector
    machine for each class on all points: it is for small data.

    Parameters
    ----------
    n_vectors, fraction, C, kernel, gamma, degree, coef0, init, max_iter, tol, class_weight, \
warm_start, random_state, n_jobs
        As in :class:`PSKClassifier`.
    cache_size : float, default=500
        Memory for kernel values of the support vector machines, in megabytes.

    Attributes
    ----------
    classes_, n_vectors_, vectors_, dual_coef_, intercept_, gamma_, n_iter_, objective_, \
fit_report_, expansion_
        As in :class:`PSKClassifier`.

    See Also
    --------
    PSKClassifier : Far faster, and as accurate.

    References
    ----------
    M. Wu, B. Schölkopf, G. Bakır: A direct method for building sparse kernel learning algorithms,
    JMLR 7, 2006.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from vicinal import SKLAClassifier
    >>> X, y = make_moons(300, noise=0.1, random_state=0)
    >>> model = SKLAClassifier(8, C=10, random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.97)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **SparseClassifier._parameter_constraints,
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "cache_size": [Interval(Real, 0, None, closed="neither")],
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
        init: Literal["k-means", "random"] | ArrayLike = "k-means",
        max_iter: int = 100,
        tol: float = 1e-3,
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
        self.max_iter = max_iter
        self.tol = tol
        self.class_weight = class_weight
        self.warm_start = warm_start
        self.cache_size = cache_size
        self.random_state = random_state
        self.n_jobs = n_jobs

    @property
    def _n_steps(self) -> int:
        return int(self.max_iter)

    def _train(self, problem: Problem, start: Placed, on_step: OnStep) -> tuple[Placed, int]:
        dual = Dual(
            Sides.of_classes(problem, self.C), cache_mb=self.cache_size, n_threads=self._n_threads
        )
        return place(dual, start, max_iter=self.max_iter, tol=self.tol, on_step=on_step)
