"""Kernel functions by scikit-learn's names and parameters, and their form in a frame."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from vicinal.problem import Floats, Problem

KernelName = Literal["linear", "rbf", "poly"]

Metric = tuple[int, float, float, int]
"""Kind, gamma, coef0 and degree of the kernel whose feature space gives the distance."""

LINEAR, RBF, POLY = 0, 1, 2
EUCLIDEAN: Metric = (LINEAR, 1.0, 0.0, 1)

LOCAL_WIDTH = 0.0
"""A gamma that tells the engine to find one for each neighbourhood."""

# What single precision can hold, with room for a product.
_SMALLEST_GAMMA, _LARGEST_GAMMA = 1e-36, 1e36
_MOST_DIGITS = 30


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
        At least 0, so that the kernel has a feature space and a distance in it.

    Notes
    -----
    An RBF kernel is ``exp(-gamma * |x - y|**2)``. Segata & Blanzieri write it with sigma in place
    of ``1 / gamma`` (their report of 2008 has lost the minus sign), DeCoste & Mazzoni with
    ``gamma = 1 / (2 * sigma**2)``.

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
        gamma = self._framed_gamma(problem)
        check_polynomial(problem.points, gamma, self.coef0, self.degree)
        return KernelSpec(POLY, gamma, self.coef0, self.degree, percentile)

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


def check_polynomial(points: Floats, gamma: float, coef0: float, degree: int) -> None:
    """Raise if the values of a polynomial kernel are more than single precision can hold."""
    longest = float(np.einsum("ij,ij->i", points, points, dtype=np.float64).max())
    if degree * np.log10(max(gamma * longest + coef0, 1.0)) > _MOST_DIGITS:
        raise ValueError(
            f"kernel='poly' with degree={degree} exceeds 1e{_MOST_DIGITS} on points as long as"
            " these, which single precision cannot hold: scale the features (MinMaxScaler, say), or"
            " lower gamma or degree."
        )


def _within_reach(gamma: float) -> float:
    return min(max(gamma, _SMALLEST_GAMMA), _LARGEST_GAMMA)
