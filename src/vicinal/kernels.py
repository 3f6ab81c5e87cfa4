"""Kernel functions by scikit-learn's names and parameters, and their form in a frame."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from vicinal.problem import Problem

KernelName = Literal["linear", "rbf", "poly"]

Metric = tuple[int, float, float, int]
"""Kind, gamma, coef0 and degree of the kernel whose feature space gives the distance."""

LINEAR, RBF, POLY = 0, 1, 2
EUCLIDEAN: Metric = (LINEAR, 1.0, 0.0, 1)

LOCAL_WIDTH = 0.0
"""A gamma that tells the engine to find one for each neighbourhood."""

# What single precision can hold, with room for a product.
_SMALLEST_GAMMA, _LARGEST_GAMMA = 1e-36, 1e36


class KernelSpec(NamedTuple):
    """A kernel as the engine takes it: its parameters fit the points of one frame."""

    kind: int
    gamma: float
    coef0: float
    degree: int
    percentile: float

    @property
    def metric(self) -> Metric:
        """The distance that orders neighbours: Euclidean wherever the kernel keeps that order."""
        if self.kind == POLY and self.degree > 1:
            return (POLY, self.gamma, self.coef0, self.degree)
        return EUCLIDEAN

    @property
    def has_local_width(self) -> bool:
        """Whether every neighbourhood gets its own gamma."""
        return self.kind == RBF and self.gamma == LOCAL_WIDTH


@dataclass(frozen=True)
class Kernel:
    """A kernel in the units of the user's data.

    Parameters
    ----------
    name : {"linear", "rbf", "poly"}
    gamma : float, "scale" or "local"
        As in :class:`sklearn.svm.SVC`. "local" is one over a percentile of the squared distances
        inside a neighbourhood for "rbf", and 1 for "poly".
    degree : int
    coef0 : float

    Examples
    --------
    >>> from vicinal.kernels import Kernel
    >>> Kernel("poly", degree=2, coef0=1.0).translation_invariant
    False
    """

    name: KernelName = "rbf"
    gamma: float | Literal["scale", "local"] = "local"
    degree: int = 3
    coef0: float = 0.0

    @property
    def translation_invariant(self) -> bool:
        """Whether a machine with a bias stays the same when all points move together."""
        return self.name != "poly"

    def spec(self, problem: Problem, *, percentile: float) -> KernelSpec:
        """Return the same kernel for the points of a problem, which live in its frame."""
        unit = problem.frame.squared_scale
        if self.name == "linear":
            return KernelSpec(LINEAR, _within_reach(unit), 0.0, 1, percentile)
        if self.name == "rbf":
            gamma = LOCAL_WIDTH if self.gamma == "local" else self._framed_gamma(problem)
            return KernelSpec(RBF, gamma, 0.0, 1, percentile)
        return KernelSpec(POLY, self._framed_gamma(problem), self.coef0, self.degree, percentile)

    def _framed_gamma(self, problem: Problem) -> float:
        unit = problem.frame.squared_scale
        if self.gamma == "local":
            return _within_reach(unit)
        if self.gamma == "scale":
            # scikit-learn's 1 / (n_features * X.var()), which the frame has already rescaled.
            variance = problem.variance()
            n_features = problem.points.shape[1]
            return _within_reach(1.0 / (n_features * variance) if variance > 0 else unit)
        return _within_reach(float(self.gamma) * unit)


def _within_reach(gamma: float) -> float:
    return min(max(gamma, _SMALLEST_GAMMA), _LARGEST_GAMMA)
