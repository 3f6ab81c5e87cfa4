"""kNNSVM: a machine for every query, trained when the query comes and thrown away."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import _fit_context
from sklearn.callback import CallbackSupportMixin
from sklearn.utils._param_validation import Interval, StrOptions

from vicinal import engine
from vicinal.kernels import KernelName, KernelSpec
from vicinal.local.base import LocalClassifier, or_several
from vicinal.local.candidates import check_grid, kernel_candidates
from vicinal.local.internal import Grid, groups_of_best, internal_errors
from vicinal.local.machines import Neighbourhoods, Training
from vicinal.local.progress import Report, all_or_nothing, count, hook_arguments, timed
from vicinal.local.votes import Decisions
from vicinal.neighbors.index import Algorithm, NeighbourIndex, make_index
from vicinal.problem import Floats, Problem


@dataclass(frozen=True)
class LazyModel:
    """Training points, an index of them, and how to train a machine.

    Parameters
    ----------
    problem : Problem
    index : NeighbourIndex
    training : Training
    n_neighbors : int
    grid : Grid
        Of one candidate, or of those that every query chooses from.
    n_internal : int or None
        The part k' of a neighbourhood by which a query chooses.
    """

    problem: Problem
    index: NeighbourIndex
    training: Training
    n_neighbors: int
    grid: Grid
    n_internal: int | None

    @property
    def bytes_per_query(self) -> int:
        """Memory that a query takes while it is answered: that of its neighbourhood."""
        return 8 * self.n_neighbors

    def decide(self, queries: Floats, *, n_threads: int) -> Decisions:
        """Return the decision for each query, in the problem's frame."""
        training = replace(self.training, n_threads=n_threads)
        _, neighbourhoods = self.index.query(queries, self.n_neighbors, n_threads=n_threads)
        if self.grid.shape == (1, 1):
            C = np.full(len(queries), self.grid.C[0])
            return self._train_and_evaluate(queries, neighbourhoods, C, training)
        errors = internal_errors(self.problem, neighbourhoods, self.n_internal, self.grid, training)
        n_classes = self.problem.n_classes
        decisions = np.empty((len(queries), n_classes) if n_classes > 2 else len(queries))
        for rows, C, settings in groups_of_best(errors, self.grid, training):
            decisions[rows] = self._train_and_evaluate(
                queries[rows], neighbourhoods[rows], C, settings
            )
        return decisions

    def _train_and_evaluate(
        self, queries: Floats, neighbourhoods: Neighbourhoods, C: Floats, training: Training
    ) -> Decisions:
        return engine.train_and_evaluate(
            self.problem.points,
            self.problem.targets,
            self.problem.weights,
            neighbourhoods,
            queries,
            self.problem.n_classes,
            training.kernel,
            C=C,
            gammas=None,
            tol=training.tol,
            cache_mb=training.cache_mb,
            n_threads=training.n_threads,
        )


class KNNSVC(CallbackSupportMixin, LocalClassifier):
    """A support vector machine on the neighbourhood of every query: kNNSVM.

    Nothing is trained by `fit`. Every query finds its k nearest training points and trains a
    machine on them for itself alone: the most accurate of the local machines, and the slowest to
    predict.

    Parameters
    ----------
    n_neighbors : int, default=500
        Size k of the neighbourhoods. If there are fewer points, all are used, with a warning.
    C : float or array-like, default=1.0
        Penalty of the errors. Several values need selection="internal".
    kernel, gamma : {"rbf", "linear", "poly"}, float, "scale" or "local"
        As in :class:`FaLKSVC`.
        Several values, in a list, need selection="internal", and kernel="rbf".
    gamma_percentile : float or array-like, default=50
        The percentile of gamma="local". Several values need selection="internal".
    degree, coef0, multi_class, class_weight, algorithm, tol, cache_size, n_jobs
        As in :class:`FaLKSVC`.
    selection : {"internal"} or None, default=None
        "internal" chooses C and the kernel's width for each query by the k'-internal
        cross-validation of its neighbourhood.
    n_assigned : int, default=None
        The k' innermost points by which a query chooses; None is k // 2.
    cv : int, default=5
        Number of folds.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
    fit_report_ : dict
        Seconds and counts of the index.
    models_ : list
        The points and their index; several if multi_class is "global".
    n_features_in_ : int
    feature_names_in_ : array of shape (n_features_in_,)

    See Also
    --------
    FaLKSVC : Trains a few machines beforehand.

    References
    ----------
    N. Segata, E. Blanzieri: Fast and scalable local kernel machines, JMLR 11, 2010, Sections 3.3
    and 4.3.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from vicinal import KNNSVC
    >>> X, y = make_moons(200, noise=0.1, random_state=0)
    >>> model = KNNSVC(n_neighbors=20, C=[1, 16], selection="internal").fit(X, y)
    >>> model.predict([[0.0, 1.0], [1.0, -0.5]])
    array([0, 1])
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LocalClassifier._parameter_constraints,
        **or_several("C", "gamma", "gamma_percentile"),
        "selection": [StrOptions({"internal"}), None],
        "cv": [Interval(Integral, 2, None, closed="left")],
    }
    _parameter_constraints.pop("random_state")

    def __init__(
        self,
        n_neighbors: int = 500,
        *,
        C: float | ArrayLike = 1.0,
        kernel: KernelName = "rbf",
        gamma: float | Literal["scale", "local"] | ArrayLike = "local",
        gamma_percentile: float | ArrayLike = 50,
        degree: int = 3,
        coef0: float = 0.0,
        selection: Literal["internal"] | None = None,
        n_assigned: int | None = None,
        cv: int = 5,
        multi_class: Literal["local", "global"] = "local",
        class_weight: dict[Any, float] | Literal["balanced"] | None = None,
        algorithm: Algorithm = "auto",
        tol: float = 1e-3,
        cache_size: float = 200,
        n_jobs: int | None = None,
    ) -> None:
        self.n_neighbors = n_neighbors
        self.C = C
        self.kernel = kernel
        self.gamma = gamma
        self.gamma_percentile = gamma_percentile
        self.degree = degree
        self.coef0 = coef0
        self.selection = selection
        self.n_assigned = n_assigned
        self.cv = cv
        self.multi_class = multi_class
        self.class_weight = class_weight
        self.algorithm = algorithm
        self.tol = tol
        self.cache_size = cache_size
        self.n_jobs = n_jobs

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Index the training points.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), default=None
            Factors of C. A point of weight zero is as if absent. Neighbourhoods count points, so
            a weight of two is not the same as a point that is there twice.

        Returns
        -------
        self : KNNSVC
        """
        hooks = hook_arguments(self, X, y, sample_weight)
        context = self._init_callback_context()
        context.call_on_fit_task_begin(**hooks)
        with all_or_nothing(self):
            C = check_grid("C", self.C)
            self._check_assigned(self.n_neighbors)
            problem = self._check(X, y, sample_weight)
            _, kernels = zip(
                *kernel_candidates(
                    problem,
                    self.kernel,
                    gamma=self.gamma,
                    gamma_percentile=self.gamma_percentile,
                    degree=self.degree,
                    coef0=self.coef0,
                ),
                strict=True,
            )
            self._check_selection(C, kernels)
            k = self._size(self.n_neighbors, problem)
            report: Report = {}
            models: list[LazyModel] = []
            for part in self._problems(problem):
                training = Training(kernels[0], self.tol, self.cache_size, self._n_threads)
                with timed(report, "index"):
                    index = make_index(
                        part.points,
                        training.kernel.metric,
                        algorithm=self.algorithm,
                        k=k,
                        n_threads=self._n_threads,
                    )
                count(report, "index", points=part.n_points)
                grid = Grid.of(C, kernels, self.cv)
                model = LazyModel(
                    part, index, training, min(k, part.n_points), grid, self.n_assigned
                )
                models.append(model)
            self.classes_ = problem.classes
            self.models_ = models
            self.fit_report_ = report
            context.call_on_fit_task_end(**hooks, reconstruction_attributes={})
        return self

    def _check_selection(self, C: NDArray[Any], kernels: Sequence[KernelSpec]) -> None:
        if self.selection is None and max(len(C), len(kernels)) > 1:
            raise ValueError(
                "C, gamma and gamma_percentile take several values only with"
                " selection='internal', which chooses among them for each query."
            )
        if len({kernel.metric for kernel in kernels}) > 1:
            raise ValueError(
                f"kernel={self.kernel!r} has other neighbourhoods for every value of gamma, and a"
                " query chooses within one: give one gamma, or use FaLKSVCCV."
            )
