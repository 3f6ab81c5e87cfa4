"""Distances by name, between the user's units and those of a frame."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.utils._param_validation import Interval, StrOptions

from vicinal.kernels import EUCLIDEAN, POLY, Metric, check_polynomial
from vicinal.problem import Floats, Frame

MetricName = Literal["euclidean", "linear", "rbf", "poly"]

METRIC_CONSTRAINTS: dict[str, list[Any]] = {
    "base": [Interval(Real, 1.01, None, closed="left"), None],
    "metric": [StrOptions({"euclidean", "linear", "rbf", "poly"})],
    "gamma": [Interval(Real, 0, None, closed="neither")],
    "degree": [Interval(Integral, 1, 1000, closed="both")],
    "coef0": [Interval(Real, 0, None, closed="left")],
    "n_jobs": [Integral, None],
}
"""scikit-learn's constraints of the parameters that every index has."""


@dataclass(frozen=True)
class FramedMetric:
    """A metric on the points of one frame.

    "linear" is the Euclidean distance. "rbf" is the distance in that kernel's feature space, which
    keeps the Euclidean order, so the index works with Euclidean distances, and they are converted
    on the way out. "poly" has an order of its own.
    """

    name: MetricName
    gamma: float
    degree: int
    coef0: float
    frame: Frame

    @classmethod
    def of(
        cls, X: NDArray[Any], name: MetricName, *, gamma: float, degree: int, coef0: float
    ) -> FramedMetric:
        """Choose a frame for some data, in which the metric keeps its value."""
        metric = cls(name, gamma, degree, coef0, Frame.of(X, centred=name != "poly"))
        if name == "poly":
            check_polynomial(metric.frame.apply(X), metric.engine[1], coef0, degree)
        return metric

    @property
    def engine(self) -> Metric:
        """The metric as the engine takes it."""
        if self.name == "poly":
            return (POLY, self.gamma * self.frame.squared_scale, self.coef0, self.degree)
        return EUCLIDEAN

    def distances(self, squared: Floats) -> NDArray[np.float64]:
        """Return the user's distances for squared distances in the frame."""
        apart = np.sqrt(squared, dtype=np.float64)
        if self.name == "poly":
            return apart
        apart *= self.frame.scale
        if self.name == "rbf":
            return np.sqrt(-2.0 * np.expm1(-self.gamma * apart**2))
        return apart

    def radius(self, radius: float) -> float:
        """Return the radius in the frame for a radius in the user's units."""
        if self.name == "poly":
            return radius
        if self.name == "rbf":
            if radius**2 >= 2.0:
                return np.inf
            radius = np.sqrt(-np.log1p(-(radius**2) / 2) / self.gamma)
        return radius / self.frame.scale
