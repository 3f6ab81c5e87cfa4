"""The same model with fewer vectors, held to an accuracy."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from numbers import Integral, Real
from time import perf_counter
from typing import Any, TypeVar

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import ArrayLike, NDArray
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.svm import SVC, NuSVC
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, validate_params
from sklearn.utils.validation import check_consistent_length, check_is_fitted, validate_data

from vicinal.local.covered import CoveredClassifier
from vicinal.pretrained import unwrapped
from vicinal.problem import FLOATS, Codes, Floats, Problem
from vicinal.sparse.covers import Outcome, compress_cover
from vicinal.sparse.reduced_set import ReducedSetClassifier

Model = TypeVar("Model", bound=CoveredClassifier)

_FIRST, _GROWTH = 10, 1.5
_LOCAL_SIZES = (16, 32, 48, 64)


@validate_params(
    {
        "n_vectors": [Interval(Integral, 1, None, closed="left"), "array-like", None],
        "max_loss": [Interval(Real, 0, 1, closed="both")],
        "random_state": ["random_state"],
        "n_jobs": [Integral, None],
    },
    prefer_skip_nested_validation=True,
)
def compress(
    model: Any,
    n_vectors: int | Sequence[int] | None = None,
    *,
    max_loss: float = 0.003,
    X: ArrayLike | None = None,
    y: ArrayLike | None = None,
    random_state: Any = None,
    n_jobs: int | None = None,
) -> Any:
    """Return the same model with as few vectors in each machine as its accuracy allows.

    Parameters
    ----------
    model : FaLKSVC, FastLSVC, FaLKSVCCV, SVC, NuSVC or Pipeline
        Fitted. It stays as it is. A :class:`sklearn.pipeline.Pipeline` may end in one of these.
    n_vectors : int or list of int, default=None
        Numbers of vectors to try for each machine; the smallest one that serves is taken, and a
        machine that none serves is kept whole. None tries 16, 32, 48 and 64 for the machines
        of a cover, and for an SVC from 10 upwards, each half as many more.
    max_loss : float, default=0.003
        By how much the share of right answers may fall. It is measured, and with one standard error
        added to what was measured must not exceed this.
    X : array-like of shape (n_samples, n_features), default=None
        Queries to measure it by, best such as the model was not trained on. None takes a fifth of
        the training points of a local model, which the new machines then do not learn from; the
        old ones did, so that the loss seems larger than it is. Must be given for an SVC.
    y : array-like of shape (n_samples,), default=None
        Their classes; None takes the answers of `model`.
    random_state : int, RandomState instance or None, default=None
        For the places where vectors start.
    n_jobs : int, default=None
        Threads; None means 1 and -1 all cores. The result never depends on it.

    Returns
    -------
    smaller : estimator
        For a local model one of the same class and parameters. Its machines have vectors of their
        own, so with ``routing="centre"`` it needs no training set any more: it has no `owners_`,
        and its files are small. ``fit_report_["compression"]`` has the seconds it took, the number
        of vectors, the number of machines for which nothing smaller served, and the loss as
        measured. For an SVC a :class:`ReducedSetClassifier`.

    See Also
    --------
    ReducedSetClassifier : A given number of vectors, without a look at the accuracy.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from vicinal import FaLKSVC
    >>> from vicinal.sparse import compress
    >>> X, y = make_moons(4000, noise=0.2, random_state=0)
    >>> model = FaLKSVC(n_neighbors=200, routing="centre", C=10).fit(X[:2000], y[:2000])
    >>> smaller = compress(model, 8, X=X[2000:], y=y[2000:], random_state=0)
    >>> bool(smaller.n_support_.sum() < model.n_support_.sum() / 2)
    True
    >>> bool(smaller.score(X, y) > model.score(X, y) - 0.005)
    True
    """
    if isinstance(model, Pipeline) and not isinstance(unwrapped(model)[1], SVC | NuSVC):
        check_is_fitted(model)
        steps = list(model.steps)
        queries = X
        if X is not None:
            for _, step in steps[:-1]:
                if step not in (None, "passthrough"):
                    queries = step.transform(queries)
        name, last = steps[-1]
        arguments: dict[str, Any] = {"max_loss": max_loss, "X": queries, "y": y}
        arguments |= {"random_state": random_state, "n_jobs": n_jobs}
        shorter = copy.copy(model)
        shorter.steps = [*steps[:-1], (name, compress(last, n_vectors, **arguments))]
        return shorter
    sizes = _sizes(n_vectors)
    if isinstance(model, CoveredClassifier):
        check_is_fitted(model, "models_")
        return _compress_local(model, sizes, max_loss, X, y, random_state, n_jobs)
    return _compress_svc(model, sizes, max_loss, X, y, random_state)


def _sizes(n_vectors: int | Sequence[int] | None) -> list[int] | None:
    if n_vectors is None:
        return None
    sizes = np.unique(np.atleast_1d(np.asarray(n_vectors)))
    if not len(sizes) or sizes.dtype.kind not in "iu" or sizes[0] < 1:
        raise ValueError(f"n_vectors must hold positive integers; got {n_vectors!r}.")
    return [int(size) for size in sizes]


def _compress_local(
    model: Model,
    sizes: list[int] | None,
    max_loss: float,
    X: ArrayLike | None,
    y: ArrayLike | None,
    random_state: Any,
    n_jobs: int | None,
) -> Model:
    begin = perf_counter()
    random_state = check_random_state(random_state)
    queries, labels = None, None
    if X is not None:
        queries = validate_data(model, X, dtype=FLOATS, reset=False)
        labels = model.predict(X) if y is None else np.asarray(y)
        check_consistent_length(queries, labels)
    outcomes: list[Outcome] = []
    for part in model.models_:
        measured = None
        if queries is not None and labels is not None:
            measured = _of_problem(part.problem, queries, labels)
        outcomes.append(
            compress_cover(
                part,
                list(_LOCAL_SIZES) if sizes is None else sizes,
                max_loss,
                measured,
                random_state=random_state,
                n_threads=effective_n_jobs(n_jobs),
            )
        )
    smaller = copy.copy(model)
    smaller.models_ = [outcome.model for outcome in outcomes]
    smaller.n_support_ = np.concatenate([part.machines.n_support for part in smaller.models_])
    smaller.fit_report_ = {
        **model.fit_report_,
        "compression": {
            "seconds": perf_counter() - begin,
            "vectors": int(smaller.n_support_.sum()),
            "whole": sum(outcome.n_whole for outcome in outcomes),
            "loss": float(np.mean([outcome.loss for outcome in outcomes])),
        },
    }
    smaller.__dict__.pop("owners_", None)  # of training points, which it knows no more
    return smaller


def _of_problem(
    problem: Problem, queries: NDArray[Any], labels: NDArray[Any]
) -> tuple[Floats, Codes]:
    """Return the queries of some classes, in the frame, and their codes."""
    known = np.isin(labels, problem.classes)
    codes = np.searchsorted(problem.classes, labels[known]).astype(np.int32)
    return problem.frame.apply(queries[known]), codes


def _compress_svc(
    model: Any,
    sizes: list[int] | None,
    max_loss: float,
    X: ArrayLike | None,
    y: ArrayLike | None,
    random_state: Any,
) -> ReducedSetClassifier:
    svc = unwrapped(model)[1]
    if not isinstance(svc, SVC | NuSVC):
        raise TypeError(
            f"compress takes a FaLKSVC, FastLSVC, FaLKSVCCV, SVC or NuSVC, or a Pipeline that ends"
            f" in one; got a {type(svc).__qualname__}."
        )
    check_is_fitted(svc)
    if X is None:
        raise ValueError(
            f"A {type(svc).__name__} keeps no training points to measure the loss by: give X, and y"
            " if you have it."
        )
    whole = model.predict(X)
    right = np.asarray(whole if y is None else y)
    check_consistent_length(whole, right)
    n_support = len(svc.support_)
    for size in sizes or _growing(n_support):
        smaller = ReducedSetClassifier(
            FrozenEstimator(model), min(size, n_support), random_state=random_state
        ).fit(X)
        lost = (whole == right).astype(np.float64) - (smaller.predict(X) == right)
        if lost.mean() + lost.std() / np.sqrt(len(lost)) <= max_loss:
            return smaller
    return ReducedSetClassifier(FrozenEstimator(model), fraction=1.0).fit(X)


def _growing(most: int) -> list[int]:
    sizes = [_FIRST]
    while sizes[-1] < most:
        sizes.append(int(sizes[-1] * _GROWTH))
    return sizes[:-1]
