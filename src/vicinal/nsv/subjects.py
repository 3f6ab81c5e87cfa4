"""The estimators whose machines can be evaluated early, and what they are made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.svm import SVC, NuSVC
from sklearn.utils.validation import check_is_fitted

from vicinal.local.covered import CoveredClassifier
from vicinal.nsv.cover import Expansions
from vicinal.nsv.expansion import Expansion
from vicinal.nsv.kernel_machine import KernelMachine
from vicinal.nsv.shared import of_classes, of_pairs
from vicinal.sparse import PSKClassifier, ReducedSetClassifier, RSVMClassifier

SHARING = (PSKClassifier, RSVMClassifier, ReducedSetClassifier)
"""Estimators whose outputs share their vectors."""

SUBJECTS = (SVC, NuSVC, KernelMachine, CoveredClassifier, *SHARING)

SUPPORTED = (
    "SVC, NuSVC, FaLKSVC, FastLSVC, FaLKSVCCV, PSKClassifier, RSVMClassifier and"
    " ReducedSetClassifier, alone or as the last step of a Pipeline, and KernelMachine"
)


@dataclass(frozen=True)
class Subject:
    """A fitted machine, or a cover of machines, and the steps that lead to it.

    Parameters
    ----------
    steps : tuple of transformers
    expansion : Expansion or Expansions
    classes : array of shape (n_classes,)
    break_ties : bool
        Whether equally many votes are decided by the outputs, as in :class:`sklearn.svm.SVC`.
    """

    steps: tuple[Any, ...]
    expansion: Expansion | Expansions
    classes: NDArray[Any]
    break_ties: bool

    def queries(self, X: NDArray[Any]) -> NDArray[np.float32]:
        """Return queries as the engine takes them."""
        for step in self.steps:
            X = step.transform(X)
        return self.expansion.queries(X)

    @classmethod
    def of(cls, estimator: BaseEstimator) -> Subject:
        """Take a fitted estimator apart."""
        steps: list[Any] = []
        while not isinstance(estimator, SUBJECTS):
            if isinstance(estimator, FrozenEstimator):
                estimator = estimator.estimator
            elif isinstance(estimator, Pipeline):
                steps += [
                    step for _, step in estimator.steps[:-1] if step not in (None, "passthrough")
                ]
                estimator = estimator.steps[-1][1]
            else:
                raise TypeError(
                    f"{type(estimator).__name__} is no kernel machine that can be evaluated early:"
                    f" supported are {SUPPORTED}."
                )
        check_is_fitted(estimator)
        if isinstance(estimator, KernelMachine):
            return cls(tuple(steps), _of_kernel_machine(estimator), estimator.classes_, False)
        if isinstance(estimator, SHARING):
            steps += getattr(estimator, "steps_", ())
            has_pairs = isinstance(estimator, ReducedSetClassifier)
            expansion = (of_pairs if has_pairs else of_classes)(
                estimator.expansion_, len(estimator.classes_)
            )
            return cls(tuple(steps), expansion, estimator.classes_, break_ties=True)
        if isinstance(estimator, CoveredClassifier):
            return cls(tuple(steps), _of_cover(estimator), estimator.classes_, True)
        return cls(tuple(steps), _of_svc(estimator), estimator.classes_, estimator.break_ties)


def is_frozen(estimator: BaseEstimator) -> bool:
    """Whether an estimator is taken as it is."""
    return isinstance(estimator, FrozenEstimator | KernelMachine)


def _of_cover(estimator: CoveredClassifier) -> Expansions:
    if len(estimator.models_) > 1:
        raise ValueError(
            "With multi_class='global' every pair of classes has a cover of its own, which cannot"
            " be evaluated early: fit with multi_class='local'."
        )
    return Expansions(estimator.models_[0])


def _of_kernel_machine(machine: KernelMachine) -> Expansion:
    vectors, coef = machine.checked()
    order = np.argsort(coef > 0, kind="stable")
    counts = np.array([(coef <= 0).sum(), (coef > 0).sum()])
    if machine.kernel != "linear" and not ((coef < 0).any() and (coef > 0).any()):
        raise ValueError(
            "The machine has no vectors of one class, so its coefficients are all of one sign:"
            " supported are machines with vectors of both."
        )
    return Expansion.make(
        vectors[order],
        counts,
        np.abs(coef[order])[None],
        np.array([machine.bias], dtype=np.float64),
        machine.kernel,
        machine.gamma,
        machine.coef0,
        machine.degree,
    )


def _of_svc(svc: SVC | NuSVC) -> Expansion:
    name = type(svc).__name__
    if svc.kernel not in ("linear", "rbf", "poly", "sigmoid"):
        what = "a callable kernel" if callable(svc.kernel) else f"kernel={svc.kernel!r}"
        raise ValueError(
            f"{name} with {what} cannot be evaluated early: supported are the kernels 'linear',"
            " 'rbf', 'poly' and 'sigmoid'."
        )
    if getattr(svc, "_sparse", False):
        raise ValueError(
            f"{name} was fitted on sparse data, which cannot be evaluated early: fit it on a dense"
            " array."
        )
    if not len(svc.support_) or not svc.n_support_.all():
        raise ValueError(
            f"{name} has no support vectors of one class: supported are machines with vectors of"
            " every class. More data or another C may give them."
        )
    if svc.kernel == "poly" and svc.degree < 1:
        raise ValueError("kernel='poly' needs a degree of at least 1 to be evaluated early.")
    bias = np.asarray(svc.intercept_, dtype=np.float64)
    return Expansion.make(
        np.asarray(svc.support_vectors_, dtype=np.float64),
        svc.n_support_,
        np.abs(svc.dual_coef_),
        # Outputs are positive for the earlier class in LIBSVM, and for the later one of two in
        # scikit-learn.
        bias if len(svc.classes_) == 2 else -bias,
        svc.kernel,
        svc._gamma,
        svc.coef0,
        svc.degree,
    )
