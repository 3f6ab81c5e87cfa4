"""Support vector machines that scikit-learn has trained, taken apart."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.svm import SVC, NuSVC

from vicinal.local.machines import by_pair
from vicinal.problem import Doubles


def unwrapped(estimator: BaseEstimator) -> tuple[tuple[Any, ...], BaseEstimator]:
    """Return the transformers that lead to a machine, and the machine itself."""
    steps: list[Any] = []
    while isinstance(estimator, FrozenEstimator | Pipeline):
        if isinstance(estimator, FrozenEstimator):
            estimator = estimator.estimator
        else:
            steps += [step for _, step in estimator.steps[:-1] if step not in (None, "passthrough")]
            estimator = estimator.steps[-1][1]
    return tuple(steps), estimator


def weights_of_machine(estimator: BaseEstimator, sample_weight: Any) -> dict[str, Any]:
    """Return the argument that hands weights to a machine, or to the last step of a pipeline."""
    if sample_weight is None:
        return {}
    name = "sample_weight"
    while isinstance(estimator, Pipeline):
        last, estimator = estimator.steps[-1]
        name = f"{last}__{name}"
    return {name: sample_weight}


def check_svc(svc: SVC | NuSVC, kernels: tuple[str, ...], purpose: str) -> None:
    """Raise unless a fitted machine has dense support vectors and one of some kernels."""
    name = type(svc).__name__
    if svc.kernel not in kernels:
        what = "a callable kernel" if callable(svc.kernel) else f"kernel={svc.kernel!r}"
        known = ", ".join(map(repr, kernels[:-1])) + f" and {kernels[-1]!r}"
        raise ValueError(
            f"{name} with {what} cannot be {purpose}: supported are the kernels {known}."
        )
    if getattr(svc, "_sparse", False):
        raise ValueError(
            f"{name} was fitted on sparse data, which cannot be {purpose}: fit it on a dense array."
        )
    if not len(svc.support_) or not svc.n_support_.all():
        raise ValueError(
            f"{name} has no support vectors of one class: supported are machines with vectors of"
            " every class. More data or another C may give them."
        )
    if svc.kernel == "poly" and svc.degree < 1:
        raise ValueError(f"kernel='poly' needs a degree of at least 1 to be {purpose}.")


def pair_biases(svc: SVC | NuSVC) -> Doubles:
    """Return the bias of every pair of classes, positive for the later one."""
    # Outputs are positive for the earlier class in LIBSVM, and for the later one of two in
    # scikit-learn.
    bias = np.asarray(svc.intercept_, dtype=np.float64)
    return bias if len(svc.classes_) == 2 else -bias


def pair_coefficients(svc: SVC | NuSVC) -> Doubles:
    """Return a column of coefficients for every pair of classes, positive for the later one."""
    # Each supports its own class: the later one of a pair in the rows before that class.
    rows = np.arange(len(svc.dual_coef_))[:, None]
    own = np.repeat(np.arange(len(svc.classes_)), svc.n_support_)
    signs = np.where(rows < own, 1.0, -1.0)
    return by_pair(signs * np.abs(svc.dual_coef_), svc.n_support_)
