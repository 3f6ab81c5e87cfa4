"""FaLK-SVMl: a cover of machines that chooses its parameters by itself."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from numbers import Integral
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import rankdata
from sklearn.base import _fit_context
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions

from vicinal.kernels import KernelName, Metric
from vicinal.local.base import LocalClassifier, or_several
from vicinal.local.candidates import Candidate, check_grid, kernel_candidates
from vicinal.local.cover import Order
from vicinal.local.covered import FITTED, N_STEPS, CoveredClassifier, with_one_C
from vicinal.local.internal import Grid, with_its_own_parameters
from vicinal.local.model import Indexes
from vicinal.local.progress import Progress, Report, all_or_nothing, count, hook_arguments, timed
from vicinal.local.route import Routing
from vicinal.local.search import Results, n_rounds_of, search_parameters
from vicinal.neighbors.index import Algorithm
from vicinal.problem import Problem


@dataclass(frozen=True)
class _Family:
    """The kernels of one metric, which share an index and neighbourhoods, and how they fared."""

    indexes: Indexes
    parameters: list[dict[str, Any]]
    results: Results


class FaLKSVCCV(CoveredClassifier):
    """FaLK-SVM that chooses k, C and the kernel width by itself: FaLK-SVMl.

    Some random points become centres, and every candidate is cross-validated on the neighbourhood
    of each: every second point of the inner part is held out, fold by fold, and all others always
    train. Then a :class:`FaLKSVC` is trained with the best candidate.

    Parameters
    ----------
    n_neighbors : int or array-like of int, default=(500, 1000, 2000, 4000)
        Sizes k of the neighbourhoods, as far as there are enough points. A larger one is not tried
        once one was worse than its predecessor.
    n_assigned : int, default=None
        The k' points that a centre covers, and the inner part of a neighbourhood in the
        cross-validation. None covers k // 4, and takes half of the smallest k as the inner part.
    C : float or array-like, default=(1, 4, 16, 64)
    gamma : float, "scale", "local" or a list of them, default="local"
    gamma_percentile : float or array-like, default=(1, 10, 50, 90)
        The percentile of gamma="local"; without meaning otherwise.
    degree, coef0 : int or array-like, float or array-like
        As in :class:`FaLKSVC`. Several polynomial kernels have neighbourhoods, and an index, each.
    n_centres : int, default=10
        Points whose neighbourhoods are cross-validated; a race may go on to twelve times as many.
        They are drawn until the smallest neighbourhoods of that many hold two classes, at most
        20,000 times.
    cv : int, default=5
        Number of folds.
    search : {"race", "full"}, default="race"
        "full" cross-validates all candidates at all centres. "race" takes four centres at a time,
        and from the eighth on drops what can hardly win any more: the candidates of one k that are
        worse than the best one by more than the one-sided 99 % Student bound of the mean of the
        differences between their errors at the same centres, and by the same rule a k that is
        worse than its predecessor. What is saved goes into more centres for the others, up to twice
        the cross-validations of a full search of the smallest k; a larger k may take fewer, in
        inverse proportion. It begins with the candidates that are left and their neighbours on the
        grid, and is tried only if its predecessor won by more than a standard error.
    per_machine : bool, default=False
        Whether each machine then chooses C and the percentile anew, by the cross-validation of its
        own neighbourhood. Only k, and the parameters of a polynomial kernel, are chosen for all.
    refit : bool, default=True
        Whether to train with the best candidate, without which there are no predictions.
    kernel, centres, routing, class_weight, algorithm, tol, cache_size, n_jobs
        As in :class:`FaLKSVC`.
    multi_class : {"local", "global"}, default="local"
        As in :class:`FaLKSVC`, for the machines that are trained in the end; parameters are always
        chosen with "local".
    random_state : int, RandomState instance or None, default=None
        For the choice of centres.

    Attributes
    ----------
    best_params_ : dict
        Parameters for a :class:`FaLKSVC`: n_neighbors, n_assigned, C, gamma_percentile for a local
        width, and those of gamma, degree and coef0 that had several values.
    best_score_ : float
        Mean accuracy in the cross-validation.
    cv_results_ : dict of arrays
        For each candidate "params", each parameter as "param_C" and so on (masked where it plays no
        part), "mean_test_score",
        "std_test_score" over centres, "rank_test_score", and "n_centres", the number of centres at
        which it was tried. The mean of one that was tried at fewer centres than the best of its
        size is estimated from their differences where both were tried. Those that were dropped
        rank behind all others.
    classes_, centres_, owners_, n_machines_, n_unanimous_, n_support_, fit_report_, models_
        As in :class:`FaLKSVC`. The report also has a "selection".

    Notes
    -----
    A callback that stops the selection ends it there: training follows, with the best candidate so
    far.

    References
    ----------
    N. Segata, E. Blanzieri: Fast and scalable local kernel machines, JMLR 11, 2010, Section 4.3.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from vicinal import FaLKSVCCV
    >>> X, y = make_moons(1000, noise=0.1, random_state=0)
    >>> model = FaLKSVCCV(n_neighbors=(50, 100), random_state=0).fit(X, y)
    >>> sorted(model.best_params_)
    ['C', 'gamma_percentile', 'n_assigned', 'n_neighbors']
    >>> bool(model.score(X, y) > 0.99)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LocalClassifier._parameter_constraints,
        **or_several("C", "gamma", "gamma_percentile", "degree", "coef0"),
        "n_neighbors": ["array-like", Interval(Integral, 2, None, closed="left")],
        "n_centres": [Interval(Integral, 1, None, closed="left")],
        "cv": [Interval(Integral, 2, None, closed="left")],
        "search": [StrOptions({"race", "full"})],
        "per_machine": ["boolean"],
        "refit": ["boolean"],
        "centres": [StrOptions({"levels", "random"})],
        "routing": [StrOptions({"rank", "first", "centre"})],
    }

    def __init__(
        self,
        n_neighbors: int | ArrayLike = (500, 1000, 2000, 4000),
        n_assigned: int | None = None,
        *,
        C: float | ArrayLike = (1, 4, 16, 64),
        gamma_percentile: float | ArrayLike = (1, 10, 50, 90),
        n_centres: int = 10,
        cv: int = 5,
        search: Literal["race", "full"] = "race",
        per_machine: bool = False,
        refit: bool = True,
        kernel: KernelName = "rbf",
        gamma: float | Literal["scale", "local"] | ArrayLike = "local",
        degree: int | ArrayLike = 3,
        coef0: float | ArrayLike = 0.0,
        centres: Order = "levels",
        routing: Routing = "rank",
        multi_class: Literal["local", "global"] = "local",
        class_weight: dict[Any, float] | Literal["balanced"] | None = None,
        algorithm: Algorithm = "auto",
        tol: float = 1e-3,
        cache_size: float = 200,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.n_neighbors = n_neighbors
        self.n_assigned = n_assigned
        self.C = C
        self.gamma_percentile = gamma_percentile
        self.n_centres = n_centres
        self.cv = cv
        self.search = search
        self.per_machine = per_machine
        self.refit = refit
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.centres = centres
        self.routing = routing
        self.multi_class = multi_class
        self.class_weight = class_weight
        self.algorithm = algorithm
        self.tol = tol
        self.cache_size = cache_size
        self.random_state = random_state
        self.n_jobs = n_jobs

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Choose the parameters, and cover the training points with machines.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), default=None
            Factors of C. A point of weight zero is as if absent. Neighbourhoods count points, so
            a weight of two is not the same as a point that is there twice.

        Returns
        -------
        self : FaLKSVCCV
        """
        hooks = hook_arguments(self, X, y, sample_weight)
        context = self._init_callback_context(max_subtasks=2 if self.refit else 1)
        context.call_on_fit_task_begin(**hooks)
        with all_or_nothing(self):
            sizes = check_grid("n_neighbors", self.n_neighbors).astype(int)
            C = check_grid("C", self.C)
            self._check_assigned(int(sizes[0]))
            problem = self._check(X, y, sample_weight)
            candidates = kernel_candidates(
                problem,
                self.kernel,
                gamma=self.gamma,
                gamma_percentile=self.gamma_percentile,
                degree=self.degree,
                coef0=self.coef0,
            )
            fitting = sizes[sizes <= problem.n_points].tolist()
            if not fitting:
                fitting = [self._size(int(sizes[0]), problem)]

            report: Report = {}
            best = self._select(problem, fitting, C, candidates, report, context, hooks)
            if self.refit:
                self._refit(problem, best, report, context, hooks)
            else:
                for name in FITTED:  # by an earlier fit
                    self.__dict__.pop(name, None)
                self.fit_report_ = report
            context.call_on_fit_task_end(**hooks, reconstruction_attributes={})
        return self

    def _select(
        self,
        problem: Problem,
        sizes: list[int],
        C: Any,
        candidates: list[Candidate],
        report: Report,
        context: Any,
        hooks: dict[str, Any],
    ) -> _Family:
        """Compare all candidates, set the attributes that tell of it, return the best family."""
        metrics: dict[Metric, list[Candidate]] = {}
        for candidate in candidates:
            metrics.setdefault(candidate[1].metric, []).append(candidate)
        n_rounds = len(metrics) * len(sizes) * n_rounds_of(self.n_centres, self.search)
        choosing = context.subcontext(task_name="selection", max_subtasks=n_rounds)
        choosing.call_on_fit_task_begin(**hooks)
        progress = Progress(choosing, "centres", n_rounds, hooks)
        families: list[_Family] = []

        def reached(share: float) -> bool:
            return progress.reach((len(families) + share) / len(metrics))

        for alike in metrics.values():
            recipe = self._recipe(problem, alike[0][1], sizes[0], 1)
            with timed(report, "index"):
                indexes = Indexes.build(problem, recipe)
            report["index"]["algorithm"] = indexes.neighbours.structure
            count(report, "index", points=problem.n_points)
            with timed(report, "selection"):
                results = search_parameters(
                    problem,
                    indexes.neighbours,
                    sizes,
                    Grid.of(C, [kernel for _, kernel in alike], self.cv),
                    recipe.training,
                    n_centres=self.n_centres,
                    n_internal=self.n_assigned,
                    search=self.search,
                    random_state=check_random_state(self.random_state),
                    reached=reached,
                )
            count(report, "selection", cross_validations=int(results.n_tried().sum()))
            families.append(_Family(indexes, [parameters for parameters, _ in alike], results))
            if progress.stopped:
                break
        progress.reach(1.0)
        choosing.call_on_fit_task_end(**hooks)
        best = min(families, key=lambda family: family.results.best_error())
        self._keep(families, best)
        return best

    def _refit(
        self, problem: Problem, best: _Family, report: Report, context: Any, hooks: dict[str, Any]
    ) -> None:
        results = best.results
        grid, (p, c) = results.grid, results.winners[results.best_size]
        train = with_one_C(float(grid.C[c]))
        if self.per_machine:
            train = with_its_own_parameters(grid, self.n_assigned)
        training = context.subcontext(task_name="training", max_subtasks=N_STEPS)
        training.call_on_fit_task_begin(**hooks)
        self._cover_with_machines(
            problem,
            train,
            grid.kernels[p],
            k=self.best_params_["n_neighbors"],
            n_assigned=self.best_params_["n_assigned"],
            report=report,
            progress=Progress(training, "machines", N_STEPS, hooks),
            indexes=best.indexes,
        )
        training.call_on_fit_task_end(**hooks, reconstruction_attributes={})

    def _keep(self, families: list[_Family], best_family: _Family) -> None:
        """Set what a person wants to know of the selection, in scikit-learn's form."""
        params: list[dict[str, Any]] = []
        rows: list[tuple[float, float, int, bool]] = []
        best = 0
        for family in families:
            results = family.results
            winner = (results.best_size, *results.winners[results.best_size])
            sizes, grid = enumerate(results.sizes), results.grid
            n_tried, means, stds = results.n_tried(), results.mean(), results.std()
            for (size, k), (c, C), (p, apart) in product(
                sizes, enumerate(grid.C.tolist()), enumerate(family.parameters)
            ):
                at = (size, p, c)
                if n_tried[at]:
                    if family is best_family and at == winner:
                        best = len(params)
                    params.append({"n_neighbors": k, "C": C, **apart})
                    rows.append((1 - means[at], stds[at], n_tried[at], results.alive[at]))
        mean, std, n_centres, alive = map(np.asarray, zip(*rows, strict=True))
        merit = np.where(alive, mean, mean - 2.0)  # the dropped ones come last
        merit[best] = merit.max()  # equal means may differ in their last digits
        self.cv_results_ = {
            "params": params,
            **{f"param_{name}": _column(params, name) for name in _names(params)},
            "mean_test_score": mean,
            "std_test_score": std,
            "rank_test_score": rankdata(-merit, method="min").astype(np.int32),
            "n_centres": n_centres,
        }
        self.best_score_ = float(mean[best])
        k = params[best]["n_neighbors"]
        self.best_params_: dict[str, Any] = {
            **params[best],
            "n_assigned": min(k, self.n_assigned or max(1, k // 4)),
        }


def _names(params: list[dict[str, Any]]) -> list[str]:
    return list(dict.fromkeys(name for each in params for name in each))


def _column(params: list[dict[str, Any]], name: str) -> Any:
    """Return one parameter of all candidates, masked where it plays no part."""
    values = [each.get(name) for each in params]
    absent = [value is None for value in values]
    if not any(absent):
        return np.asarray(values)
    return np.ma.masked_array(np.array(values, dtype=object), mask=absent)
