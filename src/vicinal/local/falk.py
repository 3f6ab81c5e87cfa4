"""FaLK-SVM and FastLSVM: a cover of machines, trained beforehand with given parameters."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, Self

from numpy.typing import ArrayLike
from sklearn.base import _fit_context
from sklearn.utils._param_validation import StrOptions

from vicinal.kernels import KernelName
from vicinal.local.base import LocalClassifier
from vicinal.local.cover import Order
from vicinal.local.covered import N_STEPS, CoveredClassifier, with_one_C
from vicinal.local.progress import Progress, all_or_nothing, hook_arguments
from vicinal.local.route import Routing
from vicinal.neighbors.index import Algorithm


class _FixedParameters(CoveredClassifier):
    """The fit of both estimators."""

    _assigned_part: ClassVar[int]
    """The default of k' is k divided by this."""

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Cover the training points with machines.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), default=None
            Factors of C. A point of weight zero is as if absent. Neighbourhoods count points, so
            a weight of two is not the same as a point that is there twice.

        Returns
        -------
        self : object
        """
        hooks = hook_arguments(self, X, y, sample_weight)
        context = self._init_callback_context(max_subtasks=N_STEPS)
        context.call_on_fit_task_begin(**hooks)
        with all_or_nothing(self):
            problem = self._check(X, y, sample_weight)
            self._check_assigned(self.n_neighbors)
            k = self._size(self.n_neighbors, problem)
            self._cover_with_machines(
                problem,
                with_one_C(self.C),
                self._kernel().spec(problem, percentile=self.gamma_percentile),
                k=k,
                n_assigned=self.n_assigned or max(1, k // self._assigned_part),
                report={},
                progress=Progress(context, "machines", N_STEPS, hooks),
            )
            context.call_on_fit_task_end(**hooks, reconstruction_attributes={})
        return self


class FaLKSVC(_FixedParameters):
    """Fast local kernel support vector machines: FaLK-SVM.

    Some training points become centres, so that the k' nearest neighbours of all centres together
    hold every point. A support vector machine is trained on the k nearest neighbours of each
    centre, and a query is answered by the machine that owns its nearest training point.

    Parameters
    ----------
    n_neighbors : int, default=500
        Size k of the neighbourhoods. If there are fewer points, all are used, with a warning.
    n_assigned : int, default=None
        The k' of those that a centre covers; None is k // 2. Fewer make more machines, each used
        nearer to its centre.
    C : float, default=1.0
        Penalty of the errors, as in :class:`sklearn.svm.SVC`.
    kernel : {"rbf", "linear", "poly"}, default="rbf"
    gamma : float, "scale" or "local", default="local"
        As in :class:`sklearn.svm.SVC`; "local" gives every neighbourhood its own: one over a
        percentile of the squared distances between its points for "rbf", and 1 for "poly". The
        papers' sigma is 1 / gamma.
    gamma_percentile : float, default=50
        The percentile of gamma="local".
    degree : int, default=3
        Of the kernel "poly".
    coef0 : float, default=0.0
        Of the kernel "poly": 0 makes it homogeneous, 1 inhomogeneous. If it is a hundred times
        gamma times the squared length of the points, or more, single precision has few digits left
        for what distinguishes them.
    centres : {"levels", "random"}, default="levels"
        Candidates come by the levels of a cover tree, so that early centres are far apart, or in
        random order.
    routing : {"rank", "first", "centre"}, default="rank"
        "rank" asks the machine in whose neighbourhood the query's nearest training point comes
        earliest, "first" the first machine that covered that point, "centre" the machine of the
        nearest centre, which is FaLK-SVMc.
    multi_class : {"local", "global"}, default="local"
        One against one inside each neighbourhood, among the classes present in it, or a complete
        model for each pair of classes.
    class_weight : dict or "balanced", default=None
        Factors of C for each class.
    algorithm : {"auto", "tree", "scan", "kd_tree"}, default="auto"
        How neighbours are found; all ways give the same, up to rounding.
    tol : float, default=1e-3
        Tolerance of the solver, as in :class:`sklearn.svm.SVC`.
    cache_size : float, default=200
        Memory for kernel values in megabytes.
    random_state : int, RandomState instance or None, default=None
        For centres in random order.
    n_jobs : int, default=None
        Threads; None means 1 and -1 all cores. Results never depend on it.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
    centres_ : int array of shape (n_machines_,)
        Rows of the training data.
    owners_ : int array of shape (n_samples,) or (n_pairs, n_samples)
        The machine that owns each training point; -1 for a point of weight zero. With
        multi_class="global" there is a row for each pair of classes.
    n_machines_ : int
    n_unanimous_ : int
        Machines whose neighbourhood holds one class.
    n_support_ : int array of shape (n_machines_,)
        Number of support vectors of each machine.
    fit_report_ : dict
        Seconds and counts of the steps: "index", "cover" and "training".
    models_ : list
        The machines and the way to them; several if multi_class is "global".
    n_features_in_ : int
    feature_names_in_ : array of shape (n_features_in_,)

    See Also
    --------
    FaLKSVCCV : Chooses the parameters by itself.
    KNNSVC : Trains a machine for every query.

    Notes
    -----
    A fit stopped by a callback keeps the machines trained so far, and points that no centre has
    covered yet belong to the nearest one. A fit that fails or is interrupted leaves the estimator
    as it was.

    References
    ----------
    N. Segata, E. Blanzieri: Fast and scalable local kernel machines, JMLR 11, 2010.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from vicinal import FaLKSVC
    >>> X, y = make_moons(1000, noise=0.1, random_state=0)
    >>> model = FaLKSVC(n_neighbors=100, C=10).fit(X, y)
    >>> bool(model.score(X, y) > 0.99)
    True
    """

    _assigned_part = 2

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LocalClassifier._parameter_constraints,
        "centres": [StrOptions({"levels", "random"})],
        "routing": [StrOptions({"rank", "first", "centre"})],
    }

    def __init__(
        self,
        n_neighbors: int = 500,
        n_assigned: int | None = None,
        *,
        C: float = 1.0,
        kernel: KernelName = "rbf",
        gamma: float | Literal["scale", "local"] = "local",
        gamma_percentile: float = 50,
        degree: int = 3,
        coef0: float = 0.0,
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
        self.kernel = kernel
        self.gamma = gamma
        self.gamma_percentile = gamma_percentile
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


class FastLSVC(_FixedParameters):
    """Fast local support vector machines: FastLSVM, the forerunner of FaLK-SVM.

    Centres are taken in random order, a quarter of a neighbourhood is covered, and a training
    point belongs to the first centre that covered it.

    Parameters
    ----------
    n_neighbors : int, default=500
        Size k of the neighbourhoods. If there are fewer points, all are used, with a warning.
    n_assigned : int, default=None
        The k' of those that a centre covers; None is k // 4.
    C, kernel, gamma, gamma_percentile, degree, coef0, multi_class, class_weight, algorithm, tol, \
cache_size, n_jobs
        As in :class:`FaLKSVC`.
    random_state : int, RandomState instance or None, default=None
        For the order of the centres.

    Attributes
    ----------
    classes_, centres_, owners_, n_machines_, n_unanimous_, n_support_, fit_report_, models_
        As in :class:`FaLKSVC`.

    See Also
    --------
    FaLKSVC : Needs fewer machines.

    References
    ----------
    N. Segata, E. Blanzieri: Fast local support vector machines for large datasets, University of
    Trento, DISI-08-063, 2008.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from vicinal import FastLSVC
    >>> X, y = make_moons(1000, noise=0.1, random_state=0)
    >>> model = FastLSVC(n_neighbors=100, C=10, random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.99)
    True
    """

    _assigned_part = 4
    centres: Order = "random"
    routing: Routing = "first"

    def __init__(
        self,
        n_neighbors: int = 500,
        n_assigned: int | None = None,
        *,
        C: float = 1.0,
        kernel: KernelName = "rbf",
        gamma: float | Literal["scale", "local"] = "local",
        gamma_percentile: float = 50,
        degree: int = 3,
        coef0: float = 0.0,
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
        self.kernel = kernel
        self.gamma = gamma
        self.gamma_percentile = gamma_percentile
        self.degree = degree
        self.coef0 = coef0
        self.multi_class = multi_class
        self.class_weight = class_weight
        self.algorithm = algorithm
        self.tol = tol
        self.cache_size = cache_size
        self.random_state = random_state
        self.n_jobs = n_jobs
