"""What the sparse kernel machines share: parameters, checks, their starts and their predictions."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from numbers import Integral, Real
from time import perf_counter
from typing import Any, ClassVar, Self

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, _fit_context
from sklearn.callback import CallbackSupportMixin
from sklearn.utils import check_array, check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from vicinal.kernels import Kernel, Metric
from vicinal.local.progress import Progress, Report, all_or_nothing, count, hook_arguments, timed
from vicinal.local.votes import Decisions, labels
from vicinal.problem import FLOATS, Doubles, Frame, Problem, make_problem
from vicinal.sparse.expansion import SharedExpansion
from vicinal.sparse.placement import Placed
from vicinal.sparse.primal import Primal, Sides, Weights
from vicinal.sparse.starts import start_vectors

_FEWEST = 10

OnStep = Callable[[Placed], bool]
"""Is told of every step of a fit, and whether it stops there says what it returns."""


class SparseClassifier(CallbackSupportMixin, ClassifierMixin, BaseEstimator):
    """Base of the classifiers with few vectors."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_vectors": [Interval(Integral, 1, None, closed="left"), None],
        "fraction": [Interval(Real, 0, 1, closed="right")],
        "C": [Interval(Real, 0, None, closed="neither")],
        "kernel": [StrOptions({"linear", "rbf", "poly"})],
        "gamma": [StrOptions({"scale"}), Interval(Real, 0, None, closed="neither")],
        "degree": [Interval(Integral, 1, 1000, closed="both")],
        "coef0": [Interval(Real, 0, None, closed="left")],
        "init": [StrOptions({"k-means", "random"}), "array-like"],
        "class_weight": [StrOptions({"balanced"}), dict, None],
        "warm_start": ["boolean"],
        "cache_size": [Interval(Real, 0, None, closed="left")],
        "random_state": ["random_state"],
        "n_jobs": [Integral, None],
    }

    expansion_: SharedExpansion
    classes_: NDArray[Any]

    @property
    def vectors_(self) -> Doubles:
        """The vectors, in the user's units."""
        return self.expansion_.frame.undo(self.expansion_.vectors)

    @property
    def n_vectors_(self) -> int:
        """Number of vectors."""
        return self.expansion_.n_vectors

    @property
    def dual_coef_(self) -> Doubles:
        """The coefficients of the vectors, one row an output."""
        return self.expansion_.coef.T

    @property
    def intercept_(self) -> Doubles:
        """The bias of every output."""
        return self.expansion_.bias

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Find vectors and their weights.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), default=None
            Factors of C. A point of weight zero is as if absent.

        Returns
        -------
        self : object
        """
        hooks = hook_arguments(self, X, y, sample_weight)
        context = self._init_callback_context(max_subtasks=self._n_steps)
        context.call_on_fit_task_begin(**hooks)
        with all_or_nothing(self):
            problem = make_problem(
                *validate_data(self, X, y, dtype=FLOATS),
                sample_weight=sample_weight,
                class_weight=self.class_weight,
                centred=self._kernel().translation_invariant,
                find_frame=Frame.if_needed,
            )
            spec = self._kernel().spec(problem, percentile=50)
            report: Report = {}
            with timed(report, "start"):
                start = self._start(problem, spec[:4])
            progress = Progress(context, "steps", self._n_steps, hooks)
            values: list[float] = []
            begin = perf_counter()

            def on_step(placed: Placed) -> bool:
                values.append(placed.weights.value)
                share = (len(values) + 0.5) / self._n_steps  # not one less by rounding
                return progress.reach(share, lambda: self._fitted(problem, placed, values, report))

            placed, n_evaluations = self._train(problem, start, on_step)
            count(report, "training", seconds=perf_counter() - begin, evaluations=n_evaluations)
            self.__dict__.update(self._fitted(problem, placed, values, report))
            progress.reach(1.0)
            context.call_on_fit_task_end(**hooks, reconstruction_attributes={})
        return self

    @property
    def _n_steps(self) -> int:
        """Steps of a fit, at most."""
        return 1

    def _train(self, problem: Problem, start: Placed, on_step: OnStep) -> tuple[Placed, int]:
        """Return a machine, and how often weights were found for it."""
        raise NotImplementedError

    def _fitted(
        self, problem: Problem, placed: Placed, values: list[float], report: Report
    ) -> dict[str, Any]:
        weights, frame = placed.weights, problem.frame
        vectors = np.ascontiguousarray(placed.vectors, dtype=np.float32)
        return {
            "classes_": problem.classes,
            "expansion_": SharedExpansion(
                vectors, weights.coef, weights.bias, placed.kernel, frame
            ),
            "gamma_": placed.kernel[1] / frame.squared_scale,
            "n_iter_": len(values),
            "objective_": np.array(values or [weights.value]),
            "fit_report_": report,
        }

    def _primal(self, problem: Problem) -> Primal:
        return Primal(
            Sides.of_classes(problem, self.C),
            cache_bytes=1e6 * self.cache_size,
            n_threads=self._n_threads,
        )

    @property
    def _n_threads(self) -> int:
        return int(effective_n_jobs(self.n_jobs))

    def _kernel(self) -> Kernel:
        return Kernel(self.kernel, self.gamma, self.degree, self.coef0)

    def _start(self, problem: Problem, kernel: Metric) -> Placed:
        if self.warm_start and hasattr(self, "expansion_"):
            before = self._before(problem, kernel)
            if before is not None:
                return before
        if isinstance(self.init, str):
            random_state = check_random_state(self.random_state)
            vectors = start_vectors(problem, self._size(problem), self.init, random_state)
        else:
            given = check_array(self.init, dtype=np.float64, input_name="init")
            self._check_given(given, problem.points.shape[1])
            vectors = problem.frame.apply(given).astype(np.float64)
        return Placed(vectors, kernel, Weights.none(len(vectors), problem.n_classes))

    def _before(self, problem: Problem, kernel: Metric) -> Placed | None:
        """Return the machine of the last fit, where it is one for these data."""
        last = self.expansion_
        wanted = self._size(problem) if isinstance(self.init, str) else last.n_vectors
        if last.vectors.shape != (wanted, problem.points.shape[1]) or not np.array_equal(
            self.classes_, problem.classes
        ):
            return None
        vectors = problem.frame.apply(self.vectors_).astype(np.float64)
        weights = Weights(last.coef, last.bias, np.inf, 0)
        return Placed(vectors, kernel, weights)

    def _size(self, problem: Problem) -> int:
        n_points = problem.n_points
        if self.n_vectors is None:
            return min(max(_FEWEST, round(self.fraction * n_points)), n_points)
        if self.n_vectors > n_points:
            warnings.warn(
                f"n_vectors={self.n_vectors} exceeds the {n_points} training points; every point"
                " becomes a vector.",
                stacklevel=5,
            )
        return min(self.n_vectors, n_points)

    def _check_given(self, given: Doubles, n_features: int) -> None:
        if given.shape[1] != n_features:
            raise ValueError(
                f"init has {given.shape[1]} features, but X has {n_features}: give vectors of the"
                " same features."
            )
        if self.n_vectors is not None and self.n_vectors != len(given):
            raise ValueError(
                f"n_vectors={self.n_vectors}, but init holds {len(given)} vectors: leave n_vectors"
                " at None to take them all."
            )

    def decision_function(self, X: ArrayLike) -> Decisions:
        """Return the outputs of the machine.

        Parameters
        ----------
        X : array-like of shape (n_queries, n_features)

        Returns
        -------
        decisions : array of shape (n_queries,) or (n_queries, n_classes)
            For two classes one number, positive for the second class. For more, one against the
            rest for each class.
        """
        check_is_fitted(self, "expansion_")
        data = validate_data(self, X, dtype=FLOATS, reset=False)
        outputs = self.expansion_.decision(data, n_threads=self._n_threads)
        return outputs[:, 0] if len(self.classes_) == 2 else outputs

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the class of the largest output.

        Parameters
        ----------
        X : array-like of shape (n_queries, n_features)

        Returns
        -------
        labels : array of shape (n_queries,)
        """
        return labels(self.decision_function(X), self.classes_)
